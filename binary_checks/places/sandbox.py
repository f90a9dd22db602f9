"""Which sandbox holds on this host, if any, and how a probe is started in it or without one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from binary_checks.errors import GatherError, Unavailable
from binary_checks.places.confinement import confine
from binary_checks.places.limits import Limits
from binary_checks.places.processes import Runner, Watch
from binary_checks.places.visible import find_visible

_PATIENCE = 60.0  # seconds in which a confined interpreter must have started
# It is one of the first processes of a namespace of its own, and reads no environment of another.
_PROOF = """
import os
def tells(pid):
    try:
        with open("/proc/%s/environ" % pid, "rb") as file:
            return bool(file.read())
    except OSError:
        return False
others = set(filter(str.isdecimal, os.listdir("/proc"))) - {os.readlink("/proc/self")}
print(os.getpid() < 5 and sum(map(tells, others)) < 4)
"""
_SCRIPTS = Path(__file__).parent / "scripts"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sandbox:
    """What keeps a probe from the user's files, processes and network."""

    program: str = ""  # the path of bubblewrap; "": there is no sandbox
    own_proc: bool = True  # whether it has a /proc of its own; else it reads the host's
    reason: str = "it was not asked for"  # why there is none
    contained: bool = False  # whether packages run in containers alone, and need no sandbox
    limits: Limits = field(default_factory=Limits)  # of what runs in it, and without one

    def describe(self) -> str:
        """How the header of a report says it."""
        network = " with the network" * self.limits.network
        if self.contained:
            return f"in containers{network}"
        if not self.holds:
            return f"not sandboxed: {self.reason}; a package may do what this user may"
        shared = "" if self.own_proc else ", which shows this host's processes"
        return f"sandboxed by bubblewrap{network}{shared}"

    @property
    def holds(self) -> bool:
        """Whether there is one."""
        return bool(self.program)

    def start(self, command: tuple[str, ...], limits: Limits) -> tuple[tuple[str, ...], Watch]:
        """Return what is to be started for the command, and how that is watched."""
        runner = Runner.ITSELF
        if self.holds:
            command = confine(command, limits, program=self.program, own_proc=self.own_proc)
            runner = Runner.SANDBOX
        elif os.name == "posix" and sys.executable:
            supervisor = str(_SCRIPTS / "supervisor.py")
            command = (sys.executable, "-I", "-S", supervisor, *command)
            runner = Runner.SUPERVISOR
        return command, Watch(runner=runner, limits=limits)

    def read_status(self, status: int | None) -> int | None:
        """Read a status as subprocess gives it of the command: a sandbox's is a shell's."""
        return 128 - status if self.holds and status and 128 < status < 160 else status


def choose_sandbox(mode: str, *, network: bool = False) -> Sandbox:
    """Choose by ``--binary-sandbox``: bubblewrap where it holds, or none.

    Raises Unavailable when one is required and none holds.
    """
    found = Sandbox(reason="--binary-sandbox off") if mode == "off" else _find_bubblewrap()
    if mode == "require" and not found.holds:
        raise Unavailable(f"no sandbox works here: {found.reason}")
    return replace(found, limits=Limits(network=network))


def _find_bubblewrap() -> Sandbox:
    if sys.platform != "linux":
        return Sandbox(reason="there is none for this system")
    program = shutil.which("bwrap")
    if program is None:
        return Sandbox(reason="bwrap is not on PATH; install bubblewrap")
    lacks = []
    for own_proc in (True, False):
        lack = _try(program, own_proc=own_proc)
        if not lack:
            return Sandbox(program=program, own_proc=own_proc)
        lacks.append(lack)
    return Sandbox(reason=f"no bubblewrap: {lacks[0]}")


@lru_cache
def _try(program: str, *, own_proc: bool) -> str:
    """Start a confined interpreter; return "" or in one line why it did not hold."""
    python = Path(sys.executable)
    try:
        command = (str(python), "-I", "-S", "-c", _PROOF)
        limits = Limits(visible=find_visible(python))
        done = subprocess.run(
            confine(command, limits, program=program, own_proc=own_proc),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={"LC_ALL": "C.UTF-8"},
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"bwrap started nothing within {_PATIENCE:g} s"
    except (OSError, GatherError) as error:
        return " ".join(str(error).split())
    if done.returncode == 0 and done.stdout == "True\n":
        return ""
    return done.stderr.strip().partition("\n")[0] or f"bwrap ended with {done.returncode}"

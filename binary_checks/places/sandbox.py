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
from binary_checks.places.budgets import Budget
from binary_checks.places.confinement import MEMORY, Limits, confine
from binary_checks.places.processes import Watch
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
    network: bool = False  # whether probes reach it
    budget: Budget = field(default_factory=Budget)

    def describe(self) -> str:
        """How the header of a report says it."""
        if self.contained:
            return f"in containers{' with the network' * self.network}"
        if not self.holds:
            return f"not sandboxed: {self.reason}; a package may do what this user may"
        shared = "" if self.own_proc else ", which shows this host's processes"
        return f"sandboxed by bubblewrap{' with the network' * self.network}{shared}"

    @property
    def holds(self) -> bool:
        """Whether there is one."""
        return bool(self.program)

    def start(self, command: tuple[str, ...], limits: Limits) -> tuple[tuple[str, ...], Watch]:
        """Return what is to be started for the command, and how that is watched."""
        if self.holds:
            # Below what makes the namespaces and their first process; the host's files count.
            watch = Watch(
                depth=2,
                whole=True,
                budget=self.budget,
                folders=limits.writable,
                inside=(*(each for each in MEMORY if each not in limits.services), limits.private),
            )
            held = replace(limits, program=self.program, own_proc=self.own_proc)
            return confine(command, held), watch
        watch = Watch(budget=self.budget, folders=(limits.private, *limits.writable))
        if os.name == "posix" and sys.executable:
            supervised = (sys.executable, "-I", "-S", str(_SCRIPTS / "supervisor.py"), *command)
            return supervised, replace(watch, depth=1, supervised=sys.platform == "linux")
        return command, watch

    def read_status(self, status: int | None) -> int | None:
        """Read a status as subprocess gives it of the command: a sandbox's is a shell's."""
        return 128 - status if self.holds and status and 128 < status < 160 else status


def choose_sandbox(mode: str, *, network: bool = False) -> Sandbox:
    """Choose by ``--binary-sandbox``: bubblewrap where it holds, or none.

    Raises Unavailable when one is required and none holds.
    """
    if mode == "off":
        return Sandbox(reason="--binary-sandbox off", network=network)
    found = _find_bubblewrap(network=network)
    if mode == "require" and not found.holds:
        raise Unavailable(f"no sandbox works here: {found.reason}")
    return found


def _find_bubblewrap(*, network: bool) -> Sandbox:
    if sys.platform != "linux":
        return Sandbox(reason="there is none for this system", network=network)
    program = shutil.which("bwrap")
    if program is None:
        return Sandbox(reason="bwrap is not on PATH; install bubblewrap", network=network)
    lacks = []
    for own_proc in (True, False):
        lack = _try(program, own_proc=own_proc)
        if not lack:
            return Sandbox(program=program, own_proc=own_proc, network=network)
        lacks.append(lack)
    return Sandbox(reason=f"no bubblewrap: {lacks[0]}", network=network)


@lru_cache
def _try(program: str, *, own_proc: bool) -> str:
    """Start a confined interpreter; return "" or in one line why it did not hold."""
    python = Path(sys.executable)
    try:
        limits = Limits(program=program, own_proc=own_proc, visible=find_visible(python))
        done = subprocess.run(
            confine((str(python), "-I", "-S", "-c", _PROOF), limits),
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

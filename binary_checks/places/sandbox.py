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
from binary_checks.places.prohibitions import find_prohibition
from binary_checks.places.visible import find_visible

MODES = ("auto", "off", "require")
_PATIENCE = 60.0  # seconds in which a confined interpreter must have started
# It has a process namespace of its own, and sees no process of the host.
_PROOF = "import os; print(sum(map(str.isdecimal, os.listdir('/proc'))) < 5 and os.getpid() < 5)"
_SCRIPTS = Path(__file__).parent / "scripts"
_BUBBLEWRAP, _NAMESPACES = "bubblewrap", "user namespaces"
ROUTES = (_BUBBLEWRAP, _NAMESPACES)  # what makes a sandbox, the first that holds


@dataclass(frozen=True, kw_only=True, slots=True)
class Sandbox:
    """What keeps a probe from the user's files, processes and network."""

    name: str = ""  # of the route
    program: tuple[str, ...] = ()  # what is started with the words of bubblewrap; (): there is none
    reason: str = "it was not asked for"  # why there is none
    network: bool = False  # whether probes reach it
    budget: Budget = field(default_factory=Budget)

    def describe(self) -> str:
        """How the header of a report says it."""
        if not self.holds:
            return f"not sandboxed: {self.reason}; a package may do what this user may"
        return f"sandboxed by {self.name}{' with the network' * self.network}"

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
            return confine(command, replace(limits, program=self.program)), watch
        watch = Watch(budget=self.budget, folders=(limits.private, *limits.writable))
        if os.name == "posix" and sys.executable:
            supervised = (sys.executable, "-I", "-S", str(_SCRIPTS / "supervisor.py"), *command)
            return supervised, replace(watch, depth=1, supervised=sys.platform == "linux")
        return command, watch

    def read_status(self, status: int | None) -> int | None:
        """Read a status as subprocess gives it of the command: a sandbox's is a shell's."""
        return 128 - status if self.holds and status and 128 < status < 160 else status


def choose_sandbox(
    mode: str, *, network: bool = False, routes: tuple[str, ...] = ROUTES
) -> Sandbox:
    """Choose by ``--binary-sandbox``: the first that holds, or none.

    Raises Unavailable when one is required and none holds.
    """
    if mode == "off":
        return Sandbox(reason="--binary-sandbox off", network=network)
    reasons = [] if sys.platform == "linux" else ["there is none for this system"]
    for name in routes if not reasons else ():
        program, lack = _find_program(name)
        if not (lack := lack or _try(program)):
            return Sandbox(name=name, program=program, network=network)
        forbidden = find_prohibition() if name == _NAMESPACES else ""
        reasons.append(f"no {name}: {lack}{f' ({forbidden})' if forbidden else ''}")
    reason = "; ".join(reasons)
    if mode == "require":
        raise Unavailable(f"no sandbox works here: {reason}")
    return Sandbox(reason=reason, network=network)


def _find_program(name: str) -> tuple[tuple[str, ...], str]:
    """Find what makes such a sandbox, or say why there is nothing."""
    if name == _NAMESPACES:
        python, script = sys.executable, str(_SCRIPTS / "namespaces.py")
        lack = "" if python else "this Python does not know its path"
        return (python, "-I", "-S", "-B", script), lack
    program = shutil.which("bwrap")
    return (program or "",), "" if program else "bwrap is not on PATH; install bubblewrap"


@lru_cache
def _try(program: tuple[str, ...]) -> str:
    """Start a confined interpreter; "" or why it did not hold, in one line."""
    python, shown = Path(sys.executable), Path(program[-1]).stem
    try:
        limits = Limits(program=program, visible=find_visible(python))
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
        return f"{shown} started nothing within {_PATIENCE:g} s"
    except (OSError, GatherError) as error:
        return " ".join(str(error).split())
    if done.returncode == 0 and done.stdout == "True\n":
        return ""
    return done.stderr.strip().partition("\n")[0] or f"{shown} ended with {done.returncode}"

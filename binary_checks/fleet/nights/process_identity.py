"""Which process it is, so that another one can tell later whether it still runs.

A number alone is soon another's; a host's name is shared by containers, in which numbers repeat.
"""

from __future__ import annotations

import socket
import uuid
from dataclasses import dataclass
from pathlib import Path

_STARTED = 19  # of the fields after the name: 22 in proc_pid_stat(5), in ticks since the boot


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessIdentity:
    """One process of one host, and no other until the host starts anew."""

    host: str  # its name, for people
    numbering: str  # the boot and the name space that its number is of; "": not known
    pid: int
    started: str  # ticks since the boot; "": not known

    @property
    def is_gone(self) -> bool | None:
        """Whether it has ended; None where that cannot be seen from here."""
        if not self.numbering or not self.started or self.numbering != _find_numbering():
            return None
        return start_of(self.pid) != self.started


def identify(pid: int) -> ProcessIdentity:
    """A process of this host."""
    return ProcessIdentity(
        host=socket.gethostname(), numbering=_find_numbering(), pid=pid, started=start_of(pid)
    )


def start_of(pid: int) -> str:
    """When the process began, as Linux counts it; "" of one that has ended, or elsewhere."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return ""
    fields = text.rpartition(b")")[2].split()  # its name may hold anything
    if not fields or fields[0] in (b"Z", b"X"):
        return ""
    return fields[_STARTED].decode("ascii")


def _find_numbering() -> str:
    """What a process's number is counted in; "" where there is no Linux to ask."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{uuid.UUID(boot)} {Path('/proc/self/ns/pid').readlink()}"
    except (OSError, ValueError):
        return ""

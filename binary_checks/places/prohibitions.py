"""What on this host may forbid user namespaces, where one was refused."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class _Setting:
    """A file of Linux that forbids them by what it says."""

    path: str
    forbids: str  # a pattern
    text: str
    root: bool = False  # whether root, too


_SETTINGS = (
    _Setting(
        path="sys/user/max_user_namespaces",
        forbids=r"0\n",
        text="the sysctl user.max_user_namespaces is 0",
        root=True,
    ),
    _Setting(
        path="sys/kernel/unprivileged_userns_clone",  # Debian's and Arch's
        forbids=r"0\n",
        text="the sysctl kernel.unprivileged_userns_clone is 0",
    ),
    _Setting(
        path="sys/kernel/apparmor_restrict_unprivileged_userns",  # Ubuntu's since 23.10
        forbids=r"[1-9]",
        text="AppArmor restricts them (kernel.apparmor_restrict_unprivileged_userns)",
    ),
    _Setting(
        path="self/status",
        forbids=r"(?s).*^Seccomp:\t2$",
        text="a seccomp filter is in force, as containers have one",
        root=True,
    ),
)


def find_prohibition(proc: Path = Path("/proc")) -> str:
    """Name the first of what may forbid them to this user, "" where nothing is seen to."""
    for setting in _SETTINGS:
        try:
            text = (proc / setting.path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if re.match(setting.forbids, text, re.MULTILINE) and (setting.root or os.geteuid() != 0):
            return setting.text
    return ""

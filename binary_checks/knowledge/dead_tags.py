"""Platform tags that no installer looks for, because no Python's platform has that name."""

from __future__ import annotations

import re

from binary_checks.knowledge.tags import parse_mac_tag

# The names that the interpreters of these systems give themselves: PEP 425, 600 and 656 for Linux
# and macOS; ``sysconfig.get_platform()`` in CPython for Windows. Names of other systems (FreeBSD,
# AIX, Cygwin) contain their release and are not judged.
_LINUX = re.compile(
    r"(?:manylinux(?:1|2010|2014|_[1-9]\d*_\d+)|musllinux_[1-9]\d*_\d+|linux)_(?P<processor>\w+)"
)
_WINDOWS = frozenset({"win32", "win_amd64", "win_arm64", "win_arm32", "win_ia64"})
_SYSTEMS = ("manylinux", "musllinux", "linux", "macosx", "win")
_OTHER_SPELLINGS = {
    "amd64": "x86_64",
    "x64": "x86_64",
    "x86": "i686",
    "i386": "i686",
    "arm64": "aarch64",
    "armhf": "armv7l",
    "ppc64el": "ppc64le",
}
"""Names of processors in Debian, Docker or on Windows -> those of the kernel, and of Linux tags."""


def explain_dead_tag(platform: str) -> str:
    """Return why no installer looks for a platform tag; "" if one does, or may.

    The check dead-macos-tag judges the versions of macOS.
    """
    if platform[:1].isdecimal():
        return "a dot in a file name separates two tags"
    if not platform.startswith(_SYSTEMS):
        return ""
    if match := _LINUX.fullmatch(platform):
        spelled = _OTHER_SPELLINGS.get(match["processor"], "")
        return f"Pythons on Linux call the processor {spelled}" if spelled else ""
    if platform in _WINDOWS or (platform.startswith("macosx") and parse_mac_tag(platform)):
        return ""
    return "no Python has a platform of that name"

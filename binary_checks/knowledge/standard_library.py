"""Modules of the standard library that some Pythons lack, and why."""

from __future__ import annotations

_REMOVED = {
    **dict.fromkeys(("asynchat", "asyncore", "distutils", "imp", "smtpd"), (3, 12)),
    **dict.fromkeys(("aifc", "audioop", "cgi", "cgitb", "chunk", "crypt", "imghdr"), (3, 13)),
    **dict.fromkeys(("lib2to3", "mailcap", "msilib", "nis", "nntplib", "ossaudiodev"), (3, 13)),
    **dict.fromkeys(("pipes", "sndhdr", "spwd", "sunau", "telnetlib", "uu", "xdrlib"), (3, 13)),
    "binhex": (3, 11),
}
"""The first Python without a module ("What's New in Python 3.11", "3.12", "3.13": Removed)."""
_OF_SYSTEMS = frozenset(
    [
        "_winapi",
        "curses",
        "fcntl",
        "grp",
        "msvcrt",
        "nt",
        "posix",
        "pty",
        "pwd",
        "readline",
        "resource",
        "syslog",
        "termios",
        "tty",
        "winreg",
        "winsound",
    ]
)
"""Modules that only Windows has, or that only Windows lacks (see "Availability" in their
documentation).
"""
_OF_BUILDS = frozenset(
    [
        "bz2",
        "compression",
        "ctypes",
        "dbm",
        "ensurepip",
        "gdbm",
        "hashlib",
        "idlelib",
        "lzma",
        "sqlite3",
        "ssl",
        "test",
        "tkinter",
        "turtle",
        "turtledemo",
        "uuid",
        "venv",
        "xml",
        "zlib",
        "zoneinfo",
    ]
)
"""Modules missing from a Python built without a library, or packaged separately by some systems."""
VARY = frozenset(
    ["ctypes", "errno", "locale", "mmap", "os", "select", "signal", "socket", "subprocess", "sys"]
)
"""Modules whose contents differ between systems."""


def explain_absence(name: str) -> str:
    """Return why a Python may lack a module of the standard library, or "" if it should have it."""
    top = name.partition(".")[0]
    plain = top.lstrip("_").partition("_")[0]  # _curses_panel
    if top not in (name, "test"):
        return ""
    if top in _OF_SYSTEMS or plain in _OF_SYSTEMS:
        return f"another system may have {top}"
    if top in _OF_BUILDS or plain in _OF_BUILDS:
        return f"this Python was built without {top}"
    return ""


def find_removed(name: str, version: tuple[int, int]) -> str:
    """Return a sentence if this Python no longer has a module; else ""."""
    top = name.partition(".")[0]
    if top in _REMOVED and version >= _REMOVED[top]:
        return f"Python {version[0]}.{version[1]} has no {top}"
    return ""

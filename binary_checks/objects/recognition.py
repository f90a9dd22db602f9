"""Of which format a file is: by its first bytes, or by its name where a loader is asked to open it.

The first bytes are enough for all formats but one: no reader has to be asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from binary_checks.model import Format, MalformedObject, UnreadObject
from binary_checks.model.objects import format_of_name

_OLDEST_JAVA = 45
_TAGGED = re.compile(r"\.(?:cpython-|pypy\d|graalpy\d|abi3t?\.so\Z)|\.pyd\Z", re.IGNORECASE)
_APPLE_DOUBLE = "._"  # a file's attributes beside it, as macOS archives them (ibm_db 3.3.0)
_SHOWN = 16  # bytes
# Linkers take text for a library (glibc's own libc.so, ncurses): what it says stands for others.
_LINKER_SCRIPT = re.compile(rb"\s*(?:/\*|(?:INPUT|GROUP|OUTPUT_FORMAT|SEARCH_DIR)\s*\()")
_TAPI = b"--- !tapi"  # the same for Apple's linker
_OTHERS = {
    b"!<arch>\n": "a static archive, which linkers take and no loader does",
    b"!<thin>\n": "a thin archive, which only names the objects on the machine that built it",
    b"version https://git-lfs.github.com/": "a git-lfs pointer",
    b"version https://hawser.github.com/": "a git-lfs pointer",
    b"PK\3\4": "a zip archive",
    b"\x1f\x8b": "compressed by gzip",
    b"<!DOCTYPE": "a web page",
    b"<html": "a web page",
}
"""What lies under the names of libraries instead of them, by its first bytes."""

_OF_OTHER_SYSTEMS = {
    b"\0asm": "a WebAssembly module",  # Pyodide's .cpython-313-wasm32-emscripten.so
    b"<bigaf>\n": "an archive of AIX",  # teradatasql.aix.so, in wheels for any system
    b"\x01\xdf": "an XCOFF object of AIX",
    b"\x01\xf7": "an XCOFF object of AIX",
}
"""What loaders of systems that are not known here take under the name of a library."""


class Readable(NamedTuple):
    """A format that is read: how its files begin, and the module that reads them."""

    format: Format
    beginnings: tuple[bytes, ...]
    module: str  # with the two functions of a reader; loaded when the first such file comes along
    recognises: Callable[[bytes], bool] = bool  # whether a file that begins so really is one


def is_no_java(head: bytes) -> bool:
    """Whether a file is no Java class: these begin as fat Mach-O files do.

    Where those count slices, they have a version.
    """
    return 0 < int.from_bytes(head[4:8], "big") < _OLDEST_JAVA


def expect(path: str, head: bytes) -> Format | None:
    """The format that a loader expects of a file of that name; None where none opens it.

    A linker script is input for linkers only: no fault unless the name is that of an extension
    module, which Python itself opens.
    """
    name = path.rpartition("/")[2]
    if name.startswith(_APPLE_DOUBLE):
        return None
    if not _TAGGED.search(name) and _is_text_for_linkers(head):
        return None
    return format_of_name(name)


def _is_text_for_linkers(head: bytes) -> bool:
    return head.startswith(_TAPI) or _LINKER_SCRIPT.match(head) is not None


def refuse(path: str, expected: Format, head: bytes, size: int) -> MalformedObject | UnreadObject:
    """Say that a file is no object at all although its name is that of one.

    What some other system's loader takes under that name is not inspected.
    """
    for beginning, what in _OF_OTHER_SYSTEMS.items():
        if head.startswith(beginning):
            return UnreadObject(path=path, format=expected, reason=f"it is {what}, not read here")
    instead = f"{size} bytes{_describe(head)}" if size else "it is empty"
    reason = f"it is no {expected} file ({instead})"
    return MalformedObject(path=path, format=expected, offset=0, reason=reason, instead=instead)


def _describe(head: bytes) -> str:
    for beginning, what in _OTHERS.items():
        if head.startswith(beginning):
            return f", {what}"
    if not head.strip(b"\0"):
        return " that begin with zeros"
    is_text = head.isascii() and all(byte >= 32 or byte in b"\t\n\r\f" for byte in head)
    return f"{' of text' if is_text else ''} that begin with {head[:_SHOWN]!r}"

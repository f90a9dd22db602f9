"""Which files a loader will be asked to open by their names, whatever they begin with."""

from __future__ import annotations

import re

from binary_checks.model import Format, MalformedObject

_LIBRARY = re.compile(r"\.(?:(pyd|dll)|(dylib)|so(?:\.\d+)*)\Z", re.IGNORECASE)
_TAGGED = re.compile(r"\.(?:cpython-|pypy\d|graalpy\d|abi3t?\.so\Z)|\.pyd\Z", re.IGNORECASE)
_APPLE_DOUBLE = "._"  # a file's attributes beside it, as macOS archives them (ibm_db 3.3.0)
_SHOWN = 16  # bytes
# Linkers take text for a library (glibc's own libc.so, ncurses): what it says stands for others.
_LINKER_SCRIPT = re.compile(rb"\s*(?:/\*|(?:INPUT|GROUP|OUTPUT_FORMAT|SEARCH_DIR)\s*\()")
_TAPI = b"--- !tapi"  # the same for Apple's linker


def promised_format(path: str, head: bytes) -> Format | None:
    """The format that a loader expects of a file of that name; None where none opens it.

    A linker script is input for linkers only, and an empty file stands for one that is made later:
    neither is a fault unless the name is that of an extension module, which Python itself opens.
    """
    name = path.rpartition("/")[2]
    match = _LIBRARY.search(name)
    if match is None or name.startswith(_APPLE_DOUBLE):
        return None
    if not _TAGGED.search(name) and (not head or _is_text_for_linkers(head)):
        return None
    return Format.PE if match[1] else Format.MACHO if match[2] else Format.ELF


def _is_text_for_linkers(head: bytes) -> bool:
    return head.startswith(_TAPI) or _LINKER_SCRIPT.match(head) is not None


def refuse(path: str, expected: Format, head: bytes) -> MalformedObject:
    """Say that a file is no object at all although its name is that of one."""
    reason = f"no object file begins with {head[:_SHOWN]!r}" if head else "it is empty"
    if head.startswith(b"!<arch>\n"):
        reason = "it is a static archive, which linkers take and no loader does"
    return MalformedObject(path=path, format=expected, offset=0, reason=reason)

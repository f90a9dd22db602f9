"""Of which format a file is: by its first bytes, or by its name where a loader is asked to open it.

A table of first bytes and one question are enough for all, and no reader has to be loaded.
"""

from __future__ import annotations

import re

from binary_checks.model import Format, MalformedObject
from binary_checks.model.objects import format_of_name

_FAT = (b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf")
_OLDEST_JAVA = 45
"""Java class files begin as fat ones do; where those count slices, they have a version."""
_MAGICS = {
    b"\x7fELF": Format.ELF,
    b"MZ": Format.PE,
    b"\xcf\xfa\xed\xfe": Format.MACHO,
    b"\xce\xfa\xed\xfe": Format.MACHO,
    b"\xfe\xed\xfa\xcf": Format.MACHO,
    b"\xfe\xed\xfa\xce": Format.MACHO,
    **dict.fromkeys(_FAT, Format.MACHO),
    b"!<arch>\n": Format.ARCHIVE,
    b"\x50\xed\x55\xba\1\0": Format.DEVICE,  # with its version: four bytes alone may be anything
    b"__CLANG_OFFLOAD_BUNDLE__": Format.DEVICE,
    b"CCOB": Format.DEVICE,
}
_BEGINNINGS = tuple(_MAGICS)
_TAGGED = re.compile(r"\.(?:cpython-|pypy\d|graalpy\d|abi3t?\.so\Z)|\.pyd\Z", re.IGNORECASE)
_APPLE_DOUBLE = "._"  # a file's attributes beside it, as macOS archives them (ibm_db 3.3.0)
_SHOWN = 16  # bytes
# Linkers take text for a library (glibc's own libc.so, ncurses): what it says stands for others.
_LINKER_SCRIPT = re.compile(rb"\s*(?:/\*|(?:INPUT|GROUP|OUTPUT_FORMAT|SEARCH_DIR)\s*\()")
_TAPI = b"--- !tapi"  # the same for Apple's linker


def recognise(head: bytes) -> Format | None:
    """The format that the first bytes (64 are enough) announce, None for anything else."""
    if not head.startswith(_BEGINNINGS) or _is_java(head):
        return None
    return next(found for magic, found in _MAGICS.items() if head.startswith(magic))


def _is_java(head: bytes) -> bool:
    return head.startswith(_FAT) and not 0 < int.from_bytes(head[4:8], "big") < _OLDEST_JAVA


def announce(path: str, head: bytes) -> Format | None:
    """The format that a file's first bytes announce, or else that a loader expects by its name."""
    return recognise(head) or expect(path, head)


def expect(path: str, head: bytes) -> Format | None:
    """The format that a loader expects of a file of that name; None where none opens it.

    A linker script is input for linkers only, and an empty file stands for one that is made later:
    neither is a fault unless the name is that of an extension module, which Python itself opens.
    """
    name = path.rpartition("/")[2]
    if name.startswith(_APPLE_DOUBLE):
        return None
    if not _TAGGED.search(name) and (not head or _is_text_for_linkers(head)):
        return None
    return format_of_name(name)


def _is_text_for_linkers(head: bytes) -> bool:
    return head.startswith(_TAPI) or _LINKER_SCRIPT.match(head) is not None


def refuse(path: str, expected: Format, head: bytes) -> MalformedObject:
    """Say that a file is no object at all although its name is that of one."""
    reason = f"no object file begins with {head[:_SHOWN]!r}" if head else "it is empty"
    if head.startswith(b"!<arch>\n"):
        reason = "it is a static archive, which linkers take and no loader does"
    return MalformedObject(path=path, format=expected, offset=0, reason=reason)

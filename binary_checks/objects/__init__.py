"""Read object files: bytes in, facts of `binary_checks.model` out.

This package is an ObjectReader. It has one reader for each format, a module with a function
``read``, which takes a file's bytes, readable at any offset, and returns its objects. ``READERS``
maps formats to modules, and a module is imported when the first file of its format appears.

``elf``, ``macho``, ``pe`` and ``wasm`` are twins. A subject that they share is in a file of the
same name, with its functions in the same order (tests/test_architecture.py checks this)::

    reader      read                                the objects of the model
    header      read_header, architecture_of        headers, segments and sections; bytes by
                                                    their addresses (ELF and PE)
    symbols     read_symbols                        imports and exports
    signature                                       Mach-O and PE

Each other file is for one format only and uses that format's terms. ``device`` also has a
``reader``, for files that contain only code for GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NamedTuple, Protocol, cast

from binary_checks.errors import MalformedError, TooLarge, Unavailable
from binary_checks.model import (
    ByteSource,
    Format,
    MalformedObject,
    ObjectFile,
    StaticArchive,
    UnreadObject,
    format_of_name,
)
from binary_checks.objects.byte_source import LimitedSource
from binary_checks.objects.strings import add_build, is_loadable
from binary_checks.watchdog import ask

__all__ = [
    "READERS",
    "Readable",
    "LimitedReader",
    "announce",
    "expect",
    "read_objects",
    "recognise",
    "refuse",
]

_HEAD = 64
_OLDEST_JAVA = 45


class _Reader(Protocol):
    """The functions that the module of a format must have."""

    def read(self, path: str, source: LimitedSource, /) -> Sequence[ObjectFile | UnreadObject]: ...


class Readable(NamedTuple):
    """A format that can be read: the first bytes of its files, and the module that reads them."""

    format: Format
    beginnings: tuple[bytes, ...]
    module: str  # dotted name; imported when the first file of the format appears
    # A more precise test of the first bytes, used if one of ``beginnings`` matches.
    recognises: Callable[[bytes], bool] = bool


def is_no_java(head: bytes) -> bool:
    """Return whether a file with the magic 0xCAFEBABE is a fat Mach-O file, not a Java class.

    In a fat file, bytes 4 to 8 are ``nfat_arch`` (<mach-o/fat.h>), a few slices at most. In a class
    file they are the minor and the major version (JVM specification, section 4.1), and the major
    version is at least 45.
    """
    return 0 < int.from_bytes(head[4:8], "big") < _OLDEST_JAVA


READERS: tuple[Readable, ...] = (
    Readable(Format.ELF, (b"\x7fELF",), f"{__name__}.elf.reader"),
    Readable(Format.PE, (b"MZ",), f"{__name__}.pe.reader"),
    Readable(
        Format.MACHO,
        (b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xfe\xed\xfa\xcf", b"\xfe\xed\xfa\xce"),
        f"{__name__}.macho.reader",
    ),
    Readable(
        Format.MACHO,
        (b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf"),
        f"{__name__}.macho.reader",
        recognises=is_no_java,
    ),
    Readable(Format.WASM, (b"\0asm",), f"{__name__}.wasm.reader"),
    Readable(Format.ARCHIVE, (b"!<arch>\n", b"!<thin>\n"), f"{__name__}.archives"),
    Readable(
        # CUDA's magic followed by version 1, because other files also begin with the four bytes of
        # the magic
        Format.DEVICE,
        (b"\x50\xed\x55\xba\1\0", b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB"),
        f"{__name__}.device.reader",
    ),
)
"""To add a format, write its module and add an entry here. The module may define a class of its own
for objects of the format.
"""


def _find(head: bytes) -> Readable | None:
    """Return the first entry of READERS that matches a file's first bytes."""
    for each in READERS:
        if head.startswith(each.beginnings) and each.recognises(head):
            return each
    return None


def _load(found: Readable) -> _Reader:
    """Import the reader of a format."""
    return cast("_Reader", import_module(found.module))


def recognise(head: bytes) -> Format | None:
    """Return the format that the first bytes (64 are enough) show, or None."""
    found = _find(head)
    if found is None:
        return None
    _load(found)  # the module may define the class of its objects, to which a check may apply
    return found.format


def announce(path: str, head: bytes) -> Format | None:
    """Return the format that the first bytes show, else the one that the file's name promises."""
    return recognise(head) or expect(path, head)


def read_objects(
    path: str, source: ByteSource, factor: int = 1
) -> tuple[ObjectFile | MalformedObject | UnreadObject, ...]:
    """Return every object in the file (one for each slice of a fat Mach-O file).

    Never raises because of the file's contents: a broken file becomes a MalformedObject. So does a
    file with the name of a library that contains no object, since a loader will refuse it.
    ``factor`` multiplies all limits on reading.
    """
    ask(objects=1)
    head = source.read(0, min(_HEAD, source.size))
    found = _find(head)
    limited = LimitedSource(source, factor)
    objects = _read(found, path, limited) if found else ()
    if any(map(is_loadable, objects)):
        objects = add_build(objects, limited)
    plain = all(isinstance(item, StaticArchive) and item.is_plain for item in objects)
    expected = expect(path, head) if plain else None
    return (refuse(path, expected, head, source.size),) if expected else objects


def _read(
    found: Readable, path: str, source: LimitedSource
) -> tuple[ObjectFile | MalformedObject | UnreadObject, ...]:
    try:
        return tuple(_load(found).read(path, source))
    except MalformedError as error:
        return (
            MalformedObject(
                path=path, format=found.format, offset=error.offset, reason=error.reason
            ),
        )
    except Unavailable as error:  # the file exceeds a limit
        too_large = isinstance(error, TooLarge)
        return (
            UnreadObject(path=path, format=found.format, reason=str(error), too_large=too_large),
        )


class LimitedReader:
    """An ObjectReader with a factor on all limits on reading.

    With ``samples``, the reader also samples the device code in each object.
    """

    def __init__(self, factor: int, *, samples: bool = False) -> None:
        self._factor = factor
        self._samples = samples
        self.recognise, self.announce = recognise, announce

    def read_objects(
        self, path: str, source: ByteSource
    ) -> tuple[ObjectFile | MalformedObject | UnreadObject, ...]:
        """Return every object in the file, with a sample of its device code if requested."""
        found = read_objects(path, source, self._factor)
        if not self._samples or not any(getattr(each, "device_code", ()) for each in found):
            return found
        from binary_checks.objects.device.details import add_samples  # only GPU packages need it

        return add_samples(found, source, self._factor)


# Files with the name of a library that are not object files.

_TAGGED = re.compile(r"\.(?:cpython-|pypy\d|graalpy\d|abi3t?\.so\Z)|\.pyd\Z", re.IGNORECASE)
# Prefix of AppleDouble files, which hold a file's attributes: archives made by macOS have one next
# to the file (ibm_db 3.3.0).
_APPLE_DOUBLE = "._"
_SHOWN = 16  # bytes shown in a message
# Linkers accept a text in place of a library (GNU ld manual, "Implicit Linker Scripts"): such
# scripts name the real library for glibc's libc.so and for the ncurses libraries.
_LINKER_SCRIPT = re.compile(rb"\s*(?:/\*|(?:INPUT|GROUP|OUTPUT_FORMAT|SEARCH_DIR)\s*\()")
_TAPI = b"--- !tapi"  # first line of a .tbd file, the text stub that Apple's linker accepts
_OTHERS = {
    b"!<arch>\n": "a static archive, which only linkers read",
    b"!<thin>\n": "a thin archive, which only names the objects on the machine that built it",
    b"version https://git-lfs.github.com/": "a git-lfs pointer",
    b"version https://hawser.github.com/": "a git-lfs pointer",
    b"PK\3\4": "a zip archive",
    b"\x1f\x8b": "compressed by gzip",
    b"<!DOCTYPE": "a web page",
    b"<html": "a web page",
}
"""First bytes of files that are often shipped under the name of a library by mistake."""

_OF_OTHER_SYSTEMS = {
    b"<bigaf>\n": "an archive of AIX",  # teradatasql.aix.so, in wheels for every platform
    b"\x01\xdf": "an XCOFF object of AIX",
    b"\x01\xf7": "an XCOFF object of AIX",
}
"""First bytes of library files of systems whose loaders are not simulated."""


def expect(path: str, head: bytes) -> Format | None:
    """Return the format that a loader expects of a file with this name; None if no loader opens it.

    A linker script under the name of a library is input for linkers, not a fault. Under the name of
    an extension module it is a fault, because Python opens that file.
    """
    name = path.rpartition("/")[2]
    if name.startswith(_APPLE_DOUBLE):
        return None
    text_for_linkers = head.startswith(_TAPI) or _LINKER_SCRIPT.match(head)
    if text_for_linkers and not _TAGGED.search(name):
        return None
    return format_of_name(name)


def refuse(path: str, expected: Format, head: bytes, size: int) -> MalformedObject | UnreadObject:
    """Return the object for a file that has the name of a library, but is not an object file.

    If the file is for another system's loader, the result is an UnreadObject, else a
    MalformedObject.
    """
    for beginning, what in _OF_OTHER_SYSTEMS.items():
        if head.startswith(beginning):
            return UnreadObject(
                path=path, format=expected, reason=f"it is {what}, which is not read"
            )
    instead = f"{size} bytes{_describe(head)}" if size else "it is empty"
    reason = f"it is not in {expected} format ({instead})"
    return MalformedObject(path=path, format=expected, offset=0, reason=reason, instead=instead)


def _describe(head: bytes) -> str:
    for beginning, what in _OTHERS.items():
        if head.startswith(beginning):
            return f", {what}"
    if not head.strip(b"\0"):
        return " that begin with zeros"
    is_text = head.isascii() and all(byte >= 32 or byte in b"\t\n\r\f" for byte in head)
    return f"{' of text' if is_text else ''} that begin with {head[:_SHOWN]!r}"

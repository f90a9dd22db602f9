"""Bytes in, object files out: the module is an ObjectReader, over one reader a format.

A reader has two functions: ``plan``, by the first bytes of a file, says what to keep of it while it
streams by and what scans it; ``read`` makes objects of what was kept, and of what was seen. Which
one to take stands in ``READERS``, so that none is loaded before its time.

``elf``, ``macho`` and ``pe`` are twins: a thought that they share has the same file in each, and
its functions stand in the same order (tests/test_architecture.py holds it)::

    reader      plan, read                          what to keep, and what scans the rest;
                                                    what becomes an object of the model
    header      read_header, architecture_of        headers, segments and sections; bytes by
                                                    their addresses (ELF and PE)
    symbols     read_symbols                        imports and exports
    refusals    verify_extent, find_refusals        what is cut off; why no loader takes it, from
                                                    the outside in
    signature   signature_matches                   Mach-O and PE

The other files are of one format alone, and named by its own terms. ``device`` has a ``reader``
too, which plans and reads files that are nothing but code for GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import NamedTuple, Protocol, cast

from binary_checks.errors import MalformedError, TooLarge, Unavailable
from binary_checks.model import Format, MalformedObject, ObjectFile, StaticArchive, UnreadObject
from binary_checks.model.objects import format_of_name
from binary_checks.model.protocols import NOTHING_SEEN, ByteSource, Observations, Plan
from binary_checks.objects.byte_source import DeviceAllowance, LimitedSource
from binary_checks.objects.strings import NumpyScanner, add_build, is_loadable, is_searched

__all__ = [
    "READERS",
    "Readable",
    "LimitedReader",
    "announce",
    "expect",
    "plan",
    "read_objects",
    "recognise",
    "refuse",
]

_HEAD = 64
_OLDEST_JAVA = 45


class _Reader(Protocol):
    """What the module of one format does."""

    def plan(self, head: bytes, size: int, factor: int, /) -> Plan: ...
    def read(
        self, path: str, source: LimitedSource, observations: Observations, /
    ) -> Sequence[ObjectFile | UnreadObject]: ...


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
    Readable(Format.ARCHIVE, (b"!<arch>\n", b"!<thin>\n"), f"{__name__}.archives"),
    Readable(
        Format.DEVICE,  # CUDA's with its version: four bytes alone may be anything
        (b"\x50\xed\x55\xba\1\0", b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB"),
        f"{__name__}.device.reader",
    ),
)
"""A format is one module and one line here: its class of object files may stand in the module."""


def _find(head: bytes) -> Readable | None:
    """The first that the bytes announce."""
    for each in READERS:
        if head.startswith(each.beginnings) and each.recognises(head):
            return each
    return None


def _load(found: Readable) -> _Reader:
    """Load a reader, when the first file of its format comes along."""
    return cast("_Reader", import_module(found.module))


def recognise(head: bytes) -> Format | None:
    """The format that the first bytes (64 are enough) announce, None for anything else."""
    found = _find(head)
    if found is None:
        return None
    _load(found)  # which may define the class of its objects, of which a check may ask
    return found.format


def announce(path: str, head: bytes) -> Format | None:
    """The format that a file's first bytes announce, or else that a loader expects by its name."""
    return recognise(head) or expect(path, head)


def plan(head: bytes, size: int, factor: int = 1) -> Plan:
    """What to keep of a file that begins so, and what scans it; a longer head keeps less.

    ``factor`` times as much of it will be read as usual.
    """
    found = _find(head)
    planned = _load(found).plan(head, size, factor) if found else Plan()
    if not planned.scanners or not is_searched(size, factor):  # what is kept whole is searched then
        return planned
    return replace(planned, scanners=(*planned.scanners, NumpyScanner()))


def read_objects(
    path: str, source: ByteSource, observations: Observations = NOTHING_SEEN, factor: int = 1
) -> tuple[ObjectFile | MalformedObject | UnreadObject, ...]:
    """Every object in the file (each slice of a fat one); never raises for what the bytes say.

    ``factor`` times as much of it is read as usual. A file that holds none under the name of a
    library is malformed: a loader will refuse it.
    """
    head = source.read(0, min(_HEAD, source.size))
    found = _find(head)
    limited = LimitedSource(source, factor)
    objects = _read(found, path, limited, observations) if found else ()
    if any(map(is_loadable, objects)):
        objects = add_build(objects, limited, observations)
    plain = all(isinstance(item, StaticArchive) and item.is_plain for item in objects)
    expected = expect(path, head) if plain else None
    return (refuse(path, expected, head, source.size),) if expected else objects


def _read(
    found: Readable, path: str, source: LimitedSource, observations: Observations
) -> tuple[ObjectFile | MalformedObject | UnreadObject, ...]:
    try:
        return tuple(_load(found).read(path, source, observations))
    except MalformedError as error:
        return (
            MalformedObject(
                path=path, format=found.format, offset=error.offset, reason=error.reason
            ),
        )
    except Unavailable as error:  # there is more of something than is read
        too_large = isinstance(error, TooLarge)
        return (
            UnreadObject(path=path, format=found.format, reason=str(error), too_large=too_large),
        )


class LimitedReader:
    """An ObjectReader that reads so many times as much of a file as this module does.

    It may take a sample of the device code in each object, too, of all objects of one package.
    """

    def __init__(self, factor: int, *, samples: bool = False) -> None:
        self._factor = factor
        self._allowance = DeviceAllowance(factor) if samples else None
        self.recognise, self.announce = recognise, announce

    def plan(self, head: bytes, size: int) -> Plan:
        """What to keep of a file that begins so, and what scans it."""
        return plan(head, size, self._factor)

    def read_objects(
        self, path: str, source: ByteSource, observations: Observations = NOTHING_SEEN
    ) -> tuple[ObjectFile | MalformedObject | UnreadObject, ...]:
        """Every object in the file."""
        found = read_objects(path, source, observations, self._factor)
        if self._allowance is None or not any(getattr(each, "device_code", ()) for each in found):
            return found
        from binary_checks.objects.device.details import add_samples  # of GPU packages

        return add_samples(found, source, self._allowance)


# Files that are no object at all although their name is that of one.

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

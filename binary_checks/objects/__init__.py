"""Bytes in, object files out: the module is an ObjectReader, over one reader a format.

A reader has two functions: ``plan``, by the first bytes of a file, says what to keep of it while it
streams by and what scans it; ``read`` makes objects of what was kept, and of what was seen. Which
reader to take is decided here, by a table and one question: so none is loaded before its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Protocol, cast

from binary_checks.errors import MalformedError, TooLarge, Unavailable
from binary_checks.model import Format, MalformedObject, ObjectFile, UnreadObject
from binary_checks.model.protocols import NOTHING_SEEN, ByteSource, Observations, Plan
from binary_checks.objects.limits import raised_by
from binary_checks.objects.promised_formats import promised_format, refuse

__all__ = ["Raised", "announce", "plan", "read_objects", "recognise"]

_HEAD = 64


class _Reader(Protocol):
    """What the module of one format does."""

    def plan(self, head: bytes, size: int, /) -> Plan: ...
    def read(
        self, path: str, source: ByteSource, observations: Observations, /
    ) -> Sequence[ObjectFile | UnreadObject]: ...


_READERS = {
    Format.ELF: "elf.reader",
    Format.MACHO: "macho.reader",
    Format.PE: "pe.reader",
    Format.ARCHIVE: "archives",
    Format.DEVICE: "device.reader",
}
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


@cache
def _reader(found: Format) -> _Reader:
    """Load the reader of a format when the first file of it comes along."""
    return cast("_Reader", import_module(f"{__name__}.{_READERS[found]}"))


def recognise(head: bytes) -> Format | None:
    """The format that the first bytes (64 are enough) announce, None for anything else."""
    if not head.startswith(_BEGINNINGS) or _is_java(head):
        return None
    return next(found for magic, found in _MAGICS.items() if head.startswith(magic))


def _is_java(head: bytes) -> bool:
    return head.startswith(_FAT) and not 0 < int.from_bytes(head[4:8], "big") < _OLDEST_JAVA


def announce(path: str, head: bytes) -> Format | None:
    """The format that a file's first bytes announce, or else the one that its name promises."""
    return recognise(head) or promised_format(path, head)


def plan(head: bytes, size: int) -> Plan:
    """What to keep of a file that begins so, and what scans it; a longer head keeps less."""
    found = recognise(head)
    return _reader(found).plan(head, size) if found else Plan()


def read_objects(
    path: str, source: ByteSource, observations: Observations = NOTHING_SEEN
) -> tuple[ObjectFile | MalformedObject | UnreadObject, ...]:
    """Every object in the file (each slice of a fat one); never raises for what the bytes say.

    A file that holds none under the name of a library is malformed: a loader will refuse it.
    """
    head = source.read(0, min(_HEAD, source.size))
    found = recognise(head)
    objects = _read(found, path, source, observations) if found else ()
    expected = None if objects else promised_format(path, head)
    return (refuse(path, expected, head),) if expected else objects


def _read(
    found: Format, path: str, source: ByteSource, observations: Observations
) -> tuple[ObjectFile | MalformedObject | UnreadObject, ...]:
    try:
        return tuple(_reader(found).read(path, source, observations))
    except MalformedError as error:
        return (MalformedObject(path=path, format=found, offset=error.offset, reason=error.reason),)
    except Unavailable as error:  # there is more of something than is read
        too_large = isinstance(error, TooLarge)
        return (UnreadObject(path=path, format=found, reason=str(error), too_large=too_large),)


class Raised:
    """An ObjectReader that reads so many times as much of a file as this module does."""

    def __init__(self, factor: int) -> None:
        self._factor = factor
        self.recognise, self.announce = recognise, announce

    def plan(self, head: bytes, size: int) -> Plan:
        """What to keep of a file that begins so, and what scans it."""
        with raised_by(self._factor):
            return plan(head, size)

    def read_objects(
        self, path: str, source: ByteSource, observations: Observations = NOTHING_SEEN
    ) -> tuple[ObjectFile | MalformedObject | UnreadObject, ...]:
        """Every object in the file."""
        with raised_by(self._factor):
            return read_objects(path, source, observations)

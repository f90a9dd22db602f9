"""Bytes in, object files out: the module is an ObjectReader, over one reader a format.

A reader has two functions: ``plan``, by the first bytes of a file, says what to keep of it while it
streams by and what scans it; ``read`` makes objects of what was kept, and of what was seen. Which
one to take is decided by ``recognition``, so that none is loaded before its time.

``elf``, ``macho`` and ``pe`` are twins: a thought that they share has the same file in each, and
its functions stand in the same order (tests/test_architecture.py holds it)::

    reader      read                                what becomes an object of the model
    plan        plan                                what to keep, and what scans the rest
    header      read_header, architecture_of
    layout      verify_extent, find_layout_faults   what is cut off; why no loader maps it
    refusals    find_refusals                       why no loader takes it, from the outside in
    strings     find_name_scanner, opens_libraries, read_opened
    segments    read_segments                       ELF and Mach-O, whose sections lie in them
    sections    read_sections, is_debug_companion, has_debug_information, find_extents,
                find_read_only                      ELF and PE
    image       MappedImage                         ELF and PE: bytes by their addresses
    symbols     read_symbols                        ELF and Mach-O: imports and exports in one
    imports, exports, signature                     Mach-O and PE

The other files are of one format alone, and named by its own terms. ``device`` has a ``reader``
too, which plans and reads files that are nothing but code for GPUs.
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
from binary_checks.objects.recognition import announce, expect, recognise, refuse

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


@cache
def _reader(found: Format) -> _Reader:
    """Load the reader of a format when the first file of it comes along."""
    return cast("_Reader", import_module(f"{__name__}.{_READERS[found]}"))


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
    expected = None if objects else expect(path, head)
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

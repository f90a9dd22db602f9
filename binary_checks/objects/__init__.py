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

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Protocol, cast

from binary_checks.errors import MalformedError, TooLarge, Unavailable
from binary_checks.model import Format, MalformedObject, ObjectFile, StaticArchive, UnreadObject
from binary_checks.model.protocols import NOTHING_SEEN, ByteSource, Observations, Plan
from binary_checks.objects.limits import DeviceAllowance, LimitedSource
from binary_checks.objects.numpy_builds import NumpyScanner, add_build, is_loadable, is_searched
from binary_checks.objects.recognition import Readable, expect, is_no_java, refuse

__all__ = ["READERS", "Raised", "announce", "plan", "read_objects", "recognise"]

_HEAD = 64


class _Reader(Protocol):
    """What the module of one format does."""

    def plan(self, head: bytes, size: int, factor: int, /) -> Plan: ...
    def read(
        self, path: str, source: LimitedSource, observations: Observations, /
    ) -> Sequence[ObjectFile | UnreadObject]: ...


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


class Raised:
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

"""Bytes in, object files out: the module is an ObjectReader, over one reader a format.

The readers are twins: ``recognises``, ``retained``, ``searched``, ``watchers`` and ``read``, in
this order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from binary_checks.errors import MalformedError, TooLarge, Unavailable
from binary_checks.model import Format, MalformedObject, ObjectFile, UnreadObject
from binary_checks.model.protocols import ByteSource, Scout
from binary_checks.objects.limits import raised_by
from binary_checks.objects.promised_formats import promised_format, refuse

if TYPE_CHECKING:
    from binary_checks.objects.device.scout import DeviceScout

__all__ = ["Raised", "announce", "read_objects", "recognise", "retained", "scout"]

_HEAD = 64


class _Reader(Protocol):
    """What the module of one format does."""

    def recognises(self, head: bytes) -> bool: ...
    def retained(self, head: bytes, size: int) -> tuple[tuple[int, int], ...]: ...
    def searched(self, head: bytes, size: int) -> tuple[tuple[int, int], ...]: ...
    def watchers(self, head: bytes, size: int, device: DeviceScout | None) -> Iterable[Scout]: ...
    def read(self, path: str, source: ByteSource) -> Sequence[ObjectFile | UnreadObject]: ...


_READERS = {
    Format.ELF: "elf.reader",
    Format.MACHO: "macho.reader",
    Format.PE: "pe.reader",
    Format.ARCHIVE: "archives",
    Format.DEVICE: "device.reader",
}
_BEGINNINGS = {
    b"\x7fELF": Format.ELF,
    b"\xfe\xed\xfa\xce": Format.MACHO,
    b"\xfe\xed\xfa\xcf": Format.MACHO,
    b"\xce\xfa\xed\xfe": Format.MACHO,
    b"\xcf\xfa\xed\xfe": Format.MACHO,
    b"\xca\xfe\xba\xbe": Format.MACHO,
    b"\xca\xfe\xba\xbf": Format.MACHO,
    b"!<ar": Format.ARCHIVE,
    b"\x50\xed\x55\xba": Format.DEVICE,
    b"__CL": Format.DEVICE,
    b"CCOB": Format.DEVICE,
}
"""By its first four bytes nearly every file is told to be no object, and no reader is loaded."""
_PE = b"MZ"  # the one that two bytes announce


@cache
def _reader(found: Format) -> _Reader:
    """Load the reader of a format when the first file of it comes along."""
    return cast("_Reader", import_module(f"{__name__}.{_READERS[found]}"))


def recognise(head: bytes) -> Format | None:
    """The format that the first bytes (64 are enough) announce, None for anything else."""
    found = Format.PE if head.startswith(_PE) else _BEGINNINGS.get(head[:4])
    return found if found and _reader(found).recognises(head) else None


def announce(path: str, head: bytes) -> Format | None:
    """The format that a file's first bytes announce, or else the one that its name promises."""
    return recognise(head) or promised_format(path, head)


def retained(head: bytes, size: int) -> tuple[tuple[int, int], ...]:
    """The ranges (start, end) that ``read_objects`` may ask for; a longer head makes them smaller.

    It is a guess that is nearly always right: another range may be asked for all the same.
    """
    found = recognise(head)
    return _reader(found).retained(head, size) if found else ()


def scout(head: bytes, size: int) -> Scout | None:
    """Whoever finds, while such a file streams by, what the first bytes do not tell of."""
    found = recognise(head)
    if found is None:
        return None
    from binary_checks.objects.scouts import Scouts  # on demand

    reader = _reader(found)
    device = _find_device_scout(reader.searched(head, size), size)
    others = tuple(reader.watchers(head, size, device))
    scouts = (device, *others) if device is not None else others
    return Scouts(scouts) if len(scouts) > 1 else next(iter(scouts), None)


def _find_device_scout(regions: tuple[tuple[int, int], ...], size: int) -> DeviceScout | None:
    if not regions:
        return None
    from binary_checks.objects.device.scout import DeviceScout  # on demand

    return DeviceScout(regions, size)


def read_objects(
    path: str, source: ByteSource
) -> tuple[ObjectFile | MalformedObject | UnreadObject, ...]:
    """Every object in the file (each slice of a fat one); never raises for what the bytes say.

    A file that holds none under the name of a library is malformed: a loader will refuse it.
    """
    head = source.read(0, min(_HEAD, source.size))
    found = recognise(head)
    objects = _read(found, path, source) if found else ()
    expected = None if objects else promised_format(path, head)
    return (refuse(path, expected, head),) if expected else objects


def _read(
    found: Format, path: str, source: ByteSource
) -> tuple[ObjectFile | MalformedObject | UnreadObject, ...]:
    try:
        return tuple(_reader(found).read(path, source))
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

    def retained(self, head: bytes, size: int) -> tuple[tuple[int, int], ...]:
        """The ranges (start, end) that ``read_objects`` may ask for."""
        with raised_by(self._factor):
            return retained(head, size)

    def scout(self, head: bytes, size: int) -> Scout | None:
        """Whoever finds what the first bytes do not tell of."""
        with raised_by(self._factor):
            return scout(head, size)

    def read_objects(
        self, path: str, source: ByteSource
    ) -> tuple[ObjectFile | MalformedObject | UnreadObject, ...]:
        """Every object in the file."""
        with raised_by(self._factor):
            return read_objects(path, source)

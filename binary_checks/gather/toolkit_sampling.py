"""Looks at a few pieces of each object's device code for the toolkit that made them.

All of it takes seconds and gigabytes; a build has one toolkit, or two with a vendor's archive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from binary_checks.errors import (
    BinaryChecksError,
    BrokenDataError,
    NotInstalled,
    Unavailable,
)
from binary_checks.gather.device_members import open_carriers
from binary_checks.knowledge.device_containers import Carrier
from binary_checks.model import DeviceKind, Package
from binary_checks.model.device_toolkits import DeviceToolkits, ToolkitSample
from binary_checks.model.protocols import ByteSource, Tree
from binary_checks.objects.device.cubins import read_cubin
from binary_checks.objects.device.entries import Allowance, DeviceEntry
from binary_checks.objects.device.ptx import read_ptx
from binary_checks.objects.device_listing import list_entries

_CHOSEN: Final = 16  # of each kind in one object
_MOST: Final = 64 << 20  # bytes of one object that are decompressed for it
_MOST_OF_ALL: Final = 4 << 30  # bytes of one package
_MOST_READ: Final = 128 << 20  # bytes of the tables in them
_BEGINNING: Final = 4096  # bytes of PTX in which its version stands
_KINDS: Final = (DeviceKind.SASS, DeviceKind.PTX)


def sample_toolkits(package: Package, open_tree: Callable[[], Tree]) -> DeviceToolkits:
    """Look at every object with such code.

    Raises PackageError where the package cannot be opened again, GatherError where there is no
    room.
    """
    allowance = Allowance(_MOST_OF_ALL, _MOST_READ)
    found = [
        ToolkitSample(path=item.path, total=_count(item), unread=str(source))
        if isinstance(source, Unavailable)
        else _Sampling(item, allowance).look_at(source)
        for item, source in open_carriers(package, open_tree)
    ]
    places = {item.path: place for place, item in enumerate(package.objects)}
    return DeviceToolkits(samples=tuple(sorted(found, key=lambda each: places[each.path])))


def _count(item: Carrier, kind: DeviceKind | None = None) -> int:
    kinds = _KINDS if kind is None else (kind,)
    return sum(code.count for code in item.device_code if code.kind in kinds)


class _Sampling:
    """The look at one object."""

    def __init__(self, item: Carrier, allowance: Allowance) -> None:
        self._allowance = allowance
        self._path, self._total = item.path, _count(item)
        self._strides = {kind: -(-_count(item, kind) // _CHOSEN) or 1 for kind in _KINDS}
        self._met: Counter[DeviceKind] = Counter()
        self._found: dict[DeviceKind, Counter[str]] = {kind: Counter() for kind in _KINDS}
        self._left = _MOST
        self._unread = ""

    def look_at(self, source: ByteSource) -> ToolkitSample:
        for entry in list_entries(source):
            if isinstance(entry, DeviceEntry) and entry.kind in _KINDS and self._left > 0:
                self._met[entry.kind] += 1
                if (self._met[entry.kind] - 1) % self._strides[entry.kind] == 0:
                    self._try(entry)
        toolkits, ptx = (tuple(self._found[kind].most_common()) for kind in _KINDS)
        return ToolkitSample(
            path=self._path,
            toolkits=toolkits,
            ptx=ptx,
            seen=sum(count for _, count in (*toolkits, *ptx)),
            total=self._total,
            unread=self._unread,
        )

    def _try(self, entry: DeviceEntry) -> None:
        try:
            self._found[entry.kind][self._read(entry)] += 1
        except NotInstalled as error:
            self._unread = str(error)
        except (BinaryChecksError, BrokenDataError) as error:
            self._unread = self._unread or str(error)

    def _read(self, entry: DeviceEntry) -> str:
        if entry.kind is DeviceKind.PTX:
            return read_ptx(self._unpack(entry, _BEGINNING)).version
        return read_cubin(self._unpack(entry), self._allowance.go_through).toolkit

    def _unpack(self, entry: DeviceEntry, most: int | None = None) -> bytes:
        self._left -= entry.cost(most)
        return self._allowance.unpack(entry, most)

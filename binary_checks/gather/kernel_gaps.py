"""Compares the kernels of the cubins that a compiler made of one source file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from binary_checks.errors import BinaryChecksError, BrokenDataError, TooLarge, Unavailable
from binary_checks.gather.device_members import open_carriers
from binary_checks.model import DeviceKind, Package
from binary_checks.model.missing_kernels import KernelGap, KernelGaps, ObjectGaps
from binary_checks.model.protocols import ByteSource, Tree
from binary_checks.objects.device.cubins import read_cubin
from binary_checks.objects.device.entries import DeviceEntry
from binary_checks.objects.device.walk import Rest
from binary_checks.objects.device_listing import list_entries
from binary_checks.objects.limits import raised

_MOST_UNPACKED: Final = 32 << 30  # bytes of one package
_MOST_KERNELS: Final = 1 << 18  # of one container
_MOST_GAPS: Final = 1 << 14  # of one object
_MOST_REASONS: Final = 16


def find_kernel_gaps(package: Package, open_tree: Callable[[], Tree]) -> KernelGaps:
    """Decompress all cubins of a package, a container at a time.

    Raises PackageError where the package cannot be opened again, GatherError where there is no
    room.
    """
    left, found = raised(_MOST_UNPACKED), list[ObjectGaps]()
    for item, source in open_carriers(package, open_tree):
        if isinstance(source, Unavailable):
            found.append(ObjectGaps(path=item.path, unread=(str(source),)))
            continue
        search = _Search(left)
        found.append(search.compare_all(item.path, source))
        left = search.left
    places = {item.path: place for place, item in enumerate(package.objects)}
    return KernelGaps(objects=tuple(sorted(found, key=lambda each: places[each.path])))


class _Search:
    """Goes through one object, and keeps the kernels of one container."""

    def __init__(self, left: int) -> None:
        self.left = left  # bytes that may still be unpacked
        self._container = (-1, "")
        self._offset = 0
        self._names: dict[int, set[str]] = {}  # of the container, by architecture
        self._gaps: dict[tuple[str, tuple[str, ...], tuple[str, ...]], KernelGap] = {}
        self._compared = 0
        self._whole = True  # no cubin of the container could not be read
        self._unread: dict[str, None] = {}

    def compare_all(self, path: str, source: ByteSource) -> ObjectGaps:
        for entry in list_entries(source):
            if isinstance(entry, Rest):
                self._refuse(entry.reason)
            elif isinstance(entry, DeviceEntry) and entry.kind is DeviceKind.SASS:
                self._begin(entry)
                try:
                    self._read(entry)
                except (BinaryChecksError, BrokenDataError) as error:
                    self._whole = False
                    self._refuse(str(error))
        self._conclude()
        return ObjectGaps(
            path=path,
            gaps=tuple(sorted(self._gaps.values())),
            containers=self._compared,
            unread=tuple(self._unread),
        )

    def _begin(self, entry: DeviceEntry) -> None:
        if (entry.container, entry.member) != self._container:
            self._conclude()
            self._container = (entry.container, entry.member)
            self._offset, self._names, self._whole = entry.offset, {}, True

    def _read(self, entry: DeviceEntry) -> None:
        content = entry.unpack()
        self.left -= len(content)
        if self.left < 0:
            raise TooLarge(f"device code unpacks to more than {raised(_MOST_UNPACKED)} bytes")
        cubin = read_cubin(content)
        number = re.match(r"sm_(\d{2,4})", cubin.architecture or entry.architecture)
        if number is None:
            raise Unavailable("a cubin does not say its architecture")
        names = self._names.setdefault(int(number[1]), set())
        names.update(kernel.name for kernel in cubin.kernels)
        if sum(map(len, self._names.values())) > raised(_MOST_KERNELS):
            raise TooLarge(f"a container has more than {raised(_MOST_KERNELS)} kernels")

    def _conclude(self) -> None:
        """Compare what the container has for each architecture; suffixes do not count."""
        if len(self._names) < 2 or not self._whole:
            return
        self._compared += 1
        for gap in self._compare():
            if len(self._gaps) >= raised(_MOST_GAPS):
                self._refuse(f"there are more than {raised(_MOST_GAPS)} such kernels")
                return
            self._gaps.setdefault((gap.name, gap.lacking, gap.having), gap)

    def _compare(self) -> Iterator[KernelGap]:
        every = set[str]().union(*self._names.values())
        for name in every:
            lacking = [number for number, names in self._names.items() if name not in names]
            siblings = set[str]().union(*(self._names[number] for number in lacking))
            if lacking:
                yield KernelGap(
                    name=name,
                    lacking=_spell(lacking),
                    having=_spell(number for number in self._names if number not in lacking),
                    siblings=len(siblings),
                    offset=self._offset,
                )

    def _refuse(self, reason: str) -> None:
        if len(self._unread) < _MOST_REASONS:
            self._unread[reason] = None


def _spell(numbers: Iterable[int]) -> tuple[str, ...]:
    return tuple(f"sm_{number}" for number in sorted(numbers))

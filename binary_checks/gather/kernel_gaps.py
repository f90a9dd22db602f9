"""Compares the kernels of the cubins that a compiler made of one source file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from binary_checks.errors import BinaryChecksError, BrokenDataError, TooLarge, Unavailable
from binary_checks.gather.device_members import open_carriers
from binary_checks.model import DeviceKind, Package
from binary_checks.model.missing_kernels import KernelGap, KernelGaps, ObjectGaps
from binary_checks.model.protocols import ByteSource, Tree
from binary_checks.objects.device.cubins import read_cubin
from binary_checks.objects.device.entries import Allowance, DeviceEntry
from binary_checks.objects.device.walk import Rest
from binary_checks.objects.device_listing import list_entries
from binary_checks.objects.limits import raised

_MOST_UNPACKED: Final = 32 << 30  # bytes of one package
_MOST_KERNELS: Final = 1 << 18  # of one container
_MOST_READ: Final = 1 << 30  # bytes of the tables in all cubins
_MOST_STEPS: Final = 1 << 24  # names that are looked up for one object; torch's come to a million
_MOST_GAPS: Final = 1 << 14  # of one object
_MOST_REASONS: Final = 16


def find_kernel_gaps(package: Package, open_tree: Callable[[], Tree]) -> KernelGaps:
    """Decompress all cubins of a package, a container at a time.

    Raises PackageError where the package cannot be opened again, GatherError where there is no
    room.
    """
    allowance, found = Allowance(_MOST_UNPACKED, _MOST_READ), list[ObjectGaps]()
    for item, source in open_carriers(package, open_tree):
        if isinstance(source, Unavailable):
            found.append(ObjectGaps(path=item.path, unread=(str(source),)))
            continue
        found.append(_Search(allowance).compare_all(item.path, source))
    places = {item.path: place for place, item in enumerate(package.objects)}
    return KernelGaps(objects=tuple(sorted(found, key=lambda each: places[each.path])))


class _Search:
    """Goes through one object, and keeps the kernels of one container."""

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._container = (-1, "")
        self._offset = 0
        self._names: dict[int, set[str]] = {}  # of the container, by architecture
        self._kept = 0  # of these, all together
        self._steps = raised(_MOST_STEPS)
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
            self._kept = 0

    def _read(self, entry: DeviceEntry) -> None:
        cubin = read_cubin(self._allowance.unpack(entry), self._allowance.go_through)
        number = re.match(r"sm_(\d{2,4})", cubin.architecture or entry.architecture)
        if number is None:
            raise Unavailable("a cubin does not say its architecture")
        names = self._names.setdefault(int(number[1]), set())
        before = len(names)
        names.update(kernel.name for kernel in cubin.kernels)
        self._kept += len(names) - before
        if self._kept > raised(_MOST_KERNELS):
            raise TooLarge(f"a container has more than {raised(_MOST_KERNELS)} kernels")

    def _conclude(self) -> None:
        """Compare what the container has for each architecture; suffixes do not count."""
        if len(self._names) < 2 or not self._whole:
            return
        self._steps -= self._kept * len(self._names)
        if self._steps < 0:
            self._refuse(f"comparing them takes more than {raised(_MOST_STEPS)} steps")
            return
        self._compared += 1
        for gap in self._compare():
            if len(self._gaps) >= raised(_MOST_GAPS):
                self._refuse(f"there are more than {raised(_MOST_GAPS)} such kernels")
                return
            self._gaps.setdefault((gap.name, gap.lacking, gap.having), gap)

    def _compare(self) -> Iterator[KernelGap]:
        having = Counter(name for names in self._names.values() for name in names)
        for name, count in having.items():
            if count < len(self._names):
                lacking = [number for number, names in self._names.items() if name not in names]
                yield KernelGap(
                    name=name,
                    lacking=_spell(lacking),
                    having=_spell(number for number in self._names if number not in lacking),
                    offset=self._offset,
                )

    def _refuse(self, reason: str) -> None:
        if len(self._unread) < _MOST_REASONS:
            self._unread[reason] = None


def _spell(numbers: Iterable[int]) -> tuple[str, ...]:
    return tuple(f"sm_{number}" for number in sorted(numbers))

"""Decompresses all code for NVIDIA's GPUs in a package and adds up what it says of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from binary_checks.errors import (
    BinaryChecksError,
    BrokenDataError,
    MalformedError,
    TooLarge,
    Unavailable,
)
from binary_checks.gather.device_decompression import (
    MOST_UNPACKED,
    Refusals,
    compare_architectures,
)
from binary_checks.gather.device_members import open_carriers
from binary_checks.model import DeviceKind, DeviceTarget, Package
from binary_checks.model.device_details import (
    CubinGroup,
    DeviceDetails,
    DeviceKernel,
    ObjectDetails,
    PtxGroup,
)
from binary_checks.model.protocols import ByteSource, Tree
from binary_checks.objects.device.cubins import Cubin, read_cubin
from binary_checks.objects.device.entries import Allowance, DeviceEntry
from binary_checks.objects.device.ptx import Ptx, read_ptx
from binary_checks.objects.device.walk import Rest
from binary_checks.objects.device_listing import list_entries
from binary_checks.objects.limits import raised, raised_by

_MOST_READ: Final = 1 << 30  # bytes of their symbols and attributes; torch's come to 180 MB
_MOST_GROUPS: Final = 1024  # of one object: targets with the toolkits or the versions of PTX
_MOST_KERNELS: Final = 1 << 20  # of one package, each target by itself; torch has some 200,000
_MOST_NAMES: Final = 256 << 20  # bytes of their names
_READ: Final = (DeviceKind.SASS, DeviceKind.PTX)


def gather_details(
    package: Package, open_tree: Callable[[], Tree], limit_factor: int = 1
) -> DeviceDetails:
    """Read the inside of all device code of a package, whose members that tree has.

    So many times as much is read as usual.

    Raises PackageError where the package cannot be opened again, GatherError where there is no
    room.
    """
    with raised_by(limit_factor):
        found = list(_read_all(package, open_tree))
    places = {item.path: place for place, item in enumerate(package.objects)}
    return DeviceDetails(objects=tuple(sorted(found, key=lambda each: places[each.path])))


def _read_all(package: Package, open_tree: Callable[[], Tree]) -> Iterator[ObjectDetails]:
    budget = _Budget()
    for item, source in open_carriers(package, open_tree):
        details = _Details(item.path, budget)
        if isinstance(source, Unavailable):
            details.refusals.add(0, source)
        else:
            details.read_all(source)
        yield details.conclude()


def read_details(path: str, source: ByteSource) -> ObjectDetails:
    """The inside of the device code in the bytes of one object."""
    details = _Details(path, _Budget())
    details.read_all(source)
    return details.conclude()


class _Budget:
    """How much is still read of a package."""

    def __init__(self) -> None:
        self.allowance = Allowance(MOST_UNPACKED, _MOST_READ)
        self._kernels = raised(_MOST_KERNELS)
        self._names_left = raised(_MOST_NAMES)
        self._names: dict[str, str] = {}

    def keep(self, kernel: DeviceKernel) -> DeviceKernel:
        """Count a kernel that no other is like; its name is kept once. Raises TooLarge."""
        self._kernels -= 1
        if self._kernels < 0:
            raise TooLarge(f"the package has more than {raised(_MOST_KERNELS)} kernels")
        known = self._names.get(kernel.name)
        if known is None:
            self._names_left -= len(kernel.name)
            if self._names_left < 0:
                most = raised(_MOST_NAMES)
                raise TooLarge(f"the names of the package's kernels have more than {most} bytes")
            self._names[kernel.name] = kernel.name
            return kernel
        return replace(kernel, name=known)


class _Details:
    """Adds up what the device code of one object says."""

    def __init__(self, path: str, budget: _Budget) -> None:
        self._path, self._budget = path, budget
        self._cubins: dict[tuple[DeviceTarget, str], CubinGroup] = {}
        self._ptx: dict[tuple[DeviceTarget, str], PtxGroup] = {}
        self._kernels: dict[DeviceKernel, tuple[DeviceKernel, int]] = {}
        self.refusals = Refusals()

    def read_all(self, source: ByteSource) -> None:
        """Read every entry; what cannot be read is taken note of."""
        for entry in list_entries(source):
            if isinstance(entry, Rest):
                self.refusals.add_rest(entry)
            elif isinstance(entry, DeviceEntry) and entry.kind in _READ:
                try:
                    self._read(entry)
                except (BinaryChecksError, BrokenDataError) as error:
                    self.refusals.add(entry.offset, error)

    def _read(self, entry: DeviceEntry) -> None:
        allowance = self._budget.allowance
        content = allowance.unpack(entry)
        if entry.kind is DeviceKind.PTX:
            self._add_ptx(entry, read_ptx(content, allowance.go_through))
        else:
            self._add_cubin(entry, read_cubin(content, allowance.go_through))

    def _add_ptx(self, entry: DeviceEntry, ptx: Ptx) -> None:
        target = DeviceTarget(kind=DeviceKind.PTX, architecture=ptx.architecture)
        group = self._ptx.get((target, ptx.version))
        if group is None and len(self._ptx) >= raised(_MOST_GROUPS):
            raise TooLarge(f"PTX of more than {raised(_MOST_GROUPS)} versions and targets")
        self._ptx[target, ptx.version] = (
            replace(group, count=group.count + 1)
            if group
            else PtxGroup(
                target=target, version=ptx.version, first=entry.offset, member=entry.member
            )
        )

    def _add_cubin(self, entry: DeviceEntry, cubin: Cubin) -> None:
        try:
            compare_architectures(entry, cubin.architecture)
        except (MalformedError, Unavailable) as error:  # its kernels are told all the same
            self.refusals.add(entry.offset, error)
        proven = cubin.architecture and not cubin.architecture.endswith("?")
        architecture = cubin.architecture if proven else entry.architecture or cubin.architecture
        target = DeviceTarget(kind=DeviceKind.SASS, architecture=architecture)
        group = self._cubins.get((target, cubin.toolkit))
        if group is None and len(self._cubins) >= raised(_MOST_GROUPS):
            raise TooLarge(f"cubins of more than {raised(_MOST_GROUPS)} toolkits and targets")
        self._cubins[target, cubin.toolkit] = (
            replace(group, count=group.count + 1)
            if group
            else CubinGroup(
                target=target, toolkit=cubin.toolkit, first=entry.offset, member=entry.member
            )
        )
        for kernel in cubin.kernels:
            if kernel.architecture != architecture:
                kernel = replace(kernel, architecture=architecture)  # noqa: PLW2901
            known = self._kernels.get(kernel)
            kept, count = known or (self._budget.keep(kernel), 0)
            self._kernels[kept] = (kept, count + 1)

    def conclude(self) -> ObjectDetails:
        """All that was read, sorted."""
        kernels = (replace(kept, count=count) for kept, count in self._kernels.values())
        return ObjectDetails(
            path=self._path,
            cubins=tuple(
                sorted(self._cubins.values(), key=lambda each: (each.target, each.toolkit))
            ),
            ptx=tuple(sorted(self._ptx.values(), key=lambda each: (each.target, each.version))),
            kernels=tuple(sorted(kernels, key=lambda each: (each.name, each.architecture))),
            unread=self.refusals.conclude(),
        )

"""Decompresses code for NVIDIA's GPUs in a package, and counts what it states of itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from binary_checks.errors import (
    BinaryChecksError,
    BrokenDataError,
    MalformedError,
    NotInstalled,
    TooLarge,
    Unavailable,
)
from binary_checks.gather.device_members import allow_package, open_carriers
from binary_checks.knowledge.device_containers import Carrier
from binary_checks.model import DeviceKind, DeviceTarget, Package
from binary_checks.model.device import (
    CubinGroup,
    ObjectDetails,
    PtxGroup,
    ToolkitSample,
    UnreadDeviceCode,
)
from binary_checks.model.protocols import ByteSource, Tree
from binary_checks.objects.device.cubins import Cubin, read_cubin
from binary_checks.objects.device.entries import Allowance, DeviceEntry
from binary_checks.objects.device.ptx import Ptx, read_ptx
from binary_checks.objects.device.walk import Rest
from binary_checks.objects.device_listing import list_entries

_SAMPLE: Final = 16  # entries of each kind in one object
_MOST_GROUPS: Final = 1024  # of one object: targets with the toolkits or the versions of PTX
_MOST_REASONS: Final = 64  # of one object, told apart
_READ: Final = (DeviceKind.SASS, DeviceKind.PTX)


def read_objects(
    package: Package,
    open_tree: Callable[[], Tree],
    limit_factor: int = 1,
    *,
    everything: bool,
) -> tuple[ObjectDetails, ...]:
    """Decompress a sample of the device code of each object, or everything, an entry at a time.

    A sample is spread over all of the object: a build has one toolkit, or two with a vendor's
    archive, and what a tool damages it seldom damages once. ``limit_factor`` times as much is read
    as usual. Raises PackageError where the package cannot be opened again, GatherError where there
    is no room.
    """
    allowance = allow_package(limit_factor)
    found = [
        _Reading(item, allowance, limit_factor, everything=everything).read(source)
        for item, source in open_carriers(package, open_tree)
    ]
    places = {item.path: place for place, item in enumerate(package.objects)}
    return tuple(sorted(found, key=lambda each: places[each.path]))


class _Reading:
    """Goes through one object, and counts what its device code states."""

    def __init__(
        self, item: Carrier, allowance: Allowance, factor: int, *, everything: bool
    ) -> None:
        self._path, self._allowance = item.path, allowance
        self._factor = factor
        self._most_groups = _MOST_GROUPS * factor
        counts = {kind: _count(item, kind) for kind in _READ}
        self._entries = sum(counts.values())
        self._strides = {
            kind: 1 if everything else max(1, -(-count // _SAMPLE))
            for kind, count in counts.items()
        }
        self._met: Counter[DeviceKind] = Counter()
        self._inspected = 0
        self._cubins: dict[tuple[DeviceTarget, str], CubinGroup] = {}
        self._ptx: dict[tuple[DeviceTarget, str], PtxGroup] = {}
        self._refusals = _Refusals()

    def read(self, source: ByteSource | Unavailable) -> ObjectDetails:
        """Read what was chosen of the object; what cannot be read is taken note of."""
        if isinstance(source, Unavailable):
            self._refusals.add(0, source)
        else:
            for entry in list_entries(source, self._factor):
                if isinstance(entry, Rest):
                    self._refusals.add_rest(entry)
                elif isinstance(entry, DeviceEntry) and self._chooses(entry.kind):
                    self._inspect(entry)
        return ObjectDetails(
            path=self._path,
            entries=max(self._entries, self._inspected),
            inspected=self._inspected,
            cubins=tuple(
                sorted(self._cubins.values(), key=lambda each: (each.target, each.toolkit))
            ),
            ptx=tuple(sorted(self._ptx.values(), key=lambda each: (each.target, each.version))),
            unread=self._refusals.conclude(),
        )

    def _chooses(self, kind: DeviceKind) -> bool:
        if kind not in _READ:
            return False
        self._met[kind] += 1
        return (self._met[kind] - 1) % self._strides[kind] == 0

    def _inspect(self, entry: DeviceEntry) -> None:
        self._inspected += 1
        count = self._allowance.go_through
        try:
            content = self._allowance.unpack(entry)
            if entry.kind is DeviceKind.PTX:
                self._add_ptx(entry, read_ptx(content, count))
            else:
                self._add_cubin(entry, read_cubin(content, count, self._factor))
        except (BinaryChecksError, BrokenDataError) as error:
            self._refusals.add(entry.offset, error)

    def _add_ptx(self, entry: DeviceEntry, ptx: Ptx) -> None:
        target = DeviceTarget(kind=DeviceKind.PTX, architecture=ptx.architecture)
        group = self._ptx.get((target, ptx.version))
        if group is None and len(self._ptx) >= self._most_groups:
            raise TooLarge(f"PTX of more than {self._most_groups} versions and targets")
        self._ptx[target, ptx.version] = (
            replace(group, count=group.count + 1)
            if group
            else PtxGroup(
                target=target, version=ptx.version, first=entry.offset, member=entry.member
            )
        )

    def _add_cubin(self, entry: DeviceEntry, cubin: Cubin) -> None:
        try:
            _compare_architectures(entry, cubin.architecture)
        except (MalformedError, Unavailable) as error:  # its toolkit counts all the same
            self._refusals.add(entry.offset, error)
        proven = cubin.architecture and not cubin.architecture.endswith("?")
        architecture = cubin.architecture if proven else entry.architecture or cubin.architecture
        target = DeviceTarget(kind=DeviceKind.SASS, architecture=architecture)
        group = self._cubins.get((target, cubin.toolkit))
        if group is None and len(self._cubins) >= self._most_groups:
            raise TooLarge(f"cubins of more than {self._most_groups} toolkits and targets")
        self._cubins[target, cubin.toolkit] = (
            replace(group, count=group.count + 1)
            if group
            else CubinGroup(
                target=target, toolkit=cubin.toolkit, first=entry.offset, member=entry.member
            )
        )


def _count(item: Carrier, kind: DeviceKind) -> int:
    return sum(code.count for code in item.device_code if code.kind is kind)


def _compare_architectures(entry: DeviceEntry, stated: str) -> None:
    """Compare an entry's head with its cubin, suffixes aside.

    Raises MalformedError where they are of different ones, Unavailable where the cubin's is not
    known.
    """
    if not stated:
        raise Unavailable("a cubin of an ABI that is not known")
    if entry.architecture and entry.architecture.rstrip("af?") != stated.rstrip("af?"):
        raise MalformedError(f"its head says {entry.architecture}, its cubin {stated}")


class _Refusals:
    """Why entries of one object could not be read, told apart up to a bound."""

    def __init__(self) -> None:
        self._groups: dict[str, UnreadDeviceCode] = {}

    def add(self, offset: int, error: Exception) -> None:
        """Take note of an entry that could not be read, or of a whole object."""
        reason = error.reason if isinstance(error, MalformedError) else str(error)
        if reason not in self._groups and len(self._groups) >= _MOST_REASONS:
            reason = f"for more than {_MOST_REASONS} reasons"
        group = self._groups.get(reason)
        self._groups[reason] = (
            replace(group, count=group.count + 1)
            if group
            else UnreadDeviceCode(
                offset=offset,
                count=1,
                reason=reason,
                broken=isinstance(error, (BrokenDataError, MalformedError)),
                too_large=isinstance(error, TooLarge),
                lacking=error.extra if isinstance(error, NotInstalled) else "",
            )
        )

    def add_rest(self, rest: Rest) -> None:
        """Take note of what was not gone through."""
        self.add(rest.offset, (TooLarge if rest.too_large else Unavailable)(rest.reason))

    def conclude(self) -> tuple[UnreadDeviceCode, ...]:
        """Each reason once, in the order of their first entries."""
        return tuple(self._groups.values())


def count_toolkits(objects: Iterable[ObjectDetails]) -> Iterator[ToolkitSample]:
    """Count the toolkits and the versions of PTX that the code of each object states."""
    for item in objects:
        toolkits: Counter[str] = Counter()
        ptx: Counter[str] = Counter()
        for cubins in item.cubins:
            toolkits[cubins.toolkit] += cubins.count
        for texts in item.ptx:
            ptx[texts.version] += texts.count
        seen = toolkits.total() + ptx.total()
        yield ToolkitSample(
            path=item.path,
            toolkits=tuple(toolkits.most_common()),
            ptx=tuple(ptx.most_common()),
            seen=seen,
            total=item.entries,
            unread=_explain(item) if seen < max(item.inspected, 1) else "",
        )


def _explain(item: ObjectDetails) -> str:
    """Why some code could not be read; what is not installed is said rather than anything else."""
    lacking = [each for each in item.unread if each.lacking]
    return next((each.reason for each in (*lacking, *item.unread)), "")

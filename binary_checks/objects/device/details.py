"""Decompresses code for NVIDIA's GPUs in one object, and counts what it states of itself."""

from __future__ import annotations

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
from binary_checks.knowledge.device_containers import Carrier, has_nvidia_code
from binary_checks.model import DeviceKind, DeviceTarget
from binary_checks.model.device import CubinGroup, ObjectDetails, PtxGroup, UnreadDeviceCode
from binary_checks.model.protocols import ByteSource, ReadObject
from binary_checks.objects.device.cubins import Cubin, read_cubin
from binary_checks.objects.device.entries import DeviceEntry
from binary_checks.objects.device.ptx import Ptx, read_ptx
from binary_checks.objects.device.sampling import Sample
from binary_checks.objects.device.walk import Rest
from binary_checks.objects.device_listing import list_entries
from binary_checks.objects.limits import DeviceAllowance

_MOST_GROUPS: Final = 1024  # of one object: targets with the toolkits or the versions of PTX
_MOST_REASONS: Final = 64  # of one object, told apart
_READ: Final = (DeviceKind.SASS, DeviceKind.PTX)


def add_samples(
    found: tuple[ReadObject, ...], source: ByteSource, allowance: DeviceAllowance
) -> tuple[ReadObject, ...]:
    """The objects of a file, each with a sample of its code for NVIDIA's GPUs, if it has any."""
    return tuple(
        replace(each, device_sample=read_details(each.path, source, allowance))
        if isinstance(each, Carrier) and has_nvidia_code(each)
        else each
        for each in found
    )


def read_details(
    path: str, source: ByteSource, allowance: DeviceAllowance, *, everything: bool = False
) -> ObjectDetails:
    """Decompress and read a sample of the device code in a file, or everything."""
    reading = _Reading(path, allowance)
    sample = Sample[DeviceEntry]()
    for entry in list_entries(source, allowance.factor):
        if isinstance(entry, Rest):
            reading.refuse_rest(entry)
        elif isinstance(entry, DeviceEntry) and entry.kind in _READ:
            reading.entries += 1
            if everything:
                reading.inspect(entry)
            else:
                sample.add(entry.kind.value, entry)
    chosen = sorted(sample.choose(), key=lambda entry: entry.offset)[::-1]
    del sample
    while chosen:  # parts of one entry share what it unpacks to, as long as one of them is there
        reading.inspect(chosen.pop())
    return reading.conclude()


class _Reading:
    """Reads entries of one object, and counts what they state."""

    def __init__(self, path: str, allowance: DeviceAllowance) -> None:
        self._path, self._allowance = path, allowance
        self._most_groups = _MOST_GROUPS * allowance.factor
        self.entries = 0  # that the object has
        self._inspected = 0
        self._cubins: dict[tuple[DeviceTarget, str], CubinGroup] = {}
        self._ptx: dict[tuple[DeviceTarget, str], PtxGroup] = {}
        self._refusals = _Refusals()

    def inspect(self, entry: DeviceEntry) -> None:
        """Decompress an entry and read it; what cannot be read is taken note of."""
        self._inspected += 1
        count = self._allowance.go_through
        try:
            self._allowance.unpack(entry.cost())
            content = entry.unpack()
            if entry.kind is DeviceKind.PTX:
                self._add_ptx(entry, read_ptx(content, count))
            else:
                self._add_cubin(entry, read_cubin(content, count, self._allowance.factor))
        except (BinaryChecksError, BrokenDataError) as error:
            self._refusals.add(entry.offset, error)

    def refuse_rest(self, rest: Rest) -> None:
        """Take note of what was not gone through."""
        self._refusals.add(rest.offset, (TooLarge if rest.too_large else Unavailable)(rest.reason))

    def conclude(self) -> ObjectDetails:
        """All that was found."""
        return ObjectDetails(
            path=self._path,
            entries=self.entries,
            inspected=self._inspected,
            cubins=tuple(
                sorted(self._cubins.values(), key=lambda each: (each.target, each.toolkit))
            ),
            ptx=tuple(sorted(self._ptx.values(), key=lambda each: (each.target, each.version))),
            unread=self._refusals.conclude(),
        )

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

    def conclude(self) -> tuple[UnreadDeviceCode, ...]:
        """Each reason once, in the order of their first entries."""
        return tuple(self._groups.values())

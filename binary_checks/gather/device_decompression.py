"""Decompresses all code for NVIDIA's GPUs in a package, and looks no further than at its heads.

Names and resources of kernels take twice as long as all else: see device_reading.
"""

from __future__ import annotations

from collections.abc import Callable
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
from binary_checks.gather.device_members import open_carriers
from binary_checks.gather.toolkit_sampling import ToolkitSampling
from binary_checks.knowledge.device_containers import Carrier
from binary_checks.model import DeviceKind, Package
from binary_checks.model.device_details import UnreadDeviceCode
from binary_checks.model.device_unpacking import UnpackedDeviceCode, UnpackedObject
from binary_checks.model.protocols import ByteSource, Tree
from binary_checks.objects.device.cubins import verify_cubin
from binary_checks.objects.device.entries import Allowance, DeviceEntry
from binary_checks.objects.device.ptx import read_ptx
from binary_checks.objects.device.walk import Rest
from binary_checks.objects.device_listing import list_entries
from binary_checks.objects.limits import raised_by

MOST_UNPACKED: Final = 32 << 30  # bytes of one package; cuDNN's engines come to some 6 billion
_MOST_READ: Final = 1 << 30  # bytes of their tables; torch's come to 47 MB
_MOST_REASONS: Final = 64  # of one object, told apart
_READ: Final = (DeviceKind.SASS, DeviceKind.PTX)


def unpack_device_code(
    package: Package, open_tree: Callable[[], Tree], limit_factor: int = 1
) -> UnpackedDeviceCode:
    """Decompress everything once, an entry at a time, with so many times the usual limits.

    Raises PackageError where the package cannot be opened again, GatherError where there is no
    room.
    """
    with raised_by(limit_factor):
        allowance = Allowance(MOST_UNPACKED, _MOST_READ)
        found = [
            _Unpacking(item, allowance).look_at(source)
            for item, source in open_carriers(package, open_tree)
        ]
    places = {item.path: place for place, item in enumerate(package.objects)}
    return UnpackedDeviceCode(objects=tuple(sorted(found, key=lambda each: places[each.path])))


class _Unpacking:
    """Goes through one object."""

    def __init__(self, item: Carrier, allowance: Allowance) -> None:
        self._path, self._allowance = item.path, allowance
        self._sampling = ToolkitSampling(item, allowance)
        self._refusals = Refusals()

    def look_at(self, source: ByteSource | Unavailable) -> UnpackedObject:
        if isinstance(source, Unavailable):
            self._refusals.add(0, source)
            self._sampling.refuse(source)
        else:
            self._unpack_all(source)
        return UnpackedObject(
            path=self._path, sample=self._sampling.conclude(), unread=self._refusals.conclude()
        )

    def _unpack_all(self, source: ByteSource) -> None:
        for entry in list_entries(source):
            if isinstance(entry, Rest):
                self._refusals.add_rest(entry)
            elif isinstance(entry, DeviceEntry) and entry.kind in _READ:
                chosen = self._sampling.chooses(entry.kind)
                try:
                    content = self._allowance.unpack(entry)
                except (BinaryChecksError, BrokenDataError) as error:
                    self._refusals.add(entry.offset, error)
                    if chosen:
                        self._sampling.refuse(error)
                    continue
                if chosen:
                    self._sampling.add(entry.kind, content)
                self._verify(entry, content)

    def _verify(self, entry: DeviceEntry, content: bytes) -> None:
        try:
            if entry.kind is DeviceKind.PTX:
                read_ptx(content, self._allowance.go_through)
            else:
                compare_architectures(entry, verify_cubin(content, self._allowance.go_through))
        except (BinaryChecksError, BrokenDataError) as error:
            self._refusals.add(entry.offset, error)


def compare_architectures(entry: DeviceEntry, stated: str) -> None:
    """Compare an entry's head with its cubin, suffixes aside.

    Raises MalformedError where they are of different ones, Unavailable where the cubin's is not
    known.
    """
    if not stated:
        raise Unavailable("a cubin of an ABI that is not known")
    if entry.architecture and entry.architecture.rstrip("af?") != stated.rstrip("af?"):
        raise MalformedError(f"its head says {entry.architecture}, its cubin {stated}")


class Refusals:
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

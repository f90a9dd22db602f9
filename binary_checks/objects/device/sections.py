"""Read the device code in sections, and how a library registers that code."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from struct import Struct
from typing import Final, NamedTuple

from binary_checks.errors import Unavailable
from binary_checks.knowledge.device_code import serves
from binary_checks.model import (
    DeviceCode,
    DeviceContainers,
    DeviceFault,
    DeviceKind,
    DeviceLinking,
    DeviceTarget,
)
from binary_checks.objects.byte_source import LimitedSource, merge
from binary_checks.objects.device.containers import (
    BUNDLE_MAGIC,
    COMPRESSED_BUNDLE_MAGIC,
    FATBIN_MAGIC,
    NEAR,
    OLD_FATBIN_MAGIC,
    Container,
    Rest,
    Step,
    Stored,
    Tally,
    Target,
    walk_bundle,
    walk_compressed,
    walk_fatbin,
)

# The table of device code that a library registers when it is loaded (``.nvFatBinSegment``,
# undocumented; nvcc's ``fatbinary_section.h`` names the fields).
#
# A wrapper of version 1 points to a container that was compiled without relocatable code, or to
# relocatable code in ``__nv_relfatbin``. A wrapper of version 2 points to the output of the device
# linker, and to an array in memory, filled at load, of all relocatable containers that were linked.
# The driver links these again if no linked code fits its GPU. Since the array is not in the file,
# it is unknown for two such wrappers which relocatable code belongs to which.

WRAPPER_SECTIONS: Final = (".nvFatBinSegment",)
SHORT_WRAPPER_SECTIONS: Final = (".nvFatBi",)
"""The first eight characters of the name: section headers of PE images have no more."""
RELOCATABLE: Final = ("__nv_relfatbin",)
SHORT_RELOCATABLE: Final = ("__nv_rel",)

WHOLE: Final = 1
LINKED: Final = 2

# Magic, version, pointer to the container, pointer to a file name or to the array.
_WRAPPER = Struct("<IIQQ")
_MAGIC = 0x466243B1
_POINTER: Final = 8  # offset of the pointer to the container in a wrapper
_WRAPPER_STEP = 8  # bytes to which wrappers are aligned
_MOST = 1 << 16  # real libraries have some hundreds
_MOST_BYTES = 1 << 22  # limit on the bytes of sections with wrappers, including padding
_MOST_WRAPPER_FAULTS = 16
MOST_PLACES: Final = 256
"""Limit on segments or sections in which each pointer is searched for; real files have a dozen."""
_BLOCK = _WRAPPER.size * 4096

Extent = tuple[int, int]
Follow = Callable[[int, int], int | None]
"""Called with the file offset of a pointer and its value. Returns the file offset of its target, or
None if the target is not in the file.
"""


class Unfollowed(Exception):
    """Raised if the targets of pointers are unknown; the message states why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wrappers:
    """The containers of an object that are registered."""

    relocatable: tuple[Extent, ...] = ()  # ranges of relocatable code
    # Offset of a container -> version of its wrapper.
    versions: Mapping[int, int] = field(default_factory=dict)
    faults: tuple[DeviceFault, ...] = ()
    unread: str = ""  # why the wrappers are unknown
    # whether it is an object file, whose code is registered only after linking
    awaits_linking: bool = False


def read_wrappers(
    source: LimitedSource,
    extents: Iterable[Extent],
    relocatable: tuple[Extent, ...],
    follow: Follow,
) -> Wrappers:
    """Read the wrappers in these parts of a file, and follow their pointers."""
    versions: dict[int, int] = {}
    faults: list[DeviceFault] = []
    read = 0
    most, most_bytes = source.limit(_MOST), source.limit(_MOST_BYTES)
    extents = merge(extents)
    if sum(end - start for start, end in extents) > most_bytes:
        reason = f"no more than {most_bytes} bytes of wrappers of device code are read from a file"
        return Wrappers(relocatable=relocatable, unread=reason)

    def note(offset: int, reason: str) -> None:
        if len(faults) < _MOST_WRAPPER_FAULTS:
            faults.append(DeviceFault(offset=offset, reason=reason))

    try:
        for at, row in _find_wrappers(source, extents, note):
            read += 1
            if read > most:
                raise Unfollowed(
                    f"no more than {most} wrappers of device code are read from a file"
                )
            version, pointer = row
            place = follow(at + _POINTER, pointer)
            if place is None or not 0 <= place < source.size:
                note(at, "a wrapper points to device code outside of the file")
            elif version not in (WHOLE, LINKED):
                raise Unfollowed(f"a wrapper of device code has the version {version}")
            else:
                versions[place] = max(version, versions.get(place, 0))
    except (Unfollowed, Unavailable) as error:
        return Wrappers(relocatable=relocatable, faults=tuple(faults), unread=str(error))
    return Wrappers(relocatable=relocatable, versions=versions, faults=tuple(faults))


def _find_wrappers(
    source: LimitedSource, extents: Iterable[Extent], note: Callable[[int, str], None]
) -> Iterable[tuple[int, tuple[int, int]]]:
    """Yield the offset of each wrapper, its version and its pointer; skip zeros between them."""
    for start, end in extents:
        at, block_start, block = start, start, b""
        while at + _WRAPPER_STEP <= end:
            if at + _WRAPPER.size > block_start + len(block):
                block_start, block = at, source.read(at, min(_BLOCK, end - at))
            here = at - block_start
            if not any(block[here : here + _WRAPPER_STEP]):
                at += _WRAPPER_STEP
                continue
            if end - at < _WRAPPER.size:
                note(at, "a wrapper of device code is cut off")
                break
            magic, version, pointer, _ = _WRAPPER.unpack_from(block, here)
            if magic != _MAGIC:
                note(at, "there are other bytes in the place of a wrapper of device code")
                break
            yield at, (version, pointer)
            at += _WRAPPER.size


# Relocatable device code that a driver can use.

Targets = tuple[Target, ...]


class Role(Enum):
    """The purpose of a container."""

    WHOLE = "whole"
    LINKED = "linked"
    PRELINKED = "prelinked"  # relocatable code that is registered
    UNREGISTERED = "unregistered"  # relocatable code that no wrapper registers
    UNLINKED = "unlinked"  # relocatable code that is still to be linked


class Roles:
    """Assigns a role to each container."""

    def __init__(self, wrappers: Wrappers) -> None:
        self._wrappers = wrappers
        self._relocatable = merge(wrappers.relocatable)

    def role_of(self, offset: int) -> Role:
        """Return the role of the container at an offset from the start of the file."""
        version = self._wrappers.versions.get(offset, 0)
        if version == LINKED:
            return Role.LINKED
        index = bisect_right(self._relocatable, (offset, 1 << 64)) - 1
        if index < 0 or offset >= self._relocatable[index][1]:
            return Role.WHOLE
        if self._wrappers.awaits_linking:
            return Role.UNLINKED
        return Role.PRELINKED if version else Role.UNREGISTERED


class Relinkable(NamedTuple):
    """The targets for which a driver can link relocatable containers."""

    targets: frozenset[Target] = frozenset()  # targets for which it can link all containers
    partly: frozenset[Target] = frozenset()  # targets that only some of the containers serve
    unknown: str = ""  # why the targets are unknown

    def uses(self, target: Target) -> bool:
        """Return whether linking for any of these targets uses code for the given target."""
        code = _make_target(target)
        return any(serves(code, _make_target(each)) for each in self.targets | self.partly)


def find_relinkable(prelinked: Iterable[Targets], factor: int) -> Relinkable:
    """Find the targets for which the driver can link all, or only some, of these containers.

    Code for the device linker (LTO) does not count, because the driver does not use it.
    """
    sets = [tuple(map(_make_target, targets)) for targets in set(prelinked)]
    wanted = {each for targets in sets for each in targets if each.kind in _DRIVEN}
    if len(wanted) * sum(map(len, sets)) > _MOST_COMPARED * factor:
        return Relinkable(unknown=f"its relocatable code is for {len(wanted)} targets: too many")
    whole = {each for each in wanted if all(_have(targets, each) for targets in sets)}
    return Relinkable(frozenset(map(_plain, whole)), frozenset(map(_plain, wanted - whole)))


_MOST_COMPARED = 1 << 17  # pairs of targets; real libraries have some hundreds
_FIRST_FINALIZED = "sm_100"
_DRIVEN = (DeviceKind.SASS, DeviceKind.PTX)


def _have(targets: Iterable[DeviceTarget], wanted: DeviceTarget) -> bool:
    return any(serves(each, wanted) and _may_be_linked(each, wanted) for each in targets)


def _may_be_linked(code: DeviceTarget, wanted: DeviceTarget) -> bool:
    """Return whether code that serves a target can certainly be linked for that target.

    nvJitLink 13.5 links cubins for sm_100 and sm_120 to sm_103 and sm_121 if nvcc 13.5 made the
    cubins, and refuses cubins of nvcc 12.8 to 13.2 (bitsandbytes 0.50.2).
    """
    own, asked = (each.architecture.rstrip("af?") for each in (code, wanted))
    return code.kind is DeviceKind.PTX or own == asked or len(own) < len(_FIRST_FINALIZED)


def _plain(target: DeviceTarget) -> Target:
    return target.kind.value, target.architecture


# The device code of sections: a sequence of containers.

SECTIONS: Final = (".nv_fatbin", "__nv_relfatbin", ".hip_fatbin")
"""The sections of CUDA, relocatable CUDA and HIP code."""
SHORT_SECTIONS: Final = (".nv_fatb", "__nv_rel", ".hip_fat")
"""The first eight characters of the names: section headers of PE images have no more."""

_WALKS = {
    FATBIN_MAGIC: walk_fatbin,
    OLD_FATBIN_MAGIC: walk_fatbin,
    BUNDLE_MAGIC[:4]: walk_bundle,
    COMPRESSED_BUNDLE_MAGIC: walk_compressed,
}
_STEP = 8  # bytes to which containers are aligned
_SMALLEST = 16
FAR: Final = 4096
"""Bytes searched at a time if no other container follows at once."""
_MOST_STEPS = 1 << 18  # heads read of one object; the largest libraries have some 10,000
_MOST_FAULTS = 64
_MOST_SETS = 1024  # sets of targets that are counted separately


class DeviceFacts(NamedTuple):
    """The facts about a file's code for GPUs, as in the model."""

    code: tuple[DeviceCode, ...] = ()
    containers: tuple[DeviceContainers, ...] = ()
    faults: tuple[DeviceFault, ...] = ()


def walk_device_code(source: LimitedSource, start: int, end: int) -> Iterator[Step]:
    """Walk through all containers from ``start`` to ``end``.

    Other bytes are skipped in steps of 8. Only zeros are padding: other bytes between containers
    are a fault.
    """
    at, certain = start, True  # whether a container, or the section, certainly begins here
    while end - at >= _SMALLEST:
        place, magic = _find_next(source, at, end)
        if certain and _has_bytes(source, at, place):
            yield _make_unknown_fault(at)
        if not magic:
            return
        if end - place < _SMALLEST:
            yield DeviceFault(offset=place, reason="a container's head is cut off")
            return
        at, certain = yield from _WALKS[magic](source, place, end)
        at += (start - at) % _STEP
    if at < end and certain and _has_bytes(source, at, end):
        yield _make_unknown_fault(at)


def _find_next(source: LimitedSource, at: int, end: int) -> tuple[int, bytes]:
    """Return the offset and the magic of the next container; ``end`` and b"" without one."""
    length = NEAR
    while at < end:
        block = source.read(at, min(length, end - at))
        place, magic = _find_magic(block)
        if magic:
            return at + place, magic
        at += len(block)
        length = FAR
    return end, b""


def _has_bytes(source: LimitedSource, start: int, end: int) -> bool:
    """Return whether a range has bytes other than padding."""
    return any(block.strip(b"\0") for _, block in source.blocks(start, end, 0))


def _find_magic(block: bytes) -> tuple[int, bytes]:
    """Return the first magic at a multiple of 8 bytes, else the length of the block."""
    best, found = len(block), b""
    for magic in _WALKS:
        place = block.find(magic)
        while 0 <= place < best:
            if place % _STEP == 0:
                best, found = place, magic
            else:
                place = block.find(magic, place + 1)
    return best, found


def _make_unknown_fault(at: int) -> DeviceFault:
    return DeviceFault(offset=at, reason="bytes that are neither a container nor padding")


def read_device_code(
    source: LimitedSource, extents: Iterable[Extent], wrappers: Wrappers | None = None
) -> DeviceFacts:
    """Return the facts about device code in these parts of a file."""
    extents = tuple(extents)
    reading = _Reading(extents, wrappers or Wrappers(), source.factor)
    for step in follow_all(source, extents):
        if not isinstance(step, Stored):
            reading.add(step)
    return reading.facts()


class _Reading:
    """Sums up containers, however many there are."""

    def __init__(self, extents: tuple[Extent, ...], wrappers: Wrappers, factor: int) -> None:
        self._wrappers = wrappers
        self._factor = factor
        self._roles = Roles(wrappers)
        self._tallies: dict[Role, Tally] = {}
        self._faults = list(wrappers.faults)
        # Number of containers, index of the first, and its offset.
        self._sets: dict[tuple[Targets, str, bool, Role], tuple[int, int, int]] = {}
        self._count = 0
        self._linked = 0
        # Registered containers that have not been found yet.
        self._not_found = {
            place
            for place in wrappers.versions
            if any(start <= place < end for start, end in extents)
        }

    def add(self, found: Container | Rest | DeviceFault) -> None:
        """Count a container, or record a fault or a part that was not read."""
        if isinstance(found, DeviceFault):
            if len(self._faults) < _MOST_FAULTS:
                self._faults.append(found)
            return
        role = self._roles.role_of(found.offset)
        self._not_found.discard(found.offset)
        if isinstance(found, Rest):
            self._sets[(), found.reason, found.too_large, role] = (0, self._count, found.offset)
            return
        tally = self._tallies.setdefault(role, Tally())
        for each in found.sums:
            tally.add(*each)
        self._linked += role is Role.LINKED
        key = (tuple(each.target for each in found.sums), found.reason, found.too_large, role)
        if len(self._sets) >= _MOST_SETS and key not in self._sets:
            reason = f"no more than {_MOST_SETS} sets of targets are distinguished"
            key = ((), reason, True, role)
        count, first, offset = self._sets.get(key, (0, self._count, found.offset))
        self._sets[key] = (count + 1, first, offset)
        self._count += 1

    def facts(self) -> DeviceFacts:
        """Return the facts."""
        prelinked = (key[0] for key in self._sets if key[3] is Role.PRELINKED)
        found = find_relinkable(prelinked, self._factor)
        if not self._linked:
            found = Relinkable()
        if self._linked < 2:
            found = found._replace(partly=frozenset())
        return DeviceFacts(
            code=tuple(self._iter_code(found)),
            containers=tuple(self._iter_containers(found)),
            faults=(*self._faults, *self._find_missing()),
        )

    def _find_missing(self) -> Iterator[DeviceFault]:
        """Yield registered offsets without a container, if the search was complete."""
        if len(self._faults) > len(self._wrappers.faults):
            return  # one fault may hide others
        if any(group[2] or not count for group, (count, *_) in self._sets.items()):
            return
        for offset in sorted(self._not_found)[: _MOST_FAULTS - len(self._faults)]:
            reason = "a wrapper points to bytes that are not a container of device code"
            yield DeviceFault(offset=offset, reason=reason)

    def _iter_code(self, relinkable: Relinkable) -> Iterator[DeviceCode]:
        together: dict[DeviceLinking, Tally] = {}
        for role, tally in self._tallies.items():
            for target, *amounts in tally.sums():
                used = role is Role.PRELINKED and relinkable.uses(target)
                linking = _linking_of(role, used=used)
                together.setdefault(linking, Tally()).add(target, *amounts)
        rows = [(*each, linking) for linking, tally in together.items() for each in tally.sums()]
        for (kind, architecture), count, size, compressed, linking in sorted(rows):
            yield DeviceCode(
                kind=DeviceKind(kind),
                architecture=architecture,
                count=count,
                bytes=size,
                compressed=compressed,
                linking=linking,
            )

    def _iter_containers(self, relinkable: Relinkable) -> Iterator[DeviceContainers]:
        for (targets, reason, too_large, role), (count, first, offset) in self._sets.items():
            used = role is Role.PRELINKED and any(map(relinkable.uses, targets))
            served = sorted(relinkable.targets) if role is Role.LINKED else ()
            yield DeviceContainers(
                targets=tuple(map(_make_target, targets)),
                count=count,
                first=first,
                offset=offset,
                reason=reason or self._doubt(role, relinkable),
                too_large=too_large,
                linking=_linking_of(role, used=used),
                relinkable=tuple(map(_make_target, served)),
            )

    def _doubt(self, role: Role, relinkable: Relinkable) -> str:
        """Return why it is unknown whether a driver uses containers of this role, or ""."""
        if role in (Role.PRELINKED, Role.UNREGISTERED):
            return self._wrappers.unread
        if role is Role.LINKED and relinkable.unknown:
            return relinkable.unknown
        if role is Role.LINKED and relinkable.partly:
            return (
                f"only the driver finds out, when it loads the file, which of {self._linked} "
                "linked containers uses which relocatable code"
            )
        return ""


def _linking_of(role: Role, *, used: bool) -> DeviceLinking:
    if role is Role.PRELINKED and used:
        return DeviceLinking.RELINKABLE
    if role in (Role.PRELINKED, Role.UNREGISTERED):
        return DeviceLinking.UNUSABLE
    return DeviceLinking(role.value)


def _make_target(target: Target) -> DeviceTarget:
    return DeviceTarget(kind=DeviceKind(target[0]), architecture=target[1])


def follow_all(
    source: LimitedSource, extents: Iterable[Extent]
) -> Iterator[Stored | Container | Rest | DeviceFault]:
    """Walk through these parts, and yield the results.

    Bytes that belong to several parts are visited only once.
    """
    count, most, seen = 0, source.limit(_MOST_STEPS), 0
    for start, end in sorted(extents):
        for step in walk_device_code(source, max(start, seen), end):
            count += len(step.parts) if isinstance(step, Stored) else 1
            if count > most:
                reason = f"no more than {most} heads of device code are read from a file"
                yield Rest(step.offset, reason, too_large=True)
                return
            yield step
        seen = max(seen, end)

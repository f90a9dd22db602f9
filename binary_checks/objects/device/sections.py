"""Reads the device code of sections: every container in them, one behind the other."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Final, NamedTuple

from binary_checks.model import (
    DeviceCode,
    DeviceContainers,
    DeviceFault,
    DeviceKind,
    DeviceLinking,
    DeviceTarget,
)
from binary_checks.objects.device import fatbin, hip_bundles
from binary_checks.objects.device.linking import Relinkable, Role, Roles, find_relinkable
from binary_checks.objects.device.walk import (
    NEAR,
    Ask,
    Container,
    Rest,
    Step,
    Stored,
    Tally,
    Target,
    Walk,
)
from binary_checks.objects.device.wrappers import Wrappers
from binary_checks.objects.limits import LimitedSource
from binary_checks.objects.ranges import find_within

SECTIONS: Final = (".nv_fatbin", "__nv_relfatbin", ".hip_fatbin")
"""CUDA, relocatable CUDA and HIP: where compilers put code for the GPU."""
SHORT_SECTIONS: Final = (".nv_fatb", "__nv_rel", ".hip_fat")
"""Their first eight letters, as an image for Windows has them."""

_WALKS = {
    fatbin.MAGIC: fatbin.walk_fatbin,
    fatbin.OLD_MAGIC: fatbin.walk_fatbin,
    hip_bundles.MAGIC[:4]: hip_bundles.walk_bundle,
    hip_bundles.COMPRESSED_MAGIC: hip_bundles.walk_compressed,
}
_STEP = 8  # bytes to which containers are aligned
_SMALLEST = 16
FAR: Final = 4096
"""Bytes looked at behind a container where no other follows at once."""
_MOST_ASKED = 1 << 18  # heads read of one object: the largest libraries have some 10,000
_MOST_FAULTS = 64
_MOST_SETS = 1024  # of targets, told apart

Extent = tuple[int, int]
Targets = tuple[Target, ...]


class DeviceFacts(NamedTuple):
    """What a file says of its code for GPUs, as the model has it."""

    code: tuple[DeviceCode, ...] = ()
    containers: tuple[DeviceContainers, ...] = ()
    faults: tuple[DeviceFault, ...] = ()


def walk_device_code(start: int, end: int, patience: int = 0) -> Walk:
    """Walk through every container from ``start`` to ``end``.

    What is no container is passed over in steps of 8 bytes; after ``patience`` bytes of it, if
    that is not 0, the walk ends. Only zeros are taken for padding.
    """
    at, certain = start, True
    while end - at >= _SMALLEST:
        limit = min(at + patience, end) if patience else end
        found, magic = yield from _find_next(at, limit, certain)
        if not magic:
            return limit
        if end - found < _SMALLEST:
            yield DeviceFault(offset=found, reason="a container's head is cut off")
            return end
        at, certain = yield from _WALKS[magic](found, end)
        at += (start - at) % _STEP
    if end > at and (yield Ask(at, end - at)).strip(b"\0") and certain:
        yield _stray(at)
    return end


def _find_next(at: int, limit: int, certain: bool) -> Generator[Step, bytes, tuple[int, bytes]]:
    """Where the next container begins, and with what; b"" where there is none before the limit.

    Where it is ``certain`` that a container ends, nothing but padding may follow.
    """
    length = NEAR
    while at < limit:
        block = yield Ask(at, min(length, limit - at))
        place, magic = _find_magic(block)
        if certain and block[:place].strip(b"\0"):
            certain = False
            yield _stray(at)
        if magic:
            return at + place, magic
        at += len(block)
        length = FAR
    return limit, b""


def _find_magic(block: bytes) -> tuple[int, bytes]:
    """The first of the magics at a multiple of 8 bytes, else the block's end."""
    best, found = len(block), b""
    for magic in _WALKS:
        place = block.find(magic)
        while 0 <= place < best:
            if place % _STEP == 0:
                best, found = place, magic
            else:
                place = block.find(magic, place + 1)
    return best, found


def _stray(at: int) -> DeviceFault:
    return DeviceFault(offset=at, reason="bytes that are neither a container nor padding")


def read_device_code(
    source: LimitedSource, extents: Iterable[Extent], wrappers: Wrappers | None = None
) -> DeviceFacts:
    """The three facts about device code, of the given parts of a file."""
    extents = tuple(extents)
    reading = _Reading(extents, wrappers or Wrappers(), source.factor)
    for step in follow_all(source, extents):
        if not isinstance(step, Stored):
            reading.add(step)
    return reading.facts()


class _Reading:
    """Adds up what was found, however many containers there are."""

    def __init__(self, extents: tuple[Extent, ...], wrappers: Wrappers, factor: int) -> None:
        self._wrappers = wrappers
        self._factor = factor
        self._roles = Roles(wrappers)
        self._tallies: dict[Role, Tally] = {}
        self._faults = list(wrappers.faults)
        # To count, first and offset.
        self._sets: dict[tuple[Targets, str, bool, Role], tuple[int, int, int]] = {}
        self._count = 0
        self._linked = 0
        # Containers that are registered and were not found yet.
        self._missed = set(find_within(wrappers.versions, extents))

    def add(self, found: Container | Rest | DeviceFault) -> None:
        """Count a container, or take note of a fault or of what was not read."""
        if isinstance(found, DeviceFault):
            if len(self._faults) < _MOST_FAULTS:
                self._faults.append(found)
            return
        role = self._roles.role_of(found.offset)
        self._missed.discard(found.offset)
        if isinstance(found, Rest):
            self._sets[(), found.reason, found.too_large, role] = (0, self._count, found.offset)
            return
        tally = self._tallies.setdefault(role, Tally())
        for each in found.sums:
            tally.add(*each)
        self._linked += role is Role.LINKED
        key = (tuple(each.target for each in found.sums), found.reason, found.too_large, role)
        if len(self._sets) >= _MOST_SETS and key not in self._sets:
            reason = f"no more than {_MOST_SETS} sets of targets are told apart"
            key = ((), reason, True, role)
        count, first, offset = self._sets.get(key, (0, self._count, found.offset))
        self._sets[key] = (count + 1, first, offset)
        self._count += 1

    def facts(self) -> DeviceFacts:
        """What was found."""
        prelinked = (key[0] for key in self._sets if key[3] is Role.PRELINKED)
        found = find_relinkable(prelinked, self._factor)
        if not self._linked:
            found = Relinkable()
        if self._linked < 2:
            found = found._replace(partly=frozenset())
        return DeviceFacts(
            code=tuple(self._tell_code(found)),
            containers=tuple(self._tell_containers(found)),
            faults=(*self._faults, *self._find_missed()),
        )

    def _find_missed(self) -> Iterator[DeviceFault]:
        """The containers that are registered where none is, unless not all were looked at."""
        if len(self._faults) > len(self._wrappers.faults):
            return  # one fault hides others
        if any(group[2] or not count for group, (count, *_) in self._sets.items()):
            return
        for offset in sorted(self._missed)[: _MOST_FAULTS - len(self._faults)]:
            reason = "a wrapper points at what is no container of device code"
            yield DeviceFault(offset=offset, reason=reason)

    def _tell_code(self, relinkable: Relinkable) -> Iterator[DeviceCode]:
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

    def _tell_containers(self, relinkable: Relinkable) -> Iterator[DeviceContainers]:
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
        """Why it is not known what can be used of containers of a role; "" where it is."""
        if role in (Role.PRELINKED, Role.FORGOTTEN):
            return self._wrappers.unread
        if role is Role.LINKED and relinkable.unknown:
            return relinkable.unknown
        if role is Role.LINKED and relinkable.partly:
            return (
                f"which relocatable code belongs to which of {self._linked} linked containers is "
                "known only when it is loaded"
            )
        return ""


def _linking_of(role: Role, *, used: bool) -> DeviceLinking:
    if role is Role.PRELINKED and used:
        return DeviceLinking.RELINKABLE
    if role in (Role.PRELINKED, Role.FORGOTTEN):
        return DeviceLinking.UNUSABLE
    return DeviceLinking(role.value)


def _make_target(target: Target) -> DeviceTarget:
    return DeviceTarget(kind=DeviceKind(target[0]), architecture=target[1])


def follow_all(
    source: LimitedSource, extents: Iterable[Extent]
) -> Iterator[Stored | Container | Rest | DeviceFault]:
    """What walks through the parts find, with the bytes that they ask for.

    Bytes that several parts have are gone through once.
    """
    left = most = source.raised(_MOST_ASKED)
    seen = 0
    for start, end in sorted(extents):
        walk = walk_device_code(max(start, seen), end)
        seen = max(seen, end)
        try:
            step = next(walk)
            while True:
                if not isinstance(step, Ask):
                    left -= len(step.parts) - 1 if isinstance(step, Stored) else 0
                    yield step
                    step = next(walk)
                    continue
                if left <= 0:
                    reason = f"no more than {most} heads of device code are read of a file"
                    yield Rest(step.offset, reason, too_large=True)
                    return
                left -= 1
                step = walk.send(source.read(*step))
        except StopIteration:
            continue

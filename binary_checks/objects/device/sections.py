"""Read the device code in sections, and how a library registers that code."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from binary_checks.knowledge.device_code import DRIVEN, serves
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
    OLD_FATBIN_MAGIC,
    Container,
    Part,
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

_WHOLE, _LINKED = 1, 2  # versions of wrappers

# Magic, version, pointer to the container, pointer to a file name or to the array.
_WRAPPER = Struct("<IIQQ")
_MAGIC = 0x466243B1
_POINTER: Final = 8  # offset of the pointer to the container in a wrapper
_WRAPPER_STEP = 8  # bytes to which wrappers are aligned

Extent = tuple[int, int]
Follow = Callable[[int, int], int | None]
"""Called with the file offset of a pointer and its value. Returns the file offset of its target, or
None if the target is not in the file.
"""


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
    unread = ""
    for start, end in merge(extents):
        table, at = source.read(start, end - start), 0
        while at + _WRAPPER_STEP <= len(table):
            if not any(table[at : at + _WRAPPER_STEP]):  # padding
                at += _WRAPPER_STEP
                continue
            if at + _WRAPPER.size > len(table):
                reason = "a wrapper of device code is cut off"
                faults.append(DeviceFault(offset=start + at, reason=reason))
                break
            magic, version, pointer, _ = _WRAPPER.unpack_from(table, at)
            if magic != _MAGIC:
                reason = "there are other bytes in the place of a wrapper of device code"
                faults.append(DeviceFault(offset=start + at, reason=reason))
                break
            place = follow(start + at + _POINTER, pointer)
            if place is None or not 0 <= place < source.size:
                reason = "a wrapper points to device code outside of the file"
                faults.append(DeviceFault(offset=start + at, reason=reason))
            elif version in (_WHOLE, _LINKED):
                versions[place] = max(version, versions.get(place, version))
            else:
                unread = unread or f"a wrapper of device code has the version {version}"
            at += _WRAPPER.size
    return Wrappers(
        relocatable=relocatable,
        versions={} if unread else versions,
        faults=tuple(faults),
        unread=unread,
    )


# Relocatable device code that a driver can use.

Targets: TypeAlias = tuple[DeviceTarget, ...]
_FIRST_FINALIZED = "sm_100"


def find_relinkable(
    units: Iterable[Targets],
) -> tuple[frozenset[DeviceTarget], frozenset[DeviceTarget]]:
    """Return the targets for which the driver can link all, or only some, of these containers.

    Code for the device linker (LTO) does not count, because the driver does not use it.
    """
    different = frozenset(units)
    wanted = {each for targets in different for each in targets if each.kind in DRIVEN}
    whole = {each for each in wanted if all(_have(targets, each) for targets in different)}
    return frozenset(whole), frozenset(wanted - whole)


def _have(targets: Iterable[DeviceTarget], wanted: DeviceTarget) -> bool:
    return any(serves(each, wanted) and _may_be_linked(each, wanted) for each in targets)


def _may_be_linked(code: DeviceTarget, wanted: DeviceTarget) -> bool:
    """Return whether code that serves a target can certainly be linked for that target.

    nvJitLink 13.5 links cubins for sm_100 and sm_120 to sm_103 and sm_121 if nvcc 13.5 made the
    cubins, and refuses cubins of nvcc 12.8 to 13.2 (bitsandbytes 0.50.2).
    """
    own, asked = (each.architecture.rstrip("af?") for each in (code, wanted))
    return code.kind is DeviceKind.PTX or own == asked or len(own) < len(_FIRST_FINALIZED)


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
_MAGICS = re.compile(b"|".join(map(re.escape, _WALKS)))
_STEP = 8  # bytes to which containers are aligned
_SMALLEST = 16  # bytes of the smallest head
_BLOCK = 4096  # bytes searched for the next container at a time
_MOST_FAULTS = 64  # listed of one object


class DeviceFacts(NamedTuple):
    """The facts about a file's code for GPUs, as in the model."""

    code: tuple[DeviceCode, ...] = ()
    containers: tuple[DeviceContainers, ...] = ()
    faults: tuple[DeviceFault, ...] = ()


def walk_device_code(
    source: LimitedSource, extents: Iterable[Extent]
) -> Iterator[Container | DeviceFault]:
    """Walk through all containers in these parts of a file; visit shared bytes only once.

    Other bytes are skipped in steps of 8. Only zeros are padding: other bytes between containers
    are a fault.
    """
    seen = 0
    for each, end in sorted(extents):
        start = at = max(each, seen)
        seen = max(end, seen)
        certain = True  # whether a container, or the section, certainly begins here
        while at < end:
            place, magic = _find_next(source, at, end)
            padding = source.blocks(at, place, 0)
            if certain and any(block.strip(b"\0") for _, block in padding):
                reason = "bytes that are neither a container nor padding"
                yield DeviceFault(offset=at, reason=reason)
            if not magic:
                break
            if end - place < _SMALLEST:
                yield DeviceFault(offset=place, reason="a container's head is cut off")
                break
            at, certain = yield from _WALKS[magic](source, place, end)
            at += (start - at) % _STEP


def _find_next(source: LimitedSource, at: int, end: int) -> tuple[int, bytes]:
    """Return the offset and the magic of the next container; ``end`` and b"" without one."""
    for offset in range(at, end, _BLOCK):
        for found in _MAGICS.finditer(source.read(offset, min(_BLOCK, end - offset))):
            if found.start() % _STEP == 0:
                return offset + found.start(), found[0]
    return end, b""


def read_device_code(
    source: LimitedSource, extents: Iterable[Extent], wrappers: Wrappers | None = None
) -> DeviceFacts:
    """Return the facts about device code in these parts of a file."""
    extents, wrappers = tuple(extents), wrappers or Wrappers()
    relocatable = merge(wrappers.relocatable)

    def find_role(offset: int) -> DeviceLinking:
        """Return how a container is used; RELINKABLE is all relocatable code that is registered."""
        version = wrappers.versions.get(offset)
        if version == _LINKED:
            return DeviceLinking.LINKED
        index = bisect_right(relocatable, (offset, source.size)) - 1
        if index < 0 or offset >= relocatable[index][1]:
            return DeviceLinking.WHOLE
        if wrappers.awaits_linking:
            return DeviceLinking.UNLINKED
        return DeviceLinking.RELINKABLE if version else DeviceLinking.UNUSABLE

    faults: list[DeviceFault] = []
    found: list[tuple[Container, Targets, DeviceLinking]] = []
    for step in walk_device_code(source, extents):
        if isinstance(step, DeviceFault):
            faults.append(step)
        else:
            targets = tuple(sorted({part.target for part in step.parts}))
            found.append((step, targets, find_role(step.offset)))
    if not faults:  # a fault may hide containers
        missing = set(wrappers.versions) - {container.offset for container, *_ in found}
        reason = "a wrapper points to bytes that are not a container of device code"
        faults += [
            DeviceFault(offset=place, reason=reason)
            for place in sorted(missing)
            if any(start <= place < end for start, end in extents)
        ]
    units = {targets for _, targets, role in found if role is DeviceLinking.RELINKABLE}
    linked = sum(role is DeviceLinking.LINKED for *_, role in found)
    whole, partly = find_relinkable(units if linked else ())
    served = whole | partly if linked > 1 else whole
    used = {
        target
        for target in chain.from_iterable(units)
        if any(serves(target, each) for each in served)
    }
    code: dict[tuple[DeviceTarget, DeviceLinking], list[Part]] = {}
    groups: dict[tuple[Targets, str, DeviceLinking], list[tuple[int, int]]] = {}
    for index, (container, targets, role) in enumerate(found):
        reason = container.reason
        if role in (DeviceLinking.RELINKABLE, DeviceLinking.UNUSABLE):
            reason = reason or wrappers.unread
        elif role is DeviceLinking.LINKED and linked > 1 and partly:
            reason = reason or (
                f"only the driver finds out, when it loads the file, which of {linked} linked "
                "containers uses which relocatable code"
            )
        groups.setdefault((targets, reason, role), []).append((index, container.offset))
        for part in container.parts:
            is_used = role is not DeviceLinking.RELINKABLE or part.target in used
            linking = role if is_used else DeviceLinking.UNUSABLE
            code.setdefault((part.target, linking), []).append(part)
    return DeviceFacts(
        code=tuple(
            sorted(
                DeviceCode(
                    kind=target.kind,
                    architecture=target.architecture,
                    count=len(parts),
                    bytes=sum(part.bytes for part in parts),
                    compressed=sum(part.compressed for part in parts),
                    linking=linking,
                )
                for (target, linking), parts in code.items()
            )
        ),
        containers=tuple(
            DeviceContainers(
                targets=targets,
                count=len(places),
                first=places[0][0],
                offset=places[0][1],
                reason=reason,
                linking=DeviceLinking.UNUSABLE
                if role is DeviceLinking.RELINKABLE and used.isdisjoint(targets)
                else role,
                relinkable=tuple(sorted(whole)) if role is DeviceLinking.LINKED else (),
            )
            for (targets, reason, role), places in groups.items()
        ),
        faults=(*wrappers.faults, *faults)[:_MOST_FAULTS],
    )

"""Tells of relocatable device code what a driver can use of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from binary_checks.knowledge.device_containers import serves
from binary_checks.model import DeviceKind, DeviceTarget
from binary_checks.objects.device.walk import Target
from binary_checks.objects.device.wrappers import LINKED, Wrappers
from binary_checks.objects.ranges import merge

Targets = tuple[Target, ...]


class Role(Enum):
    """What a container is for."""

    WHOLE = "whole"
    LINKED = "linked"
    PRELINKED = "prelinked"  # relocatable code that is registered
    FORGOTTEN = "forgotten"  # relocatable code that nothing registers
    UNLINKED = "unlinked"  # relocatable code that is still to be linked


class Roles:
    """Says of each container what it is for."""

    def __init__(self, wrappers: Wrappers) -> None:
        self._wrappers = wrappers
        self._relocatable = merge(wrappers.relocatable)

    def role_of(self, offset: int) -> Role:
        """The role of the container there, in bytes from the start of the file."""
        version = self._wrappers.versions.get(offset, 0)
        if version == LINKED:
            return Role.LINKED
        index = bisect_right(self._relocatable, (offset, 1 << 64)) - 1
        if index < 0 or offset >= self._relocatable[index][1]:
            return Role.WHOLE
        if self._wrappers.awaits_linking:
            return Role.UNLINKED
        return Role.PRELINKED if version else Role.FORGOTTEN


class Relinkable(NamedTuple):
    """What a driver can make of relocatable containers."""

    targets: frozenset[Target] = frozenset()  # for which it can link all of them
    partly: frozenset[Target] = frozenset()  # which only some serve
    unknown: str = ""  # why that was not found out

    def uses(self, target: Target) -> bool:
        """Whether code for a target is linked for anything, of these or perhaps of those."""
        code = _spell(target)
        return any(serves(code, _spell(each)) for each in self.targets | self.partly)


def find_relinkable(prelinked: Iterable[Targets], factor: int) -> Relinkable:
    """For which targets the driver can link all these containers, and which only some serve.

    What they hold for the device linker (LTO) is of no use to it.
    """
    sets = [tuple(map(_spell, targets)) for targets in set(prelinked)]
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
    """Whether it is certain that code that serves a target is linked for it.

    nvJitLink 13.5 takes cubins for sm_100 and sm_120 for sm_103 and sm_121 where nvcc 13.5 made
    them, and refuses those of nvcc 12.8 to 13.2 (bitsandbytes 0.50.2).
    """
    own, asked = (each.architecture.rstrip("af?") for each in (code, wanted))
    return code.kind is DeviceKind.PTX or own == asked or len(own) < len(_FIRST_FINALIZED)


def _spell(target: Target) -> DeviceTarget:
    return DeviceTarget(kind=DeviceKind(target[0]), architecture=target[1])


def _plain(target: DeviceTarget) -> Target:
    return target.kind.value, target.architecture

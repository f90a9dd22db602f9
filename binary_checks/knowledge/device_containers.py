"""Finds the containers of GPU code that a check can judge, and says which it cannot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Final, TypeAlias

from binary_checks.knowledge.device_reach import serves
from binary_checks.knowledge.unloaded_objects import find_unread
from binary_checks.model import (
    DeviceContainers,
    DeviceFile,
    DeviceKind,
    DeviceLinking,
    DeviceTarget,
    ElfFile,
    Format,
    NotInspected,
    Package,
    PeFile,
    StaticArchive,
)

Carrier: TypeAlias = ElfFile | PeFile | StaticArchive | DeviceFile
FORMATS: Final = (Format.ELF, Format.PE, Format.ARCHIVE, Format.DEVICE)
"""Those of the files that carry GPU code."""
DRIVEN: Final = (DeviceKind.SASS, DeviceKind.PTX)
"""What NVIDIA's driver takes; code for the device linker (LTO) it does not."""
_OWN = ("a", "f")  # suffixes of code for one GPU, or for its family
_LOOSE = "cuda"  # the architecture of an ELF file that is a cubin: one target by nature


def find_carriers(package: Package) -> Iterator[Carrier]:
    """Find the files with GPU code, or with something broken in its place."""
    for item in package.objects:
        if isinstance(item, Carrier) and (item.device_containers or item.device_faults):
            yield item


def has_nvidia_code(item: Carrier) -> bool:
    """Whether there is code in it that is not AMD's."""
    return any(code.kind is not DeviceKind.AMDGPU for code in item.device_code)


def select_carriers(package: Package, exempt: tuple[str, ...], *, loose: bool) -> list[Carrier]:
    """Find what may have code for NVIDIA's GPUs, and no glob exempts."""
    return [
        item
        for item in find_carriers(package)
        if (loose or not (isinstance(item, ElfFile) and item.architecture == _LOOSE))
        and not _fits(package.layout.shorten(item.path), exempt)
        and (item.device_faults or any(map(_may_be_taken, item.device_containers)))
    ]


def _may_be_taken(group: DeviceContainers) -> bool:
    return is_taken(group) or is_doubtful(group) or is_never_linked(group)


def _fits(path: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(path, glob) for glob in globs)


def tell_unread(
    package: Package, carriers: list[Carrier], exempt: tuple[str, ...]
) -> Iterator[NotInspected]:
    """Find the files that nobody could read; NotApplicable where nothing is to be judged."""
    return find_unread(
        package,
        found=bool(carriers),
        absent="no library with code for NVIDIA's GPUs" + (" that is not exempt" if exempt else ""),
        formats=FORMATS,
        concerns=lambda path: not _fits(package.layout.shorten(path), exempt),
    )


def tell_doubt(item: Carrier, concerned: Iterable[DeviceContainers]) -> Iterator[NotInspected]:
    """Say of which containers nobody knows all targets, of those that it matters for."""
    yield from tell_gaps(item, concerned)
    for fault in item.device_faults[:1]:
        sentence = f"code after offset {fault.offset} may be missing: {fault.reason}"
        yield NotInspected(path=item.path, sentence=sentence)


def tell_gaps(item: Carrier, concerned: Iterable[DeviceContainers]) -> Iterator[NotInspected]:
    """The same but for what is the file's own fault."""
    for group in filter(is_doubtful, concerned):
        yield NotInspected(path=item.path, sentence=_tell_gap(group), too_large=group.too_large)


def _tell_gap(group: DeviceContainers) -> str:
    if not group.count:
        return f"code after offset {group.offset} was not read: {group.reason}"
    plural = "" if group.count == 1 else "s"
    return f"{group.count} container{plural}, first at offset {group.offset}: {group.reason}"


def judged_containers(item: Carrier) -> list[DeviceContainers]:
    """Find the containers with code for NVIDIA's driver of which all is known.

    Relocatable code counts at the container that was linked of it, and by itself only where there
    is no such container: then nothing of it is of use.
    """
    linked = any(group.linking is DeviceLinking.LINKED for group in item.device_containers)
    return [
        group
        for group in item.device_containers
        if (is_taken(group) or (not linked and is_never_linked(group))) and not is_doubtful(group)
    ]


def is_taken(group: DeviceContainers) -> bool:
    """Whether NVIDIA's driver takes anything of it, or will once it is linked."""
    return any(target.kind in DRIVEN for target in group.usable)


def is_never_linked(group: DeviceContainers) -> bool:
    """Whether it is relocatable code of which no driver takes anything."""
    return group.linking is DeviceLinking.UNUSABLE


def find_unlinked_units(
    item: Carrier,
) -> Iterator[tuple[DeviceTarget, list[DeviceContainers], list[DeviceContainers]]]:
    """Find what code was linked for without some of its units, which have none for it.

    Yields the target, the relocatable containers without code for it, and all of them. Units for
    the device linker alone (LTO) are no such: it compiles them for what it links.
    """
    units = [
        group
        for group in item.device_containers
        if group.linking in (DeviceLinking.RELINKABLE, DeviceLinking.UNUSABLE)
        and all(target.kind in DRIVEN for target in group.targets)
    ]
    linked = {
        target
        for group in item.device_containers
        for target in group.targets
        if group.linking is DeviceLinking.LINKED and target.kind is DeviceKind.SASS
    }
    for target in sorted(linked):
        without = [g for g in units if not any(serves(each, target) for each in g.targets)]
        if without and len(without) < len(units):
            yield target, without, units


def is_doubtful(group: DeviceContainers) -> bool:
    """Whether there may be more in it for NVIDIA's driver than is known."""
    amd = group.targets and all(t.kind is DeviceKind.AMDGPU for t in group.targets)
    return bool(group.reason) and not amd


def has_code(group: DeviceContainers, name: str) -> bool:
    """Whether it has what ``sm_90``, ``sm_90a`` or, as PTX, ``compute_90`` stands for.

    What still awaits the device linker may have code for that one alone (LTO), too.
    """
    kinds = [DeviceKind.PTX if name.startswith("compute_") else DeviceKind.SASS]
    if group.linking is DeviceLinking.UNLINKED and kinds == [DeviceKind.SASS]:
        kinds.append(DeviceKind.LTO)
    return any(target.kind in kinds and _matches(name, target) for target in group.usable)


def permits(name: str, target: DeviceTarget) -> bool:
    """Whether an allowed architecture stands for a target; ``sm_90`` does for its PTX too."""
    ptx = target.kind is DeviceKind.PTX
    return (ptx or not name.startswith("compute_")) and _matches(name, target)


def _matches(name: str, target: DeviceTarget) -> bool:
    """Whether the numbers are the same, and the suffixes where both are known and one is named."""
    named, found = name.partition("_")[2], target.architecture.partition("_")[2]
    if found.endswith("?") or named == found.rstrip("af"):
        return named.rstrip("af") == found.rstrip("af?")
    return named == found


def number_of(target: DeviceTarget) -> int:
    """The number of an architecture of NVIDIA; 0 where it is not known."""
    number = target.architecture.removeprefix("sm_").rstrip("af?")
    return int(number) if target.kind in DRIVEN and number.isdecimal() else 0


def newest_ptx(group: DeviceContainers) -> int:
    """The newest architecture of PTX that later GPUs take as well; 0 without any."""
    ptx = (target for target in group.usable if target.kind is DeviceKind.PTX)
    return max((number_of(target) for target in ptx if _is_plain(target)), default=0)


def newest_plain(item: Carrier) -> int:
    """The newest architecture without a suffix, or with one where there is no other; 0 for none.

    One file of CUTLASS built for ``sm_121a`` makes no library one for that GPU: in torch 2.15.0 it
    is 1 container of 476.
    """
    targets = [target for group in item.device_containers for target in group.usable]
    plain = [target for target in targets if _is_plain(target) and number_of(target)]
    return max(map(number_of, plain or targets), default=0)


def _is_plain(target: DeviceTarget) -> bool:
    return not target.architecture.endswith(_OWN)


def name_target(target: DeviceTarget) -> str:
    """Say what a target is."""
    return ("PTX for " if target.kind is DeviceKind.PTX else "") + target.architecture


def first_of(groups: Iterable[DeviceContainers]) -> DeviceContainers:
    """Find the one that comes first in the file."""
    return min(groups, key=lambda group: group.first)


def share_of(part: Iterable[DeviceContainers], groups: Iterable[DeviceContainers]) -> str:
    """Say how many containers these are of all, and where the first lies."""
    part = tuple(part)
    count, every = sum(g.count for g in part), sum(g.count for g in groups)
    plural = "" if every == 1 else "s"
    return f"{count} of {every} container{plural}, first {place_of(part)}"


def place_of(groups: Iterable[DeviceContainers]) -> str:
    """Say where the first lies, with the object file in a static archive."""
    first = first_of(groups)
    return (
        f"in {first.member} at offset {first.offset}"
        if first.member
        else f"at offset {first.offset}"
    )

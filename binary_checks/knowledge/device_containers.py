"""Device code: where it runs, which containers can be judged, and the GPUs that it names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple, TypeAlias

from binary_checks.errors import NotApplicable
from binary_checks.knowledge.loading import find_unread
from binary_checks.model import (
    DeviceContainers,
    DeviceFile,
    DeviceKind,
    DeviceLinking,
    DeviceTarget,
    ElfFile,
    Ending,
    Format,
    GpuDevice,
    GpuHost,
    GpuReport,
    NotInspected,
    Package,
    PeFile,
    StaticArchive,
)

# Knows where device code runs, and for which GPUs it can be linked with other code.

_NAME = re.compile(r"sm_(\d{1,4})(\d)([af?]?)")
_GENERIC = {
    "gfx9-generic": r"gfx90(?:[02469]|c)",
    "gfx9-4-generic": r"gfx94[0-2]|gfx950",
    "gfx10-1-generic": r"gfx101\d",
    "gfx10-3-generic": r"gfx103\d",
    "gfx11-generic": r"gfx11\d\d",
    "gfx12-generic": r"gfx120\d",
    "gfx12-5-generic": r"gfx125\d",
}
"""On which GPUs AMD's generic targets run (LLVM's AMDGPUUsage, "Generic Processors")."""


def runs_on(code: DeviceTarget, gpu: str) -> bool:
    """Whether a driver runs code for one target on the GPU that an architecture names."""
    if code.kind is DeviceKind.AMDGPU:
        return _runs_on_amd(code.architecture, gpu)
    one, other = _NAME.fullmatch(code.architecture), _NAME.fullmatch(gpu)
    return one is not None and other is not None and _runs(code.kind, one, other)


def serves(code: DeviceTarget, wanted: DeviceTarget) -> bool:
    """Whether code for one target is of use wherever another target is meant.

    PTX without a suffix means its own GPU and all later ones, which only such PTX serves. nvlink
    13.5 takes relocatable code of an older GPU of the same major version, and code without a
    suffix beside code with one; it refuses ``sm_90a`` where ``sm_90`` is asked for.
    """
    if code.kind not in (DeviceKind.SASS, DeviceKind.PTX):
        return False
    one, other = _NAME.fullmatch(code.architecture), _NAME.fullmatch(wanted.architecture)
    if one is None or other is None:
        return code == wanted
    if wanted.kind is DeviceKind.PTX and not other[3]:
        return (
            code.kind is DeviceKind.PTX
            and not one[3]
            and _read_version(one) <= _read_version(other)
        )
    if one[3] == "a" and other[3] not in ("a", "?"):
        return False
    return _runs(code.kind, one, other)


def _runs(kind: DeviceKind, code: re.Match[str], gpu: re.Match[str]) -> bool:
    """Whether it does on NVIDIA's GPUs.

    PTX without a suffix is compiled for all later ones. Other code runs within its major version,
    from its own GPU on, that of a family (``sm_100f``) too; ``sm_90a`` is for this one alone.
    """
    if kind is DeviceKind.PTX and not code[3]:
        return _read_version(code) <= _read_version(gpu)
    if code[3] == "a":
        return _read_version(code) == _read_version(gpu)
    return code[1] == gpu[1] and int(code[2]) <= int(gpu[2])


def _read_version(name: re.Match[str]) -> tuple[int, int]:
    return int(name[1]), int(name[2])


def _runs_on_amd(code: str, gpu: str) -> bool:
    """Whether it does on AMD's: where it is for that GPU, for any setting of it, or its family."""
    name, plain = code.partition(":")[0], gpu.partition(":")[0]
    return code in (gpu, plain) or re.fullmatch(_GENERIC.get(name, "(?!)"), plain) is not None


# Finds the containers of GPU code that a check can judge, and says which it cannot.

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


def find_nvidia_carriers(package: Package) -> Iterator[Carrier]:
    """Find the files with code that is not AMD's, the last of each path."""
    found = filter(has_nvidia_code, find_carriers(package))
    yield from {item.path: item for item in found}.values()


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


# Which GPUs a text of PTX may be compiled for, and which of many texts are worth the time.

_RECENT: Final = tuple(f"sm_{n}" for n in (75, 80, 86, 89, 90, 100, 103, 107, 110, 120, 121))
"""What CUDA 13.5 knows: by it the time is estimated before anything has been asked."""


class PtxSize(NamedTuple):
    """One text that may be chosen."""

    architecture: str  # "sm_90a"
    size: int  # bytes


def find_reachable(architecture: str, known: Iterable[str]) -> tuple[str, ...]:
    """Find which of the known targets PTX for that architecture may be compiled for, in order.

    PTX with the suffix ``a`` is compiled under its own name alone, all other without a suffix.
    """
    numbers = sorted(set(map(_number, known)))
    if architecture.endswith("a"):
        return (architecture,) if _number(architecture) in numbers else ()
    text = DeviceTarget(kind=DeviceKind.PTX, architecture=architecture)
    names = (f"sm_{number}" for number in numbers)
    return tuple(name for name in names if runs_on(text, name))


def choose_targets(architecture: str, known: Iterable[str]) -> tuple[str, ...]:
    """Choose the newest that is known of each major version, from its own on."""
    reachable = find_reachable(architecture, known)
    newest = {_number(target) // 10: target for target in reachable}
    return tuple(newest.values())


def limit_targets(targets: Sequence[str], size: int, most: int) -> tuple[str, ...]:
    """All of the targets, or the last where a text alone would take more bytes than ``most``."""
    return tuple(targets if size * len(targets) <= most else targets[-1:])


def choose_texts(sizes: Sequence[PtxSize], most: int) -> tuple[int, ...]:
    """Choose a sample by index: the smallest and the largest in turn, of newer targets first.

    ``most`` are bytes, each counted once for every target that it is compiled for.
    """
    order = sorted(
        range(len(sizes)),
        key=lambda each: (-_number(sizes[each].architecture), sizes[each].size, each),
    )
    chosen, left = [], most
    for place in _from_both_ends(order):
        text = sizes[place]
        targets = choose_targets(text.architecture, _RECENT)
        cost = text.size * max(1, len(limit_targets(targets, text.size, most)))
        if cost <= left:
            chosen.append(place)
            left -= cost
    return tuple(sorted(chosen))


def _from_both_ends(order: list[int]) -> Iterable[int]:
    first, last = 0, len(order) - 1
    while first <= last:
        yield order[first]
        if first < last:
            yield order[last]
        first, last = first + 1, last - 1


def _number(architecture: str) -> int:
    match = re.fullmatch(r"sm_(\d{1,4})[af]?", architecture)
    return int(match[1]) if match else 0


# Knows the GPU that the flags of a cubin's ELF header name, in each version of its ABI.

EM_CUDA: Final = 190  # the machine of a cubin


class CubinFlags(NamedTuple):
    """What the flags state; no ABI has a bit for the suffix ``f``."""

    number: int  # 90, of sm_90
    is_for_one_gpu: bool  # the suffix "a"; ABI 8 does not always mark it: ptxas 13.5 leaves it out


def read_flags(abi: int, flags: int) -> CubinFlags | None:
    """Read the flags of a cubin with that ABI version; None for an unknown one."""
    if abi == 7:
        return CubinFlags(flags & 0xFF, bool(flags & 0x800))
    if abi == 8:
        return CubinFlags(flags >> 8 & 0xFF, bool(flags & 8))
    return None


# Looks up the figures of steps on a GPU, and says why one is missing.

BUILD, VERSIONS = "the question for its build", "versions"
"""What a package is asked on a GPU before its steps."""


def read_figure(report: GpuReport, step: str, name: str) -> float | None:
    """Read one figure of one step; None when it came to none.

    Raises NotApplicable where the profile leaves the step out, or it is not for this package.
    """
    if all(name != step for name in (*(each.name for each in report.steps), *dict(report.untried))):
        raise NotApplicable(f"the profile leaves out the step {step}")
    found = (each.value for each in report.measurements if (each.step, each.name) == (step, name))
    figure = next(found, None)
    if figure is None and (reason := dict(report.inapplicable).get(step)):
        raise NotApplicable(f"{step}: {reason}")
    return figure


def list_untried(report: GpuReport) -> Iterator[NotInspected]:
    """Say which steps were not done and why, those of one reason together."""
    names: dict[str, list[str]] = {}
    for name, reason in report.untried:
        names.setdefault(reason, []).append(name)
    for reason, those in names.items():
        yield NotInspected(sentence=f"{', '.join(those)}: {reason}")


def find_untried(report: GpuReport, step: str) -> NotInspected:
    """Say why a step came to no figure."""
    reason = dict(report.untried).get(step, "it did not succeed (see gpu-work-fails)")
    return NotInspected(sentence=f"{step}: {reason}")


def describe_unusable(devices: Iterable[GpuDevice]) -> Iterator[str]:
    """Say of each device that cannot be used that it is there, and why it cannot."""
    for index, each in enumerate(devices):
        if each.problem:
            yield f"device {index} ({each.name}) is there and cannot be used: {each.problem}"


def has_failed_before_steps(report: GpuReport) -> bool:
    """Whether a process ended badly that was asked for the build, or the versions of libraries."""
    return any(
        each.name in (BUILD, VERSIONS) and each.outcome is not Ending.OK for each in report.steps
    )


def spell_host(host: GpuHost, runtime: str = "") -> str:
    """Spell the facts of a host with a GPU, and the CUDA runtime used there, in one line."""
    served = f"driver {host.driver or 'of unknown version'} for CUDA {host.cuda}"
    served += runtime and f", runtime {runtime}"
    devices = ", ".join(
        f"{each.name} ({each.capability}, {each.memory / 2**30:.0f} GiB)" for each in host.usable
    )
    return f"{served}: {devices}"


def spell_time(report: GpuReport) -> str:
    """Say how long the steps took together; "" where none says."""
    seconds = [each.value for each in report.measurements if each.name == "seconds"]
    return f"{len(seconds)} steps took {sum(seconds):.1f} s" if len(seconds) > 1 else ""

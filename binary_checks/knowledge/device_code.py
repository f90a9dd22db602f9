"""Device code: the GPUs it runs on, the containers that can be judged, and figures of runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import chain, islice
from typing import Final, NamedTuple, TypeAlias

from binary_checks.errors import NotApplicable
from binary_checks.knowledge.gaps import find_unread
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

# GPUs on which device code runs, and targets for which it can be linked with other code.

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
"""The GPUs on which AMD's generic targets run (LLVM's AMDGPUUsage, "Generic Processors")."""


def runs_on(code: DeviceTarget, gpu: str) -> bool:
    """Return whether a driver runs code for the target on a GPU of that architecture."""
    if code.kind is DeviceKind.AMDGPU:
        # for that GPU, with the GPU's features or with any, or for its family
        name, plain = code.architecture.partition(":")[0], gpu.partition(":")[0]
        family = re.fullmatch(_GENERIC.get(name, "(?!)"), plain)
        return code.architecture in (gpu, plain) or family is not None
    one, other = _NAME.fullmatch(code.architecture), _NAME.fullmatch(gpu)
    return one is not None and other is not None and _runs(code.kind, one, other)


def serves(code: DeviceTarget, wanted: DeviceTarget) -> bool:
    """Return whether code for one target can be used wherever another target is wanted.

    PTX without a suffix is wanted for its own GPU and all later ones; only PTX without a suffix can
    serve these. nvlink 13.5 accepts relocatable code of an older GPU of the same major version, and
    code without a suffix for a target with one; it refuses ``sm_90a`` if ``sm_90`` is wanted.
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
    """Return whether code runs on a GPU of NVIDIA.

    PTX without a suffix is compiled for all later GPUs. Other code runs on GPUs of its major
    version, from its own GPU on; so does code for a family (``sm_100f``). Code such as ``sm_90a``
    runs only on its own GPU.
    """
    if kind is DeviceKind.PTX and not code[3]:
        return _read_version(code) <= _read_version(gpu)
    if code[3] == "a":
        return _read_version(code) == _read_version(gpu)
    return code[1] == gpu[1] and int(code[2]) <= int(gpu[2])


def _read_version(name: re.Match[str]) -> tuple[int, int]:
    return int(name[1]), int(name[2])


# Containers of GPU code that a check can judge, and why other containers cannot be judged.

Carrier: TypeAlias = ElfFile | PeFile | StaticArchive | DeviceFile
FORMATS: Final = (Format.ELF, Format.PE, Format.ARCHIVE, Format.DEVICE)
"""Formats of files that contain GPU code."""
DRIVEN: Final = (DeviceKind.SASS, DeviceKind.PTX)
"""Kinds that NVIDIA's driver loads, in contrast to code for the device linker (LTO)."""
_OWN = ("a", "f")  # suffixes of code for one GPU, or for its family
_LOOSE = "cuda"  # the architecture of an ELF file that is a cubin, which has only one target


def find_carriers(package: Package) -> Iterator[Carrier]:
    """Yield the files that contain GPU code, or something broken in its place."""
    return (
        item
        for item in package.objects
        if isinstance(item, Carrier) and (item.device_containers or item.device_faults)
    )


def find_nvidia_carriers(package: Package) -> Iterator[Carrier]:
    """Yield the files with code for other GPUs than AMD's; for each path only the last file."""
    yield from {
        item.path: item for item in filter(has_nvidia_code, find_carriers(package))
    }.values()


def has_nvidia_code(item: Carrier) -> bool:
    """Return whether the file contains code for other GPUs than AMD's."""
    return any(code.kind is not DeviceKind.AMDGPU for code in item.device_code)


def select_carriers(package: Package, exempt: tuple[str, ...], *, loose: bool) -> list[Carrier]:
    """Return the files that may have code for NVIDIA GPUs and match no glob of ``exempt``."""
    return [
        item
        for item in find_carriers(package)
        if (loose or not (isinstance(item, ElfFile) and item.architecture == _LOOSE))
        and not _fits(package.layout.shorten(item.path), exempt)
        and (
            item.device_faults
            or any(
                is_taken(group) or is_doubtful(group) or is_never_linked(group)
                for group in item.device_containers
            )
        )
    ]


def _fits(path: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(path, glob) for glob in globs)


def find_unread_carriers(
    package: Package, carriers: list[Carrier], exempt: tuple[str, ...]
) -> Iterator[NotInspected]:
    """Yield files that could not be read.

    Raises NotApplicable if there is nothing to judge.
    """
    return find_unread(
        package,
        found=bool(carriers),
        absent="no library with code for NVIDIA's GPUs" + (" that is not exempt" if exempt else ""),
        formats=FORMATS,
        concerns=lambda path: not _fits(package.layout.shorten(path), exempt),
    )


def find_gaps_and_faults(
    item: Carrier, concerned: Iterable[DeviceContainers]
) -> Iterator[NotInspected]:
    """Yield gaps of the given containers, and offsets where device code contradicts itself."""
    yield from find_container_gaps(item, concerned)
    for fault in item.device_faults[:1]:
        sentence = f"code after offset {fault.offset} may be missing: {fault.reason}"
        yield NotInspected(path=item.path, sentence=sentence)


def find_container_gaps(
    item: Carrier, concerned: Iterable[DeviceContainers]
) -> Iterator[NotInspected]:
    """Yield the given containers whose targets are not all known, with the reason."""
    for group in filter(is_doubtful, concerned):
        sentence = f"code after offset {group.offset} was not read: {group.reason}"
        if group.count:
            plural = "" if group.count == 1 else "s"
            containers = f"{group.count} container{plural}"
            sentence = f"{containers}, first at offset {group.offset}: {group.reason}"
        yield NotInspected(path=item.path, sentence=sentence, too_large=group.too_large)


def judged_containers(item: Carrier) -> list[DeviceContainers]:
    """Return the containers with code for NVIDIA's driver whose targets are all known.

    Relocatable code counts together with the container that was linked from it. Only if there is no
    such container does it count separately: then none of the relocatable code can be used. An empty
    container counts, too: it has lost its code.
    """
    linked = any(group.linking is DeviceLinking.LINKED for group in item.device_containers)
    return [
        group
        for group in item.device_containers
        if (is_taken(group) or is_empty(group) or (not linked and is_never_linked(group)))
        and not is_doubtful(group)
    ]


def is_empty(group: DeviceContainers) -> bool:
    """Return whether these containers have no code, though a compiler puts some into each.

    None of 128 objects with device code in 42 published wheels has an empty container.
    """
    return bool(group.count) and not (
        group.targets or group.usable or group.reason or is_never_linked(group)
    )


def is_taken(group: DeviceContainers) -> bool:
    """Return whether NVIDIA's driver can use these containers, directly or once they are linked."""
    return any(target.kind in DRIVEN for target in group.usable)


def is_never_linked(group: DeviceContainers) -> bool:
    """Return whether these containers have relocatable code that no driver can use."""
    return group.linking is DeviceLinking.UNUSABLE


def find_unlinked_units(
    item: Carrier,
) -> Iterator[tuple[DeviceTarget, list[DeviceContainers], list[DeviceContainers]]]:
    """Yield targets whose linked code lacks units, as these have no code for the target.

    A unit is the relocatable code of one source file.

    Yields the target, the relocatable containers without code for it, and all relocatable
    containers. Units for the device linker only (LTO) do not count, because the linker compiles
    them for each target.
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
    """Return whether the containers may have more code for NVIDIA's driver than is known."""
    amd = group.targets and all(t.kind is DeviceKind.AMDGPU for t in group.targets)
    return bool(group.reason) and not amd


def has_code(group: DeviceContainers, name: str) -> bool:
    """Return whether the containers have code for ``sm_90``, ``sm_90a`` or (PTX) ``compute_90``.

    Code that must still be linked may also be LTO code, which is only for the device linker.
    """
    kinds = [DeviceKind.PTX if name.startswith("compute_") else DeviceKind.SASS]
    if group.linking is DeviceLinking.UNLINKED and kinds == [DeviceKind.SASS]:
        kinds.append(DeviceKind.LTO)
    return any(target.kind in kinds and _matches(name, target) for target in group.usable)


def permits(name: str, target: DeviceTarget) -> bool:
    """Return whether an allowed architecture includes a target; ``sm_90`` includes PTX for it."""
    ptx = target.kind is DeviceKind.PTX
    return (ptx or not name.startswith("compute_")) and _matches(name, target)


def _matches(name: str, target: DeviceTarget) -> bool:
    """Compare the numbers, and also the suffixes if both are known and ``name`` has one."""
    named, found = name.partition("_")[2], target.architecture.partition("_")[2]
    if found.endswith("?") or named == found.rstrip("af"):
        return named.rstrip("af") == found.rstrip("af?")
    return named == found


def number_of(target: DeviceTarget) -> int:
    """Return the number of an NVIDIA architecture, or 0 if unknown."""
    return _number(target.architecture) if target.kind in DRIVEN else 0


def newest_ptx(group: DeviceContainers) -> int:
    """Return the newest architecture of PTX that later GPUs can use; 0 without such PTX."""
    return max(
        (number_of(t) for t in group.usable if t.kind is DeviceKind.PTX and _is_plain(t)), default=0
    )


def newest_plain(item: Carrier) -> int:
    """Return the newest architecture without a suffix, else the newest with one; 0 if none.

    A single file of CUTLASS built for ``sm_121a`` does not make a library support that GPU: in
    torch 2.15.0 only 1 of 476 containers is for it.
    """
    targets = [target for group in item.device_containers for target in group.usable]
    plain = [target for target in targets if _is_plain(target) and number_of(target)]
    return max(map(number_of, plain or targets), default=0)


def _is_plain(target: DeviceTarget) -> bool:
    return not target.architecture.endswith(_OWN)


def name_target(target: DeviceTarget) -> str:
    """Return the target as messages name it."""
    return ("PTX for " if target.kind is DeviceKind.PTX else "") + target.architecture


def first_of(groups: Iterable[DeviceContainers]) -> DeviceContainers:
    """Return the container that comes first in the file."""
    return min(groups, key=lambda group: group.first)


def share_of(part: Iterable[DeviceContainers], groups: Iterable[DeviceContainers]) -> str:
    """Return the number of these containers among all, and the place of the first one."""
    part = tuple(part)
    count, every = sum(g.count for g in part), sum(g.count for g in groups)
    plural = "" if every == 1 else "s"
    return f"{count} of {every} container{plural}, first {place_of(part)}"


def place_of(groups: Iterable[DeviceContainers]) -> str:
    """Return the place of the first container, with the member of a static archive."""
    first = first_of(groups)
    return (
        f"in {first.member} at offset {first.offset}"
        if first.member
        else f"at offset {first.offset}"
    )


# The GPUs for which PTX can be compiled, and the choice among many PTX texts.

_RECENT: Final = tuple(f"sm_{n}" for n in (75, 80, 86, 89, 90, 100, 103, 107, 110, 120, 121))
"""Targets of CUDA 13.5, used to estimate the time before a compiler can be asked."""


class PtxSize(NamedTuple):
    """A PTX text that may be chosen."""

    architecture: str  # "sm_90a"
    size: int  # bytes


def find_reachable(architecture: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return the known targets for which PTX of that architecture can be compiled, in order.

    PTX with the suffix ``a`` is compiled only for its own target, all other PTX for targets without
    a suffix.
    """
    numbers = sorted(set(map(_number, known)))
    if architecture.endswith("a"):
        return (architecture,) if _number(architecture) in numbers else ()
    text = DeviceTarget(kind=DeviceKind.PTX, architecture=architecture)
    names = (f"sm_{number}" for number in numbers)
    return tuple(name for name in names if runs_on(text, name))


def choose_targets(architecture: str, known: Iterable[str]) -> tuple[str, ...]:
    """Choose the newest known target of each major version, from that architecture on."""
    newest = {_number(target) // 10: target for target in find_reachable(architecture, known)}
    return tuple(newest.values())


def limit_targets(targets: Sequence[str], size: int, most: int) -> tuple[str, ...]:
    """Return the targets; only the last one if all would take more than ``most`` bytes."""
    return tuple(targets if size * len(targets) <= most else targets[-1:])


def choose_texts(sizes: Sequence[PtxSize], most: int) -> tuple[int, ...]:
    """Choose a sample, as indices: smallest and largest alternately, newer architectures first.

    ``most`` is the limit in bytes; a text counts once for every target that it is compiled for.
    """
    order = sorted(
        range(len(sizes)),
        key=lambda each: (-_number(sizes[each].architecture), sizes[each].size, each),
    )
    chosen, left = [], most
    for place in islice(chain.from_iterable(zip(order, reversed(order), strict=True)), len(order)):
        text = sizes[place]
        targets = choose_targets(text.architecture, _RECENT)
        cost = text.size * max(1, len(limit_targets(targets, text.size, most)))
        if cost <= left:
            chosen.append(place)
            left -= cost
    return tuple(sorted(chosen))


def _number(architecture: str) -> int:
    match = re.fullmatch(r"sm_(\d{1,4})[af?]?", architecture)
    return int(match[1]) if match else 0


# The GPU in the flags of a cubin's ELF header, for each version of its ABI.

EM_CUDA: Final = 190  # the machine of a cubin


class CubinFlags(NamedTuple):
    """The contents of a cubin's flags; no ABI has a bit for the suffix ``f``."""

    number: int  # 90 for sm_90
    is_for_one_gpu: bool  # the suffix "a"; in ABI 8 it may be unmarked: ptxas 13.5 omits the bit


def read_flags(abi: int, flags: int) -> CubinFlags | None:
    """Read the flags of a cubin with that ABI version; return None for an unknown version."""
    if abi == 7:
        return CubinFlags(flags & 0xFF, bool(flags & 0x800))
    if abi == 8:
        return CubinFlags(flags >> 8 & 0xFF, bool(flags & 8))
    return None


# Figures measured by steps on a GPU, and why some figures are missing.

_LONGEST_STEPS = 25  # steps whose duration is shown
BUILD, VERSIONS = "the question for its build", "versions"
"""Questions that a package answers on a GPU before its steps run."""


def read_figure(report: GpuReport, step: str, name: str) -> float | None:
    """Return one figure of one step, or None if it was not measured.

    Raises NotApplicable if the profile leaves the step out, or the step does not apply to the
    package.
    """
    if all(name != step for name in (*(each.name for each in report.steps), *dict(report.untried))):
        raise NotApplicable(f"the profile leaves out the step {step}")
    found = (each.value for each in report.measurements if (each.step, each.name) == (step, name))
    figure = next(found, None)
    if figure is None and (reason := dict(report.inapplicable).get(step)):
        raise NotApplicable(f"{step}: {reason}")
    return figure


def list_untried(report: GpuReport) -> Iterator[NotInspected]:
    """Yield steps that were not run, grouped by reason."""
    names: dict[str, list[str]] = {}
    for name, reason in report.untried:
        names.setdefault(reason, []).append(name)
    for reason, those in names.items():
        yield NotInspected(sentence=f"{', '.join(those)}: {reason}")


def find_untried(report: GpuReport, step: str) -> NotInspected:
    """Return why a step has no figure."""
    reason = dict(report.untried).get(step, "it did not succeed (see gpu-work-fails)")
    return NotInspected(sentence=f"{step}: {reason}")


def describe_unusable(devices: Iterable[GpuDevice]) -> Iterator[str]:
    """Yield a message for each device that cannot be used."""
    for index, each in enumerate(devices):
        if each.problem:
            yield f"device {index} ({each.name}) is present but cannot be used: {each.problem}"


def has_failed_before_steps(report: GpuReport) -> bool:
    """Return whether the package failed to answer a question, about its build or about versions."""
    return any(
        each.name in (BUILD, VERSIONS) and each.outcome is not Ending.OK for each in report.steps
    )


def format_host(host: GpuHost, runtime: str = "") -> str:
    """Format the facts of a GPU host, and the CUDA runtime used there, as one line."""
    served = f"driver {host.driver or 'of unknown version'}"
    served += host.cuda and f" for CUDA {host.cuda}"
    served += runtime and f", runtime {runtime}"
    devices = ", ".join(
        f"{each.name} ({each.capability and each.capability + ', '}{each.memory / 2**30:.0f} GiB)"
        for each in host.usable
    )
    return f"{served}: {devices}"


def format_time(report: GpuReport) -> str:
    """Return the total duration of all steps, and the longest of them; "" if unknown."""
    seconds = {each.step: each.value for each in report.measurements if each.name == "seconds"}
    if len(seconds) < 2:
        return ""
    longest = sorted(seconds.items(), key=lambda item: -item[1])[:_LONGEST_STEPS]
    shown = ", ".join(f"{name} {value:.1f}" for name, value in longest)
    return f"{len(seconds)} steps took {sum(seconds.values()):.1f} s: {shown}"

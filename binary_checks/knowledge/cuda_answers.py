"""Looks up what a package answered about CUDA, and says where it could not be asked."""

from __future__ import annotations

import re
from collections.abc import Iterator

from binary_checks.errors import NotApplicable
from binary_checks.knowledge.nvidia_names import is_cuda_library
from binary_checks.model import (
    Answer,
    CudaReport,
    DeviceKind,
    DeviceLinking,
    DeviceTarget,
    ElfFile,
    NotInspected,
    Package,
    PeFile,
    RefusedAnswers,
)
from binary_checks.model.requests import CudaRequest


def demand_question(value: str, keys: str) -> None:
    """Raise NotApplicable where the profile does not say what to ask."""
    if not value:
        raise NotApplicable(f"the profile has no expression for it ([probes.cuda] {keys})")


def find_answer(report: CudaReport | RefusedAnswers, question: str) -> Answer | None:
    """Find the answer to one expression; None when it was not reached."""
    return next((each for each in report.answers if each.question == question), None)


def find_gap(report: CudaReport | RefusedAnswers, question: str) -> NotInspected:
    """Say why there is no answer."""
    where = f" after {report.stage}" if report.stage else ""
    return NotInspected(sentence=f"{question} was not evaluated: the process ended{where}")


def demand_cuda_build(report: CudaReport, asked: CudaRequest) -> None:
    """Raise NotApplicable where the package says that it is built for no CUDA."""
    built = find_answer(report, asked.version) if asked.version else None
    if built is not None and not (built.value or built.error):
        raise NotApplicable(f"{asked.version} is {built.value!r}: the build is not for CUDA")


def find_reported(report: CudaReport, asked: CudaRequest) -> tuple[str, ...]:
    """Find the architectures that the package says it has code for, each as "sm_90", once."""
    answer = find_answer(report, asked.architectures) if asked.architectures else None
    value = answer.value if answer else ()
    names = value.split() if isinstance(value, str) else value if isinstance(value, tuple) else ()
    found = (re.fullmatch(r"(?:sm|compute)_(\d{2,3}[af]?)", name) for name in names)
    return tuple(dict.fromkeys(f"sm_{match[1]}" for match in found if match))


def find_visible(report: CudaReport) -> Iterator[NotInspected]:
    """Name what could not be hidden from the process: then a host without it was not seen."""
    if report.host.library:
        yield NotInspected(
            sentence=f"the driver's {report.host.library} cannot be hidden on this host; run it on "
            "one without a driver"
        )
    if report.host.devices:
        count = len(report.host.devices)
        yield NotInspected(sentence=f"CUDA_VISIBLE_DEVICES='' hides none of {count} GPUs")
    for path in report.step.libraries or ():
        if re.match("/|[A-Za-z]:", path) and is_cuda_library(path.rpartition("/")[2]):
            yield NotInspected(
                sentence=f"{path} is this host's own: the package was not tested without it"
            )


def disagree(said: str, expected: str) -> bool:
    """Whether two versions differ in a part that both have: "12.6" is "12" and "12.6.3"."""
    parts = list(zip(said.split("."), expected.split("."), strict=False))
    return any(one != other for one, other in parts) or not said


def find_architectures(package: Package) -> frozenset[tuple[bool, str]]:
    """Find for which generations its objects have code, each with whether that is PTX."""
    objects = (item for item in package.objects if isinstance(item, (ElfFile, PeFile)))
    return frozenset(
        (code.kind is DeviceKind.PTX, generation(code.architecture)[1])
        for item in objects
        for code in item.device_code
        if code.architecture.startswith("sm_") and code.linking is not DeviceLinking.UNUSABLE
    )


def find_common_architectures(package: Package) -> tuple[tuple[str, int, int], ...]:
    """Find what more than half of its containers of code are for: name, their number, and of all.

    The names are those that nvcc takes, without a suffix: "sm_90", "compute_90" for PTX.
    """
    counts: dict[str, int] = {}
    total = 0
    for item in package.objects:
        for group in item.device_containers if isinstance(item, (ElfFile, PeFile)) else ():
            names = {_spell(each) for each in group.usable if each.architecture.startswith("sm_")}
            total += group.count if names else 0
            for name in names:
                counts[name] = counts.get(name, 0) + group.count
    return tuple((name, n, total) for name, n in sorted(counts.items()) if 2 * n > total)


def _spell(target: DeviceTarget) -> str:
    kind = "compute" if target.kind is DeviceKind.PTX else "sm"
    return f"{kind}_{generation(target.architecture)[1]}"


def generation(architecture: str) -> tuple[bool, str]:
    """Take "sm_90a" and "compute_90" apart: whether it is PTX, and the number without suffix."""
    kind, _, number = architecture.partition("_")
    return kind == "compute", number.rstrip("af?")

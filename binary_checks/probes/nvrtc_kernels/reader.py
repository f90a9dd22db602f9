"""Has the NVRTC of a package compile a kernel for each architecture, where no driver is seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from binary_checks.declaring import gathers
from binary_checks.knowledge.cuda_answers import (
    demand_cuda_build,
    find_architectures,
    find_reported,
)
from binary_checks.knowledge.cuda_builds import demand_gpu_build
from binary_checks.model import CudaReport, Package
from binary_checks.model.compilations import Compilation, NvrtcReport
from binary_checks.model.places import Place, ProbeAnswer
from binary_checks.model.requests import CudaRequest
from binary_checks.objects.device.reader import name_machine_code
from binary_checks.probes.ask_module.reader import hide_driver, read_step
from binary_checks.probes.import_name.reader import show_all


@gathers(NvrtcReport)
def compile_kernels(
    place: Place, package: Package, request: CudaRequest, answers: CudaReport
) -> NvrtcReport:
    """Compile in one process for the architectures that the package reports, or has code for.

    Raises NotApplicable for a build that is not for CUDA, Unavailable where the package cannot be
    imported.
    """
    demand_gpu_build(package)
    demand_cuda_build(answers, request)
    conditions, _ = hide_driver(place)
    reported = find_reported(answers, request)
    asked = {
        "module": request.module,
        "load": request.nvrtc,
        "targets": reported or list_machine_targets(package),
    }
    result = place.run("nvrtc_kernels", asked, conditions=conditions)
    answer = result.answer
    return NvrtcReport(
        python=place.target.name,
        step=read_step("NVRTC", result, place),
        stage=str(answer.get("stage", "")),
        library=place.shown(str(answer.get("library", ""))),
        lying=show_all(place, answer.get("lying")) or (),
        refusal=place.scrub(str(answer.get("refusal", ""))),
        version=str(answer.get("version", "")),
        supported=tuple(map(str, _list(answer, "supported"))),
        reported=reported,
        compilations=tuple(read_compilations(result, place)),
    )


def list_machine_targets(package: Package) -> tuple[str, ...]:
    """List the architectures that its objects have machine code for, without suffixes."""
    numbers = {number for ptx, number in find_architectures(package) if not ptx}
    return tuple(f"sm_{number}" for number in sorted(numbers, key=int) if number.isdecimal())


def read_compilations(result: ProbeAnswer, place: Place) -> Iterator[Compilation]:
    """Read what came of each target: an error in words, or the head of a cubin."""
    for row in _list(result.answer, "compilations"):
        if isinstance(row, dict):
            yield Compilation(
                target=str(row.get("target", "")),
                made=_name(str(row.get("head", ""))),
                error=place.scrub(str(row.get("error", ""))),
            )


def _name(head: str) -> str:
    try:
        return name_machine_code(bytes.fromhex(head))
    except ValueError:
        return ""


def _list(answer: Any, key: str) -> list[Any]:
    value = answer.get(key)
    return value if isinstance(value, list) else []

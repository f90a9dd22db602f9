"""Compile a kernel for each architecture on the CPU with the Triton that a package requires."""

from __future__ import annotations

from binary_checks.declaring import gathers
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.cuda import find_reported, require_cuda_build, require_gpu_build
from binary_checks.model import (
    CudaReport,
    CudaRequest,
    Package,
    Place,
    TritonReport,
    applies,
    read_requirement,
)
from binary_checks.probes.ask_module.reader import hide_driver, read_step
from binary_checks.probes.compilation_rows import (
    list_machine_targets,
    list_texts,
    read_compilations,
)

_USUAL = ("sm_80", "sm_90")
"""Architectures for a package that neither reports any nor has machine code."""


@gathers(TritonReport)
def compile_with_triton(
    place: Place, package: Package, request: CudaRequest, answers: CudaReport
) -> TritonReport:
    """Compile in one process, for the architectures that the package reports or has code for.

    Raises NotApplicable if the package does not require Triton on the place's system, or is not for
    CUDA.
    """
    require_gpu_build(package)
    require_cuda_build(answers, request)
    if not _requires_triton(package, place):
        raise NotApplicable("the package does not require Triton")
    conditions, _ = hide_driver(place)
    reported = find_reported(answers, request)
    targets = reported or list_machine_targets(package) or _USUAL
    result = place.run("triton_kernels", {"targets": targets}, conditions=conditions)
    answer = result.answer
    return TritonReport(
        python=place.target.name,
        step=read_step("Triton", result, place),
        stage=str(answer.get("stage", "")),
        library=place.shown(str(answer.get("library", ""))),
        version=str(answer.get("version", "")),
        reported=reported,
        unknown=list_texts(answer, "unknown"),
        compilations=tuple(read_compilations(answer, place)),
    )


def _requires_triton(package: Package, place: Place) -> bool:
    read = filter(None, map(read_requirement, package.claims.requirements))
    return any(
        each.name.lower() == "triton" and applies(each, place.target.markers) for each in read
    )

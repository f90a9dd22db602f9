"""Compile a kernel for each architecture with a package's NVRTC, with the driver hidden."""

from __future__ import annotations

from binary_checks.declaring import gathers
from binary_checks.knowledge.cuda import (
    find_reported,
    require_cuda_build,
    require_gpu_build,
)
from binary_checks.model import CudaReport, CudaRequest, NvrtcReport, Package, Place
from binary_checks.probes.ask_module.reader import hide_driver, read_step
from binary_checks.probes.compilation_rows import (
    list_machine_targets,
    list_texts,
    read_compilations,
)
from binary_checks.probes.import_name.reader import show_all


@gathers(NvrtcReport)
def compile_kernels(
    place: Place, package: Package, request: CudaRequest, answers: CudaReport
) -> NvrtcReport:
    """Compile in one process for each architecture that the package reports or has code for.

    Raises NotApplicable for a build without CUDA, Unavailable if the package cannot be imported.
    """
    require_gpu_build(package)
    require_cuda_build(answers, request)
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
        unloaded=show_all(place, answer.get("lying")) or (),
        refusal=place.scrub(str(answer.get("refusal", ""))),
        version=str(answer.get("version", "")),
        supported=list_texts(answer, "supported"),
        reported=reported,
        compilations=tuple(read_compilations(answer, place)),
    )

"""Compilers of GPU code that a package uses at run time, tried on the CPU."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.model import Ending, Finding, Note, NotInspected
from binary_checks.model.probes import Compilation, CompilerReport, NvrtcReport, TritonReport
from binary_checks.wording.step_texts import describe_end


@check
def nvrtc_fails(report: NvrtcReport) -> Iterator[Finding]:
    """NVRTC, as a package loads it, does not compile for an architecture that the package reports.

    ``module`` in the profile's table ``[probes.cuda]`` names the module to import. The NVRTC that
    the import loads, or the expression ``nvrtc`` there (``cupy.cuda.nvrtc.getVersion()``), compiles
    a small kernel to machine code, for which it needs neither a GPU nor a driver: for each
    architecture that ``architectures`` reports, else for those that NVRTC and the package's own
    code both support.

    Why: packages compile kernels when they are first used (fused and generated operations, cuDNN's
    engines). A missing libnvrtc-builtins, or an NVRTC of another CUDA version, is not noticed at
    import, and fails only there, on users' GPUs.

    Fix: require or bundle the NVRTC of the CUDA version that the package is built with, together
    with its libnvrtc-builtins, where the loader finds both.

    Level: every operation that is compiled at run time fails on these GPUs.
    """
    if not report.library and report.step.outcome is Ending.OK:
        yield from _judge_absence(report)
        return
    if report.stage.startswith("import ") and not report.step.finished:
        yield NotInspected(sentence=f"{report.stage} {describe_end(report.step)}")
        return
    name = f"NVRTC {report.version} ({report.library})"
    supported = set(report.supported)
    for target in report.reported if supported else ():
        if target.rstrip("af") not in supported:
            yield (
                f"the package reports {target}, for which {name} cannot compile: "
                "kernels that are compiled at run time fail on such a GPU"
            )
    yield from judge_compilations(report, name)


def _judge_absence(report: NvrtcReport) -> Iterator[Finding]:
    lying = ", ".join(report.lying[:3])
    if report.refusal and report.lying:
        yield f"the package does not load {lying}: {report.refusal}"
    elif report.refusal:
        yield NotInspected(sentence=f"there is no NVRTC in its environment: {report.refusal}")
    elif report.lying:
        yield NotInspected(
            sentence=f"the import does not load {lying}; name an expression that does "
            "([probes.cuda] nvrtc)"
        )
    else:
        raise NotApplicable("the package loads no NVRTC, and there is none in its environment")


@check
def triton_fails(report: TritonReport) -> Iterator[Finding]:
    """The Triton that a package requires does not compile for an architecture of the package.

    Triton and the assembler in it compile a small kernel to machine code, for which they need
    neither a GPU nor a driver: for each architecture that the expression ``architectures`` in the
    profile's table ``[probes.cuda]`` reports, else for those that the package has code for. It
    does not apply to a package that does not require ``triton``, or without ``module`` in that
    table. An architecture that this Triton does not know is not a problem.

    Why: torch.compile and packages with kernels of their own compile with Triton when they are
    first used; a Triton without its assembler or libdevice can still be imported.

    Fix: require the version of Triton that the package is tested with.

    Level: compiled models and the package's own kernels fail on these GPUs.
    """
    name = f"Triton {report.version}"
    yield from judge_compilations(report, name)
    if report.unknown and report.compilations:
        yield Note(sentence=f"{name} does not know {', '.join(report.unknown)}")


def judge_compilations(report: CompilerReport, name: str) -> Iterator[Finding]:
    """Say which targets a compiler failed for, and what was compiled."""
    step = report.step
    if step.outcome is not Ending.OK:
        what = f"{name} compiles, and the process then" if step.finished else report.stage
        yield f"without a GPU, {what} {describe_end(step)}"
    for error, failed in _group_errors(report.compilations).items():
        yield f"{name} does not compile for {', '.join(failed)}: {error}"
    done = ", ".join(each.target for each in report.compilations if not _find_error(each))
    if done and re.match("/|[A-Za-z]:", report.library):
        yield NotInspected(sentence=f"{report.library} is this host's own; it compiles for {done}")
    elif done:
        yield Note(sentence=f"{name} compiles for {done}")
    elif not report.compilations and step.outcome is Ending.OK:
        yield NotInspected(sentence=f"{name} knows none of the architectures of this package")


def _group_errors(compilations: Iterable[Compilation]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for each in compilations:
        if error := _find_error(each):
            groups.setdefault(error, []).append(each.target)
    return groups


def _find_error(compilation: Compilation) -> str:
    """Say what is wrong; a cubin for another architecture is no success."""
    if compilation.error:
        return compilation.error
    if not compilation.made:
        return "it returns no machine code for NVIDIA's GPUs"
    if compilation.made != compilation.target.rstrip("af"):
        return f"it returns machine code for {compilation.made}"
    return ""

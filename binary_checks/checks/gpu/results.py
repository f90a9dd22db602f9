"""Faults of a package whose results or libraries on a GPU are not the expected ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.gpu_figures import has_failed_before_steps, list_untried
from binary_checks.knowledge.nvidia_versions import (
    compare_expected,
    compare_loaded,
    find_pins,
    find_untold,
)
from binary_checks.model import (
    Distribution,
    Ending,
    Finding,
    GpuReport,
    Measurement,
    Note,
    NotInspected,
)
from binary_checks.model.requests import CudaRequest

_OTHER_FIGURES = frozenset({"seconds", "devices", "bytes", "integrated"})
"""The first words of their names."""


@check
def gpu_result_differs(
    report: GpuReport,
    *,
    float64: float = 1e-10,
    float32: float = 1e-4,
    float16: float = 5e-3,
    bfloat16: float = 4e-2,
) -> Iterator[Finding]:
    """A result computed on the GPU differs from the CPU's.

    The error is the norm of the difference divided by the norm of the CPU's result in float64, from
    inputs rounded to the judged dtype; gradients are compared in the same way. The bounds, an
    option for each dtype, are a hundred times (float64, float32) or ten times (float16, bfloat16)
    the rounding error in sums of 1000 products. TF32 is not accepted as float32 here.

    Why: it goes unnoticed: nothing fails, but the numbers are wrong.

    Fix: look for a library of another version than the package was built with, and for code for
    another architecture.

    Level: users get wrong results.
    """
    bounds = {"float64": float64, "float32": float32, "float16": float16, "bfloat16": bfloat16}
    measured = [each for each in report.measurements if _kind(each) not in _OTHER_FIGURES]
    if not report.steps:
        raise NotApplicable("the profile names no step")
    if not measured:
        yield NotInspected(sentence="no step produced a result")
    for sentence in _spell_worst(measured, bounds):
        yield Note(sentence=sentence)
    for figure in measured:
        bound = bounds.get(_kind(figure))
        if bound is None:
            yield NotInspected(sentence=f"{figure.step}: no bound for {figure.name}")
        elif not math.isfinite(figure.value):
            yield f"{figure.step} in {figure.name} gives infinity or NaN, unlike the CPU"
        elif figure.value > bound:
            yield (
                f"{figure.step} in {figure.name} differs from the CPU's result by a relative "
                f"error above {bound:g}"
            )
    for step in report.steps:
        if step.outcome is not Ending.OK and not step.finished:
            yield NotInspected(sentence=f"{step.name} did not succeed (see gpu-work-fails)")
    yield from list_untried(report)


def _kind(figure: Measurement) -> str:
    """The dtype of a relative error, or what else a figure is of."""
    return figure.name.partition(" ")[0]


def _spell_worst(measured: list[Measurement], bounds: dict[str, float]) -> Iterator[str]:
    """Say of each dtype how near the results within its bound come to it."""
    for name, bound in bounds.items():
        within = [each for each in measured if _kind(each) == name and each.value <= bound]
        if within:
            worst = max(within, key=lambda each: each.value)
            yield f"{name}: {worst.value:.0e} in {worst.step}, where {bound:g} is allowed"


@check
def gpu_libraries_disagree(
    report: GpuReport,
    package: Distribution,
    asked: CudaRequest,
    *,
    newer: bool = True,
    expected: Mapping[str, str] = {},
) -> Iterator[Finding]:
    """An NVIDIA library in the process is not the version built with, installed or pinned.

    The first three numbers of a version are compared. Pinned is the version that the package
    requires itself, or that an installed distribution such as ``cuda-toolkit`` requires for it.
    ``compiled`` in the profile's table ``[probes.cuda]`` has a Python expression for each library
    (``cudnn = "torch._C._cudnn.getCompileVersion()"``) that returns the version of its headers,
    None in a build without it; a loaded one of the same major version may be newer, unless the
    option says ``newer = false``. The option ``expected`` gives versions that must be loaded, in as
    many numbers as matter (``cudnn = "9.26"``).

    Why: an older library lacks functions and fails at their first use; one that is not the
    installed one was found in an unintended folder; and the combination is untested.

    Fix: pin the libraries to the versions that the package is built with, and make its search paths
    lead to them first.

    Level: functions are missing, or behave otherwise than those it was built with.
    """
    for sentence in find_untold(report.versions, asked.compiled):
        yield NotInspected(sentence=sentence)
    yield from compare_expected(report.versions, expected)
    if not report.versions and has_failed_before_steps(report):
        yield NotInspected(sentence="the process that reports them failed")
        return
    if not report.versions:
        raise NotApplicable("the package loads none of NVIDIA's libraries")
    pins = find_pins(package)
    for each in report.versions:
        if each.loaded:
            yield from compare_loaded(each, pins.get(each.name, "") or each.pinned, newer=newer)
        elif each.compiled:
            yield NotInspected(
                sentence=f"{each.name}: it is not loaded, or does not report its version"
            )

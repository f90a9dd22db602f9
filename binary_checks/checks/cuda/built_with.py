"""Parts and libraries of a CUDA build, as it reports them without a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.cuda_answers import (
    demand_cuda_build,
    demand_question,
    find_answer,
    find_gap,
)
from binary_checks.knowledge.nvidia_versions import (
    compare_expected,
    compare_installed,
    compare_loaded,
    find_pins,
    find_untold,
)
from binary_checks.model import CudaReport, Distribution, Ending, Finding, Note, NotInspected
from binary_checks.model.requests import CudaRequest
from binary_checks.wording.step_texts import describe_end


@check
def cuda_part_missing(
    report: CudaReport, asked: CudaRequest, *, only: Mapping[str, tuple[str, ...]] = {}
) -> Iterator[Finding]:
    """A CUDA build lacks a part that it must have.

    ``parts`` in the profile's table ``[probes.cuda]`` has a Python expression for each
    (``magma = "torch.cuda.has_magma"``) that must be true, even without a GPU. The option ``only``
    limits parts to some systems, as globs on ``linux-x86_64``. ``version`` in that table is the
    expression for the CUDA version of the build (``torch.version.cuda``): where it is None, the
    build is not for CUDA and is not judged.

    Why: a build that does not find a library continues without it, imports like a good one, and
    fails or is slow only where the part is used, on a GPU.

    Fix: check the build's configuration for that part; make it stop where a part is not found.

    Level: users cannot use a part that the project promises.
    """
    demand_question("".join(asked.parts), "parts")
    demand_cuda_build(report, asked)
    for name, question in asked.parts.items():
        systems = only.get(name, ("*",))
        if not any(fnmatchcase(report.system, glob) for glob in systems):
            yield Note(sentence=f"{name} is for {' and '.join(systems)} only")
            continue
        answer = find_answer(report, question)
        if answer is None:
            yield find_gap(report, question)
        elif answer.error:
            yield f"{name}: {question} raises {answer.error}"
        elif not answer.value:
            yield f"the build lacks {name}: {question} is {answer.value!r}"


@check
def cuda_libraries_disagree(
    report: CudaReport,
    package: Distribution,
    asked: CudaRequest,
    *,
    newer: bool = True,
    expected: Mapping[str, str] = {},
) -> Iterator[Finding]:
    """An NVIDIA library is not the version built with, installed or pinned, with or without a GPU.

    The same as gpu-libraries-disagree, for the libraries that an import loads without a GPU or
    driver: they report their versions without a driver. The options are the same, and so is
    ``compiled`` in the profile's table ``[probes.cuda]``. A library that is installed but not
    loaded by the import is compared with the version built with and the pinned one.

    Why: an older library lacks functions and fails at their first use; one that is not the
    installed one was found in an unintended folder; and the combination is untested.

    Fix: pin the libraries to the versions that the package is built with, and make its search paths
    lead to them first.

    Level: functions are missing, or behave otherwise than those it was built with.
    """
    step = report.versions_step
    if step is None:
        if report.step.outcome is not Ending.OK:
            yield find_gap(report, "the version of each library")
            return
        raise NotApplicable("the build is not for CUDA")
    if step.outcome is not Ending.OK:
        what = "and the process then " if step.finished else ""
        yield f"asking for the versions of NVIDIA's libraries {what}{describe_end(step)}"
    for sentence in find_untold(report.versions, asked.compiled) if report.versions else ():
        yield NotInspected(sentence=sentence)
    if not report.versions and step.outcome is Ending.OK:
        raise NotApplicable("the package loads none of NVIDIA's libraries, and none is installed")
    yield from compare_expected(report.versions, expected)
    pins = find_pins(package)
    for each in report.versions:
        pin = pins.get(each.name, "") or each.pinned
        if each.loaded:
            yield from compare_loaded(each, pin, newer=newer)
        elif each.installed:
            yield from compare_installed(each, pin, newer=newer)
        elif each.compiled:
            yield NotInspected(sentence=f"{each.name}: it is neither loaded nor installed")

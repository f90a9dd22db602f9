"""Faults of what a CUDA build was built with, as it tells where there is no GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.cuda_answers import demand_question, find_answer, find_gap
from binary_checks.knowledge.nvidia_versions import (
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
    """A build for CUDA lacks a part that it is to have.

    ``parts`` in the profile's table ``[probes.cuda]`` has a Python expression for each
    (``magma = "torch.cuda.has_magma"``) that must be true, also without a GPU. The option ``only``
    names the systems that some are for, as globs on ``linux-x86_64``. ``version`` in that table is
    the expression that gives the CUDA of the build (``torch.version.cuda``): where that is None the
    build is for no CUDA, and not judged.

    Why: a build that did not find a library goes on without it, imports as well as a good one, and
    fails or is slow only where the part is used, on a GPU.

    Fix: what the build's configuration says of that part; have it stop where a part is not found.
    """
    demand_question("".join(asked.parts), "parts")
    built = find_answer(report, asked.version) if asked.version else None
    if built is not None and not (built.value or built.error):
        raise NotApplicable(f"{asked.version} is {built.value!r}: the build is not for CUDA")
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
            yield f"the build is without {name}: {question} is {answer.value!r}"


@check
def cuda_libraries_disagree(
    report: CudaReport, package: Distribution, asked: CudaRequest, *, newer: bool = True
) -> Iterator[Finding]:
    """An NVIDIA library is another than the one built with, installed or pinned, GPU or no GPU.

    What gpu-libraries-disagree says of the libraries that a GPU's driver has by its side, of those
    that an import loads where there is neither: they tell their versions without a driver. The
    option is the same, and so is ``compiled`` in the profile's table ``[probes.cuda]``. A library
    that is installed, and not loaded by the import, is held to what was built with and to what is
    pinned.

    Why: an older library lacks functions and fails at their first use, another one than the
    installed was found in a folder that nobody meant, and its results are nobody's tested ones.

    Fix: pin the libraries to what the package is built with, and let its search paths lead to them
    before anything else.
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
    pins = find_pins(package)
    for each in report.versions:
        pin = pins.get(each.name, "") or each.pinned
        if each.loaded:
            yield from compare_loaded(each, pin, newer=newer)
        elif each.installed:
            yield from compare_installed(each, pin, newer=newer)
        elif each.compiled:
            yield NotInspected(sentence=f"{each.name}: it is neither loaded nor installed")

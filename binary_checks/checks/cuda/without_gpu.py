"""Faults of a CUDA build that show when it runs without a driver and without a toolkit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.cuda_answers import (
    demand_question,
    disagree,
    find_answer,
    find_architectures,
    find_common_architectures,
    find_gap,
    find_visible,
    generation,
)
from binary_checks.knowledge.toolkit_claims import (
    claim_by_answer,
    claim_by_objects,
    claim_by_runtimes,
    find_contradiction,
)
from binary_checks.model import CudaReport, Distribution, Ending, Finding
from binary_checks.model.binary_configuration import Platform, StatedToolkits, ToolkitClaim
from binary_checks.model.requests import CudaRequest
from binary_checks.wording.step_texts import describe_end


@check
def unusable_without_gpu(report: CudaReport) -> Iterator[Finding]:
    """A CUDA build fails, hangs or crashes where there is no driver.

    ``module`` in the profile's table ``[probes.cuda]`` names the module to import, in a process
    from which the driver and the toolkit are hidden; without it no check of this kind runs.
    ``snippet`` there is CPU code that runs after the import, with the module's name in it. All of
    it must end within the profile's ``timeout``; if a process hangs, its innermost Python calls are
    reported.

    Why: containers are built, tests run and documentation made on machines without a GPU, and the
    same package must be importable there.

    Fix: open the driver when CUDA is first used, not when a library is loaded, and answer every
    query about it with "no" instead of an exception.

    Level: users without a GPU cannot import or use the package.
    """
    step = report.step
    if step.finished:
        yield f"without a GPU, import {step.name} succeeds, and the process {describe_end(step)}"
    elif step.outcome is not Ending.OK:
        yield f"without a GPU, {report.stage or 'the process'} {describe_end(step)}"
    yield from find_visible(report)


@check
def gpu_claimed_without_one(report: CudaReport, asked: CudaRequest) -> Iterator[Finding]:
    """Without a GPU, a package reports that CUDA is available, or fails to report that it is not.

    In the profile's table ``[probes.cuda]``, ``available`` is a Python expression that must be
    false there (``torch.cuda.is_available()``), ``devices`` one that must be 0
    (``torch.cuda.device_count()``). Neither may raise an exception.

    Why: programs use this answer to choose between the GPU and the CPU, and choose wrongly.

    Fix: treat every error of ``cuInit`` as "not available".

    Level: programs take the wrong way and fail.
    """
    demand_question(asked.available or asked.devices, "available, devices")
    for question in filter(None, (asked.available, asked.devices)):
        answer = find_answer(report, question)
        if answer is None:
            yield find_gap(report, question)
        elif answer.error:
            yield f"without a GPU, {question} raises {answer.error}"
        elif answer.value is not False and answer.value != 0:
            yield f"without a GPU, {question} is {answer.value!r}"


@check
def missing_gpu_misreported(
    report: CudaReport, asked: CudaRequest, *, expected: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """Asking for a GPU where there is none does not raise the documented error.

    ``use`` in the profile's table ``[probes.cuda]`` is a Python expression that needs a GPU
    (``torch.zeros(1, device='cuda')``); the error must contain one of the texts in the option
    ``expected`` (``AssertionError: Torch not compiled with CUDA enabled``).

    Why: programs catch that error to continue without a GPU, and it tells users what to do.

    Fix: check for a driver before doing anything else with the device.

    Level: programs that catch the documented error end instead.
    """
    use = asked.use
    demand_question(use, "use")
    answer = find_answer(report, use)
    if answer is None:
        yield find_gap(report, use)
    elif not answer.error:
        yield f"without a GPU, {use} raises nothing and returns {answer.value!r}"
    elif expected and not any(text in answer.error for text in expected):
        yield f"without a GPU, {use} raises {answer.error}, which is none of the expected errors"


@check
def cuda_version_misreported(
    report: CudaReport,
    package: Distribution,
    asked: CudaRequest,
    stated: StatedToolkits,
    *,
    expected: str = "",
) -> Iterator[Finding]:
    """The CUDA version that a package reports is not that of its build.

    ``version`` in the profile's table ``[probes.cuda]`` is a Python expression
    (``torch.version.cuda``) whose value must agree with all that states a CUDA version of the
    package: its label ``+cu126`` or ``+cpu``, a ``cuda13x`` in its name, the files that its build
    generated, the NVIDIA wheels that it requires, the libraries that its objects need, the version
    that it was compiled with (``cudart`` in ``[probes.cuda.compiled]``), the runtime that it loads,
    and the option ``expected`` where that is given. A runtime of the same major version agrees.

    Why: users compile extensions and choose other wheels by that answer.

    Fix: look for the variable that sets it in the build: the wrong CUDA was found.

    Level: users build and install what does not fit.
    """
    demand_question(asked.version, "version")
    claims = [*stated.claims, *claim_by_objects(package), *claim_by_runtimes(report)]
    yield from _judge_version(report, asked.version, Platform.CUDA, claims, expected)


@check
def rocm_version_misreported(
    report: CudaReport,
    package: Distribution,
    asked: CudaRequest,
    stated: StatedToolkits,
    *,
    expected: str = "",
) -> Iterator[Finding]:
    """The ROCm version that a package reports is not that of its build.

    The same as cuda-version-misreported, for the expression ``rocm`` in the profile's table
    ``[probes.cuda]`` (``torch.version.hip``), the label ``+rocm6.4``, the wheels of ROCm that are
    required and libamdhip64.

    Why: users compile extensions and choose other wheels by that answer.

    Fix: look for the variable that sets it in the build: the wrong ROCm was found.

    Level: users build and install what does not fit.
    """
    demand_question(asked.rocm, "rocm")
    claims = [*stated.claims, *claim_by_objects(package)]
    answer = find_answer(report, asked.rocm)
    about_rocm = any(each.platform is Platform.ROCM and each.version for each in claims)
    if answer and not (answer.value or answer.error or about_rocm or expected):
        raise NotApplicable("the build is not for ROCm")
    yield from _judge_version(report, asked.rocm, Platform.ROCM, claims, expected)


def _judge_version(
    report: CudaReport,
    question: str,
    platform: Platform,
    claims: Iterable[ToolkitClaim],
    expected: str,
) -> Iterator[Finding]:
    answer = find_answer(report, question)
    if answer is None:
        yield find_gap(report, question)
        return
    if answer.error:
        yield f"{question} raises {answer.error}"
        return
    said = f"{question} is {answer.value!r}"
    contradiction = find_contradiction(claim_by_answer(answer, platform), claims)
    if contradiction is not None:
        other, count = contradiction.against, contradiction.supporting
        more = f" (so {'does' if count == 1 else 'do'} {count} more)" if count else ""
        yield f"{said}, but {other.evidence} says {other.statement}{more}"
    if expected and disagree(str(answer.value or ""), expected):
        yield f"{said}, expected {expected}"


@check
def cuda_architectures_misreported(
    report: CudaReport,
    package: Distribution,
    asked: CudaRequest,
    *,
    expected: tuple[str, ...] = (),
) -> Iterator[Finding]:
    """The architectures that a package reports are not those that it has code for.

    ``architectures`` in the profile's table ``[probes.cuda]`` is a Python expression that returns a
    list or a string of words (``torch._C._cuda_getArchFlags()``). They must be those of the option
    ``expected``, if set, in any order, and some object of the package must have code for each. An
    architecture that more than half of the package's containers have code for must be among them;
    some kernels may support more.

    Why: extensions are compiled for the reported architectures, and users rely on the list to know
    that their GPU is supported.

    Fix: look for objects compiled with other flags than those which the build records.

    Level: users build extensions that fail on their GPU.
    """
    architectures = asked.architectures
    demand_question(architectures, "architectures")
    answer = find_answer(report, architectures)
    if answer is None:
        yield find_gap(report, architectures)
        return
    found = answer.value.split() if isinstance(answer.value, str) else answer.value
    if answer.error or not isinstance(found, (tuple, list)):
        how = f"raises {answer.error}" if answer.error else f"is {answer.value!r}, not a list"
        yield f"{architectures} {how}"
        return
    for name in sorted(set(expected) - set(found)):
        yield f"{architectures} lacks {name}"
    for name in sorted(set(found) - set(expected) if expected else ()):
        yield f"{architectures} names {name}, which is not expected"
    there = find_architectures(package)
    for name in sorted(name for name in found if there and generation(name) not in there):
        yield f"{architectures} names {name}, for which no object of the package has code"
    said = {generation(name) for name in found}
    for name, count, total in find_common_architectures(package):
        if generation(name) not in said:
            yield f"{architectures} lacks {name}, which {count} of {total} containers have code for"

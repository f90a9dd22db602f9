"""Faults of a CUDA build that show where NVIDIA's driver is installed and refuses to start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from binary_checks.declaring import check
from binary_checks.knowledge.cuda_answers import demand_question, find_answer, find_gap
from binary_checks.model import (
    Ending,
    Finding,
    NotInspected,
    RefusedAnswers,
    RefusingDriverReport,
)
from binary_checks.model.requests import CudaRequest
from binary_checks.wording.step_texts import describe_end

_STATES = {
    "no-device": "a driver that finds no GPU",
    "driver-mismatch": "a driver that does not match its kernel module (error 803)",
    "old-driver": "a driver that is too old",
}


@check
def driver_refusal_fatal(report: RefusingDriverReport) -> Iterator[Finding]:
    """A CUDA build fails, hangs or crashes where there is a driver that refuses to start.

    The module of ``[probes.cuda]`` is imported, and ``available``, ``devices`` and ``use`` there
    are evaluated, in three processes. In each, a stub of NVIDIA's driver, compiled on this host
    from the functions that the package and CUDA's runtime look up, answers every call with an
    error: it finds no GPU (``cuInit`` returns 100), it does not match its kernel module (803), or
    it is older than the CUDA runtime (which then returns error 35). Linux only; without a C
    compiler, or where the package loads another ``libcuda.so.1`` by its own search path, this is
    not inspected.

    Why: containers often have the driver's libraries without a GPU, and drivers are updated under
    running systems. A package takes another path there than without a driver.

    Fix: treat every error of ``cuInit`` and of the CUDA runtime as "no GPU", and ignore the
    results of a function that failed.

    Level: users cannot import or use the package on such a host.
    """
    yield from _find_lacks(report)
    for each in report.refused:
        step, under = each.step, f"under {_STATES.get(each.state, each.state)}"
        if each.lack or step.outcome is Ending.OK:
            continue
        if step.finished:
            yield f"{under}, import {step.name} succeeds, and the process {describe_end(step)}"
        else:
            yield f"{under}, {each.stage or 'the process'} {describe_end(step)}"


@check
def driver_refusal_misreported(
    report: RefusingDriverReport,
    asked: CudaRequest,
    *,
    expected: Mapping[str, tuple[str, ...]] = {},
) -> Iterator[Finding]:
    """Where a driver refuses to start, a package claims a GPU, or raises an undocumented error.

    As in `driver-refusal-fatal`, under each of three drivers: ``available`` in the profile's table
    ``[probes.cuda]`` must be false, ``devices`` 0, and neither may raise an exception. ``use`` must
    raise an error; the option ``expected`` has a list of texts for each of ``no-device``,
    ``driver-mismatch`` and ``old-driver``, one of which the error must contain.

    Why: programs choose between the GPU and the CPU by these answers, and the error is all that
    users learn about a driver that needs an update.

    Fix: ask the driver before anything else, and report its own error.

    Level: programs take the wrong way and fail, or users learn the wrong cause.
    """
    demand_question(asked.available or asked.devices or asked.use, "available, devices, use")
    yield from _find_lacks(report)
    for each in report.refused:
        if not each.lack:
            under = f"under {_STATES.get(each.state, each.state)}"
            yield from _judge_claims(each, asked, under)
            yield from _judge_error(each, asked.use, expected.get(each.state, ()), under)


def _find_lacks(report: RefusingDriverReport) -> Iterator[NotInspected]:
    for lack in dict.fromkeys(each.lack for each in report.refused if each.lack):
        states = [each.state for each in report.refused if each.lack == lack]
        which = "" if len(states) == len(report.refused) else f"{', '.join(states)}: "
        yield NotInspected(sentence=f"{which}{lack}")


def _judge_claims(found: RefusedAnswers, asked: CudaRequest, under: str) -> Iterator[Finding]:
    for question in filter(None, (asked.available, asked.devices)):
        answer = find_answer(found, question)
        if answer is None:
            yield find_gap(found, question)
        elif answer.error:
            yield f"{under}, {question} raises {answer.error}"
        elif answer.value is not False and answer.value != 0:
            yield f"{under}, {question} is {answer.value!r}"


def _judge_error(
    found: RefusedAnswers, use: str, expected: tuple[str, ...], under: str
) -> Iterator[Finding]:
    if not use:
        return
    answer = find_answer(found, use)
    if answer is None:
        yield find_gap(found, use)
    elif not answer.error:
        yield f"{under}, {use} raises nothing and returns {answer.value!r}"
    elif expected and not any(text in answer.error for text in expected):
        yield f"{under}, {use} raises {answer.error}, which is none of the expected errors"

"""What a CUDA build does under a driver that refuses is judged; the reports are its probe's."""

from __future__ import annotations

from typing import Any

import pytest

from binary_checks.checks.cuda.drivers import (
    driver_refusal_fatal,
    driver_refusal_misreported,
)
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Answer,
    Code,
    CudaRequest,
    Ending,
    NotInspected,
    RefusedAnswers,
    RefusingDriverReport,
    Step,
)
from fixtures.values import say

AVAILABLE, DEVICES, USE = "demo.is_available()", "demo.device_count()", "demo.zeros(1)"
ASKED = CudaRequest(available=Code(AVAILABLE), devices=Code(DEVICES), use=Code(USE))
OLD = "under a driver that is too old"
MISMATCH = "under a driver that does not match its kernel module (error 803)"
NO_GPU = Answer(question=USE, error="RuntimeError: no CUDA-capable device is detected")


def refused(*answers: Answer, state: str = "old-driver", **told: Any) -> RefusedAnswers:
    step = Step(name="demo", **{k: told.pop(k) for k in ("outcome", "detail") if k in told})
    return RefusedAnswers(state=state, step=step, answers=answers, **told)


def report(*each: RefusedAnswers) -> RefusingDriverReport:
    return RefusingDriverReport(python="CPython 3.11.7", refused=each)


def honest(error: Answer = NO_GPU) -> tuple[Answer, ...]:
    no = Answer(question=AVAILABLE, value=False), Answer(question=DEVICES, value=0)
    return (*no, error)


def test_driver_refusal_fatal_fires_on_an_import_that_fails_and_on_a_crash() -> None:
    failed = refused(outcome=Ending.RAISED, detail="E: 803", stage="import demo", state="new")
    crashed = refused(outcome=Ending.CRASHED, detail="SIGSEGV", stage=DEVICES)
    assert say(driver_refusal_fatal(report(failed, crashed))) == [
        "under new, import demo raises E: 803",
        f"{OLD}, demo.device_count() crashes: SIGSEGV",
    ]


def test_driver_refusal_fatal_fires_on_a_bad_end_after_all_was_answered() -> None:
    step = Step(name="demo", outcome=Ending.CRASHED, detail="SIGABRT", finished=True)
    ended = RefusedAnswers(state="driver-mismatch", step=step, answers=honest())
    expected = f"{MISMATCH}, import demo succeeds, and the process crashes: SIGABRT"
    assert say(driver_refusal_fatal(report(ended))) == [expected]
    assert list(driver_refusal_fatal(report(refused(*honest())))) == []


def test_driver_refusal_misreported_fires_on_a_claim_and_on_an_exception() -> None:
    claims = refused(Answer(question=AVAILABLE, value=True), *honest()[1:])
    raises = refused(honest()[0], Answer(question=DEVICES, error="E: 803"), NO_GPU)
    assert say(driver_refusal_misreported(report(claims, raises), ASKED)) == [
        f"{OLD}, demo.is_available() is True",
        f"{OLD}, demo.device_count() raises E: 803",
    ]


def test_driver_refusal_misreported_fires_on_silence_and_on_another_error() -> None:
    silent = refused(*honest(Answer(question=USE, value="tensor([0.])")))
    other = refused(*honest(), state="driver-mismatch")
    expected = {"old-driver": ("too old",), "driver-mismatch": ("803", "mismatch")}
    found = driver_refusal_misreported(report(silent, other), ASKED, expected=expected)
    assert say(found) == [
        f"{OLD}, demo.zeros(1) raises nothing and returns 'tensor([0.])'",
        f"{MISMATCH}, demo.zeros(1) raises {NO_GPU.error}, which is none of the expected errors",
    ]


def test_driver_refusal_misreported_is_quiet_on_the_documented_error() -> None:
    old = refused(*honest(Answer(question=USE, error="RuntimeError: the driver is too old")))
    expected = {"old-driver": ("driver is too old",)}
    assert list(driver_refusal_misreported(report(old), ASKED, expected=expected)) == []
    assert list(driver_refusal_misreported(report(old), ASKED)) == []


def test_a_stub_that_proves_nothing_is_a_gap_and_no_pass() -> None:
    lacking = refused(
        outcome=Ending.RAISED, detail="undefined symbol: cuNew", lack="the stub lacks cuNew"
    )
    fine = refused(*honest(), state="no-device")
    gap = NotInspected(sentence="old-driver: the stub lacks cuNew")
    assert list(driver_refusal_fatal(report(fine, lacking))) == [gap]
    assert list(driver_refusal_misreported(report(fine, lacking), ASKED)) == [gap]
    both = report(lacking, lacking)
    assert list(driver_refusal_fatal(both)) == [NotInspected(sentence="the stub lacks cuNew")]


def test_a_question_that_was_not_reached_is_a_gap() -> None:
    dead = refused(outcome=Ending.CRASHED, stage="import demo")
    reasons = [str(gap) for gap in driver_refusal_misreported(report(dead), ASKED)]
    assert len(reasons) == 3
    assert all("the process ended after import demo" in reason for reason in reasons)
    with pytest.raises(NotApplicable, match="has no expression for it"):
        list(driver_refusal_misreported(report(), CudaRequest()))

"""The newest verdict that judged a family decides; what was not judged never passes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from binary_checks.declaring import FAMILIES, find_checks
from binary_checks.fleet.artifacts import (
    PLACED_FAMILIES,
    Artifact,
    Evidence,
    Gate,
    GateDecision,
    GateWaiver,
    KeptVerdict,
    PackageVerdict,
    decide,
    hash_record,
)
from binary_checks.model import Outcome
from tests.fleet.artifacts.made_verdicts import SHA, entry, make

NOW = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
DEMO = Artifact(
    sha256=SHA, file_name="demo-1.0.whl", size=1, kind="wheel", project="demo", system="linux"
)
STATIC = Gate(channel="release", families=("linkage",))
RUNS = Gate(channel="release", families=("linkage", "runtime"), places=("image:oldest",))
WAIVER = GateWaiver(despite="linkage-check", reason="7", owner="ann", expires="2026-11-20")


def hours(ago: float) -> str:
    return (NOW - timedelta(hours=ago)).isoformat()


def gate_says(gate: Gate, *verdicts: PackageVerdict, signers: Iterable[str] = ()) -> GateDecision:
    return decide(gate, gather(*verdicts, signers=signers), NOW)


def gather(*verdicts: PackageVerdict, signers: Iterable[str] = ()) -> Evidence:
    """These verdicts on the demo, which these keys signed, and its push, too."""
    names = frozenset(signers)
    kept = tuple(
        KeptVerdict(
            verdict=replace(each, artifact_json_sha256=hash_record(DEMO)),
            digests=(f"{at:064x}",),
            signers=names,
        )
        for at, each in enumerate(verdicts)
    )
    return Evidence(artifact=DEMO, verdicts=kept, pushers=names)


def reasons(gate: Gate, *verdicts: PackageVerdict, signers: Iterable[str] = ()) -> list[str]:
    return [each.format() for each in gate_says(gate, *verdicts, signers=signers).refusals]


def passing(**said: Any) -> PackageVerdict:
    return make(entry("linkage"), entry("runtime"), **said)


def failing(**said: Any) -> PackageVerdict:
    return make(entry("linkage", Outcome.FAILED), entry("runtime"), **said)


def test_what_was_judged_and_is_fit_passes_and_nothing_without_a_verdict() -> None:
    decision = gate_says(STATIC, passing())
    assert decision.passes
    assert decision.verdicts == (f"{0:064x}",)
    assert reasons(STATIC) == [
        "linkage: no verdict; judge it there and run `artifact attest` on the result"
    ]
    # A family that was not selected was not judged.
    assert reasons(STATIC, make(entry("metadata"))) == reasons(STATIC)


def test_a_problem_of_any_family_is_said_with_its_check_and_path() -> None:
    (reason,) = reasons(STATIC, failing())
    assert ": linkage-check: demo/a.so: needs libfoo.so.1, which is nowhere;" in reason
    found = make(entry("linkage"), entry("hardening", Outcome.FAILED))
    assert not gate_says(STATIC, found).passes


def test_the_newest_verdict_decides_whichever_comes_first_and_of_equal_times_the_worse() -> None:
    old, new = failing(ended=hours(2)), passing(ended=hours(1))
    assert gate_says(STATIC, old, new).passes
    assert gate_says(STATIC, new, old).passes
    assert not gate_says(STATIC, replace(old, ended=hours(0)), new).passes
    gate = replace(STATIC, waivers=(replace(WAIVER, despite="hardening-check"),))
    waived = make(entry("linkage"), entry("hardening", Outcome.FAILED))
    assert gate_says(gate, waived).passes
    for better, worse in ((passing(), failing()), (waived, failing())):
        assert not gate_says(gate, better, worse).passes
        assert not gate_says(gate, worse, better).passes


def test_what_broke_decides_nothing() -> None:
    broke = make(entry("linkage", Outcome.ERROR, reason="no network"), exit_code=6, ended=hours(0))
    assert gate_says(STATIC, passing(ended=hours(9)), broke).passes
    assert not gate_says(STATIC, failing(ended=hours(9)), broke).passes
    (reason,) = reasons(STATIC, broke)
    assert "error: linkage-check: no network" in reason


def test_what_could_not_be_inspected_is_no_pass() -> None:
    blind = make(entry("linkage"), entry("runtime", Outcome.NOT_INSPECTED, reason="no Python"))
    (reason,) = reasons(Gate(channel="release", families=("runtime",)), blind)
    assert reason.startswith("runtime: not inspected: runtime-check: no Python;")
    seen = passing(ended=hours(20))
    assert gate_says(Gate(channel="release", families=("runtime",)), blind, seen).passes


def test_a_gap_in_a_family_refuses_it() -> None:
    half = make(
        entry("linkage"), entry("linkage", Outcome.NOT_INSPECTED, check="other", reason="too large")
    )
    assert reasons(STATIC, half) == [
        "linkage: not inspected: other: too large; run the check on a host that can inspect it"
    ]
    waived = replace(STATIC, waivers=(replace(WAIVER, despite="other"),))
    assert gate_says(waived, half).waived == ("other: 7 (ann, until 2026-11-20)",)


def test_some_checks_of_a_family_do_not_stand_for_all_of_them() -> None:
    (reason,) = reasons(STATIC, passing(selected="-k linkage-check"))
    assert "only some checks were selected (-k linkage-check)" in reason
    assert not gate_says(STATIC, passing(ended=hours(9)), failing(selected="-k x")).passes


def test_what_applies_to_nothing_is_no_gap() -> None:
    plain = make(entry("linkage"), entry("gpu", Outcome.NOT_APPLICABLE, reason="no GPU code"))
    assert gate_says(replace(STATIC, families=("linkage", "gpu")), plain).passes


@pytest.mark.parametrize("places", [(), ("venv",), ("image:newest",)])
def test_what_runs_must_have_run_in_the_place(places: tuple[str, ...]) -> None:
    (reason,) = reasons(RUNS, passing(places=places))
    assert reason.startswith("runtime at image:oldest: no verdict;")


def test_one_run_in_several_places_says_something_of_each() -> None:
    places = ("image:oldest", "image:newest")
    both = replace(RUNS, places=places)
    good = make(entry("linkage"), *(entry("runtime", place=each) for each in places), places=places)
    assert gate_says(both, good).passes
    assert reasons(both, passing(places=places[:1])) == [
        "runtime at image:newest: no verdict; judge it there and run `artifact attest` on the "
        "result"
    ]


def test_a_place_may_be_one_where_not_all_can_be_inspected() -> None:
    loads = entry("runtime", check="loader-complains", place="image:oldest")
    gap = entry("runtime", Outcome.NOT_INSPECTED, place="image:oldest", reason="no Python 3.12")
    half = make(entry("linkage"), loads, gap, places=("image:oldest",))
    assert reasons(RUNS, half) == [
        "runtime at image:oldest: not inspected: runtime-check: no Python 3.12; run the check on a "
        "host that can inspect it, or name image:oldest under gaps"
    ]
    gate = replace(RUNS, gaps=("image:oldest",))
    assert gate_says(gate, half).passes
    assert not gate_says(gate, make(entry("linkage"), gap, places=("image:oldest",))).passes


def test_a_gpu_is_wherever_there_is_one() -> None:
    gate = replace(RUNS, families=("runtime", "gpu"))
    oldest = make(entry("runtime"), places=("image:oldest",))
    assert gate_says(gate, oldest, make(entry("gpu"), places=("venv",))).passes


def test_verdicts_of_two_stages_say_it_together() -> None:
    gate = replace(RUNS, families=("linkage", "gpu"), places=())
    cpu = make(entry("linkage"), entry("gpu", Outcome.NOT_INSPECTED, reason="no driver"))
    assert not gate_says(gate, cpu).passes
    assert gate_says(gate, cpu, make(entry("gpu"), ended=hours(0))).passes


def test_a_verdict_from_the_future_does_not_count() -> None:
    later = passing(ended=hours(-6 / 60))
    (reason,) = reasons(STATIC, later)
    assert "its time is in the future: the clock of its host or of this host is wrong" in reason
    assert gate_says(STATIC, passing(ended=hours(-5 / 60))).passes
    assert not gate_says(STATIC, failing(ended=hours(1)), later).passes


def test_a_verdict_is_too_old_some_day() -> None:
    gate = replace(STATIC, max_age=2.0)
    assert gate_says(gate, passing(ended=hours(48))).passes
    (reason,) = reasons(gate, passing(ended=hours(48.1)))
    assert "is older than 2 days; judge it again" in reason


def test_only_the_profile_counts_that_is_asked_for() -> None:
    gate = replace(STATIC, profile="torch")
    (reason,) = reasons(gate, passing())
    assert "it used the profile default instead of torch" in reason
    assert gate_says(replace(STATIC, profile="default"), passing()).passes
    assert gate_says(replace(STATIC, profile="0" * 64), passing()).passes


def test_unsigned_verdicts_do_not_count_where_signatures_are_asked_for() -> None:
    gate = replace(STATIC, threshold=2)
    assert gate_says(gate, passing(), signers=("a", "b")).passes
    half_signed = reasons(gate, passing(), signers=("a",))[-1]
    assert "1 trusted signature, but the gate requires 2" in half_signed
    unsigned = reasons(gate, passing())[-1]
    assert "no trusted signatures, but the gate requires 2; sign it with a key that the" in unsigned


def test_a_document_that_nobody_signed_is_refused_where_signatures_are_asked_for() -> None:
    gate, found = replace(STATIC, threshold=1), gather(passing(), signers=("a",))
    assert decide(gate, found, NOW).passes
    (refusal,) = decide(gate, replace(found, pushers=frozenset()), NOW).refusals
    assert refusal.why == "artifact.json has no trusted signatures, but the gate requires 1"
    assert decide(STATIC, replace(found, pushers=frozenset()), NOW).passes


@pytest.mark.parametrize("threshold", [0, 1])
@pytest.mark.parametrize(
    "changes", [{"system": "windows"}, {"commit": "c" * 40}, {"version": "2"}, {"variant": "cpu"}]
)
def test_a_verdict_that_was_given_for_another_document_does_not_count(
    threshold: int, changes: dict[str, str]
) -> None:
    found = replace(gather(passing(), signers=("a",)), artifact=replace(DEMO, **changes))  # type: ignore[arg-type]
    (refusal,) = decide(replace(STATIC, threshold=threshold), found, NOW).refusals
    assert "it is about another artifact.json; somebody tampered" in refusal.format()


def test_only_words_that_are_accepted_pass() -> None:
    warned = make(entry("linkage", Outcome.WARNED))
    assert gate_says(STATIC, warned).passes
    assert "warned" in reasons(replace(STATIC, accept=("passed",)), warned)[0]


def test_a_complaint_of_the_run_is_no_pass_but_one_of_another_package_is() -> None:
    assert not gate_says(STATIC, passing(complaints=("nothing was verified",), exit_code=1)).passes
    other = replace(passing(), faults=())
    assert gate_says(STATIC, other).passes


BLIND = {"unjudged": "the loader of iOS is not simulated"}


@pytest.mark.parametrize("status", [0, 1])
def test_what_cannot_be_judged_passes_no_gate_and_ends_an_older_pass(status: int) -> None:
    blind = passing(known=BLIND, exit_code=status, ended=hours(1))
    assert blind.word == "not judged"
    reason = f"not judged ({hours(1)}): the loader of iOS is not simulated"
    expected = f"{reason}; no gate accepts a file that cannot be judged"
    assert reasons(STATIC, blind) == [expected]
    assert reasons(STATIC, passing(ended=hours(2)), blind) == [expected]
    waived = replace(STATIC, waivers=(replace(WAIVER, despite="linkage"),))
    assert reasons(waived, blind) == [expected]


def test_a_run_that_did_not_happen_says_nothing_of_the_package() -> None:
    unrun = passing(known={"unrun": "name a channel"}, exit_code=1, ended=hours(1))
    assert "not judged" in reasons(STATIC, unrun)[0]
    assert gate_says(STATIC, passing(ended=hours(2)), unrun).passes


def test_a_waiver_lets_a_failure_through_until_it_expires() -> None:
    gate = replace(STATIC, waivers=(WAIVER,))
    decision = gate_says(gate, failing())
    assert decision.passes
    assert decision.waived == ("linkage-check: 7 (ann, until 2026-11-20)",)
    two = make(entry("linkage", Outcome.FAILED), entry("hardening", Outcome.FAILED))
    assert not gate_says(gate, two).passes
    expired = replace(STATIC, waivers=(replace(WAIVER, expires="2026-11-19"),))
    assert not gate_says(expired, failing()).passes
    elsewhere = replace(STATIC, waivers=(replace(WAIVER, package="other-*"),))
    assert not gate_says(elsewhere, failing()).passes


def test_the_families_that_run_packages_are_those_whose_checks_all_do() -> None:
    runs: dict[str, set[bool]] = {family: set() for family in FAMILIES}
    for each in find_checks():
        runs[each.family].add(each.runs_package)
    assert {family for family, kinds in runs.items() if kinds == {True}} == {
        *PLACED_FAMILIES,
        "gpu",
    }

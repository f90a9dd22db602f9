"""What a whole run found, and what must not stay green although no check failed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from binary_checks.model import (
    Accepted,
    Entry,
    Note,
    NotInspected,
    Outcome,
    PackageIdentity,
    Problem,
    RunResult,
)
from binary_checks.plugin.reporting import ItemResult
from binary_checks.reports.family_table import summarise
from binary_checks.reports.ledger import Ledger
from binary_checks.wording.problem_lines import summarise_gap
from fixtures.runs import PROFILE

NODE = "dist/demo-1.0.whl"


def package(node: str = NODE, **known: Any) -> PackageIdentity:
    return PackageIdentity(node=node, file_name=node.rpartition("/")[2], uri=node, **known)


def entry(outcome: Outcome = Outcome.PASSED, **fields: Any) -> Entry:
    inspected = outcome in (Outcome.PASSED, Outcome.FAILED, Outcome.ACCEPTED)
    usual = {"check": "c", "family": "linkage", "outcome": outcome, "inspected": 3 * inspected}
    return Entry(**{**usual, **fields})


def ledger(
    *entries: Entry, packages: Iterable[PackageIdentity] = (package(),), **fields: Any
) -> Ledger:
    """A ledger in which all entries are of one package."""
    found = Ledger(packages=packages, **fields)
    for each in entries:
        found.add(NODE, each)
    return found


def complaints(*entries: Entry, **fields: Any) -> list[str]:
    return [complaint.line for complaint in ledger(*entries, **fields).complaints()]


def summary(found: Ledger) -> list[str]:
    return list(summarise(RunResult(exit_code=0, profile=PROFILE, packages=found.results())))


def test_an_entry_survives_the_way_between_processes() -> None:
    problem = Problem(path="a", sentence="b")
    full = entry(
        Outcome.FAILED,
        problems=(problem,),
        accepted=(Accepted(problem=problem, reason="r"),),
        not_inspected=(NotInspected(sentence="n"),),
        notes=(Note(path="p", sentence="s"),),
        seconds=0.25,
    )
    for sent in (
        ItemResult(node=NODE, entry=full, package=package(objects=4)),
        ItemResult(node=NODE, entry=entry(Outcome.ERROR, reason="x")),
    ):
        assert ItemResult.from_text(sent.to_text()) == sent


def test_a_package_neither_inspected_nor_failed_was_not_verified_which_what_broke_excuses() -> None:
    blind = entry(Outcome.NOT_INSPECTED, reason="no driver")
    unfit = entry(Outcome.NOT_APPLICABLE, reason="no ELF object")
    assert complaints(entry()) == complaints(entry(), blind) == []
    assert complaints(entry(Outcome.FAILED, inspected=0)) == []
    nothing = "demo-1.0.whl: nothing was verified"
    assert complaints() == [f"{nothing} (no check was selected for it)"]
    assert complaints(blind, unfit, unfit) == [f"{nothing} (no ELF object)"]  # most often
    broken, blind = entry(Outcome.ERROR, reason="no network"), entry(Outcome.NOT_INSPECTED)
    assert [each.excused for each in ledger(broken).complaints()] == [True]
    assert [each.excused for each in ledger(blind).complaints()] == [False]


def test_each_package_is_complained_of_by_itself() -> None:
    other = "elsewhere/other-2.0.whl"
    found = complaints(entry(), packages=(package(), package(other)))
    assert found == ["other-2.0.whl: nothing was verified (no check was selected for it)"]


def test_fewer_objects_than_expected_were_not_verified() -> None:
    (line,) = complaints(entry(), entry(), packages=(package(objects=0, expected_objects=1),))
    assert line.startswith("demo-1.0.whl: nothing was verified (0 object files, expected at least")
    assert "objects = 0" in line
    assert complaints(entry(), packages=(package(objects=2, expected_objects=1),)) == []
    assert complaints(entry(), packages=(package(objects=None, expected_objects=1),)) == []


def test_a_required_family_in_which_nothing_ran_is_complained_of() -> None:
    required = frozenset({"runtime", "linkage"})
    skipped = entry(Outcome.NOT_INSPECTED, family="runtime", reason="another platform")
    assert complaints(entry(), skipped, required=required) == [
        "--binary-require runtime: nothing ran (another platform)"
    ]
    assert complaints(entry(), required=frozenset({"runtime"})) == [
        "--binary-require runtime: nothing ran (no check was selected for it)"
    ]


def test_the_summary_counts_by_family() -> None:
    problem = Problem(sentence="b")
    found = ledger(
        entry(Outcome.FAILED, problems=(problem,)),
        entry(Outcome.ACCEPTED, accepted=(Accepted(problem=problem, reason="r"),)),
        entry(Outcome.NOT_APPLICABLE, family="runtime", reason="no modules"),
    )
    header, linkage, runtime, accepted, reason = summary(found)
    assert accepted.startswith("accepted: ")
    assert header.split("  ")[0] == "family"
    assert linkage.split() == ["linkage", "2", "3", "1", "1", "-", "-"]  # both saw the same 3
    assert runtime.split() == ["runtime", "-", "-", "-", "-", "1", "-"]
    assert reason == "not applicable: no modules (runtime)"


def test_what_does_not_apply_is_a_line_a_family_and_every_gap_its_own() -> None:
    found = ledger(
        *(entry(Outcome.NOT_APPLICABLE, family="cuda", reason=reason) for reason in "ba"),
        entry(Outcome.NOT_APPLICABLE, family="macos", reason="b"),
        *(entry(Outcome.NOT_INSPECTED, family="cuda", reason=reason) for reason in "dc"),
    )
    lines = [line for line in summary(found) if ":" in line]
    assert lines == [
        "not applicable: a (cuda)",
        "not applicable: b (cuda, macos)",
        "not inspected: c (cuda)",
        "not inspected: d (cuda)",
    ]
    alone = ledger(*(entry(Outcome.NOT_APPLICABLE, family="cuda", reason=each) for each in "ba"))
    assert summary(alone)[-1] == "not applicable: a; b (cuda)"


def test_the_summary_names_what_was_not_inspected_once() -> None:
    lines = summary(
        ledger(
            entry(not_inspected=(NotInspected(path="a.so", sentence="cut off"),)),
            entry(Outcome.NOT_INSPECTED, family="runtime", reason="no driver"),
            entry(Outcome.NOT_INSPECTED, family="symbols", reason="no driver"),
            entry(Outcome.ERROR, family="runtime", reason="pip broke"),
        )
    )
    assert lines[-3:] == [
        "error: pip broke (runtime)",
        "not inspected: a.so: cut off (linkage)",
        "not inspected: no driver (runtime, symbols)",
    ]


def test_the_summary_ends_with_the_notes_and_counts_none_of_them() -> None:
    notes = (Note(path="a.so", sentence="is chatty"), Note(sentence="was said"))
    _, row, *lines = summary(ledger(entry(notes=notes)))
    assert row.split() == ["linkage", "1", "3", "-", "-", "-", "-"]
    assert lines == ["note: demo-1.0.whl: a.so: is chatty", "note: demo-1.0.whl: was said"]


def test_a_gap_names_its_first_place_and_counts_the_rest() -> None:
    first, second = NotInspected(path="a", sentence="x"), NotInspected(sentence="y")
    assert summarise_gap(()) == ""
    assert summarise_gap((second,)) == "y"
    assert summarise_gap((first, second)) == "a: x (and 1 more)"


def test_a_reason_names_its_package_where_there_are_several() -> None:
    blind = entry(Outcome.NOT_INSPECTED, reason="no light")
    alone = ledger(blind)
    several = ledger(blind, packages=(package(), package("other.whl")))
    assert summary(alone)[-1] == "not inspected: no light (linkage)"
    assert summary(several)[-1] == "not inspected: demo-1.0.whl: no light (linkage)"

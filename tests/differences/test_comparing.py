"""How changes become lines, are accepted, and what is said of all that could not be compared."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from binary_checks.differences import compare, load_differences
from binary_checks.model import (
    Build,
    BuildComparison,
    DifferenceLine,
    Entry,
    Level,
    NotCompared,
    Outcome,
    Package,
    PackageResult,
    Problem,
    Severity,
    sum_up,
)
from binary_checks.profile import KnownProblem
from binary_checks.reports.build_differences import write_markdown, write_text
from binary_checks.reports.explanation import read_documentation
from fixtures.values import macho_file, member, wheel
from tests.differences.builds import build

TODAY = date(2026, 11, 22)
OLD = wheel(members=(member("demo/__init__.py"), member("demo/a.py"), member("demo/b.py")))
NEW = wheel(members=(member("demo/__init__.py"),))


def known(**fields: object) -> KnownProblem:
    return KnownProblem(**{"check": "import-names", "reason": "announced", **fields})


def compared(*waivers: KnownProblem, new: Package = NEW) -> BuildComparison:
    return compare(build(OLD), build(new), known=waivers, today=TODAY)


def test_an_entry_accepts_its_own_part_of_a_line() -> None:
    found = [(line.accepted, line.subjects) for line in compared(known(path="demo.a")).lines]
    assert found == [("announced", ("demo.a",)), ("", ("demo.b",))]


def test_an_entry_that_matches_nothing_or_has_expired_says_so() -> None:
    (stale,) = compared(known(path="demo.z")).complaints
    assert "matched nothing" in stale
    late = compared(known(expires=date(2026, 1, 1)))
    assert [line.accepted for line in late.lines] == [""]
    assert ["2 problems that it accepted remain" in each for each in late.complaints] == [True]


def test_every_difference_is_documented_and_takes_the_same_twice() -> None:
    for each in load_differences():
        assert read_documentation(each).title.endswith("."), each
        assert len(each.facts) == 2, each
        assert each.facts[0] == each.facts[1], each


def test_a_difference_that_breaks_is_not_compared() -> None:
    items = (macho_file("demo/a.so", minimum_os=each) for each in ("11.0", "no version"))
    old, new = (
        wheel("demo-1.0-cp311-cp311-macosx_11_0_arm64.whl", objects=(each,)) for each in items
    )
    (gap,) = compare(build(old), build(new)).not_compared
    assert (gap.difference, gap.reason[:34]) == (
        "lowest-macos",
        "this difference broke: ValueError:",
    )


def results(**outcomes: Outcome) -> PackageResult:
    entries = tuple(
        Entry(
            check=name,
            family="linkage",
            level=Level.ERROR,
            outcome=outcome,
            problems=(Problem(sentence="needs libx.so.1"),) if outcome is Outcome.FAILED else (),
        )
        for name, outcome in outcomes.items()
    )
    verdict = sum_up(outcomes.values())
    return PackageResult(
        node="demo.whl", file_name="demo.whl", uri="demo.whl", verdict=verdict, entries=entries
    )


def test_of_two_results_the_checks_that_fail_in_one_are_named() -> None:
    passed = build(results=results(missing=Outcome.PASSED), is_known=False)
    failed = build(results=results(missing=Outcome.FAILED), is_known=False)
    (broken,), (mended,) = (compare(*each).lines for each in ((passed, failed), (failed, passed)))
    assert (broken.severity, broken.text) == (
        Severity.BREAK,
        "missing: failed, previously passed: needs libx.so.1",
    )
    assert (mended.severity, mended.text) == (Severity.INFO, "missing: passed, previously failed")
    assert compare(passed, passed).lines == ()


def test_a_place_is_compared_with_itself() -> None:
    def ran(oldest: Outcome, newest: Outcome) -> Build:
        found = results(starts=oldest)
        entries = (
            replace(found.entries[0], place=f"image:{place}", outcome=outcome)
            for place, outcome in (("oldest", oldest), ("newest", newest))
        )
        return build(results=replace(found, entries=tuple(entries)), is_known=False)

    steady = ran(Outcome.FAILED, Outcome.PASSED)
    assert compare(steady, steady).lines == ()
    (line,) = compare(steady, ran(Outcome.FAILED, Outcome.FAILED)).lines
    assert (line.severity, line.text[:50]) == (
        Severity.BREAK,
        "starts[image:newest]: failed, previously passed: n",
    )


@pytest.mark.parametrize(
    ("was", "now", "severity"),
    [
        (Outcome.PASSED, Outcome.FAILED, Severity.BREAK),
        (Outcome.ACCEPTED, Outcome.FAILED, Severity.BREAK),
        (Outcome.ERROR, Outcome.FAILED, Severity.CHANGE),
        (Outcome.BROKEN, Outcome.FAILED, Severity.CHANGE),
        (Outcome.NOT_INSPECTED, Outcome.FAILED, Severity.CHANGE),
        (None, Outcome.FAILED, Severity.CHANGE),
        (Outcome.PASSED, Outcome.ERROR, Severity.CHANGE),
        (Outcome.PASSED, Outcome.BROKEN, Severity.CHANGE),
        (Outcome.FAILED, Outcome.ERROR, Severity.CHANGE),
        (Outcome.PASSED, Outcome.NOT_INSPECTED, Severity.CHANGE),
        (Outcome.FAILED, Outcome.PASSED, Severity.INFO),
        (None, Outcome.PASSED, None),
    ],
)
def test_only_a_failure_that_was_none_is_a_break(
    was: Outcome | None, now: Outcome, severity: Severity | None
) -> None:
    old, new = results(**({} if was is None else {"missing": was})), results(missing=now)
    lines = compare(build(results=old, is_known=False), build(results=new, is_known=False)).lines
    assert [line.severity for line in lines] == ([] if severity is None else [severity])


def test_gaps_of_either_side_are_named() -> None:
    gap = "its facts have no linkage"
    found = compare(build(OLD, gaps=(gap,)), build(OLD))
    assert found.not_compared == (NotCompared(subject="demo.whl", reason=gap),)


HOSTILE = BuildComparison(
    old="a.whl",
    new="b\n::error::.whl",
    lines=(
        DifferenceLine(
            difference="import-names",
            severity=Severity.BREAK,
            text="``<img src=x onerror=alert(1)>`` @everyone\x1b[2J: is gone",
        ),
    ),
    not_compared=(NotCompared(difference="exports", subject="x", reason="`not` read"),),
)


def test_names_drive_neither_terminals_nor_pages() -> None:
    text = "\n".join(write_text(HOSTILE))
    assert "\x1b" not in text
    assert "::error::" not in text
    assert len(text.splitlines()) == 3
    (line,) = (line for line in write_markdown(HOSTILE) if "img" in line)
    assert line.startswith("- `import-names` ``` ``<img")


def test_nothing_differs_in_one_line_nor_does_the_version_in_names_of_metadata() -> None:
    assert [*write_text(compare(build(OLD), build(OLD)))] == ["demo.whl -> demo.whl: no difference"]
    later = wheel("demo-2.0-cp311-cp311-manylinux_2_17_x86_64.whl", members=OLD.members)
    assert compare(build(OLD), build(later)).lines == ()

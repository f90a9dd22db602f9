"""What only the profile knows of a release: its day, its channel, the tags it is published for."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from binary_checks.checks.expected import (
    stale_nightly,
    unexpected_tag,
    unexpected_version_label,
)
from binary_checks.errors import NotApplicable
from binary_checks.model import NotInspected, Problem
from fixtures.values import only, wheel

PUBLISHED = r"cp3\d+-cp3\d+t?-(manylinux_2_28_x86_64|win_amd64)"


def nightly(days: int) -> str:
    day = datetime.now(timezone.utc).date() - timedelta(days=days)
    return f"demo-2.1.0.dev{day:%Y%m%d}+cpu-py3-none-any.whl"


@pytest.mark.parametrize(
    ("age", "options", "end"),
    [
        (-1, {"days": 3}, ""),
        (0, {"days": 3}, ""),
        (3, {}, ""),
        (4, {"days": 4}, ""),
        (4, {}, "4 days ago; 3 are allowed"),
        (5, {"days": 4}, "5 days ago; 4 are allowed"),
        (-3, {}, "3 days from now"),
    ],
)
def test_a_nightly_of_other_days_is_a_problem(age: int, options: dict[str, int], end: str) -> None:
    found = [each.sentence for each in stale_nightly(wheel(nightly(age)), **options)]
    assert [each.endswith(end) for each in found] == [True] * bool(end)


@pytest.mark.parametrize("number", ["1", "20261399", "0"])
def test_a_nightly_without_a_date_is_a_problem(number: str) -> None:
    assert list(stale_nightly(wheel(f"demo-1.0.dev{number}-py3-none-any.whl"))) == [
        Problem(sentence=f"its version is 1.0.dev{number}: .dev{number} is not a date")
    ]


def test_a_release_is_no_nightly() -> None:
    with pytest.raises(NotApplicable, match=r"2\.1\.0 is not a nightly"):
        list(stale_nightly(wheel("demo-2.1.0-py3-none-any.whl")))


@pytest.mark.parametrize(
    ("version", "expected", "fault"),
    [
        ("1.0+cpu", "cu132", "its version has the label +cpu, but +cu132 is expected"),
        ("1.0+cu1321", r"cu\d{3}", r"its version has the label +cu1321, but +cu\d{3} is expected"),
        ("1.0", "cpu", "its version has no label, but +cpu is expected"),
        ("1.0+cpu", "", "its version has the label +cpu, but none is expected"),
        ("1.0+cpu", "cpu|cu132", ""),
        ("1.0", "", ""),
    ],
)
def test_another_label_is_a_problem(version: str, expected: str, fault: str) -> None:
    package = wheel(f"demo-{version}-py3-none-any.whl")
    found = list(unexpected_version_label(package, expected=expected))
    assert found == ([Problem(sentence=fault)] if fault else [])


def test_each_tag_must_be_expected() -> None:
    package = wheel("demo-1.0-cp312-cp312-manylinux_2_28_x86_64.linux_x86_64.whl")
    found = only(Problem, unexpected_tag(package, expected=PUBLISHED))
    assert found.sentence.startswith("is tagged cp312-cp312-linux_x86_64, where ")
    published = wheel("demo-1.0-cp313-cp313t-win_amd64.whl")
    assert list(unexpected_tag(published, expected=PUBLISHED)) == []
    assert only(NotInspected, unexpected_tag(package))  # nothing is expected
    assert only(NotInspected, unexpected_version_label(package))

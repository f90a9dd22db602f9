"""Faults of a list that are found before it is published."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from binary_checks.fleet.known import lint_list
from binary_checks.fleet.night import Cell
from binary_checks.profile import read_known_list

NOW = datetime(2026, 11, 22, tzinfo=timezone.utc)
CELLS = (Cell(id="demo-3.13", project="demo", python="3.13"),)
CHECKS = ["missing-library", "absolute-search-path"]
HEAD = "issued = 2026-11-20\nvalid_until = 2026-12-20\n"
FINE = """
[[known_problems]]
check = "missing-library"
match = "libfoo.so.1"
reason = "comes with the driver"
owner = "gpu team"
issue = "https://example.org/7"
cells = "python=3.1*"
expires = 2026-12-15
"""


def lint(text: str, head: str = HEAD) -> list[str]:
    """A line for each fault, without the name of the list."""
    listed = read_known_list(f"{head}{text}".encode(), "k.toml")
    found = [*lint_list(listed, "k.toml", CHECKS, CELLS, NOW)]
    assert all(each.startswith("k.toml:") for each in found)
    return [each.removeprefix("k.toml:").lstrip() for each in found]


def test_a_list_with_nothing_amiss_has_no_line() -> None:
    assert lint(FINE) == []
    assert lint(FINE.replace("comes with the driver", "none of our users has the driver")) == []


@pytest.mark.parametrize(
    ("line", "instead", "said"),
    [
        ('owner = "gpu team"\n', "", "no owner"),
        ('issue = "https://example.org/7"\n', "", "no issue"),
        ("expires = 2026-12-15\n", "", "no expires"),
        ("2026-12-15", "2026-11-21", "it expired on 2026-11-21"),
        (
            "2026-12-15",
            "2027-02-23",
            "it expires in 93 days, on 2027-02-23; at most 92 are allowed",
        ),
        ("missing-library", "mising-library", "unknown check 'mising-library'; did you mean"),
        ('match = "libfoo.so.1"', 'path = "**"', "it accepts every problem of missing-library"),
        ("python=3.1*", "python=3.9", "cells 'python=3.9' matches no cell"),
        ("comes with the driver", "TODO: say why", "reason 'TODO: say why' is a placeholder"),
        ("comes with the driver", "to be filled in: why it is accepted", "is a placeholder"),
        ("comes with the driver", "...", "reason '...' is a placeholder"),
        ("gpu team", "tbd", "owner 'tbd' is a placeholder"),
        ("gpu team", " ", "no owner"),
        ("https://example.org/7", "N/A", "issue 'N/A' is a placeholder"),
    ],
)
def test_each_fault_is_a_line(line: str, instead: str, said: str) -> None:
    assert line in FINE
    (found,) = lint(FINE.replace(line, instead))
    assert found.startswith("5: known_problems[0]: ")
    assert said in found


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("valid_until = 2026-12-20\n", "'issued' is missing: "),
        ("issued = 2026-11-20\n", "'valid_until' is missing: "),
        ("issued = 2026-11-20\nvalid_until = 2026-11-21\n", "it was valid until 2026-11-21"),
        (HEAD.replace("11-20", "11-30"), "its issue date is 2026-11-30, which is in"),
    ],
)
def test_a_list_that_does_not_hold_is_said(head: str, said: str) -> None:
    (found,) = lint(FINE, head)
    assert found.startswith(said)


@pytest.mark.parametrize(
    ("changes", "repeats"),
    [
        ({}, True),
        ({"comes with": "ships with"}, True),
        ({"12-15": "12-16"}, True),
        ({"libfoo.so.1": "libbar"}, False),
        ({"missing-library": "absolute-search-path"}, False),
        ({"python=3.1*": "project=demo"}, False),
        ({"reason": 'package = "a*"\nreason'}, False),
    ],
)
def test_an_entry_that_accepts_nothing_else_than_another_is_said(
    changes: dict[str, str], repeats: bool
) -> None:
    other = FINE
    for old, new in changes.items():
        assert old in other
        other = other.replace(old, new)
    said = "14: known_problems[1]: entry 0 accepts the same problems: remove one"
    assert lint(FINE + other) == [said] * repeats

"""A written list of known problems, read back, accepts the problems of its run and no others."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binary_checks.model import Entry, Outcome, PackageResult, Problem, RunResult
from binary_checks.profile import FOLLOW_UP, KnownProblem, accept, parse_toml, read_known_problems
from binary_checks.reports import known_list
from fixtures.runs import PROFILE, package_result

TODAY = date(2026, 11, 22)
EVIL = "\x1b[31m\n::error::\u202e\"'\\\x00\x7f[*?]\U000e0100"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from([*EVIL]), max_size=8)
FACTS = st.lists(TEXTS, max_size=2).map(tuple)
PROBLEMS = st.builds(Problem, path=TEXTS, sentence=st.just("sentence"), facts=FACTS)
NAMES = st.sampled_from(
    [
        "demo-1.0-cp311-cp311-linux_x86_64.whl",
        "demo-2.0-cp311-cp311-linux_x86_64.whl",
        "demo-1.0-cp312-cp312-linux_x86_64.whl",
        "demo-1.0-h1_0.conda",
        "installed:demo",
        "[*]-1.0-py3-none-any.whl",
    ]
)


def package(file_name: str, *problems: Problem, check: str = "a-check") -> PackageResult:
    entry = Entry(
        check=check, family="linkage", outcome=Outcome.FAILED, inspected=1, problems=problems
    )
    return package_result(file_name, entry, file_name=file_name)


def read(text: str) -> tuple[KnownProblem, ...]:
    return read_known_problems(parse_toml(text.encode(), "k").get("known_problems", []), "k")


def write(*packages: PackageResult, today: date = TODAY) -> str:
    out = io.StringIO()
    known_list.write_entries(packages, out, today)
    return out.getvalue()


def accepted(known: tuple[KnownProblem, ...], name: str, problem: Problem) -> bool:
    return any(accept([problem], [each for each in known if each.selects(name)], TODAY))


@given(
    found=st.dictionaries(NAMES, st.lists(PROBLEMS, max_size=3, unique=True), min_size=1),
    others=st.lists(PROBLEMS, max_size=3),
)
def test_read_back_it_accepts_exactly_these(
    found: dict[str, list[Problem]], others: list[Problem]
) -> None:
    known = read(write(*(package(name, *problems) for name, problems in found.items())))
    for name, problems in found.items():
        for problem in (*problems, *others, *(each for few in found.values() for each in few)):
            spoken_of = any((problem.path, problem.facts) == (p.path, p.facts) for p in problems)
            reworded = replace(problem, sentence="in other words")
            assert accepted(known, name, reworded) == spoken_of


@pytest.mark.parametrize(
    ("today", "expires"),
    [
        (date(2026, 11, 22), date(2027, 2, 22)),
        (date(2026, 10, 5), date(2027, 1, 5)),
        (date(2026, 11, 30), date(2027, 2, 28)),
        (date(2026, 9, 30), date(2026, 12, 28)),
    ],
)
def test_it_expires_three_months_later(today: date, expires: date) -> None:
    (known,) = read(write(package("demo-1.0-py3-none-any.whl", Problem(sentence="x")), today=today))
    assert known.expires == expires
    assert not known.has_expired(expires)
    assert known.has_expired(expires + timedelta(days=1))


def test_the_next_version_of_a_wheel_is_covered_too() -> None:
    (known,) = read(write(package("demo-1.0-cp311-cp311-linux_x86_64.whl", Problem(sentence="x"))))
    assert known.package == "demo-*-cp311-cp311-linux_x86_64.whl"
    assert not known.selects("demo_more-1.0-cp311-cp311-linux_x86_64.whl")


def test_nothing_that_drives_a_terminal_stands_in_it_as_it_is() -> None:
    evil = Problem(path=EVIL, sentence=EVIL, facts=(EVIL, ""))
    text = write(package("demo-1.0-py3-none-any.whl", evil))
    assert all(char.isprintable() or char == "\n" for char in text)
    (known,) = read(text)
    assert known.facts == (EVIL, "")


def test_a_comment_says_what_the_problem_is() -> None:
    problem = Problem(path="a.so", sentence="needs\nlibfoo.so.1", facts=("libfoo.so.1",))
    text = write(package("demo-1.0-py3-none-any.whl", problem))
    assert text.startswith("\n# needs\\nlibfoo.so.1\n[[known_problems]]\ncheck")
    assert '\nfacts = ["libfoo.so.1"]\n' in text
    assert "match" not in text


def test_what_cannot_be_accepted_is_not_in_it() -> None:
    unreadable = Entry(
        check="unreadable-package",
        family="contents",
        outcome=Outcome.FAILED,
        reason="unreadable-package",
        problems=(Problem(sentence="truncated"),),
    )
    stale = Problem(sentence="known problem 'x' matched nothing", cause=f"{FOLLOW_UP}k[0]")
    warned = Entry(
        check="b-check",
        family="linkage",
        outcome=Outcome.WARNED,
        warnings=(Problem(sentence="unusual"),),
    )
    packages = [package_result("bad.whl", unreadable, warned), package("demo.whl", stale)]
    assert write(*packages) == ""


def test_an_empty_list_can_be_read() -> None:
    out = io.StringIO()
    known_list.write(RunResult(exit_code=0, profile=PROFILE), out)
    assert read(out.getvalue()) == ()

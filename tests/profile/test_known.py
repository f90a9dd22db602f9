"""Entries of known problems: the problems they accept, and reports on entries that match
nothing.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import pytest

from binary_checks.errors import ProfileError
from binary_checks.model import Level, Problem
from binary_checks.profile import (
    KnownProblem,
    Profile,
    accept,
    find_expired,
    find_identity,
    find_stale,
    format_cell,
    load_known_list,
    read_cell,
    read_condition,
    read_known_list,
    validate,
)

TODAY = date(2026, 11, 22)
ONE = Problem(path="demo/a.so", sentence="needs liba.so.1", facts=("liba.so.1",))
OTHER = Problem(path="demo/b.so", sentence="needs liba.so.1", level=Level.WARNING)


def known(**fields: object) -> KnownProblem:
    return KnownProblem(**{"check": "c", "reason": "issue 7", "listed": "k.toml[0]", **fields})  # type: ignore[arg-type]


def test_an_accepted_problem_says_until_when() -> None:
    (found,) = accept([ONE, OTHER], [known(path="*/a.so", expires=TODAY)], TODAY)
    assert (found.problem, found.reason, found.expires) == (ONE, "issue 7", "2026-11-22")


def test_of_several_entries_the_one_with_path_and_facts_is_named() -> None:
    exact = known(reason="this one", path=ONE.path, facts=ONE.facts)
    (found,) = accept([ONE], [known(reason="all of them"), exact], TODAY)
    assert found.reason == "this one"


def test_an_entry_with_facts_accepts_no_other_problem_of_the_path() -> None:
    entry = known(path=ONE.path, facts=ONE.facts)
    others = [
        replace(ONE, facts=("libb.so.1",)),
        replace(ONE, facts=(*ONE.facts, "libb.so.1")),
        replace(ONE, facts=()),
        replace(ONE, path="demo/b.so"),
    ]
    reworded = replace(ONE, sentence="lacks liba.so.1")
    assert [each.problem for each in accept([*others, reworded], [entry], TODAY)] == [reworded]
    assert [*find_stale([entry], [reworded])] == []
    assert len([*find_stale([entry], others)]) == 1


@pytest.mark.parametrize(
    "path", ["", "demo/*.so", "demo/[ab].so", "demo/[[]x].so", "[*]", "[?][[]"]
)
@pytest.mark.parametrize("facts", [None, (), ("liba.so.1",)])
def test_what_is_looked_up_is_what_is_covered(path: str, facts: tuple[str, ...] | None) -> None:
    entry = known(path=path, facts=facts)
    paths = ["", "demo/a.so", "demo/[x].so", "*", "?[", "demo/[ab].so"]
    given = [
        Problem(path=each, sentence="s", facts=some)
        for each in paths
        for some in ((), ("liba.so.1",), ("libb.so.1",))
    ]
    covered = sorted(filter(entry.covers, given))
    assert [each.problem for each in accept(given, [entry], TODAY)] == covered
    assert (find_identity(entry) is not None) == (facts is not None and path not in _GLOBS)


_GLOBS = {"demo/*.so", "demo/[ab].so"}


def test_a_long_list_is_matched_by_looking_up() -> None:
    problems = [Problem(path=f"{n}.so", sentence="s", facts=("x",)) for n in range(5_000)]
    entries = [known(path=each.path, facts=each.facts) for each in problems]
    assert len([*accept(problems, entries, TODAY)]) == 5_000
    assert [*find_stale(entries, problems)] == []
    old = [replace(each, expires=date(2026, 11, 21)) for each in entries]
    assert len([*find_expired(old, problems, TODAY)]) == 5_000


def test_an_expired_entry_says_what_is_still_there_and_matters_no_more_than_that() -> None:
    (found,) = find_expired([known(expires=date(2026, 11, 21))], [ONE, OTHER], TODAY)
    assert found.sentence == (
        "known problem 'issue 7' expired on 2026-11-21, but 2 problems that it accepted remain; "
        "fix the problem, or renew the entry (k.toml[0])"
    )
    assert found.level is Level.ERROR
    (found,) = find_expired([known(expires=date(2026, 11, 21))], [OTHER], TODAY)
    assert "1 problem that it accepted remains" in found.sentence
    assert found.level is Level.WARNING


def test_an_expired_entry_whose_problem_is_gone_is_stale() -> None:
    old = known(path="demo/gone.so", expires=date(2026, 11, 21))
    assert list(find_expired([old], [ONE], TODAY)) == []
    (found,) = find_stale([old, known()], [ONE])
    assert found.sentence == (
        "known problem 'issue 7' for demo/gone.so matched nothing; remove it (k.toml[0])"
    )


def test_a_list_that_is_a_folder_or_gone_or_without_end_is_one_line(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "gone.toml"):
        with pytest.raises(ProfileError, match="known problems k: "):
            load_known_list(path, "k")
    with (tmp_path / "known.toml").open("wb") as file:
        file.truncate((16 << 20) + 1)
    with pytest.raises(ProfileError, match="more than 16,777,216 bytes"):
        load_known_list(tmp_path / "known.toml", "known.toml")


def test_an_entry_for_some_cells_holds_in_these_alone() -> None:
    condition = read_condition("variant=cu* python=3.1?", "cells")
    some, every = known(cells=condition), known()
    held = read_cell("python=3.13 variant=cu126", "--binary-cell")
    assert some.holds_in(held)
    assert not some.holds_in(read_cell("python=3.13 variant=cpu", "--binary-cell"))
    assert not some.holds_in(read_cell("python=3.13", "--binary-cell"))
    assert not some.holds_in(None)
    assert every.holds_in(held)
    assert every.holds_in(None)


def test_a_cell_is_spelled_as_it_is_read() -> None:
    cell = read_cell(" variant=cu126  id=demo-cu126 ", "--binary-cell")
    assert format_cell(cell) == "id=demo-cu126,variant=cu126"
    assert read_cell(format_cell(cell), "--binary-cell") == cell


@pytest.mark.parametrize("text", ["", "python", "python=", "=3", "pythn=3", "python=3 python=4"])
def test_what_names_no_cell_is_refused(text: str) -> None:
    with pytest.raises(ProfileError, match=r"^--binary-cell: "):
        read_cell(text, "--binary-cell")


def test_an_entry_of_a_list_that_others_share_need_not_match_here() -> None:
    assert list(find_stale([known(is_shared=True)], [])) == []
    assert len(list(find_stale([known()], []))) == 1


ENTRY = b"[[known_problems]]\ncheck = 'c'\nreason = 'r'\n"


def test_a_list_says_when_it_was_issued_and_how_long_it_is_valid() -> None:
    found = read_known_list(
        b"issued = 2026-11-20\nvalid_until = 2026-11-30T12:00:00+02:00\n" + ENTRY, "k.toml"
    )
    assert (found.issued, found.valid_until) == ("2026-11-20", "2026-11-30T12:00:00+02:00")
    assert found.entries[0].is_shared
    last = datetime(2026, 11, 30, 10, tzinfo=timezone.utc)
    assert found.find_fault(last) == ""
    assert found.find_fault(last + timedelta(seconds=1)) == (
        "it was valid until 2026-11-30T12:00:00+02:00"
    )
    assert not read_known_list(ENTRY, "k.toml").entries[0].is_shared


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[[known_problems]\n", "not TOML: Expected "),
        (b"\xff", "not TOML: 'utf-8' codec can't decode"),
        (b"objects = 1\n", "unknown key 'objects'"),
        (b"known_problem = []\n", "unknown key 'known_problem'; did you mean 'known_problems'?"),
        (b"known_problems = 1\n", "known_problems: 1 is not an array of tables"),
        (b"known_problems = [1]\n", "known_problems[0]: not a table"),
        (b"[[known_problems]]\ncheck = 'c'\n", "known_problems[0]: 'reason' is missing"),
        (
            b"[[known_problems]]\ncheck = 'c'\nreason = 'r'\nexpiry = 1\n",
            "known_problems[0]: unknown key 'expiry'; did you mean 'expires'?",
        ),
        (
            b"[[known_problems]]\ncheck = 'c'\nreason = 'r'\nlisted = 'x'\n",
            "known_problems[0]: unknown key 'listed'",
        ),
        (
            b"[[known_problems]]\ncheck = 'c'\nreason = 'r'\nexpires = 'soon'\n",
            "known_problems[0]: expires: 'soon' is not a date",
        ),
        (b"issued = 'today'", "issued: 'today' is not a date"),
        (b"issued = 2026-11-20T10:00:00", "issued: 2026-11-20T10:00:00 has no offset from UTC"),
        (b"valid_untill = 2026-11-20", "unknown key 'valid_untill'; did you mean 'valid_until'?"),
        (b"valid_until = 10:00:00", "valid_until: datetime.time(10, 0) is not a date"),
        (
            b"issued = 2026-11-20\nvalid_until = 2026-11-19",
            "valid_until: 2026-11-19 is before the issue date, 2026-11-20",
        ),
        (ENTRY + b"cells = 'variants=cu*'", "known_problems[0]: cells: unknown axis 'variants'"),
        (ENTRY + b"cells = ''", "known_problems[0]: cells: no AXIS=GLOB"),
        (ENTRY + b"owner = 1", "known_problems[0]: owner: 1 is not a str"),
        (ENTRY + b"is_shared = true", "known_problems[0]: unknown key 'is_shared'"),
    ],
)
def test_a_list_that_cannot_be_followed_is_one_line(text: bytes, said: str) -> None:
    with pytest.raises(ProfileError) as refusal:
        read_known_list(text, "k.toml")
    assert re.match(rf"k\.toml(:\d+)?: {re.escape(said)}", str(refusal.value))


@pytest.mark.parametrize(
    "bomb",
    [
        b"a" + b".a" * 100_000 + b" = 1",
        b"[" + b"'a' . " * 100_000 + b"a]",
        b"a = " + b"[" * 100_000,
        b"a = " + b"{a = " * 100_000,
        b"a = " + b"9" * 100_000,
        b"a" * 1_000_000,
        b'"' + b"a." * 500_000,
    ],
)
def test_a_bomb_is_one_line_at_once(bomb: bytes) -> None:
    with pytest.raises(ProfileError, match=r"^k\.toml: (not TOML: |unknown key 'a')"):
        read_known_list(bomb, "k.toml")


def test_an_entry_of_a_shared_list_may_be_of_a_check_that_there_is_elsewhere_alone() -> None:
    shared = Profile(known_problems=(known(check="of-1.9", is_shared=True),))
    assert validate(shared, []).foreign == ("of-1.9",)
    with pytest.raises(ProfileError, match=r"unknown check 'of-1\.9'"):
        validate(Profile(known_problems=(known(check="of-1.9"),)), [])

"""Known problems stay known when checks word their sentences differently."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from binary_checks import check as a_check
from binary_checks import examine, judge
from binary_checks.documents.json_values import decoder, encode
from binary_checks.examination import judging
from binary_checks.model import Entry, Note, NotInspected, Outcome, Package, Problem
from binary_checks.reports import known_list
from fixtures.archive_entries import Entry as Member
from fixtures.build_elf import build_elf
from fixtures.build_wheel import build_wheel
from fixtures.runs import package_result

FAULTS: dict[str, bytes | str | Member] = {
    "demo/__init__.py": "",
    "demo/_one.so": build_elf(needed=("liba.so.1", "libb.so.2"), runpath="/tmp/build:/opt/demo"),
    "demo/_two.so": build_elf(needed=("liba.so.1", "../libc/x.so")),
    "demo/cache.pyc": b"",
    "demo/.git/config": "",
    "Demo/__init__.py": "",
}


def write_faulty(folder: Path) -> Path:
    """Write a wheel with several problems of one check and path."""
    return build_wheel(
        folder,
        members=FAULTS,
        requires=("demo >= <", "other @ https://example.org/o.whl", "x; extra == 'a'", "y ==="),
        record_changes={"demo/__init__.py": "md5=x,99", "demo/gone.py": "sha256=x,1"},
        entry_points="[console_scripts]\nrun = demo:run\nwalk = demo:walk\n",
        extra_entries=(Member("demo/cache.pyc", b"again"),),
    )


def list_problems(path: Path, profile: Path | None = None) -> dict[str, tuple[Problem, ...]]:
    with examine(path, profile=profile) as examination:
        verdicts = judge(examination)
    found = {each.check: (*each.problems, *each.warnings) for each in verdicts}
    return {check: problems for check, problems in found.items() if problems}


def accept_all(path: Path, found: dict[str, tuple[Problem, ...]], folder: Path) -> Path:
    """Write a profile that accepts these problems."""
    entries = [
        Entry(check=check, family="f", outcome=Outcome.FAILED, inspected=1, problems=problems)
        for check, problems in found.items()
    ]
    out = io.StringIO()
    known_list.write_entries([package_result(path.name, *entries)], out, date.today())
    profile = folder / "own.toml"
    profile.write_text(out.getvalue(), encoding="utf-8")
    return profile


def reword(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every check say everything in other words, which sort the other way round."""
    complete = judging._complete

    def say_otherwise(finding: object, path: str) -> Problem | NotInspected | Note:
        said = complete(finding, path)  # type: ignore[arg-type]
        letters = (chr(max(32, 126 - ord(each) % 95)) for each in said.sentence)
        return replace(said, sentence=f"reworded {''.join(letters)}")

    monkeypatch.setattr(judging, "_complete", say_otherwise)


def test_what_was_accepted_stays_so_when_every_sentence_is_worded_differently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_faulty(tmp_path)
    found = list_problems(path)
    assert sum(map(len, found.values())) >= 15
    profile = accept_all(path, found, tmp_path)
    assert list_problems(path, profile) == {}
    reword(monkeypatch)
    assert list_problems(path, profile) == {}


def test_every_entry_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_faulty(tmp_path)
    found = list_problems(path)
    reword(monkeypatch)
    for check, problems in found.items():
        fewer = {**found, check: problems[1:]}
        left = list_problems(path, accept_all(path, fewer, tmp_path))
        assert {name: len(each) for name, each in left.items()} == {check: 1}


def test_no_two_problems_of_a_check_have_the_same_path_and_facts(tmp_path: Path) -> None:
    for check, problems in list_problems(write_faulty(tmp_path)).items():
        assert len({(each.path, each.facts) for each in problems}) == len(problems), check
        numbered = [each for each in problems if any(fact.startswith("#") for fact in each.facts)]
        assert numbered == []


@a_check
def vague(package: Package) -> Iterator[str]:
    """A check of a user, which gives no facts."""
    del package
    yield from ("one is odd", "another is odd")


def test_problems_that_no_fact_tells_apart_are_numbered(tmp_path: Path) -> None:
    with examine(write_faulty(tmp_path), checks=[vague]) as examination:
        (verdict,) = (each for each in judge(examination) if each.check == "vague")
    told = {each.sentence: each.facts for each in verdict.problems}
    assert told == {"another is odd": (), "one is odd": ("#2",)}


def test_a_result_document_keeps_facts(tmp_path: Path) -> None:
    found = list_problems(write_faulty(tmp_path))
    known = [each for problems in found.values() for each in problems if each.facts]
    assert known
    assert all(decoder(Problem)(encode(each)).facts == each.facts for each in known)

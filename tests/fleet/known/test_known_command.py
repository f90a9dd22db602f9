"""`binary-checks known`: expire and lint, on nights whose truth is known."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import pytest

from binary_checks.command import main
from binary_checks.fleet.known import LONG
from binary_checks.fleet.page.night_reading import open_night
from binary_checks.fleet.page.remarks import REMOVABLE, UNMATCHED
from binary_checks.fleet.store import frozen_name, open_store, plan_name
from binary_checks.fleet.stored_nights import read_plan, write_plan
from binary_checks.profile import read_known_list
from fixtures.fleet.nights import Nights, make_nights
from fixtures.fleet.script_of_nights import ROLES

pytest.importorskip("duckdb")
LATER = datetime.now(timezone.utc).date() + timedelta(days=30)
HEAD = "# ours\nissued = 2026-11-01\n"


def entry(match: str, cells: str, expires: date = LATER) -> str:
    return (
        f'\n# about {match}\n[[known_problems]]\ncheck = "missing-library"\nmatch = "{match}"\n'
        f'cells = "{cells}"\nreason = "{match} comes later"\nexpires = {expires}\n'
    )


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nights]:
    """Six nights that were judged by one list; in each a cell has a known problem with libfoo."""
    found = make_nights(tmp_path_factory.mktemp("store") / "store", cells=8, nights=6)
    content = listed(found).encode()
    digest = hashlib.sha256(content).hexdigest()
    for night in found.nights:
        path = found.folder / plan_name(night)
        path.write_bytes(
            write_plan(replace(read_plan(path.read_bytes(), "plan"), known_sha256=digest))
        )
        frozen = found.folder / frozen_name(night, digest)
        frozen.parent.mkdir(exist_ok=True)
        frozen.write_bytes(content)
    yield found


def listed(found: Nights) -> str:
    cell = f"id={found.cell(ROLES.known)}"
    return HEAD + "".join(
        (
            entry("libfoo", cell),
            entry("libbar", cell),
            entry("libqux", "kind=wheel"),  # also of cells that were lost in one of these nights
            entry("libold", cell, date(2026, 11, 1)),
        )
    )


def expire(path: Path, *options: str) -> int:
    return main(["known", "expire", str(path), *options])


def test_what_matched_nothing_for_five_nights_and_what_expired_goes_as_the_page_says(
    nights: Nights, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "known.toml"
    path.write_text(listed(nights))
    assert expire(path, "--store", str(nights.folder)) == 0
    printed = capfd.readouterr()
    left = read_known_list(printed.out.encode(), "printed").entries
    assert [each.match for each in left] == ["libfoo", "libqux"]
    assert "# about libfoo" in printed.out
    assert "# about libbar" not in printed.out
    assert printed.err.splitlines() == [
        "binary-checks: known expire: known_problems[1], missing-library: libbar comes later: "
        f"matched nothing for {LONG} nights",
        "binary-checks: known expire: known_problems[3], missing-library: libold comes later: "
        "expired on 2026-11-01",
        "binary-checks: known expire: 2 of 4 entries removed; set issued and valid_until before "
        "you publish it",
    ]
    assert path.read_text() == listed(nights)
    with open_night(str(nights.folder)) as view:
        notes = view.notes  # of the page
    assert notes[REMOVABLE] == ["missing-library: libbar comes later"]
    assert UNMATCHED not in notes


def test_without_closed_nights_only_dates_decide_and_the_file_is_replaced_whole(
    nights: Nights, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, link = tmp_path / "known.toml", tmp_path / "link.toml"
    path.write_text(listed(nights))
    path.chmod(0o640)
    link.symlink_to(path)
    store = open_store(str(tmp_path / "store"), make=True)
    assert expire(path, "--store", store.url) == 0
    printed = capfd.readouterr()
    assert "no night is closed, so only dates decide" in printed.err
    assert expire(link, "--write") == 0
    assert capfd.readouterr().out == ""
    assert path.read_text() == printed.out
    left = read_known_list(path.read_bytes(), "k").entries
    assert [each.match for each in left] == ["libfoo", "libbar", "libqux"]
    assert path.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["known.toml", "link.toml", "store"]


def test_lint_says_a_line_for_each_fault_and_nothing_amiss_for_none(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "known.toml"
    fine = entry("libfoo", "project=demo") + 'owner = "\u202eme"\nissue = "https://x/7"\n'
    path.write_text(f"issued = 2026-11-01\nvalid_until = {LATER}\n{fine}", encoding="utf-8")
    (tmp_path / "cells.toml").write_text('[[cells]]\nproject = "demo"\n')
    cells = ("--cells", str(tmp_path / "cells.toml"))
    assert main(["known", "lint", str(path), *cells]) == 0
    assert capfd.readouterr().out == f"{path}: nothing wrong in 1 known problem\n"
    path.write_text(path.read_text().replace("project=demo", "project=other"))
    assert main(["known", "lint", str(path), *cells]) == 1
    said = "known_problems[0]: cells 'project=other' matches no cell"
    assert capfd.readouterr().out == f"{path}:6: {said}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[known_problems]]\ncheck = 'c'\n", "known_problems[0]: 'reason' is missing"),
        ("\x00", "not TOML: "),
        ("a" + ".a" * 100_000 + " = 1", "not TOML: too deeply nested"),
    ],
)
def test_a_list_that_cannot_be_read_is_one_line_of_lint(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    path = tmp_path / "known.toml"
    path.write_text(text)
    assert main(["known", "lint", str(path)]) == 1
    (line,) = capfd.readouterr().out.splitlines()
    assert line.startswith(f"{path}:")
    assert said in line


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["expir"], 4, "expir: not an action; did you mean expire?"),
        (["lint", "gone.toml"], 4, "known problems gone.toml: No such file"),
        (["expire", ".", "--write"], 4, "not a regular file: it cannot be replaced"),
        (["expire", "{list}", "--store", "gone"], 6, "gone: not a store"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    status: int,
    said: str,
) -> None:
    path = tmp_path / "known.toml"
    path.write_text(HEAD)
    given = [each.format(list=path) for each in arguments]
    assert main(["known", *given]) == status
    (line,) = capfd.readouterr().err.splitlines()
    assert said in line

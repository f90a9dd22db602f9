"""Known problems on the page: those that expire soon, and those without a match."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binary_checks.fleet.night import NightPlan
from binary_checks.fleet.page.remarks import (
    EXPIRING,
    LIST,
    UNMATCHED,
    review_waivers,
)
from binary_checks.fleet.store import Store, frozen_name, open_store, plan_name, result_name
from binary_checks.fleet.stored_nights import read_attempt, read_plan, write_attempt
from binary_checks.model import CellState
from fixtures.fleet.nights import Nights, make_nights
from fixtures.fleet.script_of_nights import ROLES

pytest.importorskip("duckdb")
KNOWN = """
[[known_problems]]
check = "missing-library"
reason = "libfoo comes with the driver"
match = "libfoo.so.1"
expires = 2026-11-25
"""
OTHER = """
[[known_problems]]
check = "missing-library"
reason = "libbar comes with the driver"
match = "libbar"
"""


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    return make_nights(tmp_path_factory.mktemp("store") / "store", cells=8, nights=2)


def review(
    found: Nights, known: str, *, judged: bool = True, whole: bool = True, **changes: Any
) -> dict[str, list[str]]:
    """What is said of a list, after a night whose cells were all judged, or were not."""
    store = open_store(str(found.folder))
    made = replace(plan(store, found.tonight, known), **changes)
    return review_waivers(store, made, {found.tonight: rows(found, judged=judged)}, whole=whole)


def plan(store: Store, night: str, known: str) -> NightPlan:
    digest = hashlib.sha256(known.encode()).hexdigest()
    store.create(frozen_name(night, digest), known.encode())
    made = read_plan(store.read(plan_name(night)) or b"", "plan.json")
    return replace(made, known_sha256=digest)


def rows(found: Nights, *, judged: bool) -> dict[str, tuple[int, bool]]:
    """All cells of the last night: one with a known problem, and others that pass, or are lost."""
    content = open_store(str(found.folder)).read(plan_name(found.tonight)) or b""
    known = found.cell(ROLES.known)
    cells = [each.cell.id for each in read_plan(content, "plan.json").cells]
    return {cell: (int(cell == known), judged or cell == known) for cell in cells}


def test_an_entry_that_ends_within_a_week_is_named(nights: Nights) -> None:
    said = "missing-library until 2026-11-25: libfoo comes with the driver"
    assert review(nights, KNOWN) == {EXPIRING: [said]}


def test_one_that_ends_later_or_has_ended_is_not(nights: Nights) -> None:
    for day in ("2026-11-28", "2026-11-19"):
        assert review(nights, KNOWN.replace("2026-11-25", day)).get(EXPIRING) is None


def test_an_entry_that_accepted_nothing_is_named_where_all_cells_were_judged(
    nights: Nights,
) -> None:
    said = "missing-library: libbar comes with the driver"
    assert review(nights, OTHER) == {UNMATCHED: [said]}
    owned = OTHER + 'owner = "gpu team"\nissue = "https://example.org/7"\n'
    assert review(nights, owned) == {UNMATCHED: [f"{said} (gpu team, https://example.org/7)"]}
    assert review(nights, OTHER, judged=False) == {}
    assert review(nights, OTHER, whole=False) == {}  # of one project alone


def test_an_entry_that_only_the_first_stage_of_a_cell_with_a_gpu_needs_does_match(
    tmp_path: Path,
) -> None:
    found = make_nights(tmp_path / "store", cells=8, nights=2)
    store, cell = open_store(str(found.folder)), found.cell(ROLES.known)
    first = store.read(result_name(found.tonight, cell, "cpu", 1)) or b""
    second = replace(read_attempt(first, "cpu1"), stage="gpu", state=CellState.PASSED)
    assert second.result is not None
    second = replace(second, result=replace(second.result, packages=()))
    store.create(result_name(found.tonight, cell, "gpu", 1), write_attempt(second))
    made = plan(store, found.tonight, KNOWN)
    cells = tuple(replace(each, cell=replace(each.cell, gpu=True)) for each in made.cells)
    assert UNMATCHED not in review(found, KNOWN, cells=cells)


def test_a_result_that_cannot_be_read_leaves_it_open_what_matches(tmp_path: Path) -> None:
    found = make_nights(tmp_path / "store", cells=8, nights=2)
    path = found.folder / result_name(found.tonight, found.cell(ROLES.known), "cpu", 1)
    path.write_bytes(b"{")
    news = review(found, OTHER)
    assert UNMATCHED not in news
    assert news[LIST][0].startswith("It is unknown which known problems have no match: ")
    path.unlink()
    assert "one of its results is missing" in review(found, OTHER)[LIST][0]


def test_a_list_that_cannot_be_read_or_is_a_copy_is_said(nights: Nights) -> None:
    assert "cannot be read" in review(nights, "[[known_problems]]\ncheck = 1")[LIST][0]
    assert review(nights, KNOWN, known_complaint="out of date") == {LIST: ["out of date"]}
    copied = {"known_source": "https://x/k.toml", "known_remark": "answers 500; the copy"}
    assert review(nights, KNOWN, **copied)[LIST] == ["https://x/k.toml: answers 500; the copy"]


def test_an_entry_of_other_cells_matches_nothing_though_it_covers_the_problem(
    nights: Nights,
) -> None:
    said = "missing-library: libfoo comes with the driver"
    for cells, unmatched in (("python=3.99", [said]), ("project=*", [])):
        assert review(nights, f'{KNOWN}cells = "{cells}"\n').get(UNMATCHED, []) == unmatched


def test_a_list_that_ends_within_a_week_is_said(nights: Nights) -> None:
    said = "the whole list is valid until 2026-11-27"
    assert review(nights, f"valid_until = 2026-11-27\n{KNOWN}")[EXPIRING][0] == said
    assert said not in review(nights, f"valid_until = 2026-11-28\n{KNOWN}")[EXPIRING]

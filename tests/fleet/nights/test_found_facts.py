"""A cell's facts in a store: those of one night, or of the last good one."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.command import main
from binary_checks.errors import ProfileError, StoreError
from binary_checks.fleet.store import open_store
from binary_checks.fleet.stored_nights import find_cell_facts, read_found
from binary_checks.model import CellState
from fixtures.fleet.nights import Nights, make_nights
from fixtures.fleet.script_of_nights import ROLES


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    return make_nights(tmp_path_factory.mktemp("store"), cells=8, nights=6, tables=False)


def good_nights(nights: Nights, cell: str) -> list[str]:
    good = (CellState.PASSED, CellState.KNOWN)
    return [night for night in nights.nights if nights.states[night][cell] in good]


def test_without_a_night_it_is_the_last_good_one_also_before_another(nights: Nights) -> None:
    store = open_store(str(nights.folder))
    for each in nights.cells:
        cell = each.id
        good = good_nights(nights, cell)
        if good:
            assert find_cell_facts(store, cell).night == good[-1]
            assert read_found(store, find_cell_facts(store, cell)).package.objects
    broken = nights.cell(ROLES.breaks_tonight)
    found = find_cell_facts(store, broken, before=nights.tonight)
    assert found.night == [n for n in good_nights(nights, broken) if n < nights.tonight][-1]
    assert find_cell_facts(store, broken, nights.tonight).night == nights.tonight


def test_what_is_not_there_is_said_in_one_line(nights: Nights) -> None:
    store = open_store(str(nights.folder))
    with pytest.raises(ProfileError, match="no night has a cell no-such-cell"):
        find_cell_facts(store, "no-such-cell")
    with pytest.raises(StoreError, match="no night 2001-01-01"):
        find_cell_facts(store, nights.cell(0), "2001-01-01")
    with pytest.raises(StoreError, match="has no cell no-such-cell"):
        find_cell_facts(store, "no-such-cell", nights.tonight)


def test_the_command_compares_nights(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    cell = nights.cell(ROLES.breaks_tonight)
    sides = (f"store:{cell}", f"store:{cell}@{nights.tonight}")
    assert main(["nightly", "show", cell, "--store", str(nights.folder)]) == 0
    shown = capsys.readouterr().out
    assert f"  diff     binary-checks diff {' '.join(sides)} --store {nights.folder}\n" in shown
    assert main(["diff", *sides, "--store", str(nights.folder)]) == 0
    assert " -> " in capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize(
    ("side", "status", "sentence"),
    [
        ("store:", 4, "no cell"),
        ("store:a@yesterday", 4, "store:a@DATE: 'yesterday': not a date"),
        ("store:a@2001-01-01", 6, "no night 2001-01-01"),
        ("store:a", 4, "no night has a cell a"),
    ],
)
def test_names_that_lead_nowhere(
    nights: Nights, side: str, status: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", side, side, "--store", str(nights.folder)]) == status
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_facts_that_were_cut_are_the_stores_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make_nights(tmp_path / "store", cells=1, nights=1, tables=False)
    cell = made.cells[0].id
    found = find_cell_facts(open_store(str(made.folder)), cell, made.tonight)
    (path,) = made.folder.glob(f"facts/*/{found.facts}.*")
    path.write_bytes(path.read_bytes()[:-9])
    side = f"store:{cell}@{made.tonight}"
    assert main(["diff", side, side, "--store", str(made.folder)]) == 6
    error = capsys.readouterr().err
    assert f"facts of {cell} of {made.tonight}: incomplete, or not gzip" in error
    assert error.count("\n") == 1

"""Proposed entries: one for each fault, for exactly the cells that have it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from itertools import product

import pytest

from binary_checks.fleet.known import FailedProblem, narrow, propose
from binary_checks.fleet.night import Cell
from binary_checks.model import Problem
from binary_checks.profile import KnownProblem

MATRIX = [
    Cell(id=f"demo-{python}-{variant}", project="demo", python=python, variant=variant)
    for python, variant in product(["3.11", "3.12", "3.13"], ["cpu", "cu126", "cu130"])
]
OTHER = Cell(id="other-3.13", project="other", python="3.13")


def failed(
    cell: Cell, path: str = "demo/a.so", fact: str = "libfoo.so.1", check: str = "missing-library"
) -> FailedProblem:
    return FailedProblem(
        cell=cell,
        file_name=f"{cell.project}-1.0-py3-none-any.whl",
        check=check,
        problem=Problem(path=path, sentence=f"needs {fact} {cell.id}", facts=(fact,)),
    )


def entries(found: Sequence[FailedProblem], **said: str) -> list[KnownProblem]:
    given = {"owner": "", "issue": "", **said}
    proposed = propose(found, [*MATRIX, OTHER], expires=date(2026, 12, 6), **given)
    return [entry for entry, _ in proposed]


def test_one_fault_in_several_cells_is_one_entry() -> None:
    cells = [cell for cell in MATRIX if cell.variant == "cu130"]
    (entry,) = entries([failed(cell) for cell in cells], owner="gpu team")
    assert (entry.check, entry.path) == ("missing-library", "demo/a.so")
    assert (entry.facts, entry.match) == (("libfoo.so.1",), "")
    assert (entry.package, entry.expires) == ("demo-*", date(2026, 12, 6))
    assert entry.cells is not None
    assert entry.cells.written == "variant=cu130"
    assert (entry.owner, entry.issue) == ("gpu team", "TODO")
    assert entry.reason == "TODO: why it is accepted"


def test_checks_facts_and_paths_apart_are_entries_apart() -> None:
    first = MATRIX[0]
    found = [
        failed(first),
        failed(first, check="cuda-hijacking"),
        failed(first, fact="x"),
        failed(first, path="demo/b.so"),
    ]
    assert len(entries(found)) == 4


@pytest.mark.parametrize(
    ("paths", "glob"),
    [
        (
            ["demo/_n.cpython-311-x86_64-linux-gnu.so", "demo/_n.cpython-313t-darwin.so"],
            "demo/_n.cpython-*.so",
        ),
        (["demo/_n.cp311-win_amd64.pyd", "demo/_n.cp313-win32.pyd"], "demo/_n.cp*.pyd"),
        (["demo.libs/liba-1a2b3c4d.so.1", "demo.libs/liba-deadbeef.so.1"], None),
        (["demo-1.0.dist-info/RECORD", "demo-1.1rc1.dist-info/RECORD"], "demo-*.dist-info/RECORD"),
        (["lib/python3.11/x.so", "lib/python3.13t/x.so"], "lib/python3.*/x.so"),
        (["demo/[1].so", "demo/[1].so"], "demo/[[]1].so"),
        (["", ""], ""),
    ],
)
def test_a_path_that_differs_from_cell_to_cell_is_one_glob(
    paths: list[str], glob: str | None
) -> None:
    found = [failed(cell, path) for cell, path in zip(MATRIX, paths, strict=False)]
    by_glob = {entry.path for entry in entries(found)}
    assert by_glob == {"demo.libs/liba-????????.so.1" if glob is None else glob}
    for each in found:
        assert any(entry.covers(each.problem) for entry in entries(found))


def written(meant: list[Cell]) -> list[str]:
    return ["" if each is None else each.written for each in narrow(meant, [*MATRIX, OTHER])]


def test_conditions_are_as_short_as_the_matrix_allows() -> None:
    cu = [cell for cell in MATRIX if cell.variant != "cpu"]
    assert written(cu) == ["variant=cu*"]
    assert written([cell for cell in MATRIX if cell.python == "3.12"]) == ["python=3.12"]
    assert written([MATRIX[4]]) == ["python=3.12 variant=cu126"]
    assert written(MATRIX) == [""]


def test_cells_that_no_glob_tells_from_others_have_several_conditions() -> None:
    meant = [cell for cell in MATRIX if cell.python != "3.12" and cell.variant == "cpu"]
    assert written(meant) == ["python=3.11 variant=cpu", "python=3.13 variant=cpu"]


@pytest.mark.parametrize("pattern", range(1, 512, 7))
def test_conditions_meet_the_cells_that_are_meant_and_no_other(pattern: int) -> None:
    meant = [cell for bit, cell in enumerate(MATRIX) if pattern >> bit & 1]
    conditions = [each for each in narrow(meant, [*MATRIX, OTHER]) if each is not None]
    met = [cell for cell in MATRIX if any(each.meets(cell) for each in conditions)]
    assert met == (meant if len(meant) < len(MATRIX) else [])


def test_cells_that_differ_in_nothing_but_their_ids_are_named() -> None:
    cells = [Cell(id=f"demo-{n}", project="demo") for n in range(3)]
    (condition,) = narrow(cells[:1], cells)
    assert condition is not None
    assert condition.written == "id=demo-0"

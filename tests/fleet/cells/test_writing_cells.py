"""A cells.toml that is written for cells has exactly these, in few tables."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from binary_checks.fleet.cell import Cell
from binary_checks.fleet.cells.cells_file import parse_cells
from binary_checks.fleet.cells.cells_toml import find_conditions, write_toml
from binary_checks.fleet.cells.foreign_matrix import ForeignMatrix
from binary_checks.profile.cell_conditions import read_condition

HOSTS = (("linux", "x86_64"), ("linux", "aarch64"), ("windows", "amd64"), ("macos", "arm64"))
PYTHONS = ("3.11", "3.12", "3.13", "3.13t")
VARIANTS = ("", "cpu", "cu126", "cu130", "rocm6.4")


def cell(
    host: tuple[str, str], python: str, variant: str, *, gpu: bool = False, project: str = "torch"
) -> Cell:
    return Cell(
        id="",
        project=project,
        system=host[0],
        architecture=host[1],
        python=python,
        variant=variant,
        gpu=gpu,
        package=project,
    )


def written(*cells: Cell) -> str:
    return write_toml(ForeignMatrix(cells=cells), "here")


def read(text: str) -> set[Cell]:
    matrix = parse_cells(text.encode(), Path("cells.toml"))
    assert matrix.warnings == ()
    return {replace(each, id="") for each in matrix.cells}


CELLS = st.lists(
    st.builds(
        cell,
        st.sampled_from(HOSTS),
        st.sampled_from(PYTHONS),
        st.sampled_from(VARIANTS),
        gpu=st.booleans(),
        project=st.sampled_from(("torch", "vision")),
    ),
    min_size=1,
    max_size=60,
    unique_by=lambda each: (
        each.project,
        each.system,
        each.architecture,
        each.python,
        each.variant,
    ),
)


@given(CELLS)
def test_what_is_written_is_read_as_the_same_cells(cells: list[Cell]) -> None:
    assert read(written(*cells)) == set(cells)


def test_a_product_is_one_block() -> None:
    cells = [cell(*each) for each in product(HOSTS, PYTHONS, VARIANTS[1:])]
    assert written(*cells).count("[[") == 1


def test_a_gap_in_a_product_is_left_out_where_that_is_shorter() -> None:
    every = [cell(*each) for each in product(HOSTS, PYTHONS, VARIANTS[1:])]
    some = [
        each
        for each in every
        if not (each.python == "3.13t" and each.variant == "cu126")
        and not (each.system == "windows" and each.variant == "rocm6.4")
    ]
    text = written(*some)
    assert text.count("[[cells]]") == 1
    assert 'when = "python=3.13t variant=cu126"\nreason = "not in here"' in text
    assert 'when = "system=windows variant=rocm*"' in text


def test_no_list_has_cells_without_an_axis_among_those_that_have_it() -> None:
    every = [cell(*each) for each in product(HOSTS, PYTHONS, VARIANTS)]
    gaps = (("3.13t", "cu126"), ("3.13", "cu130"), ("3.12", ""), ("3.11", "cpu"))
    some = [each for each in every if (each.python, each.variant) not in gaps]
    text = written(*some)
    assert text.count("[[") > 2
    assert read(text) == set(some)


def test_gpu_stages_are_few_conditions() -> None:
    cells = [
        cell(*each, gpu=each[2].startswith("cu") and each[0][0] != "macos")
        for each in product(HOSTS, PYTHONS, VARIANTS[1:])
    ]
    text = written(*cells)
    assert text.count("[[gpu]]") == 2
    assert 'when = "system=linux variant=cu*"' in text


@given(CELLS, st.randoms(use_true_random=False))
def test_conditions_are_met_by_the_wanted_alone(cells: list[Cell], chance: st.DataObject) -> None:
    named = [replace(each, id=f"c{number}") for number, each in enumerate(cells)]
    wanted = [chance.random() < 0.5 for _ in named]  # type: ignore[attr-defined]
    conditions = [read_condition(each, "here") for each in find_conditions(named, wanted)]
    assert [any(each.meets(one) for each in conditions) for one in named] == wanted


def test_no_text_from_elsewhere_leaves_its_comment() -> None:
    matrix = ForeignMatrix(cells=(cell(HOSTS[0], "3.12", "cpu"),), notes=('x\n[[cells]]\x1b"""',))
    assert len(read(write_toml(matrix, 'a"b\nc'))) == 1

"""Reading cells.toml: products, exceptions, how cells are run, and every error."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from binary_checks.errors import ProfileError
from binary_checks.fleet.cells import Matrix, read_cells

TODAY = date(2026, 11, 20)
NUMPY = '[[cells]]\nproject = "numpy"\nsystem = "linux-x86_64"\npython = ["3.11", "3.12"]\n'


def read(folder: Path, text: str) -> Matrix:
    (folder / "cells.toml").write_text(text, encoding="utf-8")
    return read_cells(folder / "cells.toml", TODAY)


def ids(matrix: Matrix) -> list[str]:
    return [cell.id for cell in matrix.cells]


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(ProfileError) as caught:
        read(folder, text)
    said = str(caught.value)
    assert "\n" not in said
    assert said.startswith(f"{folder / 'cells.toml'}:")
    return said.removeprefix(f"{folder / 'cells.toml'}:").lstrip()


def test_a_block_is_the_product_of_its_axes(tmp_path: Path) -> None:
    matrix = read(tmp_path, NUMPY + 'variant = ["cpu", "cu126"]\n')
    assert ids(matrix) == [
        "numpy-linux-x86_64-3.11-cpu",
        "numpy-linux-x86_64-3.11-cu126",
        "numpy-linux-x86_64-3.12-cpu",
        "numpy-linux-x86_64-3.12-cu126",
    ]
    cell = matrix.cells[0]
    assert (cell.system, cell.architecture, cell.kind, cell.package) == (
        *("linux", "x86_64", "wheel", "numpy"),
    )


def test_an_id_has_the_axes_that_the_file_uses_in_any_of_its_blocks(tmp_path: Path) -> None:
    other = '[[cells]]\nproject = "pure"\nkind = ["wheel"]\n'
    assert ids(read(tmp_path, NUMPY + other))[-1] == "pure-wheel"
    assert ids(read(tmp_path, NUMPY + other))[0] == "numpy-wheel-linux-x86_64-3.11"
    # Several projects share a block, and a package may have another name.
    matrix = read(tmp_path, '[[cells]]\nproject = ["a", "b"]\npackage = "numpy<3"\n')
    assert [(cell.id, cell.package) for cell in matrix.cells] == [
        ("a", "numpy<3"),
        ("b", "numpy<3"),
    ]


def test_what_is_left_out_is_no_cell_and_says_why(tmp_path: Path) -> None:
    rule = '[[leave_out]]\nwhen = "python=3.1[12] system=linux python=*2"\nreason = "slow"\n'
    matrix = read(tmp_path, NUMPY + rule)
    assert ids(matrix) == ["numpy-linux-x86_64-3.11"]
    assert [(each.reason, each.cells) for each in matrix.left_out] == [("slow", 1)]
    assert matrix.warnings == ()


def test_what_has_expired_leaves_nothing_out_and_is_a_warning(tmp_path: Path) -> None:
    rule = '[[leave_out]]\nwhen = "python=3.12"\nreason = "later"\nexpires = 2026-11-{}\n'
    assert len(read(tmp_path, NUMPY + rule.format("20")).cells) == 1
    matrix = read(tmp_path, NUMPY + rule.format("19"))
    assert len(matrix.cells) == 2
    assert matrix.warnings[0].endswith(
        "cells.toml:5: leave_out[0]: when = 'python=3.12' expired on 2026-11-19: "
        "its cells are no longer left out"
    )


def test_a_rule_that_matches_nothing_is_a_warning(tmp_path: Path) -> None:
    matrix = read(tmp_path, NUMPY + '[[gpu]]\nwhen = "variant=cu*"\n')
    assert [line.rpartition("cells.toml:")[2] for line in matrix.warnings] == [
        "5: gpu[0]: when = 'variant=cu*' matches no cell; remove it"
    ]


def test_a_gpu_stage_and_how_a_cell_is_run_come_by_globs_and_the_last_one_holds(
    tmp_path: Path,
) -> None:
    rules = (
        '[[gpu]]\nwhen = "python=3.12"\n'
        '[[run]]\nwhen = "project=*"\nplace = "image:oldest"\ntimeout = 60\n'
        '[[run]]\nwhen = "python=3.12"\nplace = "venv"\noptions = ["--strict"]\n'
    )
    first, second = read(tmp_path, NUMPY + rules).cells
    assert (first.gpu, first.place, first.options, first.timeout) == (
        *(False, "image:oldest", (), 60.0),
    )
    assert (second.gpu, second.place, second.options, second.timeout) == (
        *(True, "venv", ("--strict",), 60.0),
    )


def test_a_run_without_a_condition_is_that_of_all_cells(tmp_path: Path) -> None:
    rules = '[[run]]\ntimeout = 60\n[[run]]\nwhen = "python=3.12"\ntimeout = 90\n'
    matrix = read(tmp_path, NUMPY + rules)
    assert [cell.timeout for cell in matrix.cells] == [60.0, 90.0]
    assert matrix.warnings == ()
    assert "'when' is missing" in refusal(tmp_path, NUMPY + "[[gpu]]\n")


def test_a_source_belongs_to_the_cells_that_name_it(tmp_path: Path) -> None:
    source = (
        '[sources.nightly]\nindex = "https://x.example/{variant}"\nfreshness = 2\ngate = "x"\n'
        "prereleases = true\n"
    )
    matrix = read(tmp_path, NUMPY + 'variant = "cpu"\nsource = "nightly"\n' + source)
    found = matrix.source_of(matrix.cells[0])
    assert (found.name, found.freshness, found.prereleases) == ("nightly", 2, True)


def test_a_night_has_known_problems_and_causes_of_its_own(tmp_path: Path) -> None:
    matrix = read(tmp_path, f'[night]\nknown_problems = "k.toml"\ncauses = "c.toml"\n{NUMPY}')
    assert (matrix.known, matrix.causes) == ("k.toml", "c.toml")
    said = refusal(tmp_path, f'[night]\nknown_problem = "k.toml"\n{NUMPY}')
    assert said == "2: night: unknown key 'known_problem'; did you mean 'known_problems'?"


def test_tables_of_ci_are_left_to_ci(tmp_path: Path) -> None:
    tables = '[runners]\nlinux = "ubuntu-24.04"\n[ci.actions]\ncheckout = "0123"\n'
    assert len(read(tmp_path, NUMPY + tables).cells) == 2


LISTS = '[values]\ncuda = ["cu126", "cu130"]\n'


def test_a_list_of_values_has_a_name_that_several_blocks_share(tmp_path: Path) -> None:
    other = '[[cells]]\nproject = "vision"\nvariant = "{cuda}"\n'
    matrix = read(tmp_path, f'{LISTS}{NUMPY}variant = ["cpu", "{{cuda}}", "xpu"]\n{other}')
    assert [cell.variant for cell in matrix.cells] == [
        *("cpu", "cu126", "cu130", "xpu") * 2,
        *("cu126", "cu130"),
    ]
    assert matrix.warnings == ()
    (warning,) = read(tmp_path, LISTS + NUMPY).warnings
    assert warning.endswith("cells.toml: values: cuda: no block uses it; remove it")
    hosts = '[values]\nhosts = ["linux-x86_64", "macos-arm64"]\n'
    block = '[[cells]]\nproject = "x"\nsystem = "{hosts}"\npython = "3.12"\n'
    assert ids(read(tmp_path, hosts + block)) == ["x-linux-x86_64-3.12", "x-macos-arm64-3.12"]


REFUSED = {
    "a list that there is not": (
        f'{LISTS}{NUMPY}variant = "{{cudda}}"\n',
        "3: cells[0]: variant: unknown list of [values] 'cudda'; did you mean 'cuda'?",
    ),
    "a list that is none": (
        f'[values]\ncuda = "cu126"\n{NUMPY}',
        "2: values.cuda: 'cu126' is not an array",
    ),
    "an empty list of values": (
        f'[values]\ncuda = []\n{NUMPY}variant = "{{cuda}}"\n',
        "3: cells[0]: variant: an empty list makes no cell",
    ),
    "a value of a list that is none": (
        '[values]\npythons = [3.10]\n[[cells]]\nproject = "x"\npython = "{pythons}"\n',
        "3: cells[0]: python: 3.1 is not a string; write it in quotes (TOML reads 3.10 as 3.1)",
    ),
    "a Python before there was free threading": (
        '[[cells]]\nproject = "x"\npython = "3.12t"\n',
        "1: cells[0]: python: '3.12t' is not a Python version, such as 3.12 or 3.13t, the first "
        "with free threading",
    ),
    "a macOS before there was arm64": (
        '[[cells]]\nproject = "x"\nsystem = "macosx_10_15-arm64"\npython = "3.12"\n',
        "1: cells[0]: x-macosx_10_15-arm64-3.12: macosx_10_15 has no arm64; that "
        "needs macosx_11_0 or later",
    ),
    "a typo in a key": (
        NUMPY + 'pyhton = "3.12"\n',
        "5: cells[0]: unknown key 'pyhton'; did you mean 'python'?",
    ),
    "a typo in a table": (
        '[[cell]]\nproject = "x"\n',
        "1: unknown table 'cell'; did you mean 'cells'?",
    ),
    "one bracket": ('[cells]\nproject = "x"\n', "cells: write [[cells]], with two brackets"),
    "no cells": ("", "it has no [[cells]]"),
    "no project": ('[[cells]]\npython = "3.12"\n', "1: cells[0]: 'project' is missing"),
    "an empty list": (
        '[[cells]]\nproject = "x"\npython = []\n',
        "1: cells[0]: python: an empty list makes no cell",
    ),
    "a number": (
        '[[cells]]\nproject = "x"\npython = 3.10\n',
        "1: cells[0]: python: 3.1 is not a string; write it in quotes (TOML reads 3.10 as 3.1)",
    ),
    "no Python": (
        '[[cells]]\nproject = "x"\npython = "3.12.1"\n',
        "1: cells[0]: python: '3.12.1' is not a Python version, such as 3.12 or 3.13t, the first "
        "with free threading",
    ),
    "an unknown kind": (
        '[[cells]]\nproject = "x"\nkind = "weel"\n',
        "3: cells[0]: x-weel: unknown kind 'weel'; did you mean 'wheel'?",
    ),
    "an unknown system": (
        '[[cells]]\nproject = "x"\nsystem = "linx-x86_64"\n',
        "1: cells[0]: system: 'linx' is not one of: linux, musllinux, macos, windows, nor a "
        "tag such as manylinux_2_28, musllinux_1_2 or macosx_14_0; did you mean 'linux'?",
    ),
    "an architecture of another system": (
        '[[cells]]\nproject = "x"\nsystem = "macos-aarch64"\n',
        "1: cells[0]: x-macos-aarch64: macos has no architecture 'aarch64', but x86_64, arm64",
    ),
    "a value that names no file": (
        '[[cells]]\nproject = "../x"\n',
        "1: cells[0]: project: '../x' cannot name a file: only letters, digits and ._+- "
        "are allowed",
    ),
    "a wheel of libtorch": (
        '[[cells]]\nproject = "x"\nlibtorch = "shared-with-deps"\n',
        "1: cells[0]: x-shared-with-deps: libtorch = 'shared-with-deps', but kind is 'wheel'",
    ),
    "the same cell in two blocks": (
        NUMPY + "\n" + NUMPY,
        "6: cells[1]: numpy-linux-x86_64-3.11 is a cell of cells.toml:1: cells[0] already",
    ),
    "the same cell twice": (
        '[[cells]]\nproject = ["x", "X"]\n',
        "1: cells[0]: X is a cell of cells.toml:1: cells[0] already",
    ),
    "leave_out without a reason": (
        NUMPY + '[[leave_out]]\nwhen = "python=3.12"\n',
        "5: leave_out[0]: 'reason' is missing",
    ),
    "leave_out of all": (
        NUMPY + '[[leave_out]]\nwhen = "project=*"\nreason = "holidays"\n',
        "5: leave_out[0]: when = 'project=*': no cell is left",
    ),
    "a rule on an unknown axis": (
        NUMPY + '[[gpu]]\nwhen = "varient=cu*"\n',
        "5: gpu[0]: when: unknown axis 'varient'; did you mean 'variant'?",
    ),
    "a rule that is no glob": (
        NUMPY + '[[gpu]]\nwhen = "cu*"\n',
        "5: gpu[0]: when: cu*: not AXIS=GLOB, such as variant=cu*",
    ),
    "an expiry that is no day": (
        NUMPY + '[[leave_out]]\nwhen = "python=3.12"\nreason = "x"\nexpires = "soon"\n',
        "8: leave_out[0]: expires: 'soon' is not a date",
    ),
    "a timeout without end": (
        NUMPY + '[[run]]\nwhen = "python=3.12"\ntimeout = inf\n',
        "5: run[0]: timeout: inf s is not between 0 and 7 days",
    ),
    "a place that there is not": (
        NUMPY + '[[run]]\nwhen = "python=3.12"\nplace = "imge:oldest"\n',
        "5: run[0]: place: imge:oldest: unknown place; expected one of venv|existing:PYTHON|"
        "prefix:PATH|image:REFERENCE|pyodide",
    ),
    "an unknown source": (
        NUMPY + 'source = "nightl"\n[sources.nightly]\nindex = "https://x.example"\n',
        "5: cells[0]: numpy-linux-x86_64-3.11-nightl: unknown source 'nightl'; did you mean "
        "'nightly'?",
    ),
    "a template with an unknown axis": (
        NUMPY + '[sources.nightly]\nindex = "https://x.example/{varient}"\n',
        "sources.nightly: index: unknown axis 'varient'; did you mean 'variant'?",
    ),
    "a template with half a brace": (
        NUMPY + '[sources.nightly]\nindex = "https://x.example/{variant"\n',
        "sources.nightly: index: 'https://x.example/{variant' is empty, or has an unmatched brace",
    ),
    "a template with an axis that a cell lacks": (
        NUMPY + 'source = "n"\n[sources.n]\nindex = "https://x.example/{variant}"\n',
        "1: cells[0]: numpy-linux-x86_64-3.11-n: sources.n: index: {variant} has no value "
        "in numpy-linux-x86_64-3.11-n",
    ),
    "a secret": (
        NUMPY + '[sources.n]\nindex = "https://me:geheim@x.example/simple"\n',
        "sources.n: index: https://x.example/simple has credentials, a token or a query, which "
        "may be secret; put them into a netrc file",
    ),
    "a source in two places": (
        NUMPY + '[sources.n]\nindex = "https://x.example"\nfolder = "dist"\n',
        "sources.n: index and folder: give only one of them",
    ),
    "conda from an index": (
        NUMPY + 'kind = "conda"\n',
        "1: cells[0]: numpy-conda-linux-x86_64-3.11: kind is 'conda', so its source "
        "must be one of: conda, folder, url",
    ),
    "a Python of no system": (
        '[[cells]]\nproject = "x"\npython = "3.12"\n',
        "1: cells[0]: x-3.12: it has no system, which is needed to choose its file",
    ),
    "no requirement": (
        '[[cells]]\nproject = "x"\npackage = "x=1"\n',
        "1: cells[0]: x: package: 'x=1' is not a requirement",
    ),
    "a truth value": (
        '[[cells]]\nproject = "x"\nvariant = true\n',
        "1: cells[0]: variant: True is not a string; write it in quotes",
    ),
    "too many": (
        "[[cells]]\nproject = {0}\nvariant = {0}\n".format([*map(str, range(200))]),
        "more than 20,000 cells",
    ),
    "no TOML": (
        "[[cells",
        "not TOML: Expected ']]' at the end of an array declaration (at end of document)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_meant_is_one_line_with_its_place(name: str, tmp_path: Path) -> None:
    text, said = REFUSED[name]
    assert refusal(tmp_path, text).replace(f"{tmp_path}/", "") == said


def test_a_file_without_end_is_refused_at_once(tmp_path: Path) -> None:
    rows = '[[gpu]]\nwhen = "project=*"\n' * 1001
    assert refusal(tmp_path, f"{NUMPY}{rows}") == "gpu: more than 1,000 tables"

"""tox.toml: an environment for each cell, with names and values that tox keeps unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from binary_checks.fleet.cells import parse_cells
from binary_checks.fleet.ci.generated_files import write_files
from binary_checks.fleet.ci.pipeline import make_pipeline
from binary_checks.profile import parse_toml

CELLS = """\
[[cells]]
project = "Demo.Kit"
system = ["linux-x86_64", "windows-amd64"]
python = ["3.12", "3.13t"]
[ci]
systems = ["tox"]
install = ["binary-checks"]
"""


def make(text: str = CELLS) -> dict[str, Any]:
    """What TOML reads of the file."""
    matrix = parse_cells(text.encode(), Path.cwd() / "cells.toml")
    content = write_files(make_pipeline(matrix, Path.cwd()))[0]["tox.toml"]
    return parse_toml(content.encode(), "tox.toml")


def list_patterns(environment: dict[str, Any]) -> list[str]:
    """The globs, in the order in which they are tried, and what stands where none matches."""
    ((_, _, found, *_),) = environment["commands"]
    patterns = []
    while isinstance(found, dict):
        patterns.append(found["pattern"])
        found = found["default"]
    return [each.removeprefix("{env:DIST:dist}/") for each in (*patterns, *found)]


def test_an_environment_is_called_as_its_cell_and_has_its_python_and_system() -> None:
    found = make()
    assert found["env_list"] == [
        "Demo.Kit-linux-x86_64-3.12",
        "Demo.Kit-linux-x86_64-3.13t",
        "Demo.Kit-windows-amd64-3.12",
        "Demo.Kit-windows-amd64-3.13t",
    ]
    assert [*found["env"]] == found["env_list"]
    own = found["env"]["Demo.Kit-windows-amd64-3.13t"]
    assert (own["base_python"], own["platform"]) == (["3.13t"], "win32")
    assert own["set_env"] == {
        "CELL": "Demo.Kit-windows-amd64-3.13t",
        "CELL_PROJECT": "Demo.Kit",
        "CELL_SYSTEM": "windows",
        "CELL_ARCHITECTURE": "amd64",
        "CELL_PYTHON": "3.13t",
    }
    assert found["skip_missing_interpreters"] is True


def test_a_wheel_is_that_of_the_cell_by_its_folder_or_by_tags_that_tell_cells_apart() -> None:
    assert list_patterns(make()["env"]["Demo.Kit-linux-x86_64-3.13t"]) == [
        "Demo.Kit-linux-x86_64-3.13t/*",
        "[dD][eE][mM][oO][_.][kK][iI][tT]-*-cp313-cp313t-*linux*_x86_64.whl",
        "Demo.Kit-linux-x86_64-3.13t/*",
    ]
    found = make(CELLS.replace("[ci]", 'variant = ["cpu", "cu126"]\n[ci]', 1))
    cell = "Demo.Kit-linux-x86_64-3.12-cpu"
    assert list_patterns(found["env"][cell]) == [f"{cell}/*", f"{cell}/*"]


@pytest.mark.parametrize(
    ("project", "python", "name"),
    [
        ("demo", "3.9", "demo-linux-x86_64-_3.9"),  # the tool runs on another Python
        ("py310", "3.12", "_py310-linux-x86_64-3.12"),
        ("3.11", "3.12", "_3.11-linux-x86_64-3.12"),
        ("pypy", "3.12", "pypy-linux-x86_64-3.12"),
        ("3.12", "3.12", "3.12-linux-x86_64-_3.12"),
    ],
)
def test_tox_finds_one_python_in_a_name_and_it_is_that_of_the_job(
    project: str, python: str, name: str
) -> None:
    text = CELLS.replace('"Demo.Kit"', f'"{project}"\npackage = "demo"')
    text = text.replace('["3.12", "3.13t"]', f'"{python}"').replace(', "windows-amd64"', "")
    assert make(text)["env_list"] == [name]


def test_what_stands_in_braces_is_text() -> None:
    text = CELLS.replace(
        "[ci]", '[[run]]\nwhen = "id=*"\noptions = ["-k", "{env:HOME} \\\\ x"]\n[ci]'
    )
    (command,) = make(text)["env"]["Demo.Kit-linux-x86_64-3.12"]["commands"]
    assert command[-1] == "\\{env:HOME\\} \\ x"

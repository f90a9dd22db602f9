"""`binary-checks cells`: a line for each cell, ids, JSON, and a line for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from binary_checks.command import main

SCHEMA = Path(__file__).parents[3] / "docs" / "cells.schema.json"
FILE = """\
[[cells]]
project = "numpy"
system = ["linux-x86_64", "windows-amd64"]
python = ["3.11", "3.12"]
variant = ["cpu", "cu126"]

[[leave_out]]
when = "system=windows variant=cu*"
reason = "no CUDA build there"

[[leave_out]]
when = "python=3.11 system=windows"
reason = "was broken"
expires = 2020-01-01

[[gpu]]
when = "variant=cu*"

[[run]]
when = "system=linux"
place = "image:oldest"
timeout = 90
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cells.toml").write_text(FILE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


def test_people_get_a_line_for_each_cell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cells"]) == 0
    printed = capsys.readouterr()
    assert (
        printed.out
        == """\
cells.toml: 6 cells, 2 with a GPU stage
numpy-linux-x86_64-3.11-cpu  place image:oldest, timeout 90 s
numpy-linux-x86_64-3.11-cu126  gpu, place image:oldest, timeout 90 s
numpy-linux-x86_64-3.12-cpu  place image:oldest, timeout 90 s
numpy-linux-x86_64-3.12-cu126  gpu, place image:oldest, timeout 90 s
numpy-windows-amd64-3.11-cpu
numpy-windows-amd64-3.12-cpu
left out: system=windows variant=cu* (2 cells): no CUDA build there
"""
    )
    assert printed.err.startswith(
        "warning: cells.toml:11: leave_out[1]: when = 'python=3.11 system=windows' expired"
    )


def test_machines_get_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cells", "cells.toml", "--where", "variant=cu*", "--shard", "2/2", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["schema"] == "binary-checks/cells/1"
    assert len(said["warnings"]) == 1
    assert [each["cells"] for each in said["left_out"]] == [2, 2]
    assert said["cells"] == [
        {
            "id": "numpy-linux-x86_64-3.12-cu126",
            "project": "numpy",
            "system": "linux",
            "architecture": "x86_64",
            "python": "3.12",
            "variant": "cu126",
            "package": "numpy",
            "gpu": True,
            "place": "image:oldest",
            "timeout": 90.0,
        }
    ]
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.validate(said, schema)


def test_scripts_get_ids(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cells", "--where", "python=3.12", "--ids"]) == 0
    assert capsys.readouterr().out.split() == [
        *("numpy-linux-x86_64-3.12-cpu", "numpy-linux-x86_64-3.12-cu126"),
        "numpy-windows-amd64-3.12-cpu",
    ]


def test_a_condition_comes_before_the_tier_and_the_tier_before_the_shard(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["--where", "system=linux", "--tier", "pr", "--ids"]
    assert main(["cells", *asked]) == 0
    whole = capsys.readouterr().out.split()
    assert whole == ["numpy-linux-x86_64-3.11-cpu", "numpy-linux-x86_64-3.12-cu126"]
    assert main(["cells", *asked, "--shard", "2/2"]) == 0
    assert capsys.readouterr().out.split() == whole[1:]
    assert main(["cells", "--tier", "pr"]) == 0
    assert capsys.readouterr().out.startswith("cells.toml: 2 of 6 cells, 1 with a GPU stage\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.toml"], "nowhere.toml: No such file or directory"),
        (["--where", "variant=rocm*"], "--where 'variant=rocm*' matches no cell"),
        (["--where", "varient=cu*"], "--where: unknown axis 'varient'; did you mean 'variant'?"),
        (["--shard", "3/2"], "--shard: 3/2: not I/N, such as 1/4 or 4/4"),
        (["--jsn"], "cells: unknown option --jsn; did you mean --json?"),
    ],
)
def test_what_cannot_be_followed_is_one_line_and_code_4(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cells", *arguments]) == 4
    assert capsys.readouterr().err == f"binary-checks: {said}\n"


@pytest.mark.parametrize("words", [["cells"], ["nightly", "run", "--store", "store"]])
def test_an_option_that_no_cell_could_follow_is_refused_once(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("cells.toml").write_text(f'{FILE}options = ["--statik", "--durations=3"]\n')
    assert main(words) == 4
    assert "unknown --statik; did you mean --static?" in capsys.readouterr().err

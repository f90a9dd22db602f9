"""Cells chosen for one branch or run by options, variables and labels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from binary_checks.command import main
from binary_checks.errors import ProfileError
from binary_checks.fleet.cells import OneOff, choose_cells, read_cells, read_one_off
from tests.fleet.cells.cells_command import listed, refusal

FILE = """\
[[cells]]
project = "torch"
system = ["linux-x86_64", "macos-arm64"]
python = ["3.12", "3.13"]
variant = ["cpu", "cu130"]

[[leave_out]]
when = "system=macos variant=cu*"
reason = "there is no CUDA on macOS"

[[gpu]]
when = "variant=cu*"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ONLY", "ALSO", "LABELS"):
        monkeypatch.delenv(f"BINARY_CHECKS_{variable}", raising=False)
    (tmp_path / "cells.toml").write_text(FILE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


def test_only_narrows_and_several_of_them_are_alternatives(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert listed(capsys, "--only", "system=macos python=3.13", "--only", "variant=cu*") == [
        *("torch-linux-x86_64-3.12-cu130", "torch-linux-x86_64-3.13-cu130"),
        "torch-macos-arm64-3.13-cpu",
    ]


def test_also_has_back_what_is_left_out_as_it_would_be_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["cells", "--json", "--also", "system=macos python=3.12 variant=cu*"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [(cell["id"], cell.get("gpu", False)) for cell in said["cells"]][4:] == [
        ("torch-macos-arm64-3.12-cpu", False),
        ("torch-macos-arm64-3.12-cu130", True),  # in its place, with its GPU stage
        ("torch-macos-arm64-3.13-cpu", False),
    ]
    assert said["also"] == ["system=macos python=3.12 variant=cu*"]


def test_also_adds_to_a_tier_what_it_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    tier = listed(capsys, "--tier", "pr")
    added = "torch-linux-x86_64-3.13-cpu"
    assert added not in tier
    more = listed(capsys, "--tier", "pr", "--also", f"id={added}")
    assert sorted(more) == sorted([*tier, added])


def test_only_comes_before_the_tier_so_that_the_tier_covers_what_is_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert listed(capsys, "--only", "system=linux", "--tier", "pr") == [
        *("torch-linux-x86_64-3.12-cpu", "torch-linux-x86_64-3.13-cu130"),
    ]


def test_variables_do_the_same_and_are_said_aloud(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BINARY_CHECKS_ONLY", "variant=cu130 python=3.12;python=3.13 system=macos")
    monkeypatch.setenv("BINARY_CHECKS_ALSO", "id=*macos*cu130")
    assert main(["cells", "--ids"]) == 0
    printed = capsys.readouterr()
    assert printed.out.split() == [
        "torch-linux-x86_64-3.12-cu130",
        "torch-macos-arm64-3.12-cu130",
        "torch-macos-arm64-3.13-cpu",
        "torch-macos-arm64-3.13-cu130",
    ]
    assert printed.err == (
        "the environment asks for: only variant=cu130 python=3.12 (BINARY_CHECKS_ONLY); "
        "only python=3.13 system=macos (BINARY_CHECKS_ONLY); "
        "also id=*macos*cu130 (BINARY_CHECKS_ALSO)\n"
    )


def test_of_the_labels_of_a_pull_request_only_ours_count() -> None:
    labels = "cells only: variant=cu*,cells also: python=3.13\ncells tier: merge;cells biology: x"
    found = read_one_off({"BINARY_CHECKS_LABELS": labels}, tier="pr")
    assert [condition.written for _, condition in found.only] == ["variant=cu*"]
    assert [condition.written for _, condition in found.also] == ["python=3.13"]
    assert found.tier == "merge"


def test_a_label_widens_a_tier_and_never_narrows_it() -> None:
    assert read_one_off({"BINARY_CHECKS_LABELS": "cells tier: pr"}, tier="merge").tier == "merge"
    assert read_one_off({"BINARY_CHECKS_LABELS": "bug"}, tier="pr") == OneOff(tier="pr")
    assert len(read_one_off({}, only=["python=3.12"] * 100).only) == 100  # not too many


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--only", "variant=rocm*"], "--only 'variant=rocm*' matches no cell"),
        (["--only", "variant=cu*", "--only", "python=4*"], "--only 'python=4*' matches no cell"),
        (["--only", "varient=cu*"], "--only: unknown axis 'varient'; did you mean 'variant'?"),
        (["--only", ""], "--only: no AXIS=GLOB, such as variant=cu*"),
        (["--also", "variant=rocm*"], "--also 'variant=rocm*' matches no cell"),
        (
            ["--only", "system=macos", "--where", "system=linux"],
            "--cell, --where and --only have no cell in common",
        ),
        (["--only", "python=3.12"] * 101, "--only: more than 100 conditions"),
    ],
)
def test_what_matches_nothing_is_one_line(
    capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert refusal(capsys, *options) == said


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("ONLY", "variant=rocm*", "BINARY_CHECKS_ONLY 'variant=rocm*' matches no cell"),
        ("ALSO", "cu130", "BINARY_CHECKS_ALSO: cu130: not AXIS=GLOB, such as variant=cu*"),
        ("LABELS", "cells onyl: x=1", "BINARY_CHECKS_LABELS: cells onyl: x=1: not 'cells only: …'"),
        ("LABELS", "Cells only: x=1", "BINARY_CHECKS_LABELS: Cells only: x=1: not 'cells only: …'"),
        ("LABELS", "cells only: x=1", "BINARY_CHECKS_LABELS: unknown axis 'x'"),
        (
            "LABELS",
            "cells tier: all",
            "BINARY_CHECKS_LABELS: cells tier: all: not one of: pr, merge, nightly",
        ),
    ],
)
def test_a_variable_that_asks_for_nothing_there_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, said: str
) -> None:
    matrix = read_cells(Path("cells.toml"))
    with pytest.raises(ProfileError) as caught:
        one_off = read_one_off({f"BINARY_CHECKS_{variable}": text})
        choose_cells(one_off.enable(matrix).cells, one_off=one_off)
    assert str(caught.value).startswith(said)


def test_no_environment_makes_ci_files_differ_from_those_that_are_checked_in(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("cells.toml").open("a", encoding="utf-8") as file:
        file.write('[ci]\nsystems = ["docs"]\n')
    assert main(["ci", "write"]) == 0
    written = {path: path.read_bytes() for path in Path("docs").rglob("*")}
    assert written
    for variable, text in (("ONLY", "variant=cpu"), ("ALSO", "id=*"), ("LABELS", "cells tier: pr")):
        monkeypatch.setenv(f"BINARY_CHECKS_{variable}", text)
    assert main(["ci", "check"]) == 0
    assert main(["ci", "write"]) == 0
    assert {path: path.read_bytes() for path in written} == written
    capsys.readouterr()


def test_a_cell_that_is_enabled_is_held_against_its_source() -> None:
    Path("cells.toml").write_text(
        f'[sources.x]\nindex = "https://x.example/{{cxx_abi}}"\n{FILE}'
        '[[cells]]\nproject = "odd"\nsystem = "linux-x86_64"\npython = "3.12"\nsource = "x"\n'
        '[[leave_out]]\nwhen = "project=odd"\nreason = "not yet"\n',
        encoding="utf-8",
    )
    with pytest.raises(ProfileError, match=r"sources\.x: index: \{cxx_abi\} has no value"):
        read_one_off({}, also=["project=odd"]).enable(read_cells(Path("cells.toml")))

"""docs/examples/pytorch: the matrix of torch as PyTorch's own script prints it, in one file.

pytorch_cells.json is what generate_binary_build_matrix.py of pytorch/test-infra printed at
61a77570f454 (2026-08-21), for each system and channel, all packages from download.pytorch.org: its
entries as ids of cells, with + behind those of a GPU runner, and the
addresses of their packages.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from binary_checks.command import main
from binary_checks.command.actions import CI
from binary_checks.fleet.cells import Matrix, choose_tier, parse_cells, read_cells
from binary_checks.fleet.night import Cell

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "pytorch" / "cells.toml"
PRINTED = json.loads(Path(__file__).with_name("pytorch_cells.json").read_text("utf-8"))
TODAY = date(2026, 11, 22)


def bare(cells: tuple[Cell, ...]) -> set[Cell]:
    """What the cells are, whatever their ids are and however they are run."""
    usual = Cell(id="", project="")
    return {
        replace(cell, id="", profile=usual.profile, timeout=usual.timeout, options=())
        for cell in cells
    }


def with_line(line: str, after: str) -> Matrix:
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    (place,) = (number for number, each in enumerate(lines, 1) if each.startswith(after))
    text = "\n".join([*lines[:place], line, *lines[place:]])
    return parse_cells(text.encode(), Path("cells.toml"), TODAY)


def test_the_example_has_the_cells_that_pytorch_builds_and_no_others() -> None:
    ours = read_cells(EXAMPLE, TODAY)
    assert sorted(f"{cell.id}{'+' * cell.gpu}" for cell in ours.cells) == PRINTED["cells"]
    addresses = {name: each.index or each.url for name, each in ours.sources.items()}
    assert addresses == PRINTED["channels"]
    assert {name for name, each in ours.sources.items() if not each.prereleases} == {
        name for name in addresses if name.startswith("release")
    }
    assert ours.warnings == ()


def test_the_cells_are_counted_as_docs_say() -> None:
    cells = read_cells(EXAMPLE, TODAY).cells
    found = Counter(
        (f"{cell.system}-{cell.architecture}", cell.source.partition("-")[0]) for cell in cells
    )
    page = EXAMPLE.parents[2].joinpath("cells.md").read_text(encoding="utf-8")
    for host in dict.fromkeys(host for host, _ in found):
        counts = [found[host, channel] for channel in ("nightly", "test", "release")]
        assert f"| {host} | {' | '.join(map(str, counts))} |" in page
    sizes = [len(choose_tier(cells, tier)) for tier in ("pr", "merge", "nightly")]
    assert "{} cells in the tier `pr`, {} in `merge`, {} in `nightly`".format(*sizes) in page


def test_one_more_cuda_in_a_release_is_one_line_in_one_file() -> None:
    before = read_cells(EXAMPLE, TODAY)
    after = with_line('    "cu140",', after='    "cu132",')
    added = bare(after.cells) - bare(before.cells)
    assert bare(before.cells) < bare(after.cells)
    assert after.warnings == ()
    assert {(cell.variant, cell.source.partition("-")[0]) for cell in added} == {
        ("cu140", "release")
    }
    assert Counter((cell.kind, cell.system, cell.gpu) for cell in added) == {
        ("wheel", "linux", True): 6,
        ("wheel", "windows", True): 6,
        ("libtorch", "linux", False): 1,
        ("libtorch", "windows", False): 1,
    }


def test_and_the_jobs_of_a_run_grow_by_what_that_line_adds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("yaml")
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    file = folder / "cells.toml"
    file.write_bytes(EXAMPLE.read_bytes())
    assert CI.run(["write", "--system", "github"]) == 0
    file.write_bytes(with_line('    "cu140",', after='    "cu132",').content)
    assert CI.run(["check", "--system", "github"]) == 0  # those that are checked in are the same
    capsys.readouterr()
    assert main(["cells", "--ci", "github"]) == 0
    jobs = capsys.readouterr().out
    for cell in ("torch-wheel-linux-x86_64-3.14t-cu140", "torch-wheel-windows-amd64-3.10-cu140"):
        assert f"{cell}-release" in jobs


def test_its_page_in_docs_is_the_one_that_is_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(EXAMPLE.parent)
    assert CI.run(["check", "--system", "docs"]) == 0, capsys.readouterr().out

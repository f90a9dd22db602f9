"""Cells whose index offers other bytes after the plan was made."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.fleet.cells import read_cells
from binary_checks.fleet.nights import PreparedNight, compare_serials
from fixtures.package_index import Conduct, PackageIndex
from tests.fleet.nights.made_plans import (
    CELLS,
    LINUX,
    WINDOWS,
    index,
    offer,
    plan,
)

pytest.importorskip("urllib3", reason="no urllib3, which asks servers")
__all__ = ["index"]  # a fixture


def changes(folder: Path, made: PreparedNight) -> dict[str, str]:
    found = compare_serials(made.plan, read_cells(folder / "cells.toml"))
    return {each.cell: each.reason for each in found}


def test_an_index_that_did_not_change_is_no_change(index: PackageIndex, tmp_path: Path) -> None:
    offer(index, tmp_path, "py3-none-any")
    made = plan(tmp_path, CELLS)
    index.serial = "9"  # the page changed for another file
    assert changes(tmp_path, made) == {}


def test_a_new_version_a_replaced_file_and_a_removed_one_are_told_apart(
    index: PackageIndex, tmp_path: Path
) -> None:
    for tag in (f"cp311-cp311-{LINUX}", f"cp311-cp311-{WINDOWS}", "cp311-cp311-macosx_11_0_arm64"):
        offer(index, tmp_path, tag)
    index.serial = "1"
    made = plan(tmp_path, CELLS)
    index.pages["demo"].clear()
    index.serial = "2"
    offer(index, tmp_path, f"cp311-cp311-{LINUX}", "1.1")
    offer(index, tmp_path, f"cp311-cp311-{WINDOWS}", sha256="0" * 64)
    assert {
        cell: reason.partition(": demo")[0] for cell, reason in changes(tmp_path, made).items()
    } == {
        "demo-linux-x86_64-3.11": f"demo-1.1-cp311-cp311-{LINUX}.whl is published now, but "
        f"demo-1.0-cp311-cp311-{LINUX}.whl was planned (serial 1, then 2)",
        "demo-macos-arm64-3.11": "demo-1.0-cp311-cp311-macosx_11_0_arm64.whl is no longer "
        "published (serial 1, then 2)",
        "demo-windows-amd64-3.11": f"demo-1.0-cp311-cp311-{WINDOWS}.whl was replaced by another "
        f"file of that name: sha256 {made_hash(made, 'demo-windows-amd64-3.11')}… was planned, "
        "000000000000… is published now (serial 1, then 2)",
    }


def made_hash(made: PreparedNight, cell: str) -> str:
    return next(each.sha256[:12] for each in made.plan.cells if each.cell.id == cell)


def test_an_index_that_cannot_be_asked_again_is_no_answer(
    index: PackageIndex, tmp_path: Path
) -> None:
    offer(index, tmp_path, "py3-none-any")
    made = plan(tmp_path, CELLS)
    index.conduct["/simple/demo/"] = Conduct(failures=[500])
    assert all(
        reason.startswith("the source could not be asked again: ") and "answers 500" in reason
        for reason in changes(tmp_path, made).values()
    )

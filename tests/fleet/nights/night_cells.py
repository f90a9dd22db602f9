"""Cells of a night whose packages are texts that say what the stand-in for the command does."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import fixtures
from binary_checks.fleet.cell import Cell
from binary_checks.fleet.plan import PlannedCell

STAND_IN = (sys.executable, "-S", str(Path(fixtures.__file__).parent / "fleet" / "stand_in.py"))
NIGHT = "2026-11-20"


def plan_cell(
    folder: Path, name: str, *does: str, timeout: float = 60.0, gpu: bool = False
) -> PlannedCell:
    """A cell whose package says so, a line an attempt."""
    package = folder / f"{name}.txt"
    package.write_text("\n".join(does), encoding="utf-8")
    return PlannedCell(
        cell=Cell(id=name, project=name, package=str(package), timeout=timeout, gpu=gpu),
        file_name=package.name,
        url=str(package),
        sha256=hashlib.sha256(package.read_bytes()).hexdigest(),
    )


def runs_of(planned: PlannedCell) -> list[str]:
    """What each run of the stand-in on the cell's package was called with."""
    runs = Path(f"{planned.url}.runs")
    return runs.read_text(encoding="utf-8").splitlines() if runs.exists() else []

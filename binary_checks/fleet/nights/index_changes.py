"""Says which cells of a plan stand for other bytes by now: an index changed in between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from binary_checks.fleet.cells.matrix import Matrix
from binary_checks.fleet.nights.frozen_inputs import FrozenInputs
from binary_checks.fleet.nights.planning import plan_cells, read_day
from binary_checks.fleet.plan import NightPlan, PlannedCell
from binary_checks.fleet.states import CellState
from binary_checks.sources.surroundings import Surroundings


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexChange:
    """One cell whose source answers otherwise than when the night was planned."""

    cell: str  # id
    reason: str  # one line: what it stands for now, and what it was judged on
    now: PlannedCell


def compare_serials(
    plan: NightPlan, matrix: Matrix, surroundings: Surroundings | None = None
) -> tuple[IndexChange, ...]:
    """Ask every source again; what was judged stays as it is.

    A page that changed for other files alone is no change of a cell, whatever its serial.
    """
    again = plan_cells(matrix, read_day(plan.night), FrozenInputs(), surroundings)
    now = {each.cell.id: each for each in again}
    return tuple(_list_changes(plan, now))


def _list_changes(plan: NightPlan, again: dict[str, PlannedCell]) -> Iterator[IndexChange]:
    for planned in plan.cells:
        now = again.get(planned.cell.id)
        if now is not None and (reason := _compare(planned, now)):
            yield IndexChange(cell=planned.cell.id, reason=reason, now=now)


def _compare(planned: PlannedCell, now: PlannedCell) -> str:
    """What changed for one cell; "" where it stands for the same file."""
    if now.state is planned.state and now.state in (CellState.INFRA, CellState.MISSING):
        return ""
    if now.state is CellState.INFRA:
        return f"could not be asked again: {now.reason}"
    serials = _say_serials(planned, now)
    if now.state is CellState.MISSING:
        gone = f"{planned.file_name or 'the file that there was'} is not there any more"
        return f"{gone}{serials}: {now.reason}"
    return _compare_files(planned, now, serials)


def _compare_files(planned: PlannedCell, now: PlannedCell, serials: str) -> str:
    name = now.file_name
    if not planned.sha256:
        return f"{name} is there now{serials}"
    if planned.file_name != name:
        return f"{name} is there now, {planned.file_name} was planned{serials}"
    if planned.sha256 != now.sha256:
        hashes = f"sha256 {planned.sha256[:12]}… was planned, {now.sha256[:12]}… is there now"
        return f"{name} was replaced under its name: {hashes}{serials}"
    if planned.url != now.url:
        return f"{name} is at another URL now, with the same bytes: {now.url}"
    return ""


def _say_serials(planned: PlannedCell, now: PlannedCell) -> str:
    if not planned.serial or not now.serial or planned.serial == now.serial:
        return ""
    return f" (serial {planned.serial[:12]}, then {now.serial[:12]})"

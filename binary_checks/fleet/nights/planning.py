"""Makes the plan of a night: which bytes each cell stands for, and what it is judged by."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from binary_checks import __version__
from binary_checks.fleet.cells.matrix import CellSource, Matrix
from binary_checks.fleet.nights.frozen_inputs import FrozenInputs, freeze
from binary_checks.fleet.nights.night_dates import now, read_date
from binary_checks.fleet.plan import NightPlan, PlannedCell
from binary_checks.fleet.published.looked_up import LookedUp
from binary_checks.fleet.published.questions import look_up
from binary_checks.fleet.states import CellState
from binary_checks.knowledge.configurations import find_day, judge_age
from binary_checks.lines import one_line
from binary_checks.sources.surroundings import Surroundings
from binary_checks.web.addresses import show, take_credentials

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedNight:
    """A plan, and the files that are kept beside it before it counts."""

    plan: NightPlan
    frozen: Mapping[str, bytes]  # by SHA-256: profiles, known problems, causes, the cells file


def make_plan(
    matrix: Matrix,
    night: str,
    *,
    known: str | None = None,
    causes: Path | None = None,
    surroundings: Surroundings | None = None,
) -> PreparedNight:
    """Ask where each cell is published and freeze what it stands for on that day.

    ``known`` (a path or a URL) and ``causes`` stand in for what the matrix names. Raises
    ProfileError for what the user named and cannot be read; what servers do becomes the state of
    their cells.
    """
    today = read_day(night)
    inputs = freeze(matrix, known, causes)
    cells = plan_cells(matrix, today, inputs, surroundings)
    plan = NightPlan(
        night=night,
        made=now(),
        cells_sha256=matrix.sha256,
        known_sha256=inputs.known_sha256,
        known_source=inputs.known_source,
        known_remark=inputs.known_remark,
        known_complaint=inputs.known_complaint,
        profiles=inputs.profiles,
        causes_sha256=inputs.causes_sha256,
        versions={"binary-checks": __version__, "python": platform.python_version()},
        cells=cells,
    )
    return PreparedNight(plan=plan, frozen=inputs.files)


def read_day(night: str) -> date:
    """The day of a night. Raises ProfileError."""
    return date.fromisoformat(read_date(night))


def plan_cells(
    matrix: Matrix, today: date, inputs: FrozenInputs, surroundings: Surroundings | None = None
) -> tuple[PlannedCell, ...]:
    """What each cell of a matrix stands for now, by id."""
    surroundings = surroundings or Surroundings(python=Path(sys.executable), static=True)
    try:
        found = look_up(matrix, surroundings)
    finally:
        surroundings.connect().close()
    return tuple(_plan(each, matrix.source_of(each.cell), today, inputs) for each in found)


def _plan(found: LookedUp, source: CellSource, today: date, inputs: FrozenInputs) -> PlannedCell:
    state, reason = found.state, found.reason
    if state is None:
        state, reason = _judge(found, source, today)
    return PlannedCell(
        cell=found.cell,
        state=state,
        reason=one_line(reason),
        file_name=one_line(found.file_name),
        name=one_line(found.name),
        version=one_line(found.version),
        url=show(found.url) if found.url else "",
        sha256=found.hashes.get("sha256", ""),
        size=found.size or 0,
        uploaded=one_line(found.uploaded),
        index=one_line(found.index),
        serial=one_line(found.serial),
        profile=inputs.named.get(found.cell.profile, ""),
    )


def _judge(found: LookedUp, source: CellSource, today: date) -> tuple[CellState | None, str]:
    """Whether the file that there is may be run, and in which words not."""
    if not _SHA256.fullmatch(found.hashes.get("sha256", "")):
        return CellState.INFRA, f"{found.file_name}: its SHA-256 is not known"
    if urlunsplit(urlsplit(take_credentials(found.url)[0])) != show(found.url):
        said = "its URL has a query or a token, which may be secret: no plan keeps it"
        return CellState.INFRA, f"{found.file_name}: {said}"
    if source.freshness is None:
        return None, ""
    day = find_day(found.version, found.uploaded, found.modified)
    if day is None:
        said = "neither its version nor its index nor the server says of which day it is"
        return None, f"{found.file_name}: whether it is stale is not known: {said}"
    if said := judge_age(day[1], today, source.freshness, day[0]):
        return CellState.STALE, f"{found.file_name}: {said}"
    return None, ""

"""Plan a night: choose each cell's file, and freeze the inputs by which files are judged."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from binary_checks import __version__
from binary_checks.errors import ProfileError
from binary_checks.files import read_named
from binary_checks.fleet.causes.cause_rules import load_causes
from binary_checks.fleet.cells import CellSource, Matrix, is_shipped
from binary_checks.fleet.night import NightPlan, PlannedCell
from binary_checks.fleet.published import LookedUp, look_up
from binary_checks.fleet.stored_nights import now, read_date
from binary_checks.knowledge.configurations import find_day, judge_age
from binary_checks.model import CellState, KnownListIdentity
from binary_checks.profile import LIST, load_profile, read_toml
from binary_checks.safe_text import one_line
from binary_checks.sources import Surroundings
from binary_checks.sources.known_problem_lists import LoadedList, is_url, load_list
from binary_checks.web.addresses import show, take_credentials

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedNight:
    """A plan, and the files that must be stored before the plan."""

    plan: NightPlan
    # SHA-256 -> content of profiles, known problems, causes, cells file
    frozen: Mapping[str, bytes]


def make_plan(
    matrix: Matrix,
    night: str,
    *,
    known: str | None = None,
    causes: Path | None = None,
    surroundings: Surroundings | None = None,
) -> PreparedNight:
    """Find where each cell is published, and freeze its file for that day.

    ``known`` (a path or a URL) and ``causes`` replace those that the matrix names. Raises
    ProfileError if a file that the user named cannot be read; faults of servers become the state of
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
    """Return the day of a night. Raises ProfileError."""
    return date.fromisoformat(read_date(night))


def plan_cells(
    matrix: Matrix, today: date, inputs: FrozenInputs, surroundings: Surroundings | None = None
) -> tuple[PlannedCell, ...]:
    """Return each cell of the matrix with its current file, sorted by id."""
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
    """Return why the file must not be run, as state and reason; (None, "") if it may be run."""
    if not _SHA256.fullmatch(found.hashes.get("sha256", "")):
        return CellState.INFRA, f"{found.file_name}: its SHA-256 is unknown"
    if urlunsplit(urlsplit(take_credentials(found.url)[0])) != show(found.url):
        reason = (
            "its URL has a query or a token, which may be secret and cannot be stored in a plan"
        )
        return CellState.INFRA, f"{found.file_name}: {reason}"
    if source.freshness is None:
        return None, ""
    day = find_day(found.version, found.uploaded, found.modified)
    if day is None:
        reason = "neither its version, its index nor the server states its date"
        return None, f"{found.file_name}: it is unknown whether it is stale: {reason}"
    if reason := judge_age(day[1], today, source.freshness, day[0]):
        return CellState.STALE, f"{found.file_name}: {reason}"
    return None, ""


# Freezing inputs: profiles with all files they name, known problems, causes.

_LARGEST = 4 << 20  # bytes of one file


@dataclass(frozen=True, kw_only=True, slots=True)
class FrozenInputs:
    """The inputs by which all cells of a night are judged; ``files`` maps SHA-256 to content."""

    profiles: Mapping[str, str] = field(default_factory=dict)
    """Path in the run's folder -> SHA-256, for each file of a profile."""
    named: Mapping[str, str] = field(default_factory=dict)
    """Profile as a cell names it -> path in the run's folder; without shipped profiles."""
    known_sha256: str = ""
    known_source: str = ""  # path, or URL without its secret parts
    known_remark: str = ""  # why a cached copy is used
    known_complaint: str = ""
    causes_sha256: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)


def freeze(
    matrix: Matrix, known: str | None, causes: Path | None, now: datetime | None = None
) -> FrozenInputs:
    """Read all inputs once. Raises ProfileError, except for known problems.

    If these cannot be read, no waiver holds. ``known``, a path or a URL, replaces the list that the
    matrix names.
    """
    files: dict[str, bytes] = {}
    named, profiles = _read_profiles(matrix)
    held = _fetch_known_list(matrix, known, now or datetime.now(timezone.utc))
    known_sha256 = _keep(held.content, files) if held and not held.complaint else ""
    own = causes or (matrix.folder / matrix.causes if matrix.causes else None)
    causes_sha256 = ""
    if own is not None:
        content = read_named(own, _LARGEST, f"causes {own.name}")
        load_causes(content, own.name)
        causes_sha256 = _keep(content, files)
    _keep(matrix.content, files)
    return FrozenInputs(
        profiles={path: _keep(content, files) for path, content in profiles},
        named=named,
        known_sha256=known_sha256,
        known_source=held.identity.source if held else "",
        known_remark=one_line(held.identity.remark) if held else "",
        known_complaint=held.complaint if held else "",
        causes_sha256=causes_sha256,
        files=files,
    )


def _fetch_known_list(matrix: Matrix, known: str | None, now: datetime) -> LoadedList | None:
    """Return the named list, fetched once for all cells; None if none is named."""
    argument, folder = (known, Path.cwd()) if known else (matrix.known, matrix.folder)
    if not argument:
        return None
    try:
        return load_list(argument, folder, now)
    except ProfileError as error:
        source = "" if is_url(argument) else one_line(argument)
        return LoadedList(
            identity=KnownListIdentity(source=source, complaint=str(error).removeprefix(LIST))
        )


def _keep(content: bytes, files: dict[str, bytes]) -> str:
    digest = hashlib.sha256(content).hexdigest()
    files[digest] = content
    return digest


def _read_profiles(matrix: Matrix) -> tuple[dict[str, str], list[tuple[str, bytes]]]:
    """Return the paths of the cells' own profiles, and the content of all their files.

    Paths are relative to the nearest common folder.
    """
    named = sorted({cell.profile for cell in matrix.cells} - {""})
    for each in filter(is_shipped, named):
        load_profile(each)
    own = [each for each in named if not is_shipped(each)]
    paths: dict[Path, str] = {}
    for each in own:
        # raises ProfileError if one of its files is missing
        load_profile(str(matrix.folder / each))
        paths.update((path, each) for path in _follow(matrix.folder / each))
    if not paths:
        return {}, []
    try:
        root = Path(os.path.commonpath([matrix.folder, *(path.parent for path in paths)]))
    except ValueError:  # they are on several drives
        raise ProfileError(f"profile {own[0]}: on another drive than {matrix.source}") from None

    def shorten(path: Path) -> str:
        return path.relative_to(root).as_posix()

    return (
        {each: shorten(Path(os.path.normpath(matrix.folder / each))) for each in own},
        [
            (shorten(path), read_named(path, _LARGEST, f"profile {profile}: {path.name}"))
            for path, profile in sorted(paths.items())
        ],
    )


def _follow(path: Path) -> Iterator[Path]:
    """Yield the files of a profile, and of the profiles that it extends."""
    path = Path(os.path.normpath(path))
    table = read_toml(path, f"profile {path.name}")
    if path.name == "pyproject.toml":
        table = table.get("tool", {}).get("binary_checks", {})
    yield path
    own = (*table.get("checks", ()), *table.get("kinds", ()))
    for name in (*own, *_list_sources(table.get("probes", {}))):
        yield Path(os.path.normpath(path.parent / name))
    if not is_shipped(table.get("extends", "")):
        yield from _follow(path.parent / table["extends"])


def _list_sources(probes: Mapping[str, Any]) -> Iterator[str]:
    for table in probes.values():
        for unit in table.get("units", {}).values() if isinstance(table, dict) else ():
            if "file" in unit:
                yield unit["file"]


# Comparing a plan with the indexes again: which cells would now get other bytes.


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexChange:
    """A cell whose source gives another answer than when the night was planned."""

    cell: str  # id
    reason: str  # the current file and the planned one, in one line
    now: PlannedCell


def compare_serials(
    plan: NightPlan, matrix: Matrix, surroundings: Surroundings | None = None
) -> tuple[IndexChange, ...]:
    """Ask every source again and return the cells that changed; the plan does not change.

    A change of a page counts only if it concerns a cell's file; a new serial alone does not count.
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
    """Return what changed for one cell, or "" if its file is the same."""
    if now.state is planned.state and now.state in (CellState.INFRA, CellState.MISSING):
        return ""
    if now.state is CellState.INFRA:
        return f"the source could not be asked again: {now.reason}"
    serials = _format_serials(planned, now)
    if now.state is CellState.MISSING:
        gone = f"{planned.file_name or 'the former file'} is no longer published"
        return f"{gone}{serials}: {now.reason}"
    return _compare_files(planned, now, serials)


def _compare_files(planned: PlannedCell, now: PlannedCell, serials: str) -> str:
    name = now.file_name
    if not planned.sha256:
        return f"{name} is published now, but nothing was planned{serials}"
    if planned.file_name != name:
        return f"{name} is published now, but {planned.file_name} was planned{serials}"
    if planned.sha256 != now.sha256:
        hashes = f"sha256 {planned.sha256[:12]}… was planned, {now.sha256[:12]}… is published now"
        return f"{name} was replaced by another file of that name: {hashes}{serials}"
    if planned.url != now.url:
        return f"{name} is now at another URL, with the same bytes: {now.url}"
    return ""


def _format_serials(planned: PlannedCell, now: PlannedCell) -> str:
    if not planned.serial or not now.serial or planned.serial == now.serial:
        return ""
    return f" (serial {planned.serial[:12]}, then {now.serial[:12]})"

"""Plan a night: choose each cell's file, and freeze the inputs by which files are judged."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timezone
from pathlib import Path
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
from binary_checks.model import CellState, ConsumerRequest, KnownListIdentity
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


def make_plan(matrix: Matrix, night: str) -> PreparedNight:
    """Find where each cell is published, and freeze its file for that day.

    Raises ProfileError if a file that the matrix names cannot be read, except for known problems:
    then no waiver holds. Faults of servers become the state of their cells.
    """
    today = date.fromisoformat(read_date(night))
    files: dict[str, bytes] = {}
    named, profiles = _read_profiles(matrix)
    known = _fetch_known_list(matrix)
    causes = _read_causes(matrix)
    _keep(matrix.content, files)
    plan = NightPlan(
        night=night,
        made=now(),
        cells_sha256=matrix.sha256,
        known_sha256=_keep(known.content, files) if known and not known.complaint else "",
        known_source=known.identity.source if known else "",
        known_remark=one_line(known.identity.remark) if known else "",
        known_complaint=known.complaint if known else "",
        profiles={path: _keep(content, files) for path, content in profiles},
        causes_sha256="" if causes is None else _keep(causes, files),
        versions={"binary-checks": __version__, "python": platform.python_version()},
        cells=_plan_cells(matrix, today, named),
    )
    return PreparedNight(plan=plan, frozen=files)


def _plan_cells(
    matrix: Matrix, today: date, profiles: Mapping[str, str]
) -> tuple[PlannedCell, ...]:
    """Return each cell of the matrix with its current file, sorted by id.

    ``profiles`` maps profiles as cells name them to paths among the frozen files.
    """
    surroundings = Surroundings(python=Path(sys.executable), static=True)
    try:
        found = look_up(matrix, surroundings)
    finally:
        surroundings.connect().close()
    return tuple(_plan(each, matrix.source_of(each.cell), today, profiles) for each in found)


def _plan(
    found: LookedUp, source: CellSource, today: date, profiles: Mapping[str, str]
) -> PlannedCell:
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
        profile=profiles.get(found.cell.profile, ""),
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


def _fetch_known_list(matrix: Matrix) -> LoadedList | None:
    """Return the list that the matrix names, fetched once for all cells; None if it names none."""
    if not matrix.known:
        return None
    try:
        return load_list(matrix.known, matrix.folder, datetime.now(timezone.utc))
    except ProfileError as error:
        source = "" if is_url(matrix.known) else one_line(matrix.known)
        return LoadedList(
            identity=KnownListIdentity(source=source, complaint=str(error).removeprefix(LIST))
        )


def _read_causes(matrix: Matrix) -> bytes | None:
    """Return the project's own causes, which must be valid; None if it has none."""
    if not matrix.causes:
        return None
    path = matrix.folder / matrix.causes
    content = read_named(path, _LARGEST, f"causes {path.name}")
    load_causes(content, path.name)
    return content


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
    units = table.get("probes", {}).get(ConsumerRequest.table, {}).get("units", {})
    sources = [unit["file"] for unit in units.values() if "file" in unit]
    for name in (*table.get("checks", ()), *table.get("kinds", ()), *sources):
        yield Path(os.path.normpath(path.parent / name))
    if not is_shipped(table.get("extends", "")):
        yield from _follow(path.parent / table["extends"])

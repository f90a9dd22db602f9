"""The rows of a night's cells and checks, from its plan and its attempts; nothing is read here."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from itertools import chain
from typing import Any

from binary_checks.exit_codes import FIT
from binary_checks.fleet.attempts import CPU, GPU, Attempt
from binary_checks.fleet.cell import AXES
from binary_checks.fleet.final_states import CellEnd
from binary_checks.fleet.plan import PlannedCell
from binary_checks.fleet.states import GOOD
from binary_checks.fleet.stored_nights import name_log
from binary_checks.lines import cut
from binary_checks.model import Entry, NotInspected, Outcome, PackageResult, Problem, RunResult
from binary_checks.model.outcomes import BROKE, GOOD_OUTCOMES

Row = dict[str, Any]
LONGEST = 2_000
"""Characters of a text in a table; documents have it whole."""
_MOST = {"USMALLINT": (1 << 16) - 1, "UINTEGER": (1 << 32) - 1}


def find_contradiction(attempt: Attempt) -> str:
    """Why the attempt cannot be counted as it says; "" where its result bears it out.

    A pass without a result that passed would be one that nobody saw.
    """
    if attempt.result is None:
        return "it has no result" if attempt.state in GOOD else ""
    hashes = {package.sha256 for package in attempt.result.packages}
    if strange := sorted(hashes - {"", attempt.sha256}):
        return f"its result is about other bytes, SHA-256 {plain(strange[0])[:64]}"
    return _find_no_pass(attempt.result) if attempt.state in GOOD else ""


def _find_no_pass(result: RunResult) -> str:
    """Why a result is not that of a package that passed; "" where it is."""
    outcomes = {entry.outcome for _, entry in result.entries()}
    if bad := sorted(outcomes & {Outcome.FAILED, *BROKE}):
        verb = "is" if bad[0] is Outcome.BROKEN else "has"
        return f"its result has a check that {verb} {bad[0].value}"
    if result.exit_code != FIT:
        return f"its result says exit code {result.exit_code}"
    if any(package.verdict is Outcome.NOT_JUDGED for package in result.packages):
        return f"its result says {Outcome.NOT_JUDGED.value}"
    return "" if outcomes & GOOD_OUTCOMES else "nothing in its result was inspected"


def entries_of(attempt: Attempt) -> Iterator[Entry]:
    """What its result says of each check."""
    return (entry for package in packages_of(attempt) for entry in package.entries)


def packages_of(attempt: Attempt) -> tuple[PackageResult, ...]:
    """What its result says of each package."""
    return attempt.result.packages if attempt.result else ()


def cell_row(night: str, planned: PlannedCell, end: CellEnd) -> Row:
    """How the cell's night ended."""
    deciding = list(end.last.values())
    entries = [entry for attempt in deciding for entry in entries_of(attempt)]
    counts = {
        "problems": sum(len(entry.problems) for entry in entries),
        "warnings": sum(len(entry.warnings) for entry in entries),
        "accepted": sum(len(entry.accepted) for entry in entries),
        "not_inspected": sum(entry.has_gap for entry in entries),
    }
    ran = max(end.attempts, key=lambda each: (each.stage == GPU, each.number), default=None)
    cell = planned.cell
    return {
        "night": night,
        "cell": plain(cell.id),
        **{name: plain(getattr(cell, name)) for name in AXES},
        "place": plain(cell.place),
        "gpu": GPU in end.last,
        "state": end.state.value,
        **{
            name: plain(getattr(end, name))
            for name in ("reason", "cause", "cause_kind", "evidence")
        },
        "attempts": min(len(end.attempts), _MOST["USMALLINT"]),
        **{name: min(count, _MOST["UINTEGER"]) for name, count in counts.items()},
        **{name: plain(getattr(planned, name)) for name in ("file_name", "version", "url")},
        "sha256": planned.sha256,
        "size": max(planned.size, 0),
        "uploaded": plain(planned.uploaded),
        "serial": plain(planned.serial),
        "facts": facts_of(end),
        "seconds": _round(sum(each.seconds for each in end.attempts)),
        "installing": _round(
            sum(each.installing for attempt in deciding for each in packages_of(attempt))
        ),
        "cpu_seconds": _round(sum(each.cpu_seconds for each in end.attempts)),
        "peak_memory": max((each.peak_memory for each in end.attempts), default=0),
        "started": _as_utc(min((each.started for each in end.attempts), default="")),
        "log": "" if ran is None else name_log(ran),
    }


def facts_of(end: CellEnd) -> str:
    """Under which SHA-256 the store has the facts that its attempts gathered; "" for none."""
    return next((each.facts for each in reversed(end.attempts) if each.facts), "")


def check_rows(night: str, planned: PlannedCell, end: CellEnd) -> Iterator[Row]:
    """What the attempts that decided say of each check."""
    for stage in (CPU, GPU):
        for entry in entries_of(end.last[stage]) if stage in end.last else ():
            first = _first_problem(entry)
            yield {
                "night": night,
                "cell": plain(planned.cell.id),
                "stage": stage,
                "check": plain(entry.check),
                "family": plain(entry.family),
                "check_place": plain(entry.place),
                "outcome": entry.outcome.value,
                "reason": plain(entry.reason),
                "problems": len(entry.problems),
                "path": plain(first.path) if first else "",
                "sentence": plain(first.sentence) if first else "",
                "seconds": _round(entry.seconds),
            }


def _first_problem(entry: Entry) -> Problem | NotInspected | None:
    """The worst of it: of an accepted one, or of a gap, where there is nothing worse."""
    accepted = (each.problem for each in entry.accepted)
    problems = chain(entry.problems, entry.warnings, accepted)
    return next(problems, None) or next(iter(entry.not_inspected), None)


def _as_utc(text: str) -> str | None:
    """A time as DuckDB reads it; None for what is none."""
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
        if found.tzinfo is not None:
            found = found.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None
    return found.replace(tzinfo=None).isoformat(" ", "seconds")


def _round(seconds: Any) -> float:
    """To the millisecond: what is beyond that is noise, and noise is what Parquet cannot pack."""
    return round(min(max(float(seconds), 0.0), 1e9), 3)


def plain(text: Any) -> str:
    """A text that every table can hold: no half of a character, and not without end."""
    found = text if isinstance(text, str) else ""
    if not found.isascii():
        found = found.encode("utf-8", "replace").decode("utf-8")
    return cut(found.replace("\0", "\N{SYMBOL FOR NULL}"), LONGEST)

"""The columns of the tables, and their rows, made from plans, attempts and facts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from itertools import chain
from pathlib import Path
from typing import Any

from binary_checks.documents.builds import StatedSymbols
from binary_checks.documents.facts import WantedFacts, restore
from binary_checks.errors import ProfileError, RecordError
from binary_checks.fleet.causes.naming_causes import find_leaders
from binary_checks.fleet.night import AXES, CPU, GPU, CellEnd, PlannedCell
from binary_checks.fleet.stored_nights import name_log
from binary_checks.knowledge.inventory import measure_parts
from binary_checks.model import (
    DeviceCodeCarrier,
    DeviceLinking,
    ElfFile,
    Entry,
    NotInspected,
    ObjectFile,
    Problem,
)
from binary_checks.safe_text import cut

# The columns of each Parquet table, with their types.

TABLES: Mapping[str, Mapping[str, str]] = {
    "cells": {  # one row for each cell and night: how its night ended
        "night": "DATE",  # UTC
        "cell": "VARCHAR",  # id: the values of its axes
        "project": "VARCHAR",  # axes, down to source; empty if the matrix does not use them
        "kind": "VARCHAR",
        "libtorch": "VARCHAR",
        "system": "VARCHAR",
        "architecture": "VARCHAR",
        "python": "VARCHAR",
        "variant": "VARCHAR",
        "cxx_abi": "VARCHAR",
        "source": "VARCHAR",
        "place": "VARCHAR",  # where it ran: image:oldest; empty for a fresh environment
        "gpu": "BOOLEAN",  # whether its second stage has ended, too
        "state": "VARCHAR",  # passed, known, failed, not judged and so on (docs/nightly.md)
        "reason": "VARCHAR",  # if no problem shows the reason of the state
        "cause": "VARCHAR",  # why there is no verdict, or the check that failed (docs/causes.md)
        "cause_kind": "VARCHAR",  # infra, product, tool, unknown
        "evidence": "VARCHAR",  # the line from which the cause was recognised
        "attempts": "USMALLINT",  # of both stages
        "problems": "UINTEGER",  # of the attempts that decided, as the next three
        "warnings": "UINTEGER",
        "accepted": "UINTEGER",  # known problems
        "not_inspected": "UINTEGER",  # checks that could not inspect everything
        "file_name": "VARCHAR",  # of the package
        "version": "VARCHAR",
        "url": "VARCHAR",  # without credentials
        "sha256": "VARCHAR",  # of the package
        "size": "UBIGINT",  # bytes
        "uploaded": "VARCHAR",  # as the index states it
        "serial": "VARCHAR",  # of the index's page
        "facts": "VARCHAR",  # SHA-256 under which the store has the facts; "" for none
        "seconds": "REAL",  # of all attempts
        "installing": "REAL",  # seconds that the deciding attempts spent outside checks
        "cpu_seconds": "REAL",  # of all attempts
        "peak_memory": "UBIGINT",  # bytes
        "started": "TIMESTAMP",  # of the first attempt, UTC
        "log": "VARCHAR",  # name of the last attempt's log in the store
    },
    "checks": {  # one row for each check, cell and night, from the last attempt of each stage
        "night": "DATE",
        "cell": "VARCHAR",
        "stage": "VARCHAR",  # cpu, gpu
        "check_id": "VARCHAR",
        "family": "VARCHAR",
        "check_place": "VARCHAR",  # where it ran, if there are several places
        "outcome": "VARCHAR",  # passed, warned, accepted, failed, error, not inspected, …
        "reason": "VARCHAR",  # why it was not applicable, not inspected, or broke
        "problems": "UINTEGER",  # errors that are not accepted
        "path": "VARCHAR",  # of the first problem or warning
        "sentence": "VARCHAR",  # of the same problem
        "leads": "BOOLEAN",  # whether reports show its errors, rather than fold them under others
        "seconds": "REAL",
    },
    # one row for each object file of each package, in the first night with that package
    "objects": {
        "night": "DATE",  # the first night with the package
        "sha256": "VARCHAR",  # of the package
        "path": "VARCHAR",  # relative to the prefix in which the package is installed
        "architecture": "VARCHAR",  # x86_64, aarch64, …
        "size": "UBIGINT",  # bytes
        "needed": "VARCHAR[]",  # names of needed libraries
        "glibc": "VARCHAR",  # highest glibc version that it needs, 2.34; "" for none
        "exports": "VARCHAR",  # digest of its exports' names and versions
        "gpu": "VARCHAR[]",  # targets of its device code: sm_90, gfx90a
    },
    "parts": {  # one row for each part of each package: what its bytes are used for
        "night": "DATE",  # the first night with the package
        "sha256": "VARCHAR",  # of the package
        "part": "VARCHAR",  # native code, device code, bundled libraries, Python, data, …
        "files": "UINTEGER",  # files that belong to the part, wholly or partly
        "size": "UBIGINT",  # installed size in bytes
    },
}


# Rows of cells and checks, from a night's plan and attempts.

Row = dict[str, Any]
LONGEST = 2_000
"""Most characters of a text in a table; the documents have the whole text."""


def cell_row(night: str, planned: PlannedCell, end: CellEnd) -> Row:
    """Return the row about how the cell's night ended."""
    deciding = list(end.last.values())
    entries = [entry for attempt in deciding for each in attempt.packages for entry in each.entries]
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
        "attempts": min(len(end.attempts), 65_535),
        **counts,
        **{name: plain(getattr(planned, name)) for name in ("file_name", "version", "url")},
        "sha256": planned.sha256,
        "size": max(planned.size, 0),
        "uploaded": plain(planned.uploaded),
        "serial": plain(planned.serial),
        "facts": facts_of(end),
        "seconds": _round(sum(each.seconds for each in end.attempts)),
        "installing": _round(
            sum(each.installing for attempt in deciding for each in attempt.packages)
        ),
        "cpu_seconds": _round(sum(each.cpu_seconds for each in end.attempts)),
        "peak_memory": max((each.peak_memory for each in end.attempts), default=0),
        "started": _as_utc(min((each.started for each in end.attempts), default="")),
        "log": "" if ran is None else name_log(ran),
    }


def facts_of(end: CellEnd) -> str:
    """Return the SHA-256 under which the store has the cell's facts, or ""."""
    return next((each.facts for each in reversed(end.attempts) if each.facts), "")


def check_rows(night: str, planned: PlannedCell, end: CellEnd) -> Iterator[Row]:
    """Yield a row for each check in the attempts that decided."""
    for stage in (CPU, GPU):
        attempt = end.last.get(stage)
        leaders = find_leaders(attempt.result) if attempt else ()
        for entry in (
            entry for package in (attempt.packages if attempt else ()) for entry in package.entries
        ):
            first = _first_problem(entry)
            yield {
                "night": night,
                "cell": plain(planned.cell.id),
                "stage": stage,
                "check_id": plain(entry.check),
                "family": plain(entry.family),
                "check_place": plain(entry.place),
                "outcome": entry.outcome.value,
                "reason": plain(entry.reason),
                "problems": len(entry.problems),
                "path": plain(first.path) if first else "",
                "sentence": plain(first.sentence) if first else "",
                "leads": entry.shown_check in leaders,
                "seconds": _round(entry.seconds),
            }


def _first_problem(entry: Entry) -> Problem | NotInspected | None:
    """Return the worst problem: an accepted problem or a gap only if there is nothing worse."""
    accepted = (each.problem for each in entry.accepted)
    problems = chain(entry.problems, entry.warnings, accepted)
    return next(problems, None) or next(iter(entry.not_inspected), None)


def _as_utc(text: str) -> str | None:
    """Return a time in DuckDB's form, or None if the text is not a time."""
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
        if found.tzinfo is not None:
            found = found.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None
    return found.replace(tzinfo=None).isoformat(" ", "seconds")


def _round(seconds: Any) -> float:
    """Round to milliseconds, because finer noise makes Parquet files larger."""
    return round(min(max(float(seconds), 0.0), 1e9), 3)


def plain(text: Any) -> str:
    """Return a text that every table can hold: valid Unicode of limited length."""
    found = text if isinstance(text, str) else ""
    if not found.isascii():
        found = found.encode("utf-8", "replace").decode("utf-8")
    return cut(found.replace("\0", "\N{SYMBOL FOR NULL}"), LONGEST)


# Rows of a package's objects and parts, from its facts.

_READING = WantedFacts(record=False, any_writer=True, keep_symbols=StatedSymbols)
_GLIBC = re.compile(r"GLIBC_(\d{1,4}(?:\.\d{1,4})*)")
_RELR = (2, 36)  # GLIBC_ABI_DT_RELR was added in that version
_LARGEST_BIGINT = (1 << 62) - 1
_DIGITS = 16  # enough to distinguish tables of exports


def read_facts_rows(
    path: Path, night: str, sha256: str, named: str
) -> tuple[Sequence[Row], Sequence[Row]]:
    """Return the rows of a package's objects and of its parts, from its facts.

    Raises RecordError with a message of one line if the document is truncated, corrupt, or of
    another package.
    """
    try:
        facts = restore(path, named=named, reading=_READING)
    except ProfileError as error:
        raise RecordError(str(error)) from None
    if facts.sha256 != sha256:
        raise RecordError(f"{named}: the facts of another package")
    own = {"night": night, "sha256": sha256}
    parts = measure_parts(facts.package).items()
    return (
        [{**own, **_object_row(item, symbols=facts.symbols)} for item in facts.package.objects],
        [{**own, "part": part, "files": of.files, "size": of.size} for part, of in parts],
    )


def _object_row(item: ObjectFile, *, symbols: bool) -> Row:
    versions = item.symbol_versions if isinstance(item, ElfFile) else ()
    exports = sorted(f"{each.name}@{each.version}" for each in item.exports) if symbols else []
    digest = hashlib.sha256("\n".join(exports).encode("utf-8", "replace")).hexdigest()
    codes = item.device_code if isinstance(item, DeviceCodeCarrier) else ()
    usable = (each for each in codes if each.linking is not DeviceLinking.UNUSABLE)
    return {
        "path": plain(item.path),
        "architecture": plain(item.architecture),
        "size": min(max(item.size, 0), _LARGEST_BIGINT),
        "needed": [plain(each.name) for each in item.needed],
        "glibc": highest_glibc(each.version for each in versions if not each.weak),
        "exports": digest[:_DIGITS] if exports else "",
        "gpu": sorted({plain(each.architecture) for each in usable} - {""}),
    }


def highest_glibc(versions: Iterable[str]) -> str:
    """Return the highest glibc version among version nodes, as "2.34"; "" if there is none."""
    found = (_RELR if each == "GLIBC_ABI_DT_RELR" else _read_version(each) for each in versions)
    return ".".join(map(str, max(found, default=())))


def _read_version(node: str) -> tuple[int, ...]:
    match = _GLIBC.fullmatch(node)
    return tuple(map(int, match[1].split("."))) if match else ()

"""Make the tables of a night from its plan, its attempts and the facts of its packages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from binary_checks.errors import RecordError, StoreError
from binary_checks.fleet.night import (
    DECIDED,
    Attempt,
    NightPlan,
    PlannedCell,
    ProcessEnd,
    final_state,
)
from binary_checks.fleet.nights import decide_state
from binary_checks.fleet.store import (
    Store,
    ask_at_once,
    closed_name,
    facts_name,
    result_prefix,
    split_attempt,
    table_name,
)
from binary_checks.fleet.store.kept_facts import find_facts
from binary_checks.fleet.stored_nights import (
    closed_nights,
    make_unreadable_attempt,
    read_stored_attempt,
    require_plan,
)
from binary_checks.fleet.tables.rows import (
    TABLES,
    Row,
    cell_row,
    check_rows,
    facts_of,
    read_facts_rows,
)
from binary_checks.fleet.tables.views import connect, open_tables, write_table
from binary_checks.model import CellState

_AT_ONCE = 16  # cells whose documents are in memory


@dataclass(frozen=True, kw_only=True, slots=True)
class NightTables:
    """The tables of a night, as `make_tables` made them."""

    night: str
    paths: Mapping[str, Path]  # table -> Parquet file
    complaints: tuple[str, ...]  # what was unreadable or unexpected, a line each
    states: Mapping[CellState, int]  # state -> number of cells
    attempts: Mapping[str, tuple[Attempt, ...]]  # cell id -> attempts that count, without results


def make_tables(store: Store, night: str, folder: Path) -> NightTables:
    """Write the Parquet tables of a night into the folder; the same store gives the same bytes.

    Unreadable documents count as lost and add a complaint. Raises StoreError if there is no plan,
    or if the store cannot be reached.
    """
    plan = require_plan(store, night)
    documents, complaints = _find_documents(store, plan)
    states: Counter[CellState] = Counter()
    counted, with_facts = {}, {}
    paths = {table: folder / f"{table}.parquet" for table in TABLES}
    with TemporaryDirectory() as work:
        lines = {table: Path(work, f"{table}.ndjson") for table in TABLES}
        with ExitStack() as opened:
            files = {
                table: opened.enter_context(path.open("w", encoding="ascii"))
                for table, path in lines.items()
            }
            for planned, attempts in _read_cells(store, plan, documents, complaints):
                end = final_state(planned, attempts)
                _add(files["cells"], [cell_row(night, planned, end)])
                _add(files["checks"], check_rows(night, planned, end))
                states[end.state] += 1
                counted[planned.cell.id] = tuple(
                    replace(each, result=None) for each in end.attempts
                )
                if facts := facts_of(end):
                    with_facts[planned.sha256] = facts
            known = _find_known(store, night, with_facts)
            new = {each: facts for each, facts in with_facts.items() if each not in known}
            for objects, parts in _read_facts(store, night, new, complaints):
                _add(files["objects"], objects)
                _add(files["parts"], parts)
        with connect(Path(work)) as connection:
            for table, path in paths.items():
                write_table(connection, table, lines[table], path)
    return NightTables(
        night=night,
        paths=paths,
        complaints=tuple(complaints),
        states=states,
        attempts=counted,
    )


def _add(file: IO[str], rows: Iterable[Row]) -> None:
    file.writelines(f"{json.dumps(row)}\n" for row in rows)


def _find_known(store: Store, before: str, wanted: Iterable[str]) -> frozenset[str]:
    """Return those of the SHA-256 of packages whose objects an earlier night has."""
    nights = [night for night in closed_nights(store) if night < before]
    if not nights:
        return frozenset()
    with open_tables(store, tables=["parts"], nights=nights) as connection:
        known = "SELECT DISTINCT sha256 FROM all_parts WHERE list_contains($wanted, sha256)"
        found = connection.execute(known, {"wanted": [*wanted]}).fetchall()
    return frozenset(sha256 for (sha256,) in found)


def keep_tables(store: Store, made: NightTables) -> None:
    """Store the tables; they may be replaced until the night is closed.

    Raises StoreError if a closed night has other tables.
    """
    for table, path in made.paths.items():
        name = table_name(made.night, table)
        if store.create(name, path) or store.read(name) == path.read_bytes():
            continue
        if store.read(closed_name(made.night)) is not None:
            raise StoreError(
                f"{store.url}: {name}: the new table differs from this one, but the night is closed"
            )
        store.delete(name)
        store.create(name, path)


def _find_documents(store: Store, plan: NightPlan) -> tuple[dict[str, list[str]], list[str]]:
    """Return cell -> names of its attempts' documents, and complaints about other names."""
    found: dict[str, list[str]] = {each.cell.id: [] for each in plan.cells}
    complaints = []
    for stored in store.names(result_prefix(plan.night)):
        attempt = split_attempt(stored.name)
        if attempt is None or not stored.name.endswith(".json"):
            complaints.append(f"{stored.name}: not the name of a result")
        elif attempt[0] not in found:
            complaints.append(f"{stored.name}: its cell is not in the plan; ignored")
        else:
            found[attempt[0]].append(stored.name)
    return found, complaints


def _read_cells(
    store: Store, plan: NightPlan, documents: Mapping[str, list[str]], complaints: list[str]
) -> Iterator[tuple[PlannedCell, list[Attempt]]]:
    """Yield each planned cell with its attempts, a batch at a time."""
    cells = iter(plan.cells)
    while batch := list(islice(cells, _AT_ONCE)):
        names = [name for planned in batch for name in documents[planned.cell.id]]
        contents = dict(zip(names, ask_at_once(store.read, names), strict=True))
        for planned in batch:
            yield (
                planned,
                [
                    _read_document(planned, plan.night, name, contents[name] or b"", complaints)
                    for name in documents[planned.cell.id]
                ],
            )


def _read_document(
    planned: PlannedCell, night: str, name: str, content: bytes, complaints: list[str]
) -> Attempt:
    """Return the attempt in a document, or a lost attempt if the document does not count."""
    try:
        attempt = read_stored_attempt(content, name)
        if attempt.sha256 != planned.sha256:
            complaints.append(f"{name}: it is for other bytes than those planned; ignored")
        elif contradiction := _find_contradiction(attempt):
            raise RecordError(f"{name}: it says {attempt.state.value}, but {contradiction}")
    except RecordError as error:
        complaints.append(str(error))
        return make_unreadable_attempt(name, night, planned.sha256, error)
    return attempt


def _find_contradiction(attempt: Attempt) -> str:
    """Return what an attempt's result says if its state is another one, or "".

    Other states may come from causes outside the result.
    """
    if attempt.state not in DECIDED:
        return ""
    end = ProcessEnd(exit_status=attempt.exit_status, signal=attempt.signal)
    state, reason = decide_state(end, attempt.result, attempt.sha256)
    if state is attempt.state:
        return ""
    return f"its result says {state.value}{reason and f': {reason}'}"


def _read_facts(
    store: Store, night: str, wanted: Mapping[str, str], complaints: list[str]
) -> Iterator[tuple[Sequence[Row], Sequence[Row]]]:
    """Yield the rows of objects and of parts of packages.

    ``wanted`` maps SHA-256 of packages to SHA-256 of their facts.
    """
    for sha256, facts in sorted(wanted.items()):
        name = facts_name(facts)  # for messages, if there are none
        try:
            name = find_facts(store, facts) or name
            with store.local(name) as path:
                yield read_facts_rows(path, night, sha256, name)
        except (RecordError, StoreError) as error:
            complaints.append(f"{error}: the tables lack its objects")

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="the extra fleet is not installed")

from binary_checks.errors import GatherError, StoreError
from binary_checks.fleet.store import (
    Store,
    closed_name,
    facts_name,
    open_store,
    result_name,
    table_name,
)
from binary_checks.fleet.stored_nights import read_attempt, write_attempt
from binary_checks.fleet.tables.collecting import NightTables, keep_tables, make_tables
from binary_checks.fleet.tables.rows import TABLES
from binary_checks.fleet.tables.views import connect, open_tables, write_table
from binary_checks.model import CellState, Entry, Outcome, Problem
from fixtures.fleet.nights import Nights, make_nights
from fixtures.fleet.script_of_nights import ROLES

CELLS, NIGHTS = 8, 5
Change = Callable[[bytes], bytes]


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    return make_nights(tmp_path_factory.mktemp("nights") / "store", CELLS, NIGHTS)


@pytest.fixture
def nights(untouched: Nights, tmp_path: Path) -> Nights:
    """A copy, of which the last night is not collected yet."""
    folder = tmp_path / "store"
    shutil.copytree(untouched.folder, folder)
    night = untouched.tonight
    for name in (*(table_name(night, table) for table in TABLES), closed_name(night)):
        (folder / name).unlink()
    return replace(untouched, folder=folder)


@pytest.fixture
def store(nights: Nights) -> Store:
    return open_store(str(nights.folder))


@pytest.fixture
def collect(store: Store, nights: Nights, tmp_path: Path) -> Callable[[], NightTables]:
    def collect() -> NightTables:
        folder = tmp_path / "tables"
        folder.mkdir(exist_ok=True)
        return make_tables(store, nights.tonight, folder)

    return collect


def ask(nights: Nights, sql: str) -> list[Any]:
    with open_tables(open_store(str(nights.folder))) as connection:
        return list(connection.execute(sql).fetchall())


def rewrite(nights: Nights, role: int, change: Change) -> str:
    """Change the document of the first attempt of a cell tonight; answers with its name."""
    name = result_name(nights.tonight, nights.cell(role), "cpu", 1)
    path = nights.folder / name
    path.write_bytes(change(path.read_bytes()))
    return name


def test_every_cell_of_every_night_ends_as_it_was_played(untouched: Nights) -> None:
    rows = ask(untouched, "SELECT night::VARCHAR, cell, state FROM cells")
    found = {(night, cell): state for night, cell, state in rows}
    assert len(rows) == len(found) == CELLS * NIGHTS
    assert found == {
        (night, cell): state.value
        for night, states in untouched.states.items()
        for cell, state in states.items()
    }


def test_tables_are_the_same_each_time_and_never_change_once_the_night_is_closed(
    collect: Callable[[], NightTables], store: Store, nights: Nights
) -> None:
    first = {table: path.read_bytes() for table, path in collect().paths.items()}
    keep_tables(store, collect())
    assert {table: path.read_bytes() for table, path in collect().paths.items()} == first
    keep_tables(store, collect())
    rewrite(nights, ROLES.grows, lambda content: b"")
    keep_tables(store, collect())  # nobody has read them yet
    store.create(closed_name(nights.tonight), b"{}\n")
    rewrite(nights, ROLES.known, lambda content: b"")
    with pytest.raises(
        StoreError, match=r"cells\.parquet: the new table differs .* the night is closed"
    ):
        keep_tables(store, collect())


def change_attempt(**fields: Any) -> Change:
    def change(content: bytes) -> bytes:
        return write_attempt(replace(read_attempt(content, "it"), **fields))

    return change


def swap(old: bytes, new: bytes) -> Change:
    return lambda content: content.replace(b'"warned"', b'"passed"').replace(old, new)


def change_package(content: bytes) -> bytes:
    head, result, rest = content.partition(b'"result":')
    package, sha256, more = rest.partition(b'"node"')
    begin, name, digest = more.partition(b'"sha256": "')
    return head + result + package + sha256 + begin + name + b"ab" * 32 + digest[64:]


@pytest.mark.parametrize(
    ("role", "change", "reason"),
    [
        (ROLES.known, lambda content: content[:200], "not JSON"),
        (ROLES.known, swap(b"attempt/1", b"attempt/2"), "wrote it; update this one"),
        (
            ROLES.known,
            swap(b'"accepted": [{', b'"accepted": [{}, {'),
            "result.packages[0].entries[",
        ),
        (ROLES.known, swap(b'"number": 1', b'"number": 7'), "its document is for another attempt"),
        (
            ROLES.grows,
            change_attempt(result=None),
            "it says passed, but its result says lost: no result, with exit code 0",
        ),
        (
            ROLES.breaks_tonight,
            change_attempt(state=CellState.PASSED),
            "it says passed, but its result says failed",
        ),
        (ROLES.breaks_tonight, change_package, "other bytes than planned: SHA-256 abab"),
        (
            ROLES.flaky,
            swap(b'"outcome": "passed"', b'"outcome": "not inspected"'),
            "add up to 'not judged'",
        ),
        (
            ROLES.flaky,
            swap(b'"exit_code": 0', b'"exit_code": 6'),
            "its result states exit code 6, but the process ended with 0",
        ),
        (
            ROLES.flaky,
            swap(b'"verdict": "passed"', b'"verdict": "not judged"'),
            "add up to 'passed'",
        ),
        (
            ROLES.flaky,
            swap(b'"outcome": "passed"', b'"outcome": "error"'),
            "add up to 'error'",
        ),
    ],
)
def test_a_document_that_cannot_be_read_or_contradicts_itself_is_reported_and_counts_as_lost(
    nights: Nights, collect: Callable[[], NightTables], role: int, change: Change, reason: str
) -> None:
    name = rewrite(nights, role, change)
    made = collect()
    (complaint,) = made.complaints
    assert complaint.startswith(f"{name}: ")
    assert reason in complaint
    assert made.states[CellState.LOST] == 1
    attempt, *_ = made.attempts[nights.cell(role)]
    assert attempt.state is CellState.LOST
    assert reason in attempt.reason


def test_a_time_that_no_table_holds_is_none(
    nights: Nights, collect: Callable[[], NightTables], store: Store
) -> None:
    rewrite(nights, ROLES.known, change_attempt(started="0001-01-01T00:00:00+23:59"))
    made = collect()
    assert made.complaints == ()
    keep_tables(store, made)
    store.create(closed_name(nights.tonight), b"{}\n")
    where = f"night = '{nights.tonight}' AND cell = '{nights.cell(ROLES.known)}'"
    assert ask(nights, f"SELECT started FROM cells WHERE {where}") == [(None,)]


def test_an_attempt_at_other_bytes_than_the_plans_does_not_count(
    nights: Nights, collect: Callable[[], NightTables]
) -> None:
    rewrite(nights, ROLES.known, change_attempt(sha256="ab" * 32))
    made = collect()
    assert "for other bytes than those planned" in made.complaints[0]
    assert made.attempts[nights.cell(ROLES.known)] == ()


def test_documents_of_no_planned_cell_are_reported(
    nights: Nights, store: Store, collect: Callable[[], NightTables]
) -> None:
    store.create(result_name(nights.tonight, "nobody", "cpu", 1), b"{}")
    store.create(f"night={nights.tonight}/results/odd.json", b"{}")
    before = len(ask(nights, "FROM cells"))
    made = collect()
    assert [each.partition(": ")[2][:8] for each in made.complaints] == ["its cell", "not the "]
    keep_tables(store, made)
    store.create(closed_name(nights.tonight), b"{}\n")
    assert len(ask(nights, "FROM cells")) == before + CELLS


def test_a_night_without_a_plan_is_one_clear_line(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"night=2020-01-01/plan\.json: the night has no plan"):
        make_tables(store, "2020-01-01", tmp_path)


def test_an_infra_night_has_its_attempts_and_its_cause(untouched: Nights) -> None:
    cell = untouched.cell(ROLES.troubled)
    (row,) = ask(
        untouched,
        "SELECT state, attempts, cause, cause_kind, reason, facts, log FROM cells "
        f"WHERE cell = '{cell}' AND night = '{untouched.nights[2]}'",
    )
    said = ("infra", 3, "index-unreachable", "infra", "the index did not answer", "")
    assert row[:-1] == said
    assert row[-1].startswith(f"night={untouched.nights[2]}/failed/{cell}.cpu3.")


def test_a_second_stage_has_checks_of_its_own(untouched: Nights) -> None:
    rows = ask(
        untouched,
        "SELECT stage, count(*) FROM checks WHERE night = '2026-11-20' "
        f"AND cell = '{untouched.cell(ROLES.grows)}' GROUP BY stage ORDER BY stage",
    )
    assert [stage for stage, _ in rows] == ["cpu", "gpu"]
    assert rows[0][1] == rows[1][1] > 50


def test_the_first_problem_of_a_check_stands_in_its_row(untouched: Nights) -> None:
    (row,) = ask(
        untouched,
        "SELECT check_id, family, problems, path, sentence FROM checks "
        "WHERE night = '2026-11-20' AND outcome = 'failed' "
        f"AND cell = '{untouched.cell(ROLES.breaks_tonight)}'",
    )
    assert row[:4] == ("missing-library", "linkage", 1, "demo/_native.so")
    assert row[4].startswith("needs libfoo.so.1, which neither")


def test_each_package_has_its_objects_once_in_the_night_that_met_it_first(
    untouched: Nights,
) -> None:
    counts = ask(untouched, "SELECT sha256, count(DISTINCT night) FROM all_parts GROUP BY sha256")
    assert {count for _, count in counts} == {1}
    nothing_lacks = ask(
        untouched,
        "SELECT DISTINCT sha256 FROM cells WHERE facts <> '' AND sha256 NOT IN "
        "(SELECT sha256 FROM parts)",
    )
    assert nothing_lacks == []


def test_objects_say_their_floor_of_glibc_and_their_gpu_targets(untouched: Nights) -> None:
    rows = ask(
        untouched,
        "SELECT DISTINCT night::VARCHAR, objects.glibc, objects.gpu, objects.needed FROM objects "
        "JOIN (SELECT DISTINCT sha256 FROM cells "
        f"WHERE cell = '{untouched.cell(ROLES.grows)}') USING (sha256) ORDER BY night",
    )
    first, later, last = untouched.nights[0], untouched.nights[NIGHTS // 2], untouched.tonight
    needed = ["libc.so.6"]
    assert rows == [
        (first, "2.17", ["sm_70", "sm_90"], needed),
        (later, "2.34", ["sm_90"], needed),
        (last, "2.34", ["sm_90"], needed),
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (b"\x1f\x8b\x08", "incomplete"),
        (b"no gzip", "incomplete, or not gzip"),
        (None, "the tables lack its objects"),
    ],
)
def test_facts_that_cannot_be_read_are_reported_and_cost_no_cell(
    nights: Nights, collect: Callable[[], NightTables], content: bytes | None, reason: str
) -> None:
    path = nights.folder / result_name(nights.tonight, nights.cell(ROLES.grows), "cpu", 1)
    facts = read_attempt(path.read_bytes(), "it").facts
    (nights.folder / facts_name(facts)).unlink()
    if content is not None:
        (nights.folder / facts_name(facts)).write_bytes(content)
    made = collect()
    (complaint,) = made.complaints
    assert facts_name(facts) in complaint
    assert reason in complaint
    assert made.states == {
        state: [*nights.states[nights.tonight].values()].count(state) for state in made.states
    }


def test_checks_that_report_one_fault_have_one_that_leads(
    nights: Nights, store: Store, collect: Callable[[], NightTables]
) -> None:
    """A truncated object: its import fails for the same cause."""
    broken = tuple(
        Entry(
            check=check,
            family="runtime",
            outcome=Outcome.FAILED,
            problems=(
                Problem(path="a.so", sentence=check, cause="damaged a.so", consequence=follows),
            ),
        )
        for check, follows in {"malformed-object": False, "import-fails": True}.items()
    )

    def change(content: bytes) -> bytes:
        attempt = read_attempt(content, "it")
        assert attempt.result is not None
        (package,) = attempt.result.packages
        others = tuple(each for each in package.entries if not each.problems)
        result = replace(attempt.result, packages=(replace(package, entries=(*others, *broken)),))
        return write_attempt(replace(attempt, result=result))

    rewrite(nights, ROLES.breaks_tonight, change)
    keep_tables(store, collect())
    store.create(closed_name(nights.tonight), b"{}\n")
    cell, night = nights.cell(ROLES.breaks_tonight), nights.tonight
    where = f"night = '{night}' AND cell = '{cell}' AND outcome = 'failed' ORDER BY check_id"
    found = ask(nights, f"SELECT check_id, leads FROM checks WHERE {where}")
    assert found == [("import-fails", False), ("malformed-object", True)]
    where = f"night = '{night}' AND list_contains(cells, '{cell}')"
    assert ask(nights, f"SELECT check_id FROM faults WHERE {where}") == [("malformed-object",)]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device on this system")
def test_a_table_for_which_there_is_no_room_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("")
    with connect(tmp_path) as connection, pytest.raises(GatherError, match=r"^full: cannot be w"):
        write_table(connection, "parts", tmp_path / "rows", Path("/dev/full"))

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="the extra fleet is not installed")

from binary_checks.errors import ProfileError, StoreError
from binary_checks.fleet.store import Store, closed_name, open_store, table_name
from binary_checks.fleet.stored_nights import closed_nights
from binary_checks.fleet.tables.rows import TABLES
from binary_checks.fleet.tables.table_questions import ask
from binary_checks.fleet.tables.views import open_tables
from fixtures.fleet.nights import Nights, make_nights


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    return make_nights(tmp_path_factory.mktemp("odd [names]?*'s") / "store", 3, 3)


@pytest.fixture(scope="module")
def store(nights: Nights) -> Store:
    return open_store(str(nights.folder))


@pytest.fixture(scope="module")
def connection(store: Store) -> Iterator[Any]:
    with open_tables(store, trusted=False) as connection:
        yield connection


def rows(connection: Any, sql: str, **given: str) -> list[tuple[Any, ...]]:
    with ask(connection, sql, given) as answer:
        return list(answer.rows)


def snapshot(folder: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_columns_are_those_that_are_declared(connection: Any) -> None:
    for table, columns in TABLES.items():
        described = rows(connection, f"DESCRIBE {table}")
        kinds = {"REAL": "FLOAT"}
        assert [(name, kind) for name, kind, *_ in described] == [
            (name, kinds.get(kind, kind)) for name, kind in columns.items()
        ]


def test_free_sql_takes_parameters_or_their_defaults_and_knows_the_last_night(
    connection: Any, nights: Nights
) -> None:
    sql = "SELECT DISTINCT night::VARCHAR, $word FROM cells WHERE night = $night::DATE"
    assert rows(connection, sql, word="x") == [(nights.tonight, "x")]
    assert rows(connection, sql, word="x", night=nights.nights[0]) == [(nights.nights[0], "x")]
    sql = "-- A question.\n-- $word = some: a word\nSELECT $word"
    assert rows(connection, sql) == [("some",)]
    assert rows(connection, sql, word="x") == [("x",)]


def test_columns_of_one_name_are_told_apart(connection: Any) -> None:
    with ask(connection, "SELECT 1 AS a, 2 AS a, 3 AS b", {}) as answer:
        assert answer.columns == ("a", "a_2", "b")
    with ask(connection, f"SELECT {', '.join(['1 AS a'] * 4000)}", {}) as answer:
        assert answer.columns[:2] + answer.columns[-1:] == ("a", "a_2", "a_4000")
    with ask(connection, "SELECT check_id, count(*) FROM checks GROUP BY ALL", {}) as answer:
        assert answer.columns == ("check_id", "count_star()")  # which needs no quotes


@pytest.mark.parametrize(
    "sql",
    [
        "COPY cells TO '{folder}/stolen.csv'",
        "WITH stolen AS (COPY (SELECT 1) TO '{folder}/stolen.csv') SELECT 1",
        "WITH stolen AS (COPY (SELECT 1) TO '{table}') SELECT 1",
        "COPY (SELECT 1) TO '{table}'",
        "FROM query('COPY (SELECT 1) TO ''{table}''')",
        "FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
        "WITH more AS (INSERT INTO letters VALUES ('a', 'b') RETURNING *) FROM more",
        "EXPORT DATABASE '{folder}/stolen'",
        "ATTACH '{folder}/stolen.db'",
        "CREATE TABLE stolen AS SELECT 1",
        "DROP VIEW cells",
        "SET enable_external_access = true",
        "SET memory_limit = '100GB'",
        "RESET allowed_paths",
        "INSTALL httpfs",
        "LOAD httpfs",
        "PRAGMA version",
        "EXPLAIN ANALYZE SELECT 1",
        "SELECT 1; SELECT 2",
        "",
        "-- nothing",
        "SELECT * FROM read_text('{other}')",
        "SELECT * FROM read_csv('{other}')",
        "SELECT * FROM read_blob('{table}/../../store.json')",
        "SELECT * FROM glob('{folder}/*')",
        "FROM '{other}'",
        "SELECT * FROM read_parquet('https://packages.example/x.parquet')",
        "SELECT * FROM enable_logging(storage = 'file', storage_path = '{folder}/stolen')",
        "FROM sql",
        "FROM store",
    ],
)
def test_sql_of_a_stranger_writes_nothing_and_reads_no_other_file(
    connection: Any, nights: Nights, tmp_path: Path, sql: str
) -> None:
    other = tmp_path / "secret.csv"
    other.write_text("the password is 1234\n")
    before = snapshot(nights.folder) | snapshot(tmp_path)
    table = nights.folder / table_name(nights.tonight, "cells")
    places = {"folder": tmp_path, "other": other, "table": str(table).replace("'", "''")}
    with pytest.raises(ProfileError) as caught:
        rows(connection, sql.format(**places))
    assert "\n" not in str(caught.value)
    assert "1234" not in str(caught.value)
    assert snapshot(nights.folder) | snapshot(tmp_path) == before
    assert rows(connection, "SELECT count(*) FROM cells") == [(9,)]


def test_the_users_own_secrets_of_duckdb_are_not_read(connection: Any) -> None:
    assert rows(connection, "SELECT * FROM duckdb_secrets()") == []


def test_an_answer_that_takes_too_much_memory_is_given_up(connection: Any) -> None:
    with pytest.raises(ProfileError, match="Out of Memory"):
        rows(connection, "SELECT list(range) FROM range(1_000_000_000)")
    assert rows(connection, "SELECT count(*) FROM cells") == [(9,)]


def test_the_last_nights_alone(store: Store, nights: Nights) -> None:
    with open_tables(store, nights=nights.nights[1:]) as connection:
        found = rows(connection, "SELECT DISTINCT night::VARCHAR FROM cells ORDER BY 1")
        checks = rows(connection, "SELECT count(DISTINCT night) FROM checks")
        packages = rows(connection, "SELECT count(DISTINCT night) FROM objects")
    assert [night for (night,) in found] == list(nights.nights[1:])
    assert checks == [(2,)]
    assert packages[0][0] >= 2  # what an earlier night met is there still


def test_one_project_alone(store: Store, nights: Nights) -> None:
    project = nights.cells[0].project
    with open_tables(store, project=project) as connection:
        assert rows(connection, "SELECT DISTINCT project FROM cells") == [(project,)]
        assert rows(connection, "SELECT DISTINCT cell FROM checks") == [(nights.cells[0].id,)]
        lost = "SELECT count(*) FROM objects WHERE sha256 NOT IN (SELECT sha256 FROM cells)"
        assert rows(connection, lost) == [(0,)]
    with (
        pytest.raises(ProfileError, match=r"it's another.*: no cells of this project"),
        open_tables(store, project="it's another"),
    ):
        pass


def test_a_night_that_is_not_closed_is_not_asked(tmp_path: Path) -> None:
    made = make_nights(tmp_path / "store", 2, 2)
    store = open_store(str(made.folder))
    (made.folder / closed_name(made.tonight)).unlink()
    assert closed_nights(store) == made.nights[:1]
    with open_tables(store) as connection:
        assert rows(connection, "SELECT count(DISTINCT night) FROM cells") == [(1,)]
    (made.folder / closed_name(made.nights[0])).unlink()
    with pytest.raises(StoreError, match="no night is closed yet"), open_tables(store):
        pass


@pytest.mark.parametrize("damage", ["cut", "other", "empty", "gone", "first", "page"])
@pytest.mark.parametrize("table", ["cells", "objects"])
def test_a_damaged_table_is_named(tmp_path: Path, damage: str, table: str) -> None:
    made = make_nights(tmp_path / "store", 2, 2)
    name = table_name(made.tonight, table)
    path = made.folder / name
    content = path.read_bytes()
    damaged = {
        "cut": content[: len(content) // 2],
        "other": b"night,cell\n2026-11-20,demo\n",
        "empty": b"",
        "first": content[:4] + b"\x5a" * 16 + content[20:],
        "page": content[:32] + b"\x5a" * 64 + content[96:],
    }
    path.unlink()
    if damage != "gone":
        path.write_bytes(damaged[damage])
    with (
        pytest.raises(StoreError) as caught,
        open_tables(open_store(str(made.folder)), trusted=False) as connection,
    ):
        rows(connection, f"SELECT * FROM {table}")
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_time_that_python_cannot_hold_is_one_line(connection: Any) -> None:
    with pytest.raises(ProfileError, match="the answer has values that Python cannot represent"):
        rows(connection, "SELECT INTERVAL '1000000000 days'")


def test_rows_that_are_others_than_the_columns_say_are_one_line(tmp_path: Path) -> None:
    import duckdb

    made = make_nights(tmp_path / "store", 3, 2)
    path = made.folder / table_name(made.tonight, "cells")
    wrong = path.with_name("wrong")
    duckdb.sql(
        f"COPY (SELECT * REPLACE ('some night' AS night) FROM '{path}') TO '{wrong}' "
        "(FORMAT parquet)"
    )
    wrong.replace(path)
    with (
        pytest.raises(StoreError, match=r"cells\.parquet: cannot be read: Conversion Error"),
        open_tables(open_store(str(made.folder))) as tables,
    ):
        tables.execute("SELECT night FROM cells").fetchall()

"""The history, read from the tables."""

from __future__ import annotations

from typing import Any

import pytest

from binary_checks.errors import StoreError
from binary_checks.fleet.page.history import read_history
from binary_checks.fleet.tables.rows import TABLES
from binary_checks.model import CellState


@pytest.fixture
def connection() -> Any:
    opened = pytest.importorskip("duckdb").connect()
    for table, columns in TABLES.items():
        spelled = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
        opened.execute(f"create table {table} ({spelled})")
    return opened


def add(connection: Any, table: str, **values: object) -> None:
    names = ", ".join(f'"{name}"' for name in values)
    marks = ", ".join("?" for _ in values)
    connection.execute(f"insert into {table} ({names}) values ({marks})", [*values.values()])


def test_nights_cells_failures_and_parts_are_read(connection: Any) -> None:
    common = {"cell": "a-1", "project": "a", "system": "linux"}
    add(connection, "cells", night="2026-11-19", state="passed", sha256="1", size=7, **common)
    add(connection, "cells", night="2026-11-20", state="failed", sha256="2", size=8, **common)
    check = {"night": "2026-11-20", "cell": "a-1", "stage": "cpu", "check_place": ""}
    add(connection, "checks", check="fine", outcome="passed", **check)
    add(connection, "checks", check="bad", outcome="failed", sentence="is bad", **check)
    add(connection, "parts", night="2026-11-19", sha256="1", part="native code", size=5)
    add(connection, "parts", night="2026-11-19", sha256="another", part="data", size=5)
    found = read_history(connection)
    assert found.nights == ("2026-11-19", "2026-11-20")
    row = found.cells["a-1"]["2026-11-20"]
    assert (row.state, row.size, row.axes[3], row.url) == (CellState.FAILED, 8, "linux", "")
    ((failed,),) = found.failures.values()
    assert (failed.check, failed.summary) == ("bad", "is bad")
    assert found.parts == {"1": {"native code": 5}}


def test_a_state_that_nobody_knows_is_of_a_newer_version(connection: Any) -> None:
    add(connection, "cells", night="2026-11-20", cell="a-1", project="a", state="teleported")
    with pytest.raises(StoreError, match="a-1: state 'teleported' is unknown; a newer version"):
        read_history(connection)


@pytest.mark.parametrize("lacks", ["night", "cell"])
def test_a_row_without_a_night_or_a_cell_is_an_error(connection: Any, lacks: str) -> None:
    row = {"night": "2026-11-20", "cell": "a", "state": "passed", lacks: None}
    add(connection, "cells", **row)
    with pytest.raises(StoreError, match="a row without a night or a cell"):
        read_history(connection)

"""A night whose store is a bucket, also one whose server is killed while the night runs."""

from __future__ import annotations

import secrets
import time
from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="the extra fleet is not installed")

from binary_checks.command.actions import NIGHTLY
from binary_checks.fleet.store import Store, open_store
from fixtures.fleet.object_store import BUCKET, ObjectStore
from tests.fleet.nights.night_cells import (
    NIGHT,
    begin_night,
    keep_plan,
    plan_cell,
    run_night,
    runs_of,
    states_of,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def store(server: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("BINARY_CHECKS_CACHE", str(tmp_path / "cache"))
    return open_store(f"s3://{BUCKET}/{secrets.token_hex(8)}", make=True)


def test_a_night_is_run_collected_and_pruned(store: Store, tmp_path: Path) -> None:
    cells = [plan_cell(tmp_path, f"good{n}", "exit 0") for n in range(4)]
    bad = plan_cell(tmp_path, "bad", "exit 1")
    again = plan_cell(tmp_path, "again", "exit 6", "exit 0")
    for night in ("2026-11-18", "2026-11-19", NIGHT):
        keep_plan(store, *cells, bad, *([again] if night == NIGHT else []), night=night)
        run_night(store, "--shard", "1/2", night=night)
        assert run_night(store, night=night) == 1
        assert NIGHTLY.run(["collect", "--store", store.url, "--date", night]) == 0
    assert states_of(store)["again"] == ["infra", "passed"]
    logs = [each.name for each in store.names(f"night={NIGHT}/failed/")]
    assert [log.rsplit(".", 2)[0] for log in logs] == [
        f"night={NIGHT}/failed/again.cpu1",
        f"night={NIGHT}/failed/bad.cpu1",
    ]
    assert [*store.names(f"night={NIGHT}/running/")] == []
    assert NIGHTLY.run(["prune", "--store", store.url, "--keep", "1", "--do-it"]) == 0
    left = [each.name for each in store.names("night=") if "/results/" in each.name]
    assert left == [
        f"night={NIGHT}/results/{name}.json"
        for name in ("again.cpu1", "again.cpu2", "bad.cpu1", *(f"good{n}.cpu1" for n in range(4)))
    ]


def test_a_server_that_is_killed_meanwhile_costs_no_cell(
    store: Store, server: ObjectStore, tmp_path: Path
) -> None:
    cells = [plan_cell(tmp_path, f"cell{n:02}", "sleep 1") for n in range(16)]
    keep_plan(store, *cells)
    with begin_night(store, "-j", "4") as night:
        while not list(store.names(f"night={NIGHT}/results/")):
            assert night.poll() is None, night.communicate()[0]
            time.sleep(0.1)
        for _ in range(2):
            server.kill()
            time.sleep(0.5)
            server.start()
            time.sleep(1)
        output, _ = night.communicate(timeout=120)
    assert night.returncode == 0, output
    assert states_of(store) == {each.cell.id: ["passed"] for each in cells}
    assert [len(runs_of(each)) for each in cells] == [1] * 16

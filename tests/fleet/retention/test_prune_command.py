"""`binary-checks nightly prune` over stores of synthetic nights."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="the extra fleet is not installed")

from binary_checks.command.actions import NIGHTLY
from binary_checks.errors import StoreError
from binary_checks.fleet.artifacts import (
    Artifact,
    join_channel,
    list_members,
    write_artifact,
    write_index,
)
from binary_checks.fleet.night import NightPlan, PlannedCell
from binary_checks.fleet.retention.pruning import carry_out, read_history
from binary_checks.fleet.retention.rules import PruneRefusedError, retain
from binary_checks.fleet.store import (
    Store,
    artifact_name,
    file_prefix,
    open_store,
    plan_name,
    verdict_name,
)
from binary_checks.fleet.stored_nights import read_plan, write_plan
from binary_checks.model import CellState
from fixtures.fleet.nights import Nights, make_nights
from tests.fleet.conftest import end_after

NIGHTS, KEEP = 4, 2


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    return make_nights(tmp_path_factory.mktemp("made") / "store", cells=6, nights=NIGHTS)


@pytest.fixture
def store(made: Nights, tmp_path: Path) -> Store:
    """A store of its own, whose packages are in it too."""
    shutil.copytree(made.folder, tmp_path / "store")
    store = open_store(str(tmp_path / "store"))
    for night in made.nights:
        for each in plan_of(store, night).cells:
            if each.sha256:
                name = f"{file_prefix('demo', each.sha256)}{each.file_name}"
                store.create(name, b"the package")
    return store


def plan_of(store: Store, night: str) -> NightPlan:
    return read_plan(store.read(plan_name(night)) or b"", night)


def prune(store: Store, *options: str) -> int:
    return NIGHTLY.run(["prune", "--store", store.url, "--keep", str(KEEP), *options])


def names(store: Store) -> list[str]:
    return [each.name for each in store.names("")]


def test_without_being_told_so_it_says_what_it_would_delete_and_told_so_it_deletes_that(
    store: Store, made: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    before = names(store)
    assert prune(store) == 0
    assert names(store) == before
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{store.url}: {NIGHTS} nights, {NIGHTS} of them closed"
    (kept,) = (line for line in said if line.startswith("kept: "))
    assert f" of {len(made.cells)} cells: {KEEP * len(made.cells)} of the last {KEEP}, " in kept
    assert any(line.startswith(f"delete: night={made.nights[0]}/results/: ") for line in said)
    assert said[-1].endswith("; nothing is deleted without --do-it")
    assert prune(store, "--names") == 0
    said = capsys.readouterr().out.splitlines()
    wanted = {line.split(": ")[1] for line in said if line.startswith("delete: ")}
    nights = {
        line.split(": ")[2] for line in said if line.startswith(f"kept: {made.cells[0].id}: ")
    }
    assert {*made.nights[-KEEP:]} <= nights
    assert prune(store, "--do-it") == 0
    assert {*before} - set(names(store)) == wanted
    assert {name.partition("/")[0] for name in wanted} >= {f"night={made.nights[0]}", "files"}
    assert not [name for name in wanted if name.endswith((".parquet", "plan.json", "closed.json"))]
    capsys.readouterr()
    assert prune(store, "--do-it") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "deleted 0 objects, 0 bytes"


def test_an_artifact_goes_whole_and_the_index_of_its_channel_before_it(
    store: Store, made: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = (
        next(each for each in plan_of(store, night).cells if each.sha256)
        for night in (made.nights[0], made.tonight)
    )
    for each in (old, new):
        name = "demo-1.0-py3-none-any.whl" if each is old else "demo-2.0-py3-none-any.whl"
        artifact = Artifact(
            sha256=each.sha256, file_name=name, size=3, kind="wheel", project="demo"
        )
        store.create(artifact.object_name, b"the")
        store.create(verdict_name(each.sha256, "a" * 64), b"{}")
        store.create(artifact_name(each.sha256), write_artifact(artifact))
        join_channel(store, "nightly", artifact)
    write_index(store, "nightly")
    assert prune(store, "--expire", "nigthly") == 0
    assert "--expire nigthly: the store holds no package of that channel" in capsys.readouterr().err
    assert prune(store, "--expire", "nightly", "--do-it") == 0
    left = names(store)
    assert not any(old.sha256 in name for name in left if name.startswith(("files/", "packages/")))
    assert [each.sha256 for each in list_members(store)] == [new.sha256]
    assert old.sha256 not in (store.read("simple/nightly/files.html") or b"").decode()
    assert new.sha256 in (store.read("simple/nightly/files.html") or b"").decode()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda plan: (), "its plan contains no package"),
        (
            lambda plan: [replace(c, sha256="", state=CellState.MISSING) for c in plan.cells],
            "its plan contains no package",
        ),
        (
            lambda plan: [
                replace(plan.cells[0], state=CellState.INFRA, reason="503"),
                plan.cells[1],
            ],
            "the listing of {0} failed: 503",
        ),
    ],
)
def test_nothing_is_deleted_where_tonight_lists_nothing_or_its_listing_failed(
    store: Store,
    made: Nights,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[NightPlan], Sequence[PlannedCell]],
    reason: str,
) -> None:
    plan = plan_of(store, made.tonight)
    store.delete(plan_name(made.tonight))
    store.create(plan_name(made.tonight), write_plan(replace(plan, cells=tuple(change(plan)))))
    before = names(store)
    assert prune(store, "--do-it") == 1
    assert names(store) == before
    reason = f"nothing is deleted: {reason.format(plan.cells[0].cell.id)}"
    assert capsys.readouterr().err == f"binary-checks: {made.tonight}: {reason}\n"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("night={0}/plan.json", None, "the night has no plan"),
        ("night={0}/plan.json", b'{"schema": "binary-checks/plan/2"}', "a newer binary-checks"),
        ("night={0}/plan.json", b'{"schema": "binary-che', "not JSON"),
        ("night={1}/cells.parquet", None, "cells.parquet"),
        ("night={1}/cells.parquet", b"PAR1", "cells.parquet"),
        ("channels/release/demo/surprise", b"", "it does not state the SHA-256 of its package"),
        ("night=2027-01-01/results/a.cpu1.json", b"", "the night has no plan"),
    ],
)
def test_nothing_is_deleted_where_something_cannot_be_read(  # noqa: PLR0917
    store: Store,
    made: Nights,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes | None,
    reason: str,
) -> None:
    name = name.format(made.tonight, made.nights[0])
    store.delete(name)
    if content is not None:
        store.create(name, content)
    before = names(store)
    assert prune(store, "--do-it") == 1
    assert names(store) == before
    (line,) = capsys.readouterr().err.splitlines()
    assert reason in line


class Failing:
    """The store whose n-th answer is a failure; it deletes as it is told."""

    def __init__(self, store: Store, fails_at: int) -> None:
        self.store, self.url = store, store.url
        self.left = fails_at
        self.deleted: list[str] = []

    def delete(self, name: str) -> None:
        self.deleted.append(name)

    def __getattr__(self, name: str) -> Any:
        def ask(*words: Any) -> Any:
            assert name in ("read", "names", "folders", "local"), name
            self.left -= 1
            if self.left == 0:
                raise StoreError(f"{self.url}: cannot be listed: the server answers 500")
            return getattr(self.store, name)(*words)

        return ask


def test_no_failure_of_the_store_leads_to_a_deletion(tmp_path: Path) -> None:
    store = open_store(str(make_nights(tmp_path / "small", cells=1, nights=2).folder))
    for fails_at in range(1, 1000):
        failing: Any = Failing(store, fails_at)
        try:
            history = read_history(failing)
            carry_out(failing, retain(history, keep=1), history)
        except PruneRefusedError as error:
            if "nothing more" in str(error):
                break  # all that it was to know was read
            assert "nothing is deleted: " in str(error)
            assert failing.deleted == []
    assert failing.deleted == []
    assert fails_at > 20


def test_a_night_that_begins_meanwhile_ends_it_and_keeps_the_packages_of_its_plan(
    store: Store, made: Nights
) -> None:
    history = read_history(store)
    retention = retain(history, keep=KEEP)
    plan = replace(plan_of(store, made.nights[0]), night="2026-11-30")
    store.create(plan_name("2026-11-30"), write_plan(plan))
    before = names(store)
    with pytest.raises(PruneRefusedError, match="a night began, or a channel changed, meanwhile"):
        carry_out(store, retention, history)
    assert names(store) == before
    assert prune(store, "--do-it") == 0
    packages = {each.sha256 for each in plan.cells} - {""}
    assert packages
    for sha256 in packages:
        assert any(sha256 in each.name for each in store.names("files/"))
        assert any(sha256 in each.name for each in store.names("facts/"))


@pytest.fixture
def pruned(store: Store, tmp_path: Path) -> list[str]:
    """What one that is neither ended nor overtaken leaves."""
    shutil.copytree(tmp_path / "store", tmp_path / "alone")
    alone = open_store(str(tmp_path / "alone"))
    assert prune(alone, "--do-it") == 0
    return names(alone)


def test_two_at_once_do_what_one_does(store: Store, pruned: list[str]) -> None:
    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(lambda _: prune(store, "--do-it"), range(2))] == [0, 0]
    assert names(store) == pruned


def test_one_that_is_ended_in_between_is_finished_by_the_next(
    store: Store, pruned: list[str]
) -> None:
    for limit in (1, 7, 10):
        with end_after(limit, store):
            assert prune(store, "--do-it") == 6
    assert prune(store, "--do-it") == 0
    assert names(store) == pruned


@pytest.mark.parametrize("options", [["--keep", "0"], ["--kep", "3"], ["--keep", "x"]])
def test_options_that_are_none_are_misuse(store: Store, options: list[str]) -> None:
    assert prune(store, *options) == 4


def test_a_url_that_is_no_store_deletes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert NIGHTLY.run(["prune", "--store", str(tmp_path / "typo"), "--do-it"]) == 6
    assert "not a store: it has no store.json" in capsys.readouterr().err


def test_nothing_is_deleted_by_tables_with_rows_that_are_of_no_night(
    store: Store, tmp_path: Path
) -> None:
    import duckdb

    path = next((tmp_path / "store").glob("night=*/cells.parquet"))
    other = path.with_name("other")
    rows = f"SELECT * REPLACE (NULL::DATE AS night) FROM '{path}'"
    duckdb.sql(f"COPY ({rows}) TO '{other}' (FORMAT parquet)")
    other.replace(path)
    with pytest.raises(PruneRefusedError, match="a row without a night, a cell or a state"):
        read_history(store)

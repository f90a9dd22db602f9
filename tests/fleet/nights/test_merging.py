from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from binary_checks.errors import ProfileError, RecordError, StoreError
from binary_checks.fleet.attempts import Attempt
from binary_checks.fleet.cell import Cell
from binary_checks.fleet.nights.merging import Merged, find_nights, merge_night
from binary_checks.fleet.plan import NightPlan, PlannedCell
from binary_checks.fleet.records import read_attempt, write_attempt, write_plan
from binary_checks.fleet.states import CellState
from binary_checks.fleet.store import Store, open_store
from binary_checks.fleet.store.store_names import (
    facts_name,
    frozen_name,
    log_name,
    plan_name,
    result_name,
)

NIGHT = "2026-11-20"
SHA256 = "a" * 64
CELLS = b"[[cells]]\n"
FROZEN = hashlib.sha256(CELLS).hexdigest()
PLAN = NightPlan(
    night=NIGHT,
    made="2026-11-20T01:00:00+00:00",
    cells_sha256=FROZEN,
    cells=tuple(
        PlannedCell(cell=Cell(id=name, project=name), sha256=SHA256) for name in ("one", "two")
    ),
)


def attempt(cell: str = "one", number: int = 1, **other: object) -> Attempt:
    made = Attempt(
        night=NIGHT,
        cell=cell,
        number=number,
        state=CellState.PASSED,
        started="2026-11-20T01:00:05+00:00",
        seconds=1.5,
        exit_status=0,
        sha256=SHA256,
        result={
            "schema": "binary-checks/result/1",
            "exit_code": 0,
            "packages": [{"entries": [{"check": "x", "family": "archive", "outcome": "passed"}]}],
        },
    )
    return replace(made, **other)  # type: ignore[arg-type]


def fill(store: Store, *attempts: Attempt, plan: NightPlan = PLAN) -> None:
    store.create(frozen_name(NIGHT, FROZEN), CELLS)
    store.create(plan_name(NIGHT), write_plan(plan))
    for each in attempts:
        about = (each.cell, each.stage, each.number)
        store.create(result_name(NIGHT, *about), write_attempt(each))
        store.create(log_name(NIGHT, "succeeded", *about), f"log of {each.cell}\n".encode())


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"), make=True)


@pytest.fixture
def artifacts(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


def job(artifacts: Path, name: str) -> Store:
    return open_store(str(artifacts / name), make=True)


def names(store: Store, prefix: str = f"night={NIGHT}/") -> list[str]:
    return [each.name.removeprefix(prefix) for each in store.names(prefix)]


def test_the_shards_of_two_jobs_are_one_night(store: Store, artifacts: Path) -> None:
    fill(job(artifacts, "shard-1"), attempt("one"))
    fill(job(artifacts, "shard-2/deeper"), attempt("two"))
    assert find_nights([artifacts]) == {NIGHT}
    assert merge_night(store, NIGHT, [artifacts]) == Merged(attempts=2)
    assert names(store) == [
        f"frozen/{FROZEN}.toml",
        "plan.json",
        "results/one.cpu1.json",
        "results/two.cpu1.json",
        "succeeded/one.cpu1.log",
        "succeeded/two.cpu1.log",
    ]


def test_taking_over_twice_is_the_same_as_once(store: Store, artifacts: Path) -> None:
    fill(job(artifacts, "job"), attempt("one"), attempt("one", 2))
    merge_night(store, NIGHT, [artifacts])
    before = names(store)
    assert merge_night(store, NIGHT, [artifacts]) == Merged(known=2)
    assert names(store) == before


def test_two_jobs_that_ran_one_cell_leave_two_attempts(store: Store, artifacts: Path) -> None:
    fill(job(artifacts, "a"), attempt(state=CellState.FAILED, exit_status=1))
    fill(job(artifacts, "b"), attempt())
    assert merge_night(store, NIGHT, [artifacts]) == Merged(attempts=2)
    second = read_attempt(store.read(result_name(NIGHT, "one", "cpu", 2)) or b"", "second")
    assert (second.number, second.state) == (2, CellState.PASSED)
    assert merge_night(store, NIGHT, [artifacts]) == Merged(known=2)


def test_facts_come_along(store: Store, artifacts: Path) -> None:
    made = job(artifacts, "job")
    fill(made, attempt(facts=SHA256))
    document = gzip.compress(facts_of(SHA256), mtime=0)
    made.create(facts_name(SHA256), document)
    assert merge_night(store, NIGHT, [artifacts]) == Merged(attempts=1)
    assert gzip.decompress(store.read(facts_name(SHA256)) or b"") == facts_of(SHA256)


def facts_of(sha256: str) -> bytes:
    head = '{\n"schema": "binary-checks/facts/2",\n"written_by": "binary-checks 0.1.0",\n'
    package = json.dumps({"file_name": "x.whl", "kind": "Wheel", "sha256": sha256})
    return f'{head}"symbols": true,\n"package": {package},\n"members": [\n]\n}}\n'.encode()


def test_facts_that_are_missing_are_said_and_the_verdict_stays(
    store: Store, artifacts: Path
) -> None:
    fill(job(artifacts, "job"), attempt(facts=SHA256))
    merged = merge_night(store, NIGHT, [artifacts])
    assert merged.attempts == 1
    assert [SHA256 in each for each in merged.complaints] == [True]
    kept = read_attempt(store.read(result_name(NIGHT, "one", "cpu", 1)) or b"", "kept")
    assert kept.facts == ""


def test_another_plan_of_the_night_is_refused(store: Store, artifacts: Path) -> None:
    fill(store, attempt("one"))
    fill(job(artifacts, "job"), attempt("two"), plan=replace(PLAN, made="2026-11-20T02:00:00Z"))
    with pytest.raises(StoreError, match=r"is not the plan of .*; give every job of a night"):
        merge_night(store, NIGHT, [artifacts])
    assert "results/two.cpu1.json" not in names(store)


def test_an_attempt_at_other_bytes_is_left_where_it_is(store: Store, artifacts: Path) -> None:
    fill(job(artifacts, "job"), attempt("one", sha256="b" * 64), attempt("two"))
    merged = merge_night(store, NIGHT, [artifacts])
    assert merged.attempts == 1
    assert "not of the bytes that the plan names" in merged.complaints[0]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b'{"schema": "binary-checks/attempt/1", "night"', "one.cpu1.json: "),
        (b'{"schema": "binary-checks/attempt/9"}', "a newer binary-checks wrote it"),
        (b"\xff\x00", "not ASCII"),
        (write_attempt(attempt("two")), "its document is of another attempt"),
    ],
)
def test_a_document_that_is_not_one_keeps_nobody_from_the_others(
    store: Store, artifacts: Path, content: bytes, sentence: str
) -> None:
    made = job(artifacts, "job")
    fill(made, attempt("two"))
    made.create(result_name(NIGHT, "one", "cpu", 1), content)
    merged = merge_night(store, NIGHT, [artifacts])
    assert merged.attempts == 1
    assert sentence in merged.complaints[0]


def test_a_job_without_that_night_is_said(store: Store, artifacts: Path) -> None:
    job(artifacts, "job")
    merged = merge_night(store, NIGHT, [artifacts])
    assert merged.attempts == 0
    assert merged.complaints[0].endswith(f"nothing of the night {NIGHT}")


def test_a_folder_without_a_store_is_refused(store: Store, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ProfileError, match="no store in it"):
        merge_night(store, NIGHT, [tmp_path / "empty"])


def test_a_plan_of_another_night_in_its_place_is_refused(store: Store, artifacts: Path) -> None:
    made = job(artifacts, "job")
    made.create(plan_name(NIGHT), write_plan(replace(PLAN, night="2026-11-19")))
    with pytest.raises(RecordError, match="is the plan of 2026-11-19"):
        merge_night(store, NIGHT, [artifacts])


def test_facts_of_another_package_are_left_where_they_are(store: Store, artifacts: Path) -> None:
    other = "b" * 64
    made = job(artifacts, "fork")
    fill(made, attempt(facts=other))
    made.create(facts_name(other), gzip.compress(facts_of(other), mtime=0))
    merged = merge_night(store, NIGHT, [artifacts])
    assert merged.attempts == 1
    assert "its facts are those of another package" in merged.complaints[0]
    assert not [*store.names("facts/")]


def test_a_frozen_file_that_is_another_by_now_is_refused(store: Store, artifacts: Path) -> None:
    made = job(artifacts, "fork")
    made.create(frozen_name(NIGHT, FROZEN), b"# accepts everything\n")
    fill(made, attempt())
    with pytest.raises(StoreError, match="other bytes than those that the plan froze"):
        merge_night(store, NIGHT, [artifacts])
    assert names(store) == []


def test_attempts_without_number_are_not_taken_over(store: Store, artifacts: Path) -> None:
    fill(job(artifacts, "fork"), attempt(number=2**63), attempt("two"))
    merged = merge_night(store, NIGHT, [artifacts])
    assert merged.attempts == 1
    assert merged.complaints[0].endswith("one of more than 100")

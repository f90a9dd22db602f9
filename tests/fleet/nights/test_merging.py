from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from binary_checks.errors import ProfileError, StoreError
from binary_checks.fleet.night import Attempt, Cell, NightPlan, PlannedCell
from binary_checks.fleet.nights import Merged, merge_night
from binary_checks.fleet.store import (
    Store,
    facts_name,
    frozen_name,
    open_store,
    plan_name,
    result_name,
)
from binary_checks.fleet.stored_nights import name_log, read_attempt, write_attempt, write_plan
from binary_checks.model import CellState
from fixtures.fleet.short_results import fill_in

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
        result=fill_in(
            {"packages": [{"sha256": SHA256, "entries": [{"check": "x", "outcome": "passed"}]}]}
        ),
    )
    return replace(made, **other)  # type: ignore[arg-type]


def plan_night(store: Store, plan: NightPlan = PLAN) -> None:
    store.create(frozen_name(NIGHT, FROZEN), CELLS)
    store.create(plan_name(NIGHT), write_plan(plan))


def fill(store: Store, *attempts: Attempt, plan: NightPlan = PLAN) -> None:
    plan_night(store, plan)
    for each in attempts:
        log = f"log of {each.cell}\n".encode()
        made = replace(each, log=hashlib.sha256(log).hexdigest())
        store.create(result_name(NIGHT, each.cell, each.stage, each.number), write_attempt(made))
        store.create(name_log(made), log)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store in which the night was planned."""
    made = open_store(str(tmp_path / "store"), make=True)
    plan_night(made)
    return made


@pytest.fixture
def artifacts(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


def job(artifacts: Path, name: str) -> Store:
    return open_store(str(artifacts / name), make=True)


def names(store: Store, prefix: str = f"night={NIGHT}/") -> list[str]:
    return [each.name.removeprefix(prefix) for each in store.names(prefix)]


def test_the_shards_of_two_jobs_are_one_night_and_taken_over_once(
    store: Store, artifacts: Path
) -> None:
    fill(job(artifacts, "shard-1"), attempt("one"))
    fill(job(artifacts, "shard-2/deeper"), attempt("two"))
    assert merge_night(store, NIGHT, [artifacts]) == Merged(attempts=2)
    logs = [hashlib.sha256(b"log of %s\n" % each).hexdigest() for each in (b"one", b"two")]
    for _ in range(2):
        assert names(store) == [
            f"frozen/{FROZEN}.toml",
            "plan.json",
            "results/one.cpu1.json",
            "results/two.cpu1.json",
            f"succeeded/one.cpu1.{logs[0]}.log",
            f"succeeded/two.cpu1.{logs[1]}.log",
        ]
        assert merge_night(store, NIGHT, [artifacts]) == Merged(known=2)


def test_no_plan_is_taken_from_a_folder(tmp_path: Path, artifacts: Path) -> None:
    empty = open_store(str(tmp_path / "empty"), make=True)
    fill(job(artifacts, "job"), attempt())
    with pytest.raises(StoreError, match=f"night={NIGHT}/plan.json: the night has no plan"):
        merge_night(empty, NIGHT, [artifacts])
    assert names(empty) == []


@pytest.mark.skipif(os.name != "posix", reason="links need a privilege there")
@pytest.mark.parametrize(
    "path",
    [
        "job",
        "job/store.json",
        f"job/night={NIGHT}",
        f"job/night={NIGHT}/plan.json",
        f"job/night={NIGHT}/results",
        f"job/night={NIGHT}/results/one.cpu1.json",
    ],
)
def test_no_link_in_a_folder_is_followed(
    store: Store, tmp_path: Path, artifacts: Path, path: str
) -> None:
    fill(job(tmp_path / "elsewhere", "job"), attempt())
    fill(job(artifacts, "job"), attempt("two"))
    linked = artifacts / path
    if linked.exists():
        linked.rename(tmp_path / "away")
    linked.symlink_to(tmp_path / "elsewhere" / path)
    with contextlib.suppress(StoreError, ProfileError):
        merge_night(store, NIGHT, [artifacts])
    assert "results/one.cpu1.json" not in names(store)


@pytest.mark.skipif(os.name != "posix", reason="links need a privilege there")
def test_a_folder_behind_a_link_is_named(store: Store, tmp_path: Path, artifacts: Path) -> None:
    fill(job(tmp_path, "elsewhere"), attempt())
    fill(job(artifacts, "job"), attempt("two"))
    (artifacts / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "named").symlink_to(artifacts)  # by the user: this one is followed
    link = tmp_path / "named" / "link"
    assert merge_night(store, NIGHT, [tmp_path / "named"]) == Merged(
        attempts=1, complaints=(f"{link}: a link; links are not followed",)
    )


@pytest.mark.skipif(os.name != "posix", reason="no such name there")
def test_the_name_of_a_folder_is_no_url(
    store: Store, artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(job(artifacts, "s3:bucket"), attempt())
    monkeypatch.chdir(artifacts)
    assert merge_night(store, NIGHT, [Path()]) == Merged(attempts=1)


@pytest.mark.parametrize(
    "other",
    [
        {"cell": "three"},
        {"stage": "gpu"},
        {"cell": "missing", "sha256": ""},
        {"sha256": "b" * 64},
    ],
)
def test_a_result_that_the_plan_does_not_ask_for_is_left_where_it_is(
    tmp_path: Path, artifacts: Path, other: dict[str, str]
) -> None:
    missing = PlannedCell(cell=Cell(id="missing", project="x"), state=CellState.MISSING)
    plan = replace(PLAN, cells=(*PLAN.cells, missing))
    store = open_store(str(tmp_path / "planned"), make=True)
    plan_night(store, plan)
    fill(job(artifacts, "job"), attempt(**{"cell": "one", **other}), attempt("two"), plan=plan)
    merged = merge_night(store, NIGHT, [artifacts])
    assert merged.attempts == 1
    assert "for a cell, a stage or bytes that are not in the plan" in merged.complaints[0]


def test_facts_come_along_and_stay_and_others_are_named(store: Store, artifacts: Path) -> None:
    with_facts(job(artifacts, "job"), "one", facts_of(SHA256))
    assert merge_night(store, NIGHT, [artifacts]) == Merged(attempts=1)
    assert gzip.decompress(store.read(facts_name(SHA256)) or b"") == facts_of(SHA256)
    other = facts_of(SHA256).replace(b'"members": [', b'"members": [ ')
    with_facts(job(artifacts, "a"), "two", other)
    merged = merge_night(store, NIGHT, [artifacts / "a"])
    assert merged.complaints[0].endswith(f"differ from those in {store.url}: those stay")
    assert gzip.decompress(store.read(facts_name(SHA256)) or b"") == facts_of(SHA256)


def facts_of(sha256: str) -> bytes:
    head = '{\n"schema": "binary-checks/facts/3",\n"written_by": "binary-checks 0.1.0",\n'
    package = json.dumps({"file_name": "x.whl", "kind": "Wheel", "sha256": sha256})
    return f'{head}"symbols": true,\n"package": {package},\n"members": [\n]\n}}\n'.encode()


def with_facts(made: Store, cell: str, content: bytes) -> None:
    fill(made, attempt(cell, facts=SHA256))
    made.create(facts_name(SHA256), gzip.compress(content, mtime=0))


def test_of_different_facts_in_two_folders_neither_are_taken_over(
    store: Store, artifacts: Path
) -> None:
    other = facts_of(SHA256).replace(b'"members": [', b'"members": [ ')
    with_facts(job(artifacts, "a"), "one", facts_of(SHA256))
    with_facts(job(artifacts, "b"), "two", other)
    with_facts(job(artifacts, "c"), "one", other.replace(b"[ ", b"[  "))
    merged = merge_night(store, NIGHT, [artifacts])
    assert merged.attempts == 2
    assert [line.partition(": neither")[0] for line in merged.complaints] == [
        f"{artifacts / each}: its facts of {SHA256} differ from those in {artifacts / 'a'}"
        for each in "bc"
    ]
    assert not [*store.names("facts/")]
    kept = read_attempt(store.read(result_name(NIGHT, "one", "cpu", 1)) or b"", "kept")
    assert kept.facts == ""


def test_facts_that_are_missing_are_said_and_the_verdict_stays(
    store: Store, artifacts: Path
) -> None:
    fill(job(artifacts, "job"), attempt(facts=SHA256))
    merged = merge_night(store, NIGHT, [artifacts])
    assert merged.attempts == 1
    assert [SHA256 in each for each in merged.complaints] == [True]
    kept = read_attempt(store.read(result_name(NIGHT, "one", "cpu", 1)) or b"", "kept")
    assert kept.facts == ""


def test_another_plan_of_the_night_is_refused_before_anything_is_taken(
    store: Store, artifacts: Path
) -> None:
    fill(job(artifacts, "a"), attempt("one"))
    fill(job(artifacts, "b"), attempt("two"), plan=replace(PLAN, made="2026-11-20T02:00:00Z"))
    before = names(store)
    with pytest.raises(StoreError, match=r"this plan differs from .*; give all jobs of a night"):
        merge_night(store, NIGHT, [artifacts])
    assert names(store) == before


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b'{"schema": "binary-checks/attempt/1", "night"', "one.cpu1.json: "),
        (b'{"schema": "binary-checks/attempt/9"}', "a newer binary-checks wrote it"),
        (b"\xff\x00", "not ASCII"),
        (write_attempt(attempt("two")), "its document is for another attempt"),
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


def test_a_job_without_that_night_is_said_and_a_folder_without_a_store_is_refused(
    store: Store, tmp_path: Path, artifacts: Path
) -> None:
    job(artifacts, "job")
    merged = merge_night(store, NIGHT, [artifacts])
    assert merged.attempts == 0
    assert merged.complaints[0].endswith(f"no results of the night {NIGHT}")
    job(tmp_path / "empty", "one/two/three")  # too deep
    with pytest.raises(ProfileError, match="it contains no store"):
        merge_night(store, NIGHT, [tmp_path / "empty"])


def test_facts_of_another_package_are_left_where_they_are(store: Store, artifacts: Path) -> None:
    other = "b" * 64
    made = job(artifacts, "fork")
    fill(made, attempt(facts=other))
    made.create(facts_name(other), gzip.compress(facts_of(other), mtime=0))
    merged = merge_night(store, NIGHT, [artifacts])
    assert merged.attempts == 1
    assert "its facts are for another package" in merged.complaints[0]
    assert not [*store.names("facts/")]


def test_frozen_files_of_a_folder_count_for_nothing(store: Store, artifacts: Path) -> None:
    made = job(artifacts, "fork")
    made.create(frozen_name(NIGHT, FROZEN), b"# accepts everything\n")
    fill(made, attempt())
    assert merge_night(store, NIGHT, [artifacts]) == Merged(attempts=1)
    assert store.read(frozen_name(NIGHT, FROZEN)) == CELLS


def test_of_too_many_attempts_none_are_taken_over(store: Store, artifacts: Path) -> None:
    made = job(artifacts, "fork")
    for cell, most in (("one", 101), ("two", 100)):
        fill(made, *(attempt(cell, each, seconds=float(each)) for each in range(1, most + 1)))
    merged = merge_night(store, NIGHT, [artifacts])
    assert merged == Merged(
        attempts=100, complaints=("one: more than 100 attempts: none are copied",)
    )


@pytest.mark.parametrize("state", [CellState.FLAKY, CellState.STALE, CellState.MISSING])
def test_an_attempt_that_ends_as_none_can_is_lost(
    store: Store, artifacts: Path, state: CellState
) -> None:
    fill(job(artifacts, "fork"), attempt(state=state), attempt("two"))
    merged = merge_night(store, NIGHT, [artifacts])
    assert merged.attempts == 1
    assert merged.complaints[0].endswith(f"state: {state.value}: attempts cannot have this state")


def test_a_log_that_is_too_large_is_replaced_by_a_line(store: Store, artifacts: Path) -> None:
    made, most = job(artifacts, "fork"), 4 << 20
    for cell, size in (("one", most), ("two", most + 1)):
        log = hashlib.sha256(b"log of %s\n" % cell.encode()).hexdigest()
        made.create(name_log(replace(attempt(cell), log=log)), b"x" * size)
        fill(made, attempt(cell))
    assert merge_night(store, NIGHT, [artifacts]) == Merged(attempts=2)
    whole, line = (store.read(each.name) for each in store.names(f"night={NIGHT}/succeeded/"))
    assert whole == b"x" * most
    assert line == b"its log was not taken over: it has more than 4 MiB\n"


def test_a_failure_that_the_store_cannot_read_now_is_not_hidden(
    store: Store, artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, attempt(state=CellState.FAILED, exit_status=1))
    fill(job(artifacts, "a"), attempt())
    read, ours = store.read, result_name(NIGHT, "one", "cpu", 1)

    def fail(name: str, *most: int) -> bytes | None:
        if name == ours:
            raise StoreError(f"{name}: cannot be read: 503")
        return read(name, *most)

    monkeypatch.setattr(store, "read", fail)
    before = names(store)
    with pytest.raises(StoreError, match="503"):
        merge_night(store, NIGHT, [artifacts])
    assert names(store) == before


def test_a_folder_that_is_named_twice_is_merged_once_and_the_store_numbers_its_attempts(
    store: Store, artifacts: Path
) -> None:
    made = job(artifacts, "a")
    fill(made, attempt(state=CellState.FAILED, exit_status=1), attempt(number=2**63))
    merged = merge_night(store, NIGHT, [artifacts, artifacts / "a", artifacts])
    assert merged.attempts == 2
    assert names(store, f"night={NIGHT}/results/") == ["one.cpu1.json", "one.cpu2.json"]

"""`artifact attest --night`: verdicts of a night on files in the store."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binary_checks.command.actions import ARTIFACT
from binary_checks.fleet.artifacts import (
    Artifact,
    hash_record,
    join_channel,
    keep_artifact,
    keep_verdict,
    list_members,
    list_verdicts,
    make_verdict,
)
from binary_checks.fleet.night import CPU, GPU, Attempt, Cell, NightPlan, PlannedCell
from binary_checks.fleet.store import Store, open_store, plan_name, result_name, verdict_prefix
from binary_checks.fleet.stored_nights import write_attempt, write_plan
from binary_checks.model import CellState, Entry, NotInspected, Outcome
from tests.fleet.artifacts.made_artifacts import make_artifact
from tests.fleet.artifacts.made_verdicts import ENDED, entry, make_key, make_run, write_run
from tests.fleet.artifacts.release_desk import GATE, GOOD, Desk

NIGHT = "2026-11-20"


def plan(store: Store, *artifacts: Artifact, place: str = "") -> None:
    cells = tuple(
        PlannedCell(
            cell=Cell(id=f"demo-{number}", project="demo", place=place, gpu=True),
            sha256=each.sha256,
            file_name=each.file_name,
        )
        for number, each in enumerate(artifacts)
    )
    made = f"{NIGHT}T01:00:00+00:00"
    whole = NightPlan(night=NIGHT, made=made, cells_sha256="0" * 64, cells=cells)
    store.create(plan_name(NIGHT), write_plan(whole))


def attempt(
    desk: Desk, artifact: Artifact, *entries: Entry, sha256: str = "", **said: Any
) -> Attempt:
    """Keep an attempt at the first cell, whose result found this."""
    digest = sha256 or artifact.sha256
    about = {"sha256": digest, "file_name": artifact.file_name, **said.pop("run", {})}
    made = make_run(*entries, **about)
    usual = {"stage": CPU, "number": 1, "state": CellState.PASSED, "seconds": 90.5}
    usual |= {"started": f"{NIGHT}T03:00:00+00:00", "exit_status": 0}
    found = Attempt(
        night=NIGHT,
        sha256=artifact.sha256,
        **{"cell": "demo-0", **usual, "result": replace(made, checks=()), **said},
    )
    name = result_name(NIGHT, found.cell, found.stage, found.number)
    desk.store.create(name, write_attempt(found))
    return found


def verdicts(desk: Desk, artifact: Artifact) -> list[Any]:
    kept = [each.verdict for each in list_verdicts(desk.store, artifact.sha256)]
    return sorted(kept, key=lambda each: each.stage)


def test_every_stage_of_a_cell_is_kept_and_says_where_it_ran(desk: Desk) -> None:
    artifact = desk.push("1.0")
    plan(desk.store, artifact)
    attempt(desk, artifact, *GOOD)
    attempt(desk, artifact, entry("gpu"), stage=GPU)
    status, out, _ = desk.do("attest", "--night", NIGHT)
    assert (status, out.count("kept, not signed")) == (0, 2)
    cpu, gpu = verdicts(desk, artifact)
    assert (cpu.night, cpu.cell, cpu.stage, gpu.stage) == (NIGHT, "demo-0", CPU, GPU)
    assert cpu.ended == ENDED


def test_files_that_the_store_does_not_keep_are_left_out(desk: Desk) -> None:
    kept, gone = desk.push("1.0"), make_artifact(desk.folder, b"gone", "gone-1.0.whl")[0]
    plan(desk.store, kept, gone)
    attempt(desk, kept, *GOOD)
    status, out, _ = desk.do("attest", "--night", NIGHT)
    assert status == 0
    said = f"left out: {desk.store.url} does not contain the files of demo-1"
    assert out.splitlines()[-1] == said


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ((), {"state": CellState.LOST, "result": None}),
        ((entry("linkage", Outcome.FAILED),), {"state": CellState.LOST}),  # it was killed then
        # Its problems may be known ones.
        ((entry("linkage", Outcome.FAILED),), {"state": CellState.INFRA}),
        (
            (entry("gpu", Outcome.ERROR, reason="no NVIDIA driver on this host"),),
            {"state": CellState.INFRA, "run": {"exit_code": 6}},
        ),
    ],
)
def test_an_attempt_that_was_lost_or_that_the_host_ended_is_in_no_verdict(
    desk: Desk, found: tuple[Entry, ...], said: dict[str, Any]
) -> None:
    artifact = desk.push("1.0")
    plan(desk.store, artifact)
    attempt(desk, artifact, *found, reason="it broke", **said)
    status, out, err = desk.do("attest", "--night", NIGHT)
    assert (status, err, verdicts(desk, artifact)) == (6, "", [])
    word = said["state"].value
    assert out == f"not attested, try again: demo-0.cpu1: {word}: it broke\n"


DRIVER = "no NVIDIA driver on this host"
BLIND = NotInspected(sentence=DRIVER, by_host=True)


@pytest.mark.parametrize(
    ("found", "said", "why"),
    [
        ((*GOOD, entry("gpu", Outcome.ERROR, reason=DRIVER)), {}, DRIVER),
        (
            (entry("gpu", Outcome.NOT_INSPECTED, reason=DRIVER, not_inspected=(BLIND,)),),
            {"complaints": (f"nothing was verified ({DRIVER})",)},
            f"nothing was verified ({DRIVER})",
        ),
        (
            (entry("linkage", Outcome.FAILED),),
            {"complaints": ("known list unavailable: k.toml",)},
            "known list unavailable: k.toml",
        ),
    ],
)
def test_a_result_that_the_host_or_the_network_decided_is_not_attested(
    desk: Desk, found: tuple[Entry, ...], said: dict[str, Any], why: str
) -> None:
    artifact = desk.push("1.0")
    made = make_run(*found, sha256=artifact.sha256, exit_code=6, **said)
    path = write_run(desk.folder / "r.json", made)
    status, out, err = desk.do("attest", path)
    assert (status, err, verdicts(desk, artifact)) == (6, "", [])
    assert out == f"not attested, try again: {path}: demo-1.0.whl: {why}\n"


def test_what_the_host_broke_is_no_problem_of_a_package_that_has_others(desk: Desk) -> None:
    artifact = desk.push("1.0")
    found = (entry("linkage", Outcome.FAILED), entry("gpu", Outcome.ERROR, reason=DRIVER))
    made = make_run(*found, sha256=artifact.sha256, file_name=artifact.file_name)
    assert desk.attest(write_run(desk.folder / "r.json", made)) == 0
    (verdict,) = verdicts(desk, artifact)
    assert verdict.failed == ("linkage/linkage-check",)
    assert len(verdict.problems) == 1
    assert DRIVER not in verdict.problems[0]


def test_after_an_attempt_that_broke_the_next_one_counts_and_nothing_more_is_said(
    desk: Desk,
) -> None:
    artifact = desk.push("1.0")
    plan(desk.store, artifact)
    attempt(desk, artifact, state=CellState.INFRA, result=None, reason="it broke")
    attempt(desk, artifact, *GOOD, number=2)
    status, out, _ = desk.do("attest", "--night", NIGHT)
    assert (status, out.count("\n"), len(verdicts(desk, artifact))) == (0, 1, 1)


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"sha256": "cd" * 32}, "its result is for other bytes than those planned"),
        ({"run": {"ended": "noon"}}, "'noon' is not a time in UTC"),
    ],
)
def test_a_result_that_contradicts_its_night_is_one_line(
    desk: Desk, said: dict[str, Any], fault: str
) -> None:
    artifact = desk.push("1.0")
    plan(desk.store, artifact)
    attempt(desk, artifact, *GOOD, **said)
    attempt(desk, artifact, *GOOD, number=2)
    status, out, err = desk.do("attest", "--night", NIGHT)
    assert status == 1
    assert fault in err
    assert err.count("\n") == 1
    assert len(out.splitlines()) == 1
    assert len(verdicts(desk, artifact)) == 1


def test_an_attempt_whose_result_is_none_is_one_line(desk: Desk) -> None:
    artifact = desk.push("1.0")
    plan(desk.store, artifact)
    attempt(desk, artifact, *GOOD, number=2)
    name = result_name(NIGHT, "demo-0", CPU, 2)
    row = json.loads(desk.store.read(name) or b"")
    row |= {"number": 1, "result": {"schema": "binary-checks/result/1"}}
    desk.store.create(result_name(NIGHT, "demo-0", CPU, 1), json.dumps(row).encode())
    status, out, err = desk.do("attest", "--night", NIGHT)
    assert (status, err.count("\n"), len(out.splitlines())) == (1, 1, 1)
    assert "$.result: no field" in err


def test_a_night_that_there_is_not_is_one_line(desk: Desk) -> None:
    desk.push("1.0")
    status, out, err = desk.do("attest", "--night", "2026-11-21")
    assert (status, out) == (6, "")
    assert err.count("\n") == 1


def test_a_failure_that_passed_on_the_same_bytes_is_promoted(desk: Desk) -> None:
    artifact = desk.push("1.0")
    plan(desk.store, artifact)
    attempt(desk, artifact, entry("linkage", Outcome.FAILED), exit_status=1)
    later = {"ended": f"{NIGHT}T04:09:00+00:00"}
    attempt(desk, artifact, *GOOD, number=2, run=later)
    assert desk.attest("--night", NIGHT) == 0
    assert desk.promote()[0] == 0


def test_of_sixteen_who_promote_other_bytes_of_one_name_one_wins(desk: Desk) -> None:
    name = "demo-1.0-cp312-cp312-manylinux_2_28_x86_64.whl"
    (desk.folder / "policy.toml").write_text(GATE.replace('from = ["test"]\n', ""))
    for number in range(16):
        path = desk.folder / str(number)
        path.mkdir()
        artifact, incoming = make_artifact(path, str(number).encode(), name)
        keep_artifact(desk.store, artifact, incoming)
        join_channel(desk.store, f"c{number}", artifact)
        run_ = make_run(*GOOD, sha256=artifact.sha256)
        verdict = make_verdict(run_, run_.packages[0], hash_record(artifact))
        keep_verdict(desk.store, replace(verdict, file_name=name))

    def promote(number: int) -> int:
        channels = ["--from", f"c{number}", "--to", "release", "--no-index"]
        where = ["--store", desk.store.url, "--policy", str(desk.folder / "policy.toml")]
        return ARTIFACT.run(["promote", *channels, *where])

    with ThreadPoolExecutor(16) as pool:
        statuses = [*pool.map(promote, range(16))]
    assert sorted(statuses) == [0, *[1] * 15]
    assert len(list_members(desk.store, "release")) == 1


def test_a_bucket_promotes_as_a_folder_does(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk = Desk(folder=tmp_path, store=store, capsys=capsys)
    key, policy = desk.signed_policy()
    artifact = desk.push("1.0")
    desk.sign_push(artifact, key)
    assert desk.attest(desk.result(artifact, *GOOD), "--key", key) == 0
    status, out, err = desk.promote("--key", key, "--no-index", policy=policy)
    assert (status, out) == (0, f"{artifact.file_name}: promoted\n1 promoted\n"), err
    assert desk.released() == [artifact.file_name]
    assert len(desk.names(verdict_prefix(artifact.sha256))) == 1
    assert open_store(store.url).url == store.url


def test_one_of_several_signers_may_sign_later(desk: Desk) -> None:
    first, one = make_key(desk.folder, "one")
    second, two = make_key(desk.folder, "two")
    keys = f'[[keys]]\nname = "one"\npublic = "{one}"\n[[keys]]\nname = "two"\npublic = "{two}"\n'
    artifact = desk.push("1.0")
    desk.sign_push(artifact, first)
    desk.sign_push(artifact, second)
    result = desk.result(artifact, *GOOD)
    desk.attest(result, "--key", first)
    assert (
        "1 trusted signature, but the gate requires 2"
        in desk.promote(policy=f"{keys}{GATE}threshold = 2\n")[1]
    )
    desk.attest(result, "--key", second)
    assert desk.promote(policy=f"{keys}{GATE}threshold = 2\n")[0] == 0
    (kept,) = list_verdicts(desk.store, artifact.sha256)
    assert replace(kept, digests=()).verdict.file_name == artifact.file_name
    assert len(kept.digests) == 2

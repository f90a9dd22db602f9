from __future__ import annotations

import hashlib
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binary_checks.command import main
from binary_checks.documents.result import read_results
from binary_checks.fleet.causes.cause_rules import shipped_causes
from binary_checks.fleet.nights import AttemptTask, pin_place, rerun_command, run_attempt
from binary_checks.fleet.store import closed_name, frozen_name
from binary_checks.fleet.stored_nights import name_log
from binary_checks.model import CellState, Problem, RunResult
from fixtures.fleet.short_results import fill_in
from tests.fleet.nights.test_merging import NIGHT, PLAN, attempt, fill, job
from tests.plugin.conftest import command

SAMPLES = Path(__file__).parents[3] / "fixtures" / "samples" / "wheels"
BROKEN = next(SAMPLES.glob("demo_broken-1.0-*.whl"))
PROBLEM = {
    "check": "missing-library",
    "family": "linkage",
    "outcome": "failed",
    "problems": [{"path": "demo/x.so", "sentence": "needs libq.so.6, which nobody has"}],
}
WHOLE = {"check": "import-fails", "problems": [{"path": "", "sentence": "it does not import"}]}
RESULT = fill_in({"packages": [{"entries": [PROBLEM, WHOLE]}]})


def show(store: Path, *words: str) -> int:
    return main(["nightly", "show", *words, "--store", str(store)])


def plan_of(path: Path, **cell: Any) -> Any:
    first = PLAN.cells[0]
    about: dict[str, Any] = {"file_name": path.name, "url": path.as_uri()}
    about |= {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "size": path.stat().st_size}
    planned = replace(first, cell=replace(first.cell, **cell), **about)
    return replace(PLAN, cells=(planned,))


def test_a_failed_cell_shows_what_is_wrong_and_how_to_run_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_of(BROKEN)
    sha256 = plan.cells[0].sha256
    failed = attempt(
        sha256=sha256, state=CellState.FAILED, exit_status=1, result=RESULT, host="builder",
        cause="missing-library", cause_kind="product", cpu_seconds=1.25, peak_memory=53_000_000,
    )  # fmt: skip
    fill(job(tmp_path, "store"), failed, plan=plan)
    assert show(tmp_path / "store", "one") == 0
    assert capsys.readouterr().out.splitlines() == [
        f"X one  {NIGHT}: failed (missing-library, product)",
        f"  package  {BROKEN.name}  ({BROKEN.stat().st_size:,} bytes, sha256 {sha256})",
        f"  from     {BROKEN.as_uri()}",
        "  cpu1     failed, exit 1, 1.5 s (1.2 s of CPU, 53 MB) on builder, "
        "2026-11-20T01:00:05+00:00",
        "  missing-library: demo/x.so: needs libq.so.6, which nobody has",
        "  import-fails: it does not import",
        f"  again    binary-checks '{BROKEN.as_uri()}#sha256={sha256}'",
    ]


def test_a_cell_of_an_open_night_that_has_not_run_is_not_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = job(tmp_path, "store")
    fill(store)
    assert show(tmp_path / "store", "one") == 0
    assert capsys.readouterr().out.splitlines()[0] == f"one  {NIGHT}: not run yet"
    store.create(closed_name(NIGHT), b"{}")
    assert show(tmp_path / "store", "one") == 0
    assert capsys.readouterr().out.splitlines()[0] == f"L one  {NIGHT}: lost: no result"


def test_a_lost_cell_shows_the_tail_of_its_log_inert_and_what_to_do_about_its_cause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = job(tmp_path, "store")
    lost = attempt(
        state=CellState.LOST, exit_status=None, signal=9, result=None, cause="disk-full",
        log=hashlib.sha256(b"log of one\n").hexdigest(),
    )  # fmt: skip
    store.create(
        name_log(lost),
        b"\x1b[31mred\n::error::x\n\xff" + b"".join(b"\nline %d" % n for n in range(30)),
    )
    fill(store, lost)
    assert show(tmp_path / "store", "one") == 0
    said = capsys.readouterr().out
    assert "L one" in said
    assert "signal 9" in said
    assert "    line 29\n" in said
    assert "line 9\n" not in said
    assert "\x1b" not in said
    assert f"\n  do       {shipped_causes().advice_on('disk-full')}\n" in said
    assert shipped_causes().advice_on("disk-full")


def test_a_cell_that_the_night_lacks_is_asked_for_by_its_nearest_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(job(tmp_path, "store"))
    assert show(tmp_path / "store", "tow") == 4
    assert "2026-11-20 has no cell tow; did you mean two?" in capsys.readouterr().err
    assert show(tmp_path / "store", "one", "--date", "2026-11-19") == 6
    assert "no night 2026-11-19; the newest is 2026-11-20" in capsys.readouterr().err


def test_what_the_night_showed_the_desk_shows(tmp_path: Path) -> None:
    """The command is split as a shell splits it."""
    plan = plan_of(BROKEN, options=("--static",))
    task = AttemptTask(plan=replace(plan, cells=()), planned=plan.cells[0])
    store = job(tmp_path, "store")
    fill(store, plan=plan)
    night = run_attempt(task, store)
    assert night.state is CellState.FAILED
    again = tmp_path / "again.json"
    shown = rerun_command(plan, plan.cells[0], str(tmp_path), night.result)
    ended = command(tmp_path, *shlex.split(shown)[1:], "--report", f"json:{again}")
    assert ended.returncode == night.exit_status == 1
    assert problems(read_results(again)) == problems(night.result)
    assert problems(night.result)


def problems(run: RunResult) -> list[Problem]:
    return [problem for _, entry in run.entries() for problem in entry.problems]


def test_a_frozen_list_of_known_problems_comes_from_the_store(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    known = tmp_path / "known.toml"
    command(tmp_path, "--static", "--write-known", known, BROKEN.as_uri())
    digest = hashlib.sha256(known.read_bytes()).hexdigest()
    plan = replace(plan_of(BROKEN, options=("--static",)), known_sha256=digest)
    store = job(tmp_path, "store")
    store.create(frozen_name(NIGHT, digest), known.read_bytes())
    fill(store, plan=plan)
    shown = rerun_command(plan, plan.cells[0], str(tmp_path / "store"))
    assert shown == f"binary-checks nightly rerun one --date {NIGHT} --store {tmp_path}/store"
    capfd.readouterr()
    assert main(shlex.split(shown)[1:]) == 0
    said = capfd.readouterr().out.partition("\n")[0]
    frozen = f"{tmp_path}/store/{frozen_name(NIGHT, digest)}"
    assert said == f"{BROKEN.name} as of {NIGHT}, with {frozen}"


def test_a_cell_without_a_file_has_nothing_to_run_again(tmp_path: Path) -> None:
    missing = replace(PLAN.cells[0], sha256="", state=CellState.MISSING, reason="nothing there")
    assert rerun_command(PLAN, missing, "store") == ""
    fill(job(tmp_path, "store"), plan=replace(PLAN, cells=(missing,)))
    assert main(["nightly", "rerun", "one", "--store", str(tmp_path / "store")]) == 4


def test_the_image_is_the_one_that_the_night_ran_in() -> None:
    image = "docker.io/library/debian@sha256:" + "f3" * 32
    result = fill_in({"packages": [{"roots": [image]}]})
    assert pin_place("image:oldest", result) == f"image:{image}"
    assert pin_place("image:oldest", None) == "image:oldest"
    assert pin_place("", result) == ""
    several = fill_in({"packages": [{"roots": ["a@1", "b@2"]}]})
    assert pin_place("image:oldest", several) == "image:oldest"


def test_known_problems_that_are_others_by_now_judge_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = "a" * 64
    store = job(tmp_path, "store")
    store.create(frozen_name(NIGHT, known), b"# accepts everything\n")
    fill(store, plan=replace(plan_of(BROKEN), known_sha256=known))  # type: ignore[type-var]
    assert main(["nightly", "rerun", "one", "--store", str(tmp_path / "store")]) == 6
    assert "its bytes differ from the frozen ones" in capsys.readouterr().err

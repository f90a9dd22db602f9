"""Reports are written where they were asked for, and one that fails costs no other one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TextIO

import pytest

from binary_checks import reports
from binary_checks.errors import GatherError, ProfileError
from binary_checks.model import Entry, Outcome, RunResult
from binary_checks.reports import Report
from binary_checks.reports.writing import Destination, find_report, read_destination, write_all
from fixtures.runs import PROFILE, package_result

RUN = RunResult(
    exit_code=0,
    profile=PROFILE,
    packages=tuple(
        package_result(node, Entry(check="c", family="f", outcome=Outcome.PASSED, inspected=1))
        for node in ("dist/a.whl", "dist/b.whl")
    ),
)


def toy(breaks: Exception | None = None) -> Report:
    """A report that a test lists beside ours."""

    def write(run: RunResult, out: TextIO) -> None:
        out.write(f"{run.exit_code} {len(run.packages)}\n")
        if breaks:
            raise breaks

    return Report("toy", write)


def assemble(lost: tuple[str, ...]) -> RunResult:
    """The run, as one that ends with 6 where a report is lost."""
    return RunResult(
        exit_code=6 if lost else 0, profile=PROFILE, complaints=lost, packages=RUN.packages
    )


def to(path: Path, report: Report) -> Destination:
    return Destination(option="--binary-report x", report=report, path=path)


def test_a_report_that_is_listed_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "REPORTS", (*reports.REPORTS, toy()))
    write_all([read_destination("--binary-report", "toy:out.txt", tmp_path)], assemble)
    assert (tmp_path / "out.txt").read_text() == "0 2\n"


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ("json", "give a format and a file"),
        ("json:", "give a format and a file"),
        ("jsn:x", "unknown format 'jsn'; did you mean json?"),
        ("zzz:x", "is not one of terminal, json, sarif, junit, markdown, html, github"),
    ],
)
def test_what_is_no_format_and_file_is_refused(argument: str, reason: str) -> None:
    with pytest.raises(ProfileError) as error:
        read_destination("--binary-report", argument, Path())
    assert str(error.value).startswith(f"--binary-report {argument}: ")
    assert reason in str(error.value)


def test_a_file_may_hold_colons(tmp_path: Path) -> None:
    found = read_destination("--binary-report", "markdown:b:c.md", tmp_path)
    assert found.path == tmp_path / "b:c.md"
    if os.name != "nt":
        write_all([found], assemble)
        assert found.path.read_text().startswith("# binary_checks")


@pytest.mark.parametrize("written", ["a/b/x.json", "file/x.json", "a/b/"])
def test_a_folder_that_is_not_there_is_not_made_in_silence(tmp_path: Path, written: str) -> None:
    (tmp_path / "file").touch()
    name = "facts" if written.endswith("/") else "json"
    with pytest.raises(ProfileError) as error:
        read_destination("--binary-report", f"{name}:{written}", tmp_path)
    folder = Path(written).parent
    assert str(error.value) == (
        f"--binary-report: {written}: there is no folder {folder}: make it first"
    )
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("order", [1, -1])
def test_a_report_that_cannot_be_written_loses_no_other_one_which_say_so(
    tmp_path: Path, order: int
) -> None:
    wanted = [
        to(tmp_path, toy()),
        to(tmp_path / "good.txt", toy()),
        to(tmp_path / "x.md", find_report("markdown")),
    ]
    run = write_all(wanted[::order], assemble)
    assert run.exit_code == 6
    assert (tmp_path / "good.txt").read_text() == "6 2\n"
    (line,) = run.complaints
    assert line.startswith(f"--binary-report: {tmp_path}: cannot be written: ")
    assert line.partition(":")[0] in (tmp_path / "x.md").read_text()


@pytest.mark.parametrize("error", [GatherError("gone"), OSError(28, "No space left on device")])
def test_a_report_that_breaks_off_leaves_nothing_that_looks_like_one(
    tmp_path: Path, error: Exception
) -> None:
    run = write_all([to(tmp_path / "cut.txt", toy(error))], assemble)
    assert run.exit_code == 6
    assert not (tmp_path / "cut.txt").exists()


def test_a_file_that_may_not_be_written_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("before")
    run = write_all([to(tmp_path / "file" / "below.txt", toy())], assemble)
    assert run.exit_code == 6
    assert (tmp_path / "file").read_text() == "before"


def test_the_facts_of_several_packages_are_a_file_each(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"kept-{name}").write_text(f"facts of {name}")
    kept = {f"dist/{name}.whl": tmp_path / f"kept-{name}" for name in "ab"}
    wanted = read_destination("--binary-report", "facts:out/", tmp_path)
    run = RunResult(exit_code=0, profile=PROFILE, packages=RUN.packages, facts=kept)
    write_all([wanted], lambda lost: run)
    assert (tmp_path / "out" / "a.whl.facts.json").read_text() == "facts of a"
    assert (tmp_path / "out" / "b.whl.facts.json").read_text() == "facts of b"


def test_facts_that_were_not_gathered_are_a_report_that_is_lost(tmp_path: Path) -> None:
    run = write_all([read_destination("--binary-report", "facts:out/", tmp_path)], assemble)
    assert run.complaints == ("--binary-report: a.whl: its facts were not gathered",)

"""`binary-checks ci write | check`: all files or none, and the names of those that drifted."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from pathlib import Path

import pytest

from binary_checks.command import main
from tests.fleet.ci.ci_files import PROJECT

pytest.importorskip("yaml")
CELL = Path(".github/workflows/binary-checks-cell.yml")
NIGHT = Path(".github/workflows/binary-checks-night.yml")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "cells.toml").write_text(PROJECT, encoding="utf-8")
    (repository / "profiles").mkdir()
    for named in ("policy.toml", "profiles/torch.toml"):
        (repository / named).write_text("", encoding="utf-8")
    monkeypatch.chdir(repository)
    return repository


def test_what_is_written_is_as_it_should_be_and_is_written_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["ci", "write"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f".github/workflows/binary-checks{name}.yml: written"
        for name in ("-cell", "-chunk", "-night", "")
    ]
    assert main(["ci", "check"]) == 0
    assert capsys.readouterr().out == "4 files up to date with cells.toml\n"
    assert CELL.read_text("utf-8").startswith(
        "# Generated from cells.toml by `binary-checks ci wri"
    )
    before = CELL.stat().st_mtime_ns, CELL.stat().st_ino
    assert main(["ci", "write"]) == 0
    assert capsys.readouterr().out == "4 files up to date\n"
    assert (CELL.stat().st_mtime_ns, CELL.stat().st_ino) == before
    CELL.write_bytes(CELL.read_bytes().replace(b"\n", b"\r\n"))
    assert main(["ci", "check"]) == 0  # line ends of Windows are no drift


@pytest.mark.parametrize("arguments", [["ci", "check"], ["cells", "--ci", "circleci"]])
def test_without_jinja_there_is_one_line(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert main(arguments) == 4
    assert capsys.readouterr().err == (
        "binary-checks: ci: Jinja2 is not installed: `pip install 'binary-checks[fleet]'`\n"
    )


def test_a_new_cuda_version_changes_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    main(["ci", "write"])
    Path("cells.toml").write_text(PROJECT.replace('["cpu", "cu126"]', '["cpu", "cu126", "cu130"]'))
    capsys.readouterr()
    assert main(["ci", "check"]) == 0
    assert main(["cells", "--ci", "github"]) == 0
    assert "torch-linux-x86_64-3.11-cu130" in capsys.readouterr().out


def test_another_branch_is_written_and_check_names_what_differs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["ci", "write"])
    Path("cells.toml").write_text(PROJECT.replace("[ci]\n", '[ci]\nbranch = "work"\n'))
    capsys.readouterr()
    assert main(["ci", "check"]) == 1
    said = capsys.readouterr().out
    assert said.splitlines() == [
        ".github/workflows/binary-checks.yml: changed",
        "1 of 4 files drifted; next: binary-checks ci write cells.toml",
    ]
    main(["ci", "write"])
    assert main(["ci", "check"]) == 0


def test_a_system_without_a_machine_stops_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    text = PROJECT.replace('systems = ["github"]', 'systems = ["circleci", "github"]')
    Path("cells.toml").write_text(text, encoding="utf-8")
    assert main(["ci", "write"]) == 0
    before = Path(".circleci/config.yml").read_bytes()
    CELL.unlink()
    none = 'github = "macos-15"\ncircleci = ""'
    Path("cells.toml").write_text(text.replace('github = "macos-15"', none), encoding="utf-8")
    capsys.readouterr()
    assert main(["ci", "check"]) == 4
    assert main(["ci", "write"]) == 4
    printed = capsys.readouterr()
    assert printed.out.endswith(f"{CELL}: written\n")
    said = "runners: circleci has no machine for torch-macos-arm64-3.11-cpu and 1 more; write"
    assert said in printed.err
    assert "(the files of circleci are left unchanged)" in printed.err
    assert CELL.exists()
    assert Path(".circleci/config.yml").read_bytes() == before


def test_files_that_are_missing_and_left_over_drift_too(capsys: pytest.CaptureFixture[str]) -> None:
    main(["ci", "write"])
    CELL.rename(CELL.with_name("old.yml"))
    capsys.readouterr()
    assert main(["ci", "check"]) == 1
    assert capsys.readouterr().out.splitlines()[:2] == [
        f"{CELL}: missing",
        ".github/workflows/old.yml: left over",
    ]
    assert main(["ci", "write"]) == 0
    assert not CELL.with_name("old.yml").exists()
    assert CELL.exists()


def test_files_of_others_are_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    CELL.parent.mkdir(parents=True)
    CELL.with_name("ci.yml").write_text("name: theirs\n", encoding="utf-8")
    CELL.write_text("name: written by hand\n", encoding="utf-8")
    assert main(["ci", "write"]) == 4
    assert "binary-checks-cell.yml: not generated by `binary-checks ci write`" in (
        capsys.readouterr().err
    )
    assert [path.name for path in sorted(CELL.parent.iterdir())] == [
        "binary-checks-cell.yml",
        "ci.yml",
    ]
    assert CELL.read_text("utf-8") == "name: written by hand\n"
    assert main(["ci", "check"]) == 1
    assert f"{CELL}: not generated by `binary-checks ci write` from" in capsys.readouterr().out
    CELL.unlink()
    assert main(["ci", "write"]) == 0
    assert CELL.with_name("ci.yml").read_text("utf-8") == "name: theirs\n"


def test_files_of_another_matrix_are_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    main(["ci", "write"])
    before = CELL.read_bytes()
    Path("other").mkdir()
    Path("other/cells.toml").write_text(PROJECT.replace('"torch"', '"vision"'), encoding="utf-8")
    assert main(["ci", "write", "other/cells.toml"]) == 4
    said = capsys.readouterr().err.splitlines()[-1]
    assert "from this matrix and would be overwritten; move it away" in said
    assert CELL.read_bytes() == before
    Path("cells.toml").unlink()  # a matrix that was moved takes its files with it
    assert main(["ci", "write", "other/cells.toml"]) == 0
    assert "Generated from other/cells.toml" in CELL.read_text("utf-8")


def test_a_file_that_jobs_would_not_find_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ci", "write"]) == 0
    assert capsys.readouterr().err == ""
    Path("policy.toml").unlink()
    Path("profiles/torch.toml").unlink()
    assert main(["ci", "check"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "warning: cells.toml: ci: policy: there is no file policy.toml",
        "warning: cells.toml: run: profile of torch-linux-x86_64-3.11-cpu: there is no file "
        "profiles/torch.toml",
    ]


def test_a_full_disk_leaves_all_files_as_they_were(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["ci", "write"])
    before = {path: path.read_bytes() for path in CELL.parent.iterdir()}
    text = PROJECT.replace('python = ["3.11", "3.12"]', 'python = "3.12"')
    Path("cells.toml").write_text(text.replace("[ci]\n", '[ci]\npython = "3.12"\n'))
    real, made = tempfile.mkstemp, []

    def fail_at_the_second(**named: str) -> tuple[int, str]:
        if made:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        made.append(named)
        return real(**named)

    monkeypatch.setattr(tempfile, "mkstemp", fail_at_the_second)
    assert main(["ci", "write"]) == 6
    said = "binary-checks-night.yml: cannot be written: No space left on device\n"
    assert capsys.readouterr().err.endswith(said)
    assert {path: path.read_bytes() for path in CELL.parent.iterdir()} == before


@pytest.mark.parametrize("name", [".github", ".github/workflows/binary-checks-night.yml/x"])
def test_a_file_in_place_of_a_folder_and_the_other_way_are_one_line(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text("", encoding="utf-8")
    for action in ("write", "check"):
        assert main(["ci", action]) == 4
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert not CELL.exists()


def test_a_mistake_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ci", "check", "--system", "githup"]) == 4
    assert capsys.readouterr().err.startswith(
        "binary-checks: ci check: argument --system: invalid choice: 'githup' (choose from"
    )
    Path("cells.toml").write_text(PROJECT.replace("github = [", "githup = ["), encoding="utf-8")
    assert main(["ci", "write"]) == 4
    assert "unknown key 'githup'; did you mean 'github'?" in capsys.readouterr().err
    assert not Path(".github").exists()


@pytest.mark.skipif(os.name == "nt", reason="symbolic links need a right there")
def test_a_link_out_of_the_folder_is_not_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    Path(".github").symlink_to(outside)
    assert main(["ci", "write"]) == 4
    assert "a symbolic link leads out of" in capsys.readouterr().err
    assert [*outside.iterdir()] == []


def test_a_matrix_outside_of_the_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert main(["ci", "write", str(tmp_path / "repository" / "cells.toml")]) == 4
    assert f"not below {elsewhere}, the folder of the jobs" in capsys.readouterr().err

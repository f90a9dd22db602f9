"""A developer names one file or a folder: what is not in it may be elsewhere, and that is said."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

import pytest

from fixtures.build_elf import ElfSymbol, build_elf
from tests.plugin.conftest import Run, command, faulty

EXTENSION = "_native.cpython-311-x86_64-linux-gnu.so"
INIT = (ElfSymbol("PyInit__native"),)


def judge(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return command(folder, "--static", *arguments)


def build(folder: Path, *needed: str, runpath: str = "") -> Path:
    path = folder / "build" / EXTENSION
    path.parent.mkdir(parents=True)
    path.write_bytes(build_elf(exports=INIT, needed=("libc.so.6", *needed), runpath=runpath))
    return path


def test_one_file_is_fit_and_what_it_needs_from_elsewhere_is_not_inspected(tmp_path: Path) -> None:
    result = judge(tmp_path, build(tmp_path, "libfoo.so.1"))
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(f"{EXTENSION}: fit")
    assert "needs libfoo.so.1: not given, and no system promises it" in result.stdout


def test_one_file_with_a_fault_fails(tmp_path: Path) -> None:
    result = judge(tmp_path, build(tmp_path, runpath="/tmp/build/lib"))
    assert result.returncode == 1
    assert (
        f"absolute-search-path: {EXTENSION}: {EXTENSION}: looks for libraries in /tmp/build/lib"
        in (result.stdout)
    )


def test_a_folder_is_a_package_for_the_command_alone(pytester: pytest.Pytester, run: Run) -> None:
    build(pytester.path)
    result = judge(pytester.path, "build", "--binary-report", "json:result.json")
    assert result.stdout.startswith("build/: fit")
    (package,) = json.loads((pytester.path / "result.json").read_text())["packages"]
    assert package["file_name"] == "build/"
    assert run("build", "-q", static=False).ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert run("folder:build", "-q").ret == pytest.ExitCode.OK


def test_a_folder_that_is_given_beside_has_what_one_file_needs(tmp_path: Path) -> None:
    path = build(tmp_path, "libfoo.so.1", runpath="$ORIGIN")
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs/libfoo.so.1").write_bytes(build_elf(soname="libfoo.so.1"))
    result = judge(tmp_path, path, "--binary-with", "libs")
    assert "libfoo" not in result.stdout


def test_an_unpacked_wheel_has_the_problems_of_the_wheel(tmp_path: Path) -> None:
    wheel, one = faulty(tmp_path), ("-k", "absolute-search-path")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "demo")
    of_file = judge(tmp_path, wheel, *one).stdout.replace(wheel.name, "demo/")
    of_folder = judge(tmp_path, "demo", *one)
    assert of_folder.returncode == 1
    lines = [line for line in of_folder.stdout.splitlines() if line.startswith("absolute-")]
    assert lines
    assert all(line in of_file for line in lines)


def test_a_folder_that_is_not_there_or_has_no_objects_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "folder:gone: no such folder" in judge(tmp_path, "folder:gone").stderr
    assert (
        "folder:empty: a folder without packages or object files"
        in judge(tmp_path, "folder:empty").stderr
    )
    assert "folder:: name a folder after the colon: " in judge(tmp_path, "folder:").stderr
    assert judge(tmp_path, "empty").returncode == 4


def test_the_interpreter_of_an_environment_may_need_its_own_library(tmp_path: Path) -> None:
    library, program = "libpython3.11.so.1.0", tmp_path / "env/bin/python3.11"
    program.parent.mkdir(parents=True)
    program.write_bytes(
        build_elf(interpreter="/lib64/ld-linux-x86-64.so.2", needed=(library, "libc.so.6"))
    )
    module = tmp_path / f"env/lib/python3.11/site-packages/demo/{EXTENSION}"
    module.parent.mkdir(parents=True)
    module.write_bytes(build_elf(exports=INIT, needed=(library, "libc.so.6")))
    result = judge(tmp_path, "env", "-k", "libpython-linked")
    problems = [line for line in result.stdout.splitlines() if line.startswith("libpython-linked")]
    assert len(problems) == 1
    assert EXTENSION in problems[0]


def test_facts_of_a_folder_with_links_serve_it_and_no_other(tmp_path: Path) -> None:
    (build(tmp_path).parent / "again.so").symlink_to(EXTENSION)
    facts = command(tmp_path, "inspect", "--json", "folder:build").stdout
    (tmp_path / "facts.json").write_text(facts)
    given = ("build", "--binary-facts", "facts.json")
    assert judge(tmp_path, *given).returncode == 0
    (tmp_path / "build/again.so").unlink()
    result = judge(tmp_path, *given)
    assert (result.returncode, "not about build/" in result.stderr) == (4, True)

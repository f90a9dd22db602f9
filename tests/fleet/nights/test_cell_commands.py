"""The command of a planned cell: only the planned bytes, and only the cell's Python."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binary_checks.errors import ProfileError
from binary_checks.fleet.night import Cell, NightPlan, PlannedCell
from binary_checks.fleet.nights import (
    CellCommand,
    cell_commands,
    command_of,
    find_python,
    options_of_gpu,
    rerun_command,
)
from binary_checks.model import CellState
from fixtures.build_wheel import build_wheel
from fixtures.package_index import serve_only_index
from tests.plugin.conftest import command as run_here

SHA = "1" * 64
CELL = Cell(id="demo", project="demo")
PLAN = NightPlan(night="2026-11-20", made="", cells_sha256="0" * 64)
PLANNED = PlannedCell(
    cell=CELL,
    url="https://x.example/demo-1.0-cp312-cp312-manylinux_2_17_x86_64.whl",
    file_name="demo-1.0-cp312-cp312-manylinux_2_17_x86_64.whl",
    sha256=SHA,
)
URL = f"{PLANNED.url}#sha256={SHA}"
PYTHONS = {"3.8": "/opt/python3.8"}


@pytest.fixture(autouse=True)
def linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_commands.sys, "platform", "linux")
    monkeypatch.setattr(cell_commands.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(cell_commands.platform, "libc_ver", lambda: ("glibc", "2.36"))


def command(
    plan: NightPlan = PLAN, *, file_name: str = "", frozen: str = "", **changes: object
) -> CellCommand:
    planned = replace(PLANNED, cell=replace(CELL, **changes))  # type: ignore[arg-type]
    planned = replace(planned, file_name=file_name or planned.file_name, profile=frozen)
    return command_of(plan, planned, find_python=lambda version: PYTHONS.get(version, ""))


def test_the_gpu_stage_requires_no_family_but_its_own() -> None:
    options = ("-m", "linkage", "--require", "runtime", "--require=gpu", "-k", "x")
    assert options_of_gpu((URL, *options, "--strict")) == (
        *(URL, "-k", "x", "--strict", "-m", "gpu", "--require", "gpu"),
    )


def test_every_object_is_read_twice_where_the_libraries_are_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cell_commands, "has_libraries", lambda: True)
    arguments = command(options=("--strict",)).arguments
    assert arguments == (URL, "--strict", "--crosscheck")
    planned = replace(PLANNED, cell=replace(CELL, options=("--strict",)))
    assert rerun_command(PLAN, planned, "store").endswith(" --strict --crosscheck")
    assert options_of_gpu(arguments) == (URL, "--strict", "-m", "gpu", "--require", "gpu")


def test_known_problems_and_profiles_are_the_frozen_ones() -> None:
    plan = replace(
        PLAN,
        known_sha256="2" * 64,
        profiles={"conf/base.toml": "3" * 64, "conf/own.toml": "4" * 64},
    )
    found = command(plan, profile="./conf/own.toml", frozen="conf/own.toml")
    assert found.arguments == (
        *(URL, "--known-at", PLAN.made),
        *("--profile", "profiles/conf/own.toml", "--known-problems", "known.toml"),
        *("--cell", "id=demo,project=demo,kind=wheel"),
    )
    assert found.inputs == {
        "known.toml": f"night=2026-11-20/frozen/{'2' * 64}.toml",
        "profiles/conf/base.toml": f"night=2026-11-20/frozen/{'3' * 64}.toml",
        "profiles/conf/own.toml": f"night=2026-11-20/frozen/{'4' * 64}.toml",
    }


def test_a_shipped_profile_is_named_and_needs_no_file() -> None:
    found = command(replace(PLAN, profiles={"x.toml": "3" * 64}), profile="torch")
    assert found == CellCommand(arguments=(URL, "--profile", "torch"), inputs={})


HERE = {"system": "linux", "architecture": "x86_64"}
WINDOWS = {"system": "windows", "architecture": "amd64", "python": "3.8"}
LINKAGE = ("-m", "linkage")


@pytest.mark.parametrize(
    ("cell", "more"),
    [
        ({}, ()),
        ({"place": "image:oldest", "options": LINKAGE}, ("--place", "image:oldest", *LINKAGE)),
        ({**HERE, "python": "3.8"}, ("--python", "/opt/python3.8")),
        ({**HERE, "python": "3.99"}, ("--static",)),  # in no other Python
        ({**HERE, "python": "3.8", "place": "image:x"}, ("--place", "image:x")),
        ({**HERE, "python": "3.8", "options": ("--static",)}, ("--static",)),
        (WINDOWS, ()),
        # a wheel for any system does not run here for a cell of another
        ({**WINDOWS, "file_name": "demo-1.0-py3-none-any.whl"}, ("--static",)),
        ({"system": "linux", "architecture": "aarch64", "python": "3.8"}, ()),
        ({"system": "musllinux", "architecture": "x86_64", "python": "3.8"}, ()),
        # It brings its Python, and users name its channels: solving in its own channel alone
        # would fail where Python comes from another one.
        (
            {**HERE, "kind": "conda", "python": "3.99", "options": ("--channel", "x")},
            ("--channel", "x"),
        ),
    ],
)
def test_a_cell_of_this_host_runs_in_its_own_python_alone(
    cell: dict[str, Any], more: tuple[str, ...]
) -> None:
    assert command(**cell) == CellCommand(arguments=(URL, *more), inputs={})


def test_a_cell_without_a_file_has_no_command() -> None:
    lacking = PlannedCell(cell=CELL, state=CellState.MISSING, reason="no wheel for cp312")
    with pytest.raises(ProfileError, match="demo: the plan has no file for it: no wheel for cp312"):
        command_of(PLAN, lacking)


def test_the_interpreter_of_this_process_is_found() -> None:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert find_python(version) == sys.executable
    assert find_python("3.99") == ""


@pytest.mark.skipif(sys.platform == "win32", reason="a script with a shebang")
def test_an_interpreter_that_does_not_start_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the shims of version managers, which know versions that are not switched on."""
    for name, text in (
        ("python3.98", "#!/bin/sh\nexit 127\n"),
        ("python3.97", "#!/bin/sh\necho 3.97\n"),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert find_python("3.98") == ""
    assert find_python("3.97") == str(tmp_path / "python3.97")


def test_other_bytes_are_no_verdict_but_exit_code_6_and_both_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However broken they are: nothing of them is judged."""
    pytest.importorskip("urllib3", reason="no urllib3, which asks servers")
    monkeypatch.chdir(tmp_path)
    wheel = build_wheel(tmp_path / "dist", tags=["py3-none-any"], root_is_purelib=True)
    broken = build_wheel(tmp_path / "other", tags=["py3-none-any"], record="", version="2.0")
    planned, sent = (hashlib.sha256(each.read_bytes()).hexdigest() for each in (wheel, broken))
    with serve_only_index(monkeypatch, tmp_path / "cache") as index:
        url = index.offer(wheel, "demo")
        index.files[wheel.name] = broken
        cell = PlannedCell(cell=CELL, url=url, file_name=wheel.name, sha256=planned)
        words = command_of(PLAN, cell).arguments
        ended = run_here(tmp_path, *words, "--static", "--report", "json:r.json")
    assert ended.returncode == 6
    assert (
        f"its URL says sha256 {planned}, and its server sent {sent}: "
        "the file on the server has changed"
    ) in ended.stdout
    package = json.loads(Path("r.json").read_text())["packages"][0]
    assert package["verdict"] == "error"
    passed = [each["check"] for each in package["entries"] if each["outcome"] == "passed"]
    assert passed == ["yanked-file"]  # of which no byte is read

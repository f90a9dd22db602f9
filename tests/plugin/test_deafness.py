"""Nothing of the folder that the command runs in is imported or run, whatever lies there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from binary_checks.places import index_settings, installers
from binary_checks.processes import SAFE_PATH
from fixtures.package_index import serve_index
from fixtures.slow import slow
from tests.plugin.conftest import healthy

SHADOWS = (
    *("json.py", "execnet.py", "pytest.py", "_pytest.py", "xdist.py", "packaging.py", "venv.py"),
    *("sitecustomize.py", "usercustomize.py", "conftest.py", "encodings/__init__.py", "lief.py"),
    *("pip/__init__.py", "pip/__main__.py", "binary_checks/__init__.py", "uv.py", "isal.py"),
)
"""What a folder may hold that somebody else filled: each leaves a mark when it is run."""


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder in which every module leaves a mark."""
    folder = tmp_path / "hostile"
    for name in SHADOWS:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"open({str(tmp_path / 'marks')!r}, 'a').write({name!r} + ' ')\n")
    return folder


def marks(tmp_path: Path) -> str:
    path = tmp_path / "marks"
    return path.read_text() if path.exists() else ""


def command(folder: Path, *arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the command as its script starts it: without the current folder on sys.path."""
    return subprocess.run(
        [sys.executable, SAFE_PATH, "-m", "binary_checks", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_marks_would_show(hostile: Path, tmp_path: Path) -> None:
    """``python -m``, which is documented as not deaf, runs the folder's modules."""
    python = [sys.executable, "-c", "import json, execnet, pytest, pip.__main__"]
    # Coverage, where it follows processes, has imported json before.
    environment = {name: os.environ[name] for name in os.environ if "COVERAGE" not in name}
    environment["PYTHONSAFEPATH"] = ""
    subprocess.run(python, cwd=hostile, env=environment, check=True)
    assert marks(tmp_path) == "json.py execnet.py pytest.py pip/__init__.py pip/__main__.py "


@pytest.mark.parametrize(
    "workers",
    [
        ["-n", "1"],
        *slow(
            [],
            ["-n", "2"],
            ["-n", "2", "--dist", "load"],
            ["-n1", "-d"],
            ["--tx", "popen", "--dist", "load"],
            ["--tx=2*popen", "-d"],
        ),
    ],
    ids=" ".join,
)
def test_static_checks_run_nothing_of_it(hostile: Path, tmp_path: Path, workers: list[str]) -> None:
    one, two = healthy(hostile / "one"), healthy(tmp_path / "two")
    result = command(hostile, "--static", *workers, one, two)
    assert (result.returncode, marks(tmp_path)) == (0, ""), result.stdout + result.stderr
    assert "2 packages: 2 fit" in result.stdout


@pytest.mark.parametrize("json", [*slow([]), ["--json"]])
def test_inspect_runs_nothing_of_it(hostile: Path, tmp_path: Path, json: list[str]) -> None:
    result = command(hostile, "inspect", healthy(hostile), *json)
    assert (result.returncode, marks(tmp_path)) == (0, ""), result.stderr


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_runtime_checks_run_nothing_of_it(
    hostile: Path, tmp_path: Path, installer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if installers.find_uv() is None and installer == "uv":
        pytest.skip("no uv here")
    if installer == "pip":  # beside this interpreter, too, there may be a uv
        pytest.importorskip("pip", reason="no pip here")
        monkeypatch.setattr(installers, "find_uv", lambda: None)
    monkeypatch.chdir(hostile)
    index_settings.read_pip_settings()
    found = installers.find_installer(Path(sys.executable), cwd=hostile, timeout=60)
    assert (found.name.split()[0], marks(tmp_path)) == (installer, "")


def test_a_whole_run_runs_nothing_of_it(hostile: Path, tmp_path: Path) -> None:
    members = {"demo/__init__.py": "import json\n"}
    wheel = healthy(hostile, tags=("py3-none-any",), members=members)
    result = command(hostile, wheel, PIP_NO_INDEX="1")
    assert (result.returncode, marks(tmp_path)) == (0, ""), result.stdout + result.stderr


@pytest.mark.parametrize("place", ["", ".", "bin"])
def test_an_installer_in_the_folder_is_not_found(
    hostile: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Windows looks there before it looks along PATH, POSIX where PATH has an empty part."""
    program = hostile / place / ("uv.exe" if os.name == "nt" else "uv")
    program.parent.mkdir(exist_ok=True)
    program.write_bytes(b"#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(hostile)
    monkeypatch.setenv("PATH", place)
    monkeypatch.setitem(sys.modules, "uv", None)
    assert installers.find_uv() is None


@pytest.mark.skipif(os.name != "posix", reason="scripts are POSIX")
@pytest.mark.slow
def test_no_program_is_looked_for_in_the_folder(hostile: Path, tmp_path: Path) -> None:
    """pip says to the index which rustc and which system it has."""
    pytest.importorskip("pip", reason="no pip here")
    for name in ("rustc", "uname", "lsb_release", "git", "uv", "gdb", "bwrap"):
        (hostile / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path / 'marks'}\n")
        (hostile / name).chmod(0o755)
    wheel = healthy(hostile, requires=("none-such",))
    with serve_index() as index:
        settings = {"PIP_INDEX_URL": f"{index.url}/simple", "PIP_CONFIG_FILE": os.devnull}
        command(hostile, "--with-requirements", wheel, **settings, PATH=".::bin")
        assert index.asked
    assert marks(tmp_path) == ""


def test_pip_keeps_the_folder_that_relative_settings_are_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pip", reason="no pip here")
    monkeypatch.chdir(tmp_path)
    assert index_settings.PIP[:2] == (sys.executable, SAFE_PATH)
    settings = index_settings.read_pip_settings({"PIP_FIND_LINKS": "wheels"})
    assert settings["find-links"] == "wheels"

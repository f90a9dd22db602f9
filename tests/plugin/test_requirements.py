"""A package is judged beside what its Requires-Dist bring: downloaded, or installed with it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from binary_checks.command import main
from tests.plugin.conftest import NAME, Run, needy, provide_x

pytest.importorskip("pip", reason="no pip here")

CHECK = f"{NAME}::missing-library"


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with wheels that require another, and the index that has that one."""
    needy(pytester.path)
    needy(pytester.path, tags=("py3-none-manylinux_2_17_x86_64",))
    index = provide_x(pytester.path / "index").parent
    for tool in ("PIP", "UV"):
        monkeypatch.setenv(f"{tool}_NO_INDEX", "1")
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(index))
    return pytester.path


def test_what_a_required_wheel_brings_is_found(folder: Path, run: Run) -> None:
    run(CHECK).assert_outcomes(skipped=1)
    run(CHECK, "--binary-with-requirements").assert_outcomes(passed=1)


def test_an_index_that_lacks_it_is_an_error_and_no_problem_of_the_package(
    folder: Path, run: Run
) -> None:
    for path in (folder / "index").iterdir():
        path.unlink()
    result = run(CHECK, "--binary-with-requirements")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [f"missing-library: {NAME}: requirements: the index has no wheel of x-runtime for cp311 *"]
    )


def test_inspect_shows_what_a_required_wheel_brings_and_keeps_it_in_the_folder_that_is_given(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", NAME, "--json", "--binary-requirements-folder", "kept"]) == 0
    (edge,) = json.loads(capsys.readouterr().out)["linkage"]
    assert edge["resolved"] == "wheel:x-runtime:lib/python3.11/site-packages/x/libx.so.1"
    (kept,) = (folder / "kept").rglob("*.whl")
    assert kept.name == "x_runtime-1.0-py3-none-manylinux_2_17_x86_64.whl"


INSTALLABLE = "demo-1.0-py3-none-manylinux_2_17_x86_64.whl"
FAMILIES = ("-m", "linkage or symbols or runtime", "-rs", "-v")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="wheels of Linux are installed")


@pytest.mark.slow
@on_linux
@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "workers"])
def test_what_was_installed_is_not_asked_for(
    folder: Path, run: Run, workers: tuple[str, ...]
) -> None:
    result = run(INSTALLABLE, *FAMILIES, *workers, static=False)
    node = f"{INSTALLABLE}::missing-library"
    result.stdout.fnmatch_lines([f"*PASSED {node}*" if workers else f"{node} PASSED*"])
    result.stdout.fnmatch_lines(["*has 1 undefined symbol (x_lost)*"])
    result.stdout.no_fnmatch_line("*give it with --binary-with*")


@pytest.mark.slow
@on_linux
def test_where_it_cannot_be_installed_the_static_answer_stays(folder: Path, run: Run) -> None:
    for wheel in (folder / "index").iterdir():
        wheel.unlink()
    result = run(INSTALLABLE, *FAMILIES, static=False)
    result.stdout.fnmatch_lines([f"{INSTALLABLE}::missing-library SKIPPED*"])
    result.stdout.fnmatch_lines(["*which a required wheel (x-runtime) may ship*"])

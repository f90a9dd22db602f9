"""With --binary-with-requirements a package is judged beside what its Requires-Dist bring."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from binary_checks.command import main
from tests.plugin.conftest import NAME, Run, needy, provide_x

pytest.importorskip("pip", reason="no pip here")

CHECK = f"{NAME}::missing-library"


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a wheel that requires another, and the index that has that one."""
    needy(pytester.path)
    index = provide_x(pytester.path / "index").parent
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
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


def test_a_file_in_place_of_the_folder_is_a_usage_error(
    folder: Path, pytester: pytest.Pytester
) -> None:
    (folder / "kept").touch()
    with pytest.raises(pytest.UsageError, match="--binary-requirements-folder kept: not a folder"):
        pytester.parseconfigure(NAME, "--binary-requirements-folder", "kept")

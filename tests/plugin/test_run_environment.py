"""A full run judges linkage and symbols in the environment that it installs into."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.plugin.conftest import Run, needy, provide_x

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="wheels of Linux are installed"),
]

NAME = "demo-1.0-py3-none-manylinux_2_17_x86_64.whl"
FAMILIES = ("-m", "linkage or symbols or runtime", "-rs", "-v")


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel that needs another one's library and its symbol, and an index that has that one."""
    needy(pytester.path, tags=("py3-none-manylinux_2_17_x86_64",))
    provide_x(pytester.path / "index")
    for name in ("PIP_NO_INDEX", "UV_NO_INDEX"):
        monkeypatch.setenv(name, "1")
    for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS"):
        monkeypatch.setenv(name, str(pytester.path / "index"))
    return pytester.path


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "workers"])
def test_what_was_installed_is_not_asked_for(
    folder: Path, run: Run, workers: tuple[str, ...]
) -> None:
    result = run(NAME, *FAMILIES, *workers, static=False)
    node = f"{NAME}::missing-library"
    result.stdout.fnmatch_lines([f"*PASSED {node}*" if workers else f"{node} PASSED*"])
    result.stdout.fnmatch_lines(["*has 1 undefined symbol (x_lost)*"])
    result.stdout.no_fnmatch_line("*give it with --binary-with*")


def test_where_it_cannot_be_installed_the_static_answer_stays(folder: Path, run: Run) -> None:
    for wheel in (folder / "index").iterdir():
        wheel.unlink()
    result = run(NAME, *FAMILIES, static=False)
    result.stdout.fnmatch_lines([f"{NAME}::missing-library SKIPPED*"])
    result.stdout.fnmatch_lines(["*which a required wheel (x-runtime) may ship*"])

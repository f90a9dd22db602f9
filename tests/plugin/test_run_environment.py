"""A full run judges linkage and symbols in the environment that it installs into."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.build_wheel import build_wheel
from tests.plugin.conftest import Run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="wheels of Linux are installed"),
]

NAME = "demo-1.0-py3-none-manylinux_2_17_x86_64.whl"
TAGS = ("py3-none-manylinux_2_17_x86_64",)
FAMILIES = ("-m", "linkage or symbols or runtime", "-rs", "-v")


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel that needs another one's library and its symbol, and an index that has that one."""
    native = build_elf(
        needed=("libx.so.1",), runpath="$ORIGIN/../x", imports=(ElfSymbol("x_lost"),)
    )
    members: dict[str, str | bytes] = {"demo/__init__.py": "", "demo/libdemo.so": native}
    build_wheel(pytester.path, members=members, requires=("x-runtime",), tags=TAGS)
    library = {"x/libx.so.1": build_elf(soname="libx.so.1", exports=(ElfSymbol("x_run"),))}
    build_wheel(pytester.path / "index", name="x-runtime", tags=TAGS, members=library)
    for name in ("PIP_NO_INDEX", "UV_NO_INDEX"):
        monkeypatch.setenv(name, "1")
    for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS"):
        monkeypatch.setenv(name, str(pytester.path / "index"))
    return pytester.path


def test_what_was_installed_is_not_asked_for(folder: Path, run: Run) -> None:
    result = run(NAME, *FAMILIES, static=False)
    result.stdout.fnmatch_lines([f"{NAME}::missing-library PASSED*"])
    result.stdout.fnmatch_lines(["*has 1 undefined symbol (x_lost)*"])
    result.stdout.no_fnmatch_line("*give it with --binary-with*")


def test_its_verdict_is_the_same_without_the_checks_that_import_it(folder: Path, run: Run) -> None:
    result = run(NAME, "-m", "linkage or symbols", "-rs", "-v", static=False)
    result.stdout.fnmatch_lines([f"{NAME}::missing-library PASSED*"])
    result.stdout.fnmatch_lines(["*has 1 undefined symbol (x_lost)*"])


def test_where_it_cannot_be_installed_the_static_answer_stays(folder: Path, run: Run) -> None:
    for wheel in (folder / "index").iterdir():
        wheel.unlink()
    result = run(NAME, *FAMILIES, static=False)
    result.stdout.fnmatch_lines([f"{NAME}::missing-library SKIPPED*"])
    result.stdout.fnmatch_lines(["*perhaps x-runtime, may ship*"])


def test_workers_judge_it_so_too(folder: Path, run: Run) -> None:
    result = run(NAME, *FAMILIES, "-n", "1", static=False)
    result.stdout.fnmatch_lines(["*has 1 undefined symbol (x_lost)*"])
    result.stdout.no_fnmatch_line("*give it with --binary-with*")

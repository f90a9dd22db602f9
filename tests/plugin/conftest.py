"""What the tests of the plugin start from: small wheels and a way to run pytest on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import binary_checks.plugin.reporting  # noqa: F401 - pytester forgets what a test imports first
from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.build_wheel import build_wheel
from fixtures.package_index import PackageIndex, serve_only_index

Run = Callable[..., pytest.RunResult]
TRY_AGAIN = 6  # the exit code where no problem was found, and something broke

EXTENSION = "demo/_native.cpython-311-x86_64-linux-gnu.so"


def healthy(folder: Path, **changes: object) -> Path:
    """A wheel with one extension module and nothing wrong with it."""
    folder.mkdir(parents=True, exist_ok=True)
    init = (ElfSymbol("PyInit__native"),)
    members = {"demo/__init__.py": "", EXTENSION: build_elf(exports=init, needed=("libc.so.6",))}
    return build_wheel(folder, **{"members": members, **changes})


def faulty(folder: Path, **changes: object) -> Path:
    """The same wheel, whose extension looks for its libraries below /tmp/build."""
    init = (ElfSymbol("PyInit__native"),)
    native = build_elf(exports=init, needed=("libc.so.6",), runpath="/tmp/build/lib")
    return healthy(folder, members={"demo/__init__.py": "", EXTENSION: native}, **changes)


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """Run pytest statically, in a process of its own, on the given arguments."""

    def run(*arguments: str | Path, static: bool = True) -> pytest.RunResult:
        own = ["--binary-static"] if static else []
        return pytester.runpytest_subprocess(*own, *arguments)

    return run


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """An index that is all that pip's settings name, and an empty cache."""
    with serve_only_index(monkeypatch, tmp_path / "cache") as index:
        yield index

"""What the tests of the plugin start from: small wheels and ways to run pytest on them.

Runs happen in this process. A test starts a process of its own where that is its subject:
signals, closed streams, what a process reads, writes and starts, and how it begins.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from unittest import mock

import pytest

import binary_checks
from binary_checks.command import main
from binary_checks.places import index_settings
from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.build_wheel import build_wheel
from fixtures.package_index import PackageIndex, serve_only_index

SCRIPTS = re.compile(r"__main__|\.scripts\.|\.steps\.|\.script$")
"""Modules that only a process of their own runs."""
for module in walk_packages(binary_checks.__path__, "binary_checks."):
    if not SCRIPTS.search(module.name):
        with suppress(ModuleNotFoundError):  # of an extra that is not installed
            import_module(module.name)  # or pytester forgets it after each run, and caches do not

Run = Callable[..., pytest.RunResult]
IN_A_WORKER = pytest.param(("-n", "1"), marks=pytest.mark.slow, id="workers")
"""The same run by xdist; in the gate other tests hold what only a worker can break."""
TRY_AGAIN = 6  # the exit code where no problem was found, and something broke

NAME = "demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
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


def needy(folder: Path, search: str = "$ORIGIN/../x", **changes: object) -> Path:
    """A wheel whose extension needs a library of another one, and a symbol that nothing has."""
    native = build_elf(
        needed=("libx.so.1",),
        runpath=search,
        exports=(ElfSymbol("PyInit__native"),),
        imports=(ElfSymbol("x_run"), ElfSymbol("x_lost")),
    )
    return healthy(folder, members={EXTENSION: native}, requires=("x-runtime",), **changes)


def provide_x(folder: Path) -> Path:
    """The wheel that it requires, which has the library and one of the symbols."""
    library = build_elf(soname="libx.so.1", exports=(ElfSymbol("x_run"),))
    tags = ("py3-none-manylinux_2_17_x86_64",)
    return build_wheel(folder, name="x-runtime", members={"x/libx.so.1": library}, tags=tags)


def make_python(prefix: Path, **options: bool) -> Path:
    """Make an environment; gives its interpreter."""
    venv.create(prefix, symlinks=os.name != "nt", **options)
    return prefix.joinpath(*(("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")))


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """Run pytest statically on the given arguments."""

    def run(*arguments: str | Path, static: bool = True) -> pytest.RunResult:
        own = ["--binary-static"] if static else []
        return pytester.runpytest_inprocess(*own, *arguments)

    return run


def command(
    folder: Path, *arguments: str | Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run binary-checks in a folder, and leave this process as it was."""
    words = [str(each) for each in arguments]
    modules = {*sys.modules}
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, mock.patch.dict(os.environ, environment):
        patch.chdir(folder)
        patch.setattr(sys, "path", [*sys.path])
        with redirect_stdout(out), redirect_stderr(err):
            status = main(words)
    for name in {*sys.modules} - modules:
        if not name.startswith("binary_checks"):  # a profile's own checks
            del sys.modules[name]
    return subprocess.CompletedProcess(words, status, *map(_read, (out, err)))


def _read(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def start_command(
    folder: Path, *arguments: str | Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run binary-checks in a folder, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "binary_checks", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def run_command(*arguments: str | Path) -> pytest.RunResult:
    """Run binary-checks in the current folder, as pytester runs programs."""
    done = command(Path.cwd(), *arguments)
    return pytest.RunResult(done.returncode, done.stdout.splitlines(), done.stderr.splitlines(), 0)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """An index that is all that pip's settings name, and an empty cache."""
    monkeypatch.setattr(index_settings, "has_pip", lambda: False)  # its variables are enough
    with serve_only_index(monkeypatch, tmp_path / "cache") as index:
        yield index

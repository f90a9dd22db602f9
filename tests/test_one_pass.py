"""A static run opens a package once: whatever facts ask for is kept while it is read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from binary_checks import examine, judge
from binary_checks.model import Outcome
from fixtures.build_conda import build_conda
from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.build_wheel import build_wheel
from fixtures.samples import read_fatbin_sample

LOADING = """
import ctypes, pathlib
try:
    from demo import _native
except ImportError:
    pass
ctypes.CDLL(pathlib.Path(__file__).parent / "libdemo.so")
"""
CODE: dict[str, str | bytes] = {
    "demo/__init__.py": LOADING,
    "demo/command.py": "from demo.names import *",
    "demo/names.py": "def main(): pass",
    "demo/cpp_lib.json": '{"cuda": "12.6"}',
    "google/__init__.py": "",
    "demo-1.0.dist-info/top_level.txt": "demo\n",
}
POINTS = "[console_scripts]\ndemo = demo.command:main\n"
MODULE = build_elf(exports=(ElfSymbol("PyInit__native"),), needed=("libfar.so.1",))
NATIVE = {"demo/_native.cpython-311-x86_64-linux-gnu.so": MODULE, "demo/libdemo.so": build_elf()}
CUDA = build_elf(
    needed=("libcuda.so.1",), sections={".nv_fatbin": read_fatbin_sample("toolkit_12.4.fatbin")}
)
DLL_CODE = "import os\nos.add_dll_directory(os.path.dirname(__file__))"


def native(folder: Path) -> Path:
    return build_wheel(folder, members={**CODE, **NATIVE}, entry_points=POINTS)


def without_entry_points(folder: Path) -> Path:
    return build_wheel(folder, members={**CODE, **NATIVE})


def for_windows(folder: Path) -> Path:
    members = {**CODE, "demo/__init__.py": DLL_CODE, "demo/x.dll": b"MZ"}
    return build_wheel(folder, members=members, tags=("cp311-cp311-win_amd64",))


def cuda(folder: Path) -> Path:
    return build_wheel(folder, members={**CODE, **NATIVE, "demo/libgpu.so": CUDA})


def pure(folder: Path) -> Path:
    return build_wheel(folder, members=CODE, tags=("py3-none-any",), entry_points=POINTS)


def conda(folder: Path) -> Path:
    pytest.importorskip("zstandard", reason="no zstandard, which reads .conda before Python 3.14")
    library = build_elf(soname="libdemo.so.1", needed=("libfar.so.1",))
    site = "lib/python3.11/site-packages/demo"
    members = {"lib/libdemo.so.1": library, f"{site}/__init__.py": LOADING}
    return build_conda(folder, members=members)


def conda_for_windows(folder: Path) -> Path:
    pytest.importorskip("zstandard", reason="no zstandard, which reads .conda before Python 3.14")
    members = {"Lib/site-packages/demo/__init__.py": DLL_CODE}
    return build_conda(folder, members=members, subdir="win-64")


@pytest.mark.parametrize(
    "build", [native, without_entry_points, for_windows, cuda, pure, conda, conda_for_windows]
)
def test_all_default_checks_open_the_package_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: Callable[[Path], Path]
) -> None:
    path = build(tmp_path)
    opened: list[Path] = []
    usual = os.open

    def watch(name: Any, *more: Any, **options: Any) -> int:
        if isinstance(name, (str, Path)) and Path(name) == path:
            opened.append(path)
        return usual(name, *more, **options)

    monkeypatch.setattr(os, "open", watch)
    with examine(path) as examination:
        verdicts = list(judge(examination))
    assert not [each for each in verdicts if each.outcome in {Outcome.BROKEN, Outcome.ERROR}]
    assert len(verdicts) > 30
    assert opened == [path]


COUNTING = """
import sys

opened = []

def see(event, arguments):
    if event == "open" and str(arguments[0]).endswith(".whl"):
        opened.append(arguments[0])

sys.addaudithook(see)

def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"opened {len(opened)} times")
"""


def test_so_do_collecting_and_running_them_in_one_process(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(counting=COUNTING)
    pytester.syspathinsert()
    result = pytester.runpytest_subprocess(
        "-p", "counting", "--binary-static", native(pytester.path)
    )
    result.stdout.fnmatch_lines(["opened 1 times"])

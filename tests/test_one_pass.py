"""A static run opens a package once: whatever facts ask for is kept while it is read."""

from __future__ import annotations

import os
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


WHEELS: dict[str, dict[str, Any]] = {
    "native": {"members": {**CODE, **NATIVE}, "entry_points": POINTS},
    "without entry points": {"members": {**CODE, **NATIVE}},
    "for Windows": {
        "members": {**CODE, "demo/__init__.py": DLL_CODE, "demo/x.dll": b"MZ"},
        "tags": ("cp311-cp311-win_amd64",),
    },
    "cuda": {"members": {**CODE, **NATIVE, "demo/libgpu.so": CUDA}},
    "pure": {"members": CODE, "tags": ("py3-none-any",), "entry_points": POINTS},
}
SITE = "lib/python3.11/site-packages/demo"
LIBRARY = build_elf(soname="libdemo.so.1", needed=("libfar.so.1",))
CONDA: dict[str, dict[str, Any]] = {
    "conda": {"members": {"lib/libdemo.so.1": LIBRARY, f"{SITE}/__init__.py": LOADING}},
    "conda for Windows": {
        "members": {"Lib/site-packages/demo/__init__.py": DLL_CODE},
        "subdir": "win-64",
    },
}


@pytest.mark.parametrize("name", [*WHEELS, *CONDA])
def test_all_default_checks_open_the_package_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if name in CONDA:
        pytest.importorskip("zstandard", reason="no zstandard: reads .conda before Python 3.14")
        path = build_conda(tmp_path, **CONDA[name])
    else:
        path = build_wheel(tmp_path, **WHEELS[name])
    opened: list[Path] = []
    usual = os.open

    def watch(file: Any, *more: Any, **options: Any) -> int:
        if isinstance(file, (str, Path)) and Path(file) == path:
            opened.append(path)
        return usual(file, *more, **options)

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
        "-p", "counting", "--binary-static", build_wheel(pytester.path, **WHEELS["native"])
    )
    result.stdout.fnmatch_lines(["opened 1 times"])

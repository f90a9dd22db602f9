"""Where Windows may find a package's DLLs, by words in its code."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.model import Member
from binary_checks.python_code.dll_directories import DllLoading, LoadingSearch
from fixtures.build_wheel import build_wheel
from fixtures.environments import read_wheel

INIT = "demo/__init__.py"
ADD = "import os\nos.add_dll_directory(os.path.join(os.path.dirname(__file__), 'lib'))\n"
WINDOWS = ("cp311-cp311-win_amd64",)
DELVEWHEEL = """
def _delvewheel_patch_1_11_2():
    import os
    if os.path.isdir(d := os.path.abspath(os.path.join(os.path.dirname(__file__), '../demo.libs'))):
        os.add_dll_directory(d)

_delvewheel_patch_1_11_2()
"""


def search(code: str, *files: str, size: int = 1 << 16) -> DllLoading:
    loading, text = LoadingSearch(), code.encode()
    see = loading.watch(INIT)
    assert see is not None
    for start in range(0, len(text), size):
        see(text[start : start + size])
    members = (INIT, "demo/lib/A.DLL", "demo.libs/b.dll", *files)
    return loading.conclude(Member(path=path, archive_name=path) for path in members)


FOUND = ("demo.libs", "demo/lib")


@pytest.mark.parametrize(
    "code",
    [
        ADD,
        "kernel32.AddDllDirectory(here)",
        "add = getattr(os, 'add_dll_directory', None)\nadd('x')",
        "ctypes.CDLL(name)",
        "ctypes.WinDLL(find())",
        "OleDLL( name)",
        "ctypes.PyDLL(\n    name)",
        "windll.LoadLibrary(name)",
        "kernel32.LoadLibraryExW(ctypes.c_wchar_p(name), None, 8)",
        "ffi.dlopen(name)",
        "torch.ops.load_library(f'{here}/a.dll')",
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_code_that_loads_dlls_may_reach_all_of_the_package_and_others(code: str, size: int) -> None:
    found = search(f"{'x = 1' * 20}\n{code}", size=size)
    assert found == DllLoading(dll_directories=FOUND, loading_code=(INIT,))


@pytest.mark.parametrize(
    "code",
    [
        "ctypes.CDLL('demo/lib/a.dll')",
        'kernel32 = ctypes.WinDLL( "kernel32", use_last_error=True)',
        "def load(library: ctypes.CDLL) -> None: ...",
        DELVEWHEEL,
    ],
)
def test_code_that_says_which_ones_it_loads_reaches_no_others(code: str) -> None:
    assert search(code) == DllLoading(dll_directories=FOUND)


@pytest.mark.parametrize(
    "code",
    [
        "",
        "DLL = find()",
        "import ctypes; load(library)",
        "dll_directory(here)",
        "os.add_dll_directory(os.environ['GEOS_LIBDIR'])",
        "os.add_dll_directory(os.getenv('GEOS_LIBDIR'))",
        "dd_dll_directory dlope dload_librar AddDllDirectorLoadLibrar",
    ],
)
def test_code_that_speaks_of_something_similar_loads_nothing(code: str) -> None:
    assert search(code) == DllLoading()


def test_a_wheel_for_windows_tells_where_its_code_may_look(tmp_path: Path) -> None:
    members = {
        "demo/__init__.py": DELVEWHEEL,
        "demo/big.py": "#" * (600 << 10) + ADD,
        "demo/lib/a.dll": b"",
        "demo/tests/test_demo.py": "import os\nos.add_dll_directory(eval('x'))",
        "demo-1.0.data/platlib/other/a.dll": b"",
        "demo-1.0.data/platlib/other/__init__.py": ADD,
    }
    package = read_wheel(build_wheel(tmp_path, members=members, tags=WINDOWS))
    assert package.dll_directories == (
        "Lib/site-packages/demo/lib",
        "Lib/site-packages/other",
    )
    shown = tuple(map(package.layout.shorten, package.loading_code))
    assert shown == ("demo/big.py", "other/__init__.py")
    other = read_wheel(build_wheel(tmp_path, members=members))  # for another system
    assert other.dll_directories == other.loading_code == ()


@pytest.mark.parametrize(("code", "counts"), [("ctypes.CDLL(eval('x'))", False), (ADD, True)])
def test_libraries_are_opened_only_where_there_are_some(
    tmp_path: Path, code: str, counts: bool
) -> None:
    package = read_wheel(build_wheel(tmp_path, members={INIT: code}, tags=WINDOWS))
    assert package.dll_directories == ()
    assert bool(package.loading_code) is counts

"""Which of its DLLs a package's code opens itself."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from binary_checks.python_code import dll_directories
from binary_checks.python_code.dll_directories import DllLoading, SourceFile, find_loading
from fixtures.build_wheel import build_wheel
from fixtures.environments import read_wheel

ADD = "import os\nos.add_dll_directory(os.path.join(os.path.dirname(__file__), 'lib'))\n"
WINDOWS = ("cp311-cp311-win_amd64",)


def follow(code: str | bytes, *files: str, path: str = "demo/__init__.py") -> DllLoading:
    text = code if isinstance(code, bytes) else dedent(code).encode()
    return find_loading([SourceFile(path, len(text), lambda: text)], [path, *files])


@pytest.mark.parametrize(
    "code",
    [
        "import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), 'lib', 'A.dll'))",
        "from ctypes import WinDLL\nimport pathlib\nWinDLL(pathlib.Path(__path__[0]) / 'lib/a')",
        "import torch\ntorch.ops.load_library(f'{__path__[0]}/lib/a.dll')",
        "from ctypes import *\nCDLL(__path__[0] + '/lib/a.dll')",
        "import glob, os, ctypes\n"
        "for each in glob.glob(os.path.join(os.path.dirname(__file__), 'lib', '*.dll')):\n"
        "    ctypes.WinDLL(os.path.abspath(each))",
        "import ctypes\nfrom pathlib import Path\n"
        "for each in (Path(__file__).parent / 'lib').glob('*.dll'):\n"
        "    ctypes.windll.kernel32.LoadLibraryExW(ctypes.c_wchar_p(str(each)), None, 8)",
    ],
)
def test_a_library_that_is_opened_by_its_path_is_loaded(code: str) -> None:
    assert follow(code, "demo/lib/a.dll") == DllLoading(preloaded=("demo/lib/a.dll",))


def test_a_library_of_the_system_is_not_the_package_s() -> None:
    assert follow("import ctypes\nctypes.WinDLL('kernel32')\nctypes.CDLL('a.dll')", "a.dll") == (
        DllLoading()
    )


def test_some_file_of_a_directory_is_known_only_where_that_is_searched_anyway() -> None:
    opening = """
        import ctypes, os
        here = os.path.join(os.path.dirname(__file__), "lib")
        for name in open(os.path.join(here, "order")).read().split():
            ctypes.CDLL(os.path.join(here, name))
        """
    adding = f"{dedent(opening)}\nos.add_dll_directory(here)"
    assert follow(opening) == DllLoading(loading_code=("demo/__init__.py",))
    assert follow(adding) == DllLoading(dll_directories=("demo/lib",))


def test_of_a_pth_file_the_imports_are_run() -> None:
    lines = "import os, sys; os.add_dll_directory(sys.prefix + '/bin')\nos.add_dll_directory(x)\n"
    assert follow(lines, path="demo.pth") == DllLoading(dll_directories=("../../bin",))


def test_only_so_many_files_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dll_directories, "_MOST_FILES", 2)
    names = ("a/b/__init__.py", "a/__init__.py", "b/__init__.py")
    sources = [SourceFile(name, len(ADD), ADD.encode) for name in names]
    assert find_loading(sources, names) == DllLoading(
        dll_directories=("a/lib", "b/lib"), loading_code=("a/b/__init__.py",)
    )


def test_a_wheel_for_windows_tells_where_its_code_looks(tmp_path: Path) -> None:
    members = {
        "demo/__init__.py": ADD + "import ctypes\nctypes.CDLL(__file__[:-11] + 'x.dll')",
        "demo/big.py": "#" * (600 << 10) + ADD,
        "demo/lib/a.dll": b"",
        "demo/tests/test_demo.py": "import os\nos.add_dll_directory(eval('x'))",
        "demo-1.0.data/platlib/other/__init__.py": ADD,
    }
    package = read_wheel(build_wheel(tmp_path, members=members, tags=WINDOWS))
    assert package.dll_directories == (
        "Lib/site-packages/demo/lib",
        "Lib/site-packages/other/lib",
    )
    shown = tuple(map(package.layout.shorten, package.loading_code))
    assert shown == ("demo/__init__.py", "demo/big.py")


def test_libraries_are_opened_only_where_there_are_some(tmp_path: Path) -> None:
    opening = {"demo/__init__.py": "import ctypes\nctypes.CDLL(eval('x'))"}
    package = read_wheel(build_wheel(tmp_path, members=opening, tags=WINDOWS))
    assert package.loading_code == ()


def test_code_is_not_inspected_in_wheels_for_other_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dll_directories, "find_loading", None)
    package = read_wheel(build_wheel(tmp_path, members={"demo/__init__.py": ADD}))
    assert package.dll_directories == package.loading_code == package.preloaded == ()

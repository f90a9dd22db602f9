"""Where code has Windows look for DLLs, read from the code alone."""

from __future__ import annotations

from textwrap import dedent

import pytest

from binary_checks.packages.dll_directories import find_loading
from binary_checks.packages.sources import Loading, Source


def follow(code: str, *, path: str = "demo/__init__.py", files: tuple[str, ...] = ()) -> Loading:
    text = dedent(code).encode()
    return find_loading([Source(path, len(text), lambda: text)], [path, *files])


def directories(code: str, *, files: tuple[str, ...] = ()) -> tuple[str, ...]:
    loading = follow(code, files=files)
    assert loading.loading_code == ()
    return loading.dll_directories


def is_left_open(code: str) -> bool:
    return follow(code).loading_code == ("demo/__init__.py",)


OLD_PATCH = """
def _delvewheel_patch_1_5_4():
    import ctypes, os, platform, sys
    libs = os.path.abspath(os.path.join(os.path.dirname(__file__), os.pardir, 'demo.libs'))
    conda = platform.python_implementation() == 'CPython' and (
        hasattr(ctypes.pythonapi, 'Anaconda_GetVersion') or 'packaged by' in sys.version)
    if sys.version_info[:2] >= (3, 8) and not conda or sys.version_info[:2] >= (3, 10):
        if os.path.isdir(libs):
            os.add_dll_directory(libs)
    else:
        order = os.path.join(libs, '.load-order-demo-1.0')
        if os.path.isfile(order):
            import ctypes.wintypes
            with open(os.path.join(libs, '.load-order-demo-1.0')) as file:
                names = file.read().split()
            kernel32 = ctypes.WinDLL('kernel32', use_last_error=True)
            kernel32.LoadLibraryExW.restype = ctypes.wintypes.HMODULE
            for name in names:
                place = os.path.join(os.path.join(libs, name))
                if os.path.isfile(place) and not kernel32.LoadLibraryExW(place, None, 8):
                    raise OSError(ctypes.FormatError(ctypes.get_last_error()))

_delvewheel_patch_1_5_4()
del _delvewheel_patch_1_5_4
"""
NEW_PATCH = '''
"""""" # start delvewheel patch
def _delvewheel_patch_1_11_2():
    import os
    if os.path.isdir(d := os.path.abspath(os.path.join(os.path.dirname(__file__), '../demo.libs'))):
        os.add_dll_directory(d)

_delvewheel_patch_1_11_2()
'''


@pytest.mark.parametrize("patch", [OLD_PATCH, NEW_PATCH], ids=["old", "new"])
def test_a_patch_of_delvewheel_is_known_to_its_end(patch: str) -> None:
    assert directories(patch) == ("demo.libs",)


@pytest.mark.parametrize(
    "argument",
    [
        "os.path.join(os.path.dirname(__file__), 'lib')",
        "os.path.join(os.path.split(os.path.realpath(__file__))[0], *['lib'])",
        "os.path.normpath(os.path.dirname(__file__) + '/../demo/lib')",
        r"os.path.dirname(__file__) + '\\lib'",
        "f'{os.path.dirname(__file__)}/lib'",
        "'{}/{}'.format(os.path.dirname(__file__), 'lib')",
        "os.sep.join([os.path.dirname(__file__), 'lib'])",
        "str(Path(__file__).resolve().parent / 'lib')",
        "Path(__file__).parents[1].joinpath('demo', 'lib')",
        "pathlib.Path(__file__).with_name('lib')",
        "os.path.join(__path__[0], 'lib')",
        "os.path.join(sys.modules[__name__].__path__[0], 'lib')",
        "importlib.resources.files(__package__) / 'lib'",
        "importlib.resources.files('demo').joinpath('lib')",
        "os.path.join(os.path.dirname(importlib.util.find_spec('demo').origin), 'lib')",
        "os.path.join(sysconfig.get_path('platlib'), 'demo', 'lib')",
        "os.path.join(site.getsitepackages()[1], 'demo', 'lib')",
        "sys.prefix + r'\\Lib\\site-packages\\demo\\lib'",
        "os.path.join(os.path.dirname(inspect.getfile(inspect.currentframe())), 'lib')",
    ],
)
def test_a_path_is_computed_as_python_would(argument: str) -> None:
    code = (
        "import importlib.resources, importlib.util, inspect, os, pathlib, site, sys, sysconfig\n"
    )
    code += f"from pathlib import Path\nos.add_dll_directory({argument})"
    assert directories(code) == ("demo/lib",)


def test_the_prefix_lies_two_levels_above_site_packages() -> None:
    assert directories(
        """
        import os, sys
        for prefix in (sys.prefix, sys.exec_prefix):
            os.add_dll_directory(os.path.join(prefix, "Library", "bin"))
        """
    ) == ("../../Library/bin",)


def test_other_names_of_the_same_functions_are_known() -> None:
    assert directories(
        """
        from os import add_dll_directory as add, path as p
        from os.path import dirname
        add(p.join(dirname(__file__), "a"))
        getattr(__import__("os"), "add_dll_directory", None)
        kernel32.AddDllDirectory(p.join(dirname(__file__), "b"))
        """
    ) == ("demo/a", "demo/b")


def test_a_variable_of_the_environment_may_be_missing() -> None:
    assert directories(
        """
        import os
        here = os.path.dirname(__file__)
        os.add_dll_directory(os.environ.get("A", os.path.join(here, "a")))
        os.add_dll_directory(os.getenv("B") or os.path.join(here, "b"))
        if "C" in os.environ:
            c = os.environ["C"]
        else:
            c = os.path.join(here, "c")
        os.add_dll_directory(c)
        """
    ) == ("demo/a", "demo/b", "demo/c")


def test_lists_that_grow_are_followed() -> None:
    assert directories(
        """
        import glob, os
        here = os.path.dirname(__file__)
        wanted = [os.path.join(here, "a")]
        if os.path.isdir(here):
            wanted.append(os.path.join(here, "b"))
        wanted += [os.path.join(here, "c")]
        wanted.extend(p for p in (os.path.join(here, "d"), "") if os.path.exists(p))
        wanted = list(map(os.path.abspath, glob.glob(here + "/*.libs"))) + wanted
        for path in filter(os.path.isdir, wanted):
            os.add_dll_directory(path)
        """,
        files=("demo/e.libs/x.dll", "demo/f.txt"),
    ) == ("demo/a", "demo/b", "demo/c", "demo/d", "demo/e.libs")


def test_functions_of_the_file_are_entered() -> None:
    assert directories(
        """
        import os
        def find(root, *more, name="lib"):
            if not os.path.isdir(root):
                return []
            return [os.path.join(root, *more, name)]
        def walk(root):
            yield os.path.join(root, "bin")
        def add(paths):
            for path in paths:
                os.add_dll_directory(os.fspath(path))
        def set_up():
            here = os.path.dirname(__file__)
            add(find(here))
            add(find(here, name="lib64"))
            add(walk(here))
        class Session:
            def open(self):
                os.add_dll_directory(os.path.dirname(__file__))
        set_up()
        """
    ) == ("demo", "demo/bin", "demo/lib", "demo/lib64")


def test_a_loop_with_known_conditions_is_run() -> None:
    assert directories(
        """
        import os
        left, folder = "./demo", os.path.dirname(os.path.abspath(__file__))
        while left not in ("", "."):
            left, folder = os.path.dirname(left), os.path.dirname(folder)
        os.add_dll_directory(os.path.join(folder, "bin"))
        """
    ) == ("bin",)


def test_only_the_branch_of_windows_counts() -> None:
    assert directories(
        """
        import os, sys, platform
        here = os.path.dirname(__file__)
        if sys.platform.startswith("linux") or os.name != "nt":
            os.add_dll_directory(os.path.join(here, "linux"))
        elif platform.system() == "Windows" and hasattr(os, "add_dll_directory"):
            os.add_dll_directory(os.path.join(here, "lib" if sys.maxsize > 2**32 else "lib32"))
        """
    ) == ("demo/lib", "demo/lib32")


def test_modules_without_files_are_found_by_their_names() -> None:
    assert directories(
        """
        import demo_system
        for path in demo_system.__path__:
            os.add_dll_directory(path)
        import os
        """.replace("import demo_system", "import os, demo_system"),
        files=("demo_system/a.dll",),
    ) == ("demo_system",)


@pytest.mark.parametrize(
    "argument",
    [
        "os.environ['CUDA_PATH']",
        "os.path.join(os.environ.get('CUDA_PATH', ''), 'bin')",
        "os.path.join(os.getenv('CUDA_PATH'), 'bin')",
        "os.path.dirname(shutil.which('gdal.exe'))",
        "importlib.util.find_spec('other').submodule_search_locations[0]",
        "os.path.dirname(other.__file__)",
        "os.path.expanduser('~/lib')",
        r"'C:\\Windows'",
    ],
)
def test_directories_of_others_are_neither_the_package_s_nor_unknown(argument: str) -> None:
    code = f"import importlib.util, os, shutil, other\nos.add_dll_directory({argument})"
    assert follow(code) == Loading()


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.add_dll_directory(open('x').read())",
        "import os\ndef add(path): os.add_dll_directory(path)",
        "import os\nfrom .config import LIBS\nos.add_dll_directory(LIBS)",
        "import os\nfor p in eval('x'): os.add_dll_directory(p)",
        "import os, demo.x\npaths = []\ndemo.x.fill(paths)\nfill = eval('fill')\nfill(paths)\n"
        "for p in paths: os.add_dll_directory(p)",
        "import os, functools\nfunctools.reduce(os.add_dll_directory, [])",
        "import ctypes\ndef load(name): return ctypes.CDLL(name)",
        "import cffi\ncffi.FFI().dlopen(input())",
    ],
)
def test_what_only_running_tells_is_said_to_be_so(code: str) -> None:
    assert is_left_open(code)

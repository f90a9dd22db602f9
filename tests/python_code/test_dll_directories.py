"""Where code has Windows look for DLLs, read from the code alone."""

from __future__ import annotations

from textwrap import dedent

import pytest

from binary_checks.python_code.dll_directories import DllLoading, SourceFile, find_loading


def follow(code: str, *, path: str = "demo/__init__.py", files: tuple[str, ...] = ()) -> DllLoading:
    text = dedent(code).encode()
    return find_loading([SourceFile(path, len(text), lambda: text)], [path, *files])


def directories(code: str, *, files: tuple[str, ...] = ()) -> tuple[str, ...]:
    loading = follow(code, files=files)
    assert loading.loading_code == ()
    return loading.dll_directories


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
        "os.path.join(os.path.split(os.path.realpath(__file__))[0], 'lib')",
        "os.path.normpath(os.path.dirname(__file__) + '/../demo/lib')",
        r"os.path.dirname(__file__) + '\\lib'",
        "f'{os.path.dirname(__file__)}{os.sep}lib'",
        "str(Path(__file__).resolve().parent / 'lib')",
        "Path(__file__).parents[1].joinpath('demo', 'lib')",
        "os.fspath(pathlib.Path(os.path.abspath(__file__)).parent / 'lib')",
        "os.path.join(__path__[0], 'lib')",
        "os.path.join(os.path.dirname(demo.__file__), 'lib')",
        "os.path.join(sysconfig.get_path('platlib'), 'demo', 'lib')",
        "sys.prefix + r'\\Lib\\site-packages\\demo\\lib'",
        "(here := os.path.dirname(__file__)) and os.path.join(here, 'lib')",
        "os.path.join(os.path.dirname(__file__), {'win32': 'lib'}[sys.platform])",
        "path=os.path.join(os.path.dirname(__file__), 'lib')",
    ],
)
def test_a_path_is_computed_as_python_would(argument: str) -> None:
    code = "import demo, os, pathlib, sys, sysconfig\nfrom pathlib import Path\n"
    assert "demo/lib" in directories(f"{code}os.add_dll_directory({argument})")


def test_the_prefix_lies_two_levels_above_site_packages() -> None:
    assert directories(
        """
        import os, sys
        for prefix in (sys.prefix, sys.exec_prefix):
            os.add_dll_directory(os.path.join(prefix, "Library", "bin"))
        """
    ) == ("../../Library/bin",)


def test_imports_under_other_names_are_known() -> None:
    assert directories(
        """
        from os import add_dll_directory as add, path as p
        import os.path as q
        from os.path import dirname
        kernel32.AddDllDirectory.restype = None
        if hasattr(os, "add_dll_directory"):
            add(p.join(dirname(__file__), "a"))
        kernel32.AddDllDirectory(q.join(dirname(__file__), "b"))
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


def test_a_name_is_what_it_was_last_bound_to() -> None:
    assert directories(
        """
        import os
        path = os.path.dirname(__file__)
        path = os.path.join(path, "a")
        os.add_dll_directory(path)
        path = os.path.join(path, "b")
        """
    ) == ("demo/a",)


def test_of_two_branches_either_may_be_taken() -> None:
    assert directories(
        """
        import os
        try:
            path = os.path.join(os.path.dirname(__file__), "a")
        except NameError:
            path = os.path.join(os.path.dirname(__file__), "b")
        os.add_dll_directory(path)
        """
    ) == ("demo/a", "demo/b")


def test_lists_that_grow_are_followed() -> None:
    assert directories(
        """
        import os
        here = os.path.dirname(__file__)
        wanted = [os.path.join(here, "a")]
        if os.path.isdir(here):
            wanted.append(os.path.join(here, "b"))
        wanted += [os.path.join(here, "c")]
        wanted.extend(p for p in (os.path.join(here, "d"), "") if os.path.exists(p))
        for path in filter(os.path.isdir, sorted(wanted) + [here]):
            os.add_dll_directory(path + "/bin")
        """
    ) == ("demo/a/bin", "demo/b/bin", "demo/bin", "demo/c/bin", "demo/d/bin")


def test_loops_over_one_name_are_not_confused() -> None:
    assert directories(
        """
        import os
        here = os.path.dirname(__file__)
        for path in [os.path.join(here, "a")]:
            os.add_dll_directory(path)
        for name, path in [("a", os.path.join(here, "b"))]:
            print(path)
        """
    ) == ("demo/a",)


def test_functions_of_the_file_are_known_by_their_callers_and_what_they_return() -> None:
    assert directories(
        """
        import os
        def find(root, *, name="lib"):
            if not os.path.isdir(root):
                return []
            return [os.path.join(root, name)]
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
        set_up()
        """
    ) == ("demo/bin", "demo/lib", "demo/lib64")


def test_a_global_name_may_be_bound_by_any_function() -> None:
    assert directories(
        """
        import os
        found = None
        def find():
            global found
            found = os.path.dirname(__file__)
        def add():
            os.add_dll_directory(found)
        """
    ) == ("demo",)


def test_a_module_without_a_file_is_its_directory() -> None:
    assert directories(
        """
        import os, demo_system
        for path in demo_system.__path__:
            os.add_dll_directory(path)
        """,
        files=("demo_system/a.dll",),
    ) == ("demo_system",)


@pytest.mark.parametrize(
    "argument",
    [
        "os.environ['CUDA_PATH']",
        "os.path.join(os.environ.get('CUDA_PATH', ''), 'bin')",
        "os.path.join(os.getenv('CUDA_PATH'), 'bin')",
        "os.environ.get('PATH', '').split(os.pathsep)[0]",
        "os.path.dirname(shutil.which('gdal.exe'))",
        "os.path.expanduser('~/lib')",
        r"'C:\\Windows'",
        "None",
    ],
)
def test_directories_of_the_user_are_neither_the_package_s_nor_unknown(argument: str) -> None:
    assert follow(f"import os, shutil\nos.add_dll_directory({argument})") == DllLoading()


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.add_dll_directory(open('x').read())",
        "import os\ndef add(path): os.add_dll_directory(path)",
        "import os\nfrom .config import LIBS\nos.add_dll_directory(LIBS)",
        "import os\nfor p in eval('x'): os.add_dll_directory(p)",
        "import os\npaths = []\nfill = eval('x')\nfill(paths)\n"
        "for p in paths: os.add_dll_directory(p)",
        "import os, other\nos.add_dll_directory(other.__path__[0])",
        "import functools, os\nfunctools.reduce(os.add_dll_directory, [])",
        "import os\nadd = getattr(os, 'add_dll_directory', None)\nadd('x')",
        "import os\nadd = os.add_dll_directory\nadd('x')",
        "import ctypes\nload = ctypes.CDLL\nload('x')",
        "import ctypes\ndef load(name): return ctypes.CDLL(name)",
        "import cffi\ncffi.FFI().dlopen(input())",
        "import os\nd = __file__\nwhile d: d = os.path.dirname(d)\nos.add_dll_directory(d + '/x')",
    ],
)
def test_what_only_running_tells_is_said_to_be_so(code: str) -> None:
    assert "demo/__init__.py" in follow(code).loading_code


def test_a_directory_is_known_beside_one_that_only_running_tells() -> None:
    code = """
        import os, demo.find
        for path in [os.path.dirname(__file__), demo.find.find()]:
            os.add_dll_directory(path)
        """
    known = DllLoading(dll_directories=("demo",), loading_code=("demo/__init__.py",))
    assert follow(code) == known


def test_code_that_only_speaks_of_loading_decides_nothing() -> None:
    spoken = """
        '''Call os.add_dll_directory(path), or ctypes.CDLL.'''
        def load(library: ctypes.CDLL) -> ctypes.CDLL: ...  # ctypes.CDLL(name)
        """
    assert follow(spoken) == DllLoading()

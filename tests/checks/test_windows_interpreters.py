"""A library on Windows that asks for another Python than its wheel is for is told."""

from __future__ import annotations

import pytest

from binary_checks.checks import windows
from binary_checks.model import Dependency, PeFile, Wheel
from fixtures.values import pe_file, say, symbols, wheel


def _needs(*names: str) -> tuple[Dependency, ...]:
    return tuple(Dependency(name=name) for name in names)


def _wheel(*objects: PeFile, tags: str) -> Wheel:
    return wheel(f"demo-1.0-{tags}-win_amd64.whl", objects=objects)


BOUND, BARE = "demo/_native.cp313-win_amd64.pyd", "demo/_native.pyd"
FREE = "demo/_native.cp313t-win_amd64.pyd"


@pytest.mark.parametrize(
    ("tags", "path", "needed", "wanted"),
    [
        ("cp313-cp313", BOUND, "python312.dll", "python313.dll and python3.dll"),
        ("cp313-cp313", BOUND, "python313_d.dll", "python313.dll and python3.dll"),
        ("cp313-cp313", BOUND, "python313t.dll", "python313.dll and python3.dll"),
        ("cp313-cp313", BOUND, "libpython3.13.dll", "python313.dll and python3.dll"),
        ("cp313-cp313", BARE, "python312.dll", "python313.dll and python3.dll"),
        ("cp313-cp313", "demo/boost_python.dll", "python312.dll", "python313.dll and python3.dll"),
        ("cp313-cp313t", FREE, "python313.dll", "python313t.dll and python3t.dll"),
        ("cp313-cp313t", FREE, "python3.dll", "python313t.dll and python3t.dll"),
        ("cp313-cp313t", BARE, "python313.dll", "python313t.dll and python3t.dll"),
        ("cp39-abi3", BARE, "python39.dll", "python3.dll"),
        ("cp39-abi3", "demo/glue.abi3.dll", "python313.dll", "python3.dll"),
        ("cp315-abi3t", BARE, "python315t.dll", "python3t.dll"),
        ("pp311-pypy311_pp73", BARE, "python311.dll", "libpypy3.11-c.dll"),
    ],
)
def test_the_dll_of_another_python_is_told(tags: str, path: str, needed: str, wanted: str) -> None:
    library = pe_file(path, needed=_needs(needed), exports=symbols("PyInit__native"))
    assert say(windows.wrong_interpreter_library(library, _wheel(library, tags=tags))) == [
        f"needs {needed}, but the Pythons it is for have {wanted}: the import fails, or loads "
        "a second interpreter"
    ]


def test_the_dll_of_one_python_contradicts_a_tag_for_any() -> None:
    library = pe_file(BARE, needed=_needs("python312.dll"), exports=symbols("PyInit__native"))
    assert say(windows.wrong_interpreter_library(library, _wheel(library, tags="py3-none"))) == [
        "needs python312.dll, which one version of Python has, but py3-none promises every "
        "version: correct the tag, or build for python3.dll, which all of them have"
    ]


@pytest.mark.parametrize(
    ("tags", "path", "needed"),
    [
        ("cp313-cp313", BOUND, "python313.dll"),
        ("cp313-cp313", BOUND, "PYTHON3.dll"),
        ("cp313-cp313", BARE, "pythoncom313.dll"),
        ("cp313-cp313t", FREE, "python313t.dll"),
        ("cp315-abi3.abi3t", BARE, "python3t.dll"),
        ("cp39-abi3", BARE, "python3.dll"),
        ("cp39-abi3", BOUND, "python313.dll"),
        ("cp37.cp38-none", BARE, "python38.dll"),
        ("pp311-pypy311_pp73", "demo/_native.pypy311-pp73-win_amd64.pyd", "libpypy3.11-c.dll"),
        ("py3-none", BOUND, "python313.dll"),
        ("py3-none", "demo/bin/debugger.dll", "python312.dll"),
        ("graalpy311-graalpy242_311_native", BARE, "python-native.dll"),
        ("cp313-cp313", BOUND, "KERNEL32.dll"),
    ],
)
def test_the_dll_of_the_tags_python_is_right(tags: str, path: str, needed: str) -> None:
    library = pe_file(path, needed=_needs(needed), exports=symbols("PyInit__native"))
    assert list(windows.wrong_interpreter_library(library, _wheel(library, tags=tags))) == []


def test_a_wheel_may_have_modules_for_several_pythons() -> None:
    modules = [
        pe_file(f"{name}/_x.pyd", needed=_needs(f"{name}.dll"), exports=symbols("PyInit__x"))
        for name in ("python311", "python312")
    ]
    package = _wheel(*modules, tags="py3-none")
    assert [list(windows.wrong_interpreter_library(item, package)) for item in modules] == [[], []]
    library = pe_file("demo/bin/lldb.dll", needed=_needs("python310.dll"))
    package = _wheel(library, pe_file("demo/bin/python310.dll"), tags="cp312-cp312")  # its own
    assert list(windows.wrong_interpreter_library(library, package)) == []

"""A Python on Windows has DLLs next to python.exe with the exports of python.org's builds."""

from __future__ import annotations

import pytest

from binary_checks.model import Interpreter
from binary_checks.systems import interpreter
from binary_checks.systems.interpreters import interpreter_library

VERSIONS = [(3, minor) for minor in range(8, 16)]
RUNTIMES = {"vcruntime140.dll", "vcruntime140_1.dll"}


def find(version: tuple[int, int], *, free_threaded: bool = False) -> Interpreter:
    found = interpreter(version, free_threaded=free_threaded, system="windows")
    assert found is not None
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_beside_python_lie_its_own_libraries_and_the_runtime(version: tuple[int, int]) -> None:
    found = find(version)
    own = "python{}{}.dll".format(*version)
    assert found.libraries.keys() == {own, "python3.dll", *RUNTIMES}
    assert found.libraries[own] == found.exports
    assert {"PyModule_Create2", "PyErr_SetFromWindowsErr", "_Py_NoneStruct"} <= found.exports
    assert {"memcpy", "__CxxFrameHandler3"} <= found.libraries["vcruntime140.dll"]
    assert "__CxxFrameHandler4" in found.libraries["vcruntime140_1.dll"]


def test_a_32_bit_python_lacks_the_second_part_of_the_runtime() -> None:
    found = interpreter((3, 12), free_threaded=False, system="windows", architecture="i686")
    assert found is not None
    assert found.libraries.keys() == {"python312.dll", "python3.dll", "vcruntime140.dll"}


def test_what_is_in_the_folder_of_standard_modules_is_not_beside_python() -> None:
    assert not {"libcrypto-3.dll", "libffi-8.dll", "sqlite3.dll"} & find((3, 12)).libraries.keys()


def test_there_is_no_fork_on_windows() -> None:
    linux = interpreter((3, 12), free_threaded=False)
    assert linux is not None
    assert "PyOS_AfterFork_Child" in linux.exports
    assert "PyOS_AfterFork_Child" not in find((3, 12)).exports
    assert "PyOS_AfterFork_Child" not in find((3, 15)).libraries["python3.dll"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_stable_library_has_the_stable_functions_of_its_time(version: tuple[int, int]) -> None:
    shared = find(version).libraries["python3.dll"]
    assert {"PyArg_ParseTuple", "PyModule_Create2"} <= shared
    assert ("PyModule_AddType" in shared) == (version >= (3, 10))
    assert ("PyObject_Vectorcall" in shared) == (version >= (3, 12))
    assert "PyCode_New" not in shared


@pytest.mark.parametrize("version", [(3, 14), (3, 15)])
def test_a_newer_python_has_what_linux_has_and_the_functions_of_windows(
    version: tuple[int, int],
) -> None:
    linux = interpreter(version, free_threaded=False)
    assert linux is not None
    assert linux.exports < find(version).exports
    assert len(find(version).exports - linux.exports) < 30


@pytest.mark.parametrize("version", [(3, 13), (3, 14), (3, 15)])
def test_without_gil_the_exports_of_the_stable_abi_are_unknown(version: tuple[int, int]) -> None:
    found = find(version, free_threaded=True)
    own = "python{}{}t.dll".format(*version)
    assert found.free_threaded
    assert found.libraries.keys() == {own, "python3t.dll", *RUNTIMES}
    assert found.exports == found.libraries[own] > {"_Py_DecRefShared", "PyErr_SetFromWindowsErr"}
    assert found.libraries["python3t.dll"] == frozenset()


@pytest.mark.parametrize(
    ("version", "free_threaded"), [((3, 12), True), ((2, 7), False), ((3, 99), False)]
)
def test_there_is_no_such_python(version: tuple[int, int], free_threaded: bool) -> None:
    assert interpreter(version, free_threaded=free_threaded, system="windows") is None


def test_macos_gets_the_exports_of_linux() -> None:
    found = interpreter((3, 12), free_threaded=False, system="macos")
    assert found == interpreter((3, 12), free_threaded=False)
    found = interpreter((3, 13), free_threaded=True, system="macos")
    assert found == interpreter((3, 13), free_threaded=True)


@pytest.mark.parametrize(
    ("version", "free_threaded", "name"),
    [
        ((3, 9), False, "python39.dll"),
        ((3, 13), False, "python313.dll"),
        ((3, 13), True, "python313t.dll"),
        (None, False, "python3.dll"),  # abi3
        (None, True, "python3t.dll"),  # abi3t
    ],
)
def test_the_library_of_a_python_follows_from_its_version(
    version: tuple[int, int] | None, free_threaded: bool, name: str
) -> None:
    assert interpreter_library(version, free_threaded=free_threaded) == name

"""A Python has the exports of its real builds, the DLLs beside python.exe, and a stable ABI."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from functools import partial
from pathlib import Path

import pytest

from binary_checks.model import Interpreter
from binary_checks.systems import interpreter, stable_abi
from binary_checks.systems.interpreters import interpreter_library

VERSIONS = [(3, minor) for minor in range(8, 16)]
RUNTIMES = {"vcruntime140.dll", "vcruntime140_1.dll"}  # of Windows


def find(
    version: tuple[int, int], *, free_threaded: bool = False, system: str = "linux"
) -> Interpreter:
    found = interpreter(version, free_threaded=free_threaded, system=system)
    assert found is not None
    return found


on_windows = partial(find, system="windows")


@pytest.mark.parametrize("version", VERSIONS)
def test_every_supported_python_exports_the_c_api_and_nearly_all_of_the_stable_abi_of_its_time(
    version: tuple[int, int],
) -> None:
    found = find(version)
    assert (found.implementation, found.version) == ("cpython", version)
    assert {"PyModule_Create2", "PyErr_SetString", "_Py_NoneStruct"} <= found.exports
    assert not {name for name in found.exports if name.startswith("PyInit_")}
    assert not {"", "stderr", "_edata"} & found.exports
    due = {name for name, added in stable_abi().items() if added <= version}
    # Missing symbols are for Windows or debug builds, or depend on a build option.
    assert len(due - found.exports) < 30


@pytest.mark.parametrize(
    ("name", "since"),
    [
        ("PyObject_Vectorcall", (3, 11)),  # an inline function before
        ("PyType_GetModuleByDef", (3, 11)),
        ("PyUnstable_Module_SetGIL", None),
        ("PyObject_GetTypeData", (3, 12)),
        ("PyDict_GetItemRef", (3, 13)),
        ("PyABIInfo_Check", (3, 15)),
    ],
)
def test_a_function_is_exported_since_the_version_that_added_it(
    name: str, since: tuple[int, int] | None
) -> None:
    having = [version for version in VERSIONS if name in find(version).exports]
    assert having == [version for version in VERSIONS if since is not None and version >= since]


def test_a_private_function_goes_away_when_its_version_does() -> None:
    assert "_PyObject_Vectorcall" not in find((3, 13)).exports
    assert "PyAST_Compile" in find((3, 8)).exports
    assert "PyAST_Compile" not in find((3, 9)).exports


@pytest.mark.parametrize("version", [(3, 13), (3, 14), (3, 15)])
def test_a_free_threaded_build_has_functions_of_its_own(version: tuple[int, int]) -> None:
    found = find(version, free_threaded=True)
    assert found.free_threaded
    own = {"PyUnstable_Module_SetGIL", "_Py_DecRefShared", "_Py_MergeZeroLocalRefcount"}
    assert own <= found.exports - find(version).exports
    assert {"PyModule_Create2", "_Py_Dealloc"} <= found.exports
    # the JIT compiler
    lacking = find((3, 14)).exports - find((3, 14), free_threaded=True).exports
    assert "_Py_Executors_InvalidateAll" in lacking


@pytest.mark.parametrize("system", ["linux", "windows"])
@pytest.mark.parametrize(
    ("version", "free_threaded"), [((3, 12), True), ((2, 7), False), ((3, 99), False)]
)
def test_there_is_no_data_for_unknown_versions(
    version: tuple[int, int], free_threaded: bool, system: str
) -> None:
    assert interpreter(version, free_threaded=free_threaded, system=system) is None


@pytest.mark.skipif(
    sys.platform != "linux"
    or platform.python_implementation() != "CPython"
    or bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="compares with a default CPython on Linux",
)
def test_the_running_python_exports_what_the_data_says() -> None:
    found = interpreter(sys.version_info[:2], free_threaded=False)
    if found is None or shutil.which("nm") is None:
        pytest.skip("needs nm, and a Python that the data knows")
    # the C API's names in the dynamic symbol table of this Python
    name = sysconfig.get_config_var("INSTSONAME") or ""
    library = Path(sysconfig.get_config_var("LIBDIR") or "") / name
    shared = sysconfig.get_config_var("Py_ENABLE_SHARED") and library.is_file()
    source = library if shared else Path(sys.executable).resolve()
    command = ["nm", "-D", "--defined-only", str(source)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1].partition("@")[0] for line in output.splitlines()}
    running = {name for name in names if re.fullmatch(r"_{0,2}P[yY](?!Init_)\w*", name)}
    assert len(running) > 1000
    # Patch releases and build options add and hide private names; the public API is fixed.
    assert {name for name in running if name.startswith("Py")} <= found.exports
    assert len(running ^ found.exports) < 100


def test_the_stable_abi_knows_when_a_symbol_was_added() -> None:
    added = stable_abi()
    assert added["PyArg_ParseTuple"] == (3, 2)
    assert added["_Py_NoneStruct"] == (3, 2)
    assert added["PyModule_AddType"] == (3, 10)
    assert added["PyObject_Vectorcall"] == (3, 12)
    assert "PyUnicode_AsUTF8" not in added or added["PyUnicode_AsUTF8"] == (3, 13)
    assert "PyCode_New" not in added


def test_the_stable_abi_is_that_of_abi3info() -> None:
    abi3info = pytest.importorskip("abi3info")
    members = [*abi3info.FUNCTIONS.values(), *abi3info.DATAS.values()]
    assert stable_abi() == {m.symbol.name: (m.added.major, m.added.minor) for m in members}


# A Python on Windows has DLLs next to python.exe, with the exports of python.org's builds.


@pytest.mark.parametrize("version", VERSIONS)
def test_beside_python_lie_its_own_libraries_and_the_runtime(version: tuple[int, int]) -> None:
    found = on_windows(version)
    own = "python{}{}.dll".format(*version)
    # what is in the folder of standard modules, as libcrypto-3.dll, is not there
    assert found.libraries.keys() == {own, "python3.dll", *RUNTIMES}
    assert found.libraries[own] == found.exports
    assert {"PyModule_Create2", "PyErr_SetFromWindowsErr", "_Py_NoneStruct"} <= found.exports
    assert {"memcpy", "__CxxFrameHandler3"} <= found.libraries["vcruntime140.dll"]
    assert "__CxxFrameHandler4" in found.libraries["vcruntime140_1.dll"]
    shared = found.libraries["python3.dll"]
    assert {"PyArg_ParseTuple", "PyModule_Create2"} <= shared
    assert ("PyModule_AddType" in shared) == (version >= (3, 10))
    assert ("PyObject_Vectorcall" in shared) == (version >= (3, 12))
    assert "PyCode_New" not in shared


def test_there_is_no_fork_on_windows() -> None:
    assert "PyOS_AfterFork_Child" in find((3, 12)).exports - on_windows((3, 12)).exports
    assert "PyOS_AfterFork_Child" not in on_windows((3, 15)).libraries["python3.dll"]


@pytest.mark.parametrize("version", [(3, 14), (3, 15)])
def test_a_newer_python_has_what_linux_has_and_the_functions_of_windows(
    version: tuple[int, int],
) -> None:
    windows = on_windows(version)
    assert find(version).exports < windows.exports
    assert len(windows.exports - find(version).exports) < 30


@pytest.mark.parametrize("version", [(3, 13), (3, 14), (3, 15)])
def test_without_gil_the_exports_of_the_stable_abi_are_unknown(version: tuple[int, int]) -> None:
    found = on_windows(version, free_threaded=True)
    own = "python{}{}t.dll".format(*version)
    assert found.free_threaded
    assert found.libraries.keys() == {own, "python3t.dll", *RUNTIMES}
    assert found.exports == found.libraries[own] > {"_Py_DecRefShared", "PyErr_SetFromWindowsErr"}
    assert found.libraries["python3t.dll"] == frozenset()


def test_macos_gets_the_exports_of_linux() -> None:
    for version, free in (((3, 12), False), ((3, 13), True)):
        on_macos = find(version, free_threaded=free, system="macos")
        assert on_macos == find(version, free_threaded=free)


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

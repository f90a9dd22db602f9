"""A clean Windows has its own DLLs and API sets, and neither the VC++ runtime nor drivers' DLLs."""

from __future__ import annotations

import re

import pytest

from binary_checks.model import SystemLibrary
from binary_checks.systems import libraries as windows
from binary_checks.systems.libraries import (
    api_sets,
    is_api_set,
    windows_libraries,
    windows_libraries_partly,
    windows_library,
)

ARCHITECTURES = ["x86_64", "i686", "aarch64"]


def find(name: str, architecture: str = "x86_64") -> SystemLibrary:
    found = windows_library(name, architecture)
    assert found is not None
    return found


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(
    "name",
    [
        "kernel32.dll",
        "msvcrt.dll",
        "ucrtbase.dll",  # since Windows 10
        "msvcp_win.dll",
        "combase.dll",
        "gdiplus.dll",
        "dxgi.dll",
        "d3d12.dll",
        "d3dcompiler_47.dll",
        "icuuc.dll",
        "winspool.drv",
        "bthprops.cpl",  # in no list of DLLs, but needed by Qt6WebEngineCore.dll
    ],
)
def test_a_clean_windows_has_its_own_libraries(name: str, architecture: str) -> None:
    assert name in windows_libraries(architecture)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(
    "name",
    [
        "msvcp140.dll",
        "vcruntime140.dll",  # next to python.exe
        "vcruntime140_1.dll",
        "concrt140.dll",
        "vcomp140.dll",
        "mfc140u.dll",
        "libomp140.x86_64.dll",
        "msvcr120.dll",
        "ucrtbased.dll",
        "nvcuda.dll",  # comes with a driver
        "nvml.dll",
        "vulkan-1.dll",
        "opencl.dll",
        "d3dx9_43.dll",  # of the DirectX runtime of 2010
        "wined3d.dll",
        "python3.dll",
        "libcrypto-3.dll",
    ],
)
def test_a_clean_windows_has_no_library_that_something_else_brings(
    name: str, architecture: str
) -> None:
    assert name not in windows_libraries(architecture)
    assert name not in windows_libraries_partly(architecture)


def test_names_are_in_lower_case_and_no_api_set_is_among_them() -> None:
    for architecture in ARCHITECTURES:
        names = windows_libraries(architecture)
        assert all(re.fullmatch(r"[^\sA-Z/\\]+\.[a-z]{3}", name) for name in names)
        assert not {name for name in names if is_api_set(name)}


def test_an_emulator_of_x86_is_on_arm_only_and_nothing_is_known_of_another_architecture() -> None:
    having = [name for name in ARCHITECTURES if "xtajit.dll" in windows_libraries(name)]
    assert having == ["aarch64"]
    assert windows_libraries("armv7l") == frozenset()
    assert windows_library("kernel32.dll", "armv7l") is None


def test_a_library_that_came_with_a_later_windows_10_is_told_apart() -> None:
    assert windows_libraries_partly("x86_64")["icu.dll"] == "Windows 10 1903 and later"
    assert "opengl32.dll" in windows_libraries("x86_64")
    feature = "systems with the feature Windows Hypervisor Platform"
    assert windows_libraries_partly("x86_64")["winhvplatform.dll"] == feature
    assert windows_libraries_partly("aarch64")["opengl32.dll"] == "Windows 10 2004 and later"
    for architecture in ARCHITECTURES:
        assert not windows_libraries_partly(architecture).keys() & windows_libraries(architecture)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("api-ms-win-crt-runtime-l1-1-0.dll", True),
        ("API-MS-Win-Core-Synch-L1-2-0.DLL", True),
        ("ext-ms-win-ntuser-window-l1-1-4", True),
        ("api-ms-win-crt-runtime.dll", False),
        ("kernel32.dll", False),
        ("api-client.dll", False),
        ("", False),
    ],
)
def test_an_api_set_is_told_by_its_name(name: str, answer: bool) -> None:
    assert is_api_set(name) is answer
    assert len(api_sets()) > 250
    assert all(is_api_set(f"{each}-0.dll") for each in api_sets())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_library_exports_what_programs_ask_of_it(architecture: str) -> None:
    kernel = find("KERNEL32.dll", architecture)
    assert kernel.soname == "kernel32.dll"
    assert {"CreateFileW", "GetTempPath2W", "TryAcquireSRWLockExclusive"} <= kernel.symbols.keys()
    assert kernel.symbols["CreateFileW"] == {""}
    assert "CreateFileZ" not in kernel.symbols
    assert "malloc" in find("msvcrt.dll", architecture).symbols


def test_some_functions_are_of_one_architecture() -> None:
    assert "__C_specific_handler" in find("msvcrt.dll").symbols
    assert "_except_handler3" in find("msvcrt.dll", "i686").symbols
    assert "_except_handler3" not in find("msvcrt.dll").symbols
    # and some may be asked for by number
    assert {"#115", "WSAStartup"} <= find("ws2_32.dll").symbols.keys()
    assert "#2" in find("oleaut32.dll").symbols
    assert "#40000" not in find("ws2_32.dll").symbols


def test_the_api_sets_of_the_c_runtime_are_ucrtbase() -> None:
    runtime = find("api-ms-win-crt-convert-l1-1-0.dll")
    assert runtime.symbols == find("ucrtbase.dll").symbols
    assert {"strtod", "btowc"} <= runtime.symbols.keys()
    assert "_CrtDbgReport" not in runtime.symbols


@pytest.mark.parametrize(
    "name",
    [
        "icuuc.dll",
        "combase.dll",
        "api-ms-win-core-path-l1-1-0.dll",
        "msvcp140.dll",
        "../libraries/windows/kernel32.dll",
    ],
)
def test_what_is_not_known_whole_is_not_offered(name: str) -> None:
    assert windows_library(name, "x86_64") is None


def test_every_library_with_exports_is_one_that_windows_has() -> None:
    tables = {name.removesuffix(".json.gz") for name in windows._list_windows_tables()}
    assert len(tables) > 80
    assert tables <= windows_libraries("x86_64")

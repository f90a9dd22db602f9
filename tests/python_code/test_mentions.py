"""Which Python code is said to mention the loading of DLLs."""

from __future__ import annotations

import pytest

from binary_checks.python_code.dll_directories import ADDING, LOADING

ADDS = (b"os.add_dll_directory(here)", b"kernel32.AddDllDirectory(here)")
LOADS = (
    b"ctypes.CDLL(name)", b"ctypes.WinDLL(name)", b"OleDLL(name)", b"ctypes.PyDLL(name)",
    b"windll.LoadLibrary(name)", b"kernel32.LoadLibraryExW(name, None, 8)",
    b"ffi.dlopen(name)", b"torch.ops.load_library(name)",
)  # fmt: skip
OTHERS = (
    b"", b"DLL = find()", b"import ctypes; load(library)", b"dll_directory(here)",
    b"dd_dll_directory dlope dload_librar AddDllDirectorLoadLibrar",
)  # fmt: skip


@pytest.mark.parametrize("code", ADDS)
def test_directories_that_are_added_are_mentioned(code: bytes) -> None:
    assert ADDING.is_in(code)
    assert LOADING.is_in(b"# a comment before\n" + code)


@pytest.mark.parametrize("code", LOADS)
def test_libraries_that_are_opened_are_mentioned(code: bytes) -> None:
    assert LOADING.is_in(code)
    assert not ADDING.is_in(code)


@pytest.mark.parametrize("code", OTHERS)
def test_what_is_only_similar_is_no_mention(code: bytes) -> None:
    assert not LOADING.is_in(code)
    assert not ADDING.is_in(code)


@pytest.mark.parametrize("size", [1, 7, 31, 32, 33, 1000])
def test_a_mention_is_found_in_pieces_of_any_size(size: int) -> None:
    code = b"x = 1\n" * 20 + b"kernel32.LoadLibraryExW(name, None, 8)"
    take = LOADING.search()
    found = [take(code[start : start + size]) for start in range(0, len(code), size)]
    assert found[-1]
    assert found == sorted(found)

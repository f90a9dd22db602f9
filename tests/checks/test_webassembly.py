"""Checks of WebAssembly modules fire on what the runtimes refuse."""

from __future__ import annotations

import pytest

from binary_checks.checks.webassembly import (
    function_type_differs,
    webassembly_exceptions,
    webassembly_threads,
)
from binary_checks.errors import NotApplicable
from binary_checks.model import Format, Linkage, MistypedFunction, Problem, TargetSystem, WasmFile
from fixtures.values import only, wheel

NATIVE = WasmFile(path="demo/_native.so", side_module=True)


def on(abi: tuple[int, int]) -> TargetSystem:
    return TargetSystem(name="pyodide", system="emscripten", minimum_os=abi)


def test_functions_of_other_types_are_named_with_both_types() -> None:
    mistyped = MistypedFunction(
        path=NATIVE.path, name="dgemm_", wanted="(i32) -> i32", provided="(i32) -> nothing"
    )
    linkage = Linkage(target="pyodide", format=Format.WASM, mistyped=(mistyped,))
    problem = only(Problem, function_type_differs(linkage, wheel(objects=(NATIVE,))))
    assert problem.sentence == (
        "imports dgemm_ as (i32) -> i32 instead of (i32) -> nothing: the engine refuses the module"
    )
    assert problem.facts == ("dgemm_",)
    fit = Linkage(target="pyodide", format=Format.WASM)
    assert list(function_type_differs(fit, wheel(objects=(NATIVE,)))) == []
    with pytest.raises(NotApplicable, match="no object is a WebAssembly module"):
        list(function_type_differs(fit, wheel()))


def test_only_modules_with_a_shared_memory_are_for_threads() -> None:
    shared = WasmFile(path=NATIVE.path, side_module=True, shared_memory=True)
    assert [*webassembly_threads(shared)] == [
        "imports a shared memory: it was built with -pthread, and the runtime has no threads"
    ]
    assert [*webassembly_threads(NATIVE)] == []


def test_javascript_catches_exceptions_only_in_the_first_abi() -> None:
    module = WasmFile(path=NATIVE.path, side_module=True, exceptions="JavaScript")
    assert len([*webassembly_exceptions(module, on((2025, 0)))]) == 1
    assert [*webassembly_exceptions(NATIVE, on((2025, 0)))] == []
    with pytest.raises(NotApplicable):
        list(webassembly_exceptions(module, on((2024, 0))))

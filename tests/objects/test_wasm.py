"""The reader of WebAssembly reads modules as Emscripten's linker writes them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from binary_checks.model import Kind, MalformedObject, Symbol, UnreadObject, WasmFile
from binary_checks.objects import read_objects
from fixtures.build_wasm import HEADER, build_wasm, custom, name, number, section, vector
from tests.objects.byte_sources import Bytes

PATH = "demo/_native.cpython-313-wasm32-emscripten.so"
I32 = 0x7F
needs_wabt = pytest.mark.skipif(
    shutil.which("wasm-objdump") is None, reason="wasm-objdump (Debian's wabt) is not on PATH"
)


def read(content: bytes) -> WasmFile:
    (found,) = read_objects(PATH, Bytes(content))
    assert isinstance(found, WasmFile), found
    return found


def test_a_side_module_states_its_needs_in_dylink() -> None:
    found = read(build_wasm(needed=("libdemo.so",), runtime_path=("$ORIGIN/../demo.libs",)))
    assert found.kind is Kind.SHARED
    assert found.side_module
    assert found.architecture == "wasm32"
    assert [need.name for need in found.needed] == ["libdemo.so"]
    assert found.runtime_path == ("$ORIGIN/../demo.libs",)
    assert (found.memory_size, found.memory_alignment, found.table_size) == (16, 4, 0)
    assert found.refusals == ()
    assert read(HEADER + custom("dylink.0", b"\1\4\0\x1f\0\0")).memory_alignment == 1 << 31


def test_imports_are_bound_to_modules_and_may_be_weak() -> None:
    content = build_wasm(functions=("PyLong_FromLong", "maybe"), addresses=("x",), weak=("maybe",))
    assert [*read(content).imports] == [
        Symbol(name="memory", library="env"),
        Symbol(name="PyLong_FromLong", library="env"),
        Symbol(name="maybe", library="env", weak=True),
        Symbol(name="x", library="GOT.mem"),
    ]


def test_functions_have_types() -> None:
    types = (I32, 0x7E, 0x7D, 0x7C, 0x7B, 0x70, 0x6F, 0x69)
    found = read(build_wasm(functions={"f": (types, (I32,))}, exports={"g": ((I32,), ())}))
    words = "i32 i64 f32 f64 v128 funcref externref exnref"
    assert found.imports.signatures == {"f": f"({words}) -> i32"}
    assert found.exports.signatures == {"g": "(i32) -> nothing"}
    assert [symbol.name for symbol in found.exports] == ["g"]


def test_traits_that_an_engine_must_have_are_read() -> None:
    assert read(build_wasm()).features is None
    assert read(build_wasm(features=("simd128", "atomics"))).features == ("atomics", "simd128")
    assert read(build_wasm(shared=True)).shared_memory
    assert read(build_wasm(wide=True)).architecture == "wasm64"
    limited = vector([b"\1\1\2", b"\x08\1\0", b"\0\1"])  # a maximum, a size of pages, neither
    assert not read(HEADER + section(5, limited)).shared_memory


def test_exceptions_are_thrown_by_the_engine_or_by_javascript() -> None:
    assert read(build_wasm()).exceptions == ""
    assert read(build_wasm(tags=("__cpp_exception",))).exceptions == "engine"
    assert read(build_wasm(functions=("invoke_vi",))).exceptions == "JavaScript"


def test_producers_and_texts_of_libraries_are_found() -> None:
    text = b"deflate 1.3.1 Copyright 1995-2024 Jean-loup Gailly and Mark Adler \0"
    found = read(build_wasm(producers={"clang": "22.0.0"}, data=bytes(32) + text + bytes(32)))
    assert "clang 22.0.0" in found.texts
    assert any(each.startswith("deflate 1.3.1") for each in found.texts)


def test_the_kind_shows_in_sections_and_exports() -> None:
    assert read(build_wasm(side=False, exports=("_start",))).kind is Kind.EXECUTABLE
    assert read(build_wasm(side=False)).kind is Kind.OTHER
    assert read(build_wasm(side=False, more=custom("linking", b"\2"))).kind is Kind.RELOCATABLE
    assert read(HEADER + b"\1\x81\x80\x80\x80\0\0").kind is Kind.OTHER  # a size of five bytes
    debug = read(build_wasm(more=custom(".debug_info", bytes(100)) + custom("a" * 1022, b"")))
    assert (debug.debug_information, debug.debug_bytes) == (True, 100)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (build_wasm()[:-5], "section 10 ends at byte"),
        (HEADER[:6], "ends within the header"),
        (b"\0asm\x0d\0\1\0", "version 0x1000d instead of 1"),
        (HEADER + section(1, number(1 << 20)), "a vector of 1048576 items"),
        (HEADER + section(2, vector([name(b"\xff") + name("x") + b"\0\0"])), "is not UTF-8"),
        (HEADER + section(2, vector([name("a") + name("x") + b"\x09"])), "of unknown kind 9"),
        (HEADER + section(1, b"\xff" * 12), "more than 64 bits"),
        (HEADER + section(2, vector([name("a") + name("x") + b"\0\5"])), "type 5 of 0"),
        (HEADER + section(7, vector([name("x") + b"\0\7"])), "function 7 of 0 is exported"),
        (HEADER + section(7, vector([name("x") + b"\5\0"])), "of unknown kind 5"),
        (HEADER + custom("a" * 1023, b""), "1023 bytes are expected"),
        (HEADER + custom("dylink.0", b"\1\4\0\x20\0\0"), "a memory aligned to 2**32 bytes"),
    ],
)
def test_a_damaged_module_is_malformed(content: bytes, reason: str) -> None:
    (found,) = read_objects(PATH, Bytes(content))
    assert isinstance(found, MalformedObject)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (build_wasm(side=False) + custom("dylink.0", b""), "not begin with its section dylink"),
        (build_wasm() + section(1, b"\0"), "has sections twice, out of order or of unknown ids"),
        (HEADER + section(7, b"\0") * 2, "has sections twice, out of order or of unknown ids: 7 7"),
        (HEADER + section(99, b""), "has sections twice, out of order or of unknown ids: 99"),
    ],
)
def test_engines_refuse_contradictory_modules(content: bytes, reason: str) -> None:
    assert any(reason in each for each in read(content).refusals)


def test_types_of_other_languages_are_not_read() -> None:
    (found,) = read_objects(PATH, Bytes(HEADER + section(1, b"\1\x5f\0")))
    assert isinstance(found, UnreadObject)
    assert found.reason == "it has types of form 0x5f, which this reader does not know"


@needs_wabt
def test_wabt_reads_the_same(tmp_path: Path) -> None:
    content = build_wasm(
        needed=("liba.so",), functions=("f",), addresses=("x",), features=("simd128",)
    )
    path = tmp_path / "a.so"
    path.write_bytes(content)
    command = ["wasm-objdump", "-x", str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = read(content)
    for symbol in found.imports:
        assert f"<- {symbol.library}.{symbol.name}" in text
    for symbol in found.exports:
        assert f'-> "{symbol.name}"' in text
    assert "liba.so" in text

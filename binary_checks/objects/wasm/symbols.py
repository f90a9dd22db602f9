"""Read the imports and exports of a WebAssembly module, with the types of functions.

Section numbers are those of the WebAssembly Core Specification 3.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from binary_checks.errors import MalformedError, Unavailable
from binary_checks.model import Symbol, Symbols
from binary_checks.objects.wasm.header import Cursor, Memory, read_limits

# Core 5.5.5: kinds of imports and exports
FUNCTION_KIND: Final = 0
TABLE_KIND: Final = 1
MEMORY_KIND: Final = 2
GLOBAL_KIND: Final = 3
TAG_KIND: Final = 4

# Core 5.3: a value type is one byte, or a reference type with a heap type after its byte
_VALUES = {
    0x7F: "i32",
    0x7E: "i64",
    0x7D: "f32",
    0x7C: "f64",
    0x7B: "v128",
    0x70: "funcref",
    0x6F: "externref",
    0x69: "exnref",
}
_REFERENCES = {0x63: "ref null", 0x64: "ref"}  # a heap type follows (Core 5.3.5)
_FUNCTION_TYPE = 0x60


def _read_value_type(cursor: Cursor) -> str:
    byte = cursor.byte()
    if byte in _REFERENCES:
        return f"({_REFERENCES[byte]} {cursor.number()})"
    if byte not in _VALUES:
        raise Unavailable(f"it has values of type {byte:#x}, which this reader does not know")
    return _VALUES[byte]


def read_type(cursor: Cursor) -> str:
    """Return a function type as text: "(i32 i32) -> i32".

    Raises Unavailable for types of garbage-collected languages, which C and C++ do not use.
    """
    form = cursor.byte()
    if form != _FUNCTION_TYPE:
        raise Unavailable(f"it has types of form {form:#x}, which this reader does not know")
    parameters = " ".join(cursor.vector(_read_value_type))
    results = " ".join(cursor.vector(_read_value_type))
    return f"({parameters}) -> {results or 'nothing'}"


class WasmSymbols(Symbols):
    """The imports or the exports of a module, with the types of functions by name."""

    def __init__(self, symbols: Iterable[Symbol], signatures: Mapping[str, str]) -> None:
        super().__init__(symbols)
        self.signatures = signatures


class Import(NamedTuple):
    """One import."""

    module: str
    name: str
    kind: int
    type: int = -1  # number of a function's type
    memory: Memory | None = None


def read_import(cursor: Cursor) -> Import:
    """Read an import (Core 5.5.5). Raises MalformedError."""
    found = Import(cursor.name(), cursor.name(), cursor.byte())
    if found.kind == FUNCTION_KIND:
        return found._replace(type=cursor.number())
    if found.kind == MEMORY_KIND:
        return found._replace(memory=read_limits(cursor))
    if found.kind == TABLE_KIND:
        _read_value_type(cursor)
        read_limits(cursor)
    elif found.kind == GLOBAL_KIND:
        _read_value_type(cursor)
        cursor.byte()  # whether it is mutable
    elif found.kind == TAG_KIND:
        cursor.byte()  # the attribute, always 0
        cursor.number()
    else:
        raise MalformedError(f"an import of unknown kind {found.kind}", cursor.place)
    return found


class Export(NamedTuple):
    """One export: a function, a table, a memory, a global or a tag, by its number."""

    name: str
    kind: int
    number: int


def read_export(cursor: Cursor) -> Export:
    """Read an export (Core 5.5.10). Raises MalformedError."""
    found = Export(cursor.name(), cursor.byte(), cursor.number())
    if found.kind > TAG_KIND:
        raise MalformedError(f"an export of unknown kind {found.kind}", cursor.place)
    return found


def make_symbols(
    imports: Sequence[Import],
    exports: Sequence[Export],
    functions: Sequence[int],
    types: Sequence[str],
    weak: frozenset[tuple[str, str]],
) -> tuple[WasmSymbols, WasmSymbols]:
    """Return imports and exports as symbols. Raises MalformedError for a type that is missing.

    ``functions`` has the type of each function that the module defines; the numbers of functions
    count imported ones first. ``weak`` are the imports that may be missing.
    """
    imported = {each.name: each.type for each in imports if each.kind == FUNCTION_KIND}
    numbers = [*(each.type for each in imports if each.kind == FUNCTION_KIND), *functions]
    if any(number >= len(types) for number in numbers):
        raise MalformedError(f"type {max(numbers)} of {len(types)} is referred to")
    own = {each.name: each.number for each in exports if each.kind == FUNCTION_KIND}
    if any(number >= len(numbers) for number in own.values()):
        raise MalformedError(f"function {max(own.values())} of {len(numbers)} is exported")
    return (
        WasmSymbols(
            (
                Symbol(name=each.name, library=each.module, weak=(each.module, each.name) in weak)
                for each in imports
            ),
            {name: types[number] for name, number in imported.items()},
        ),
        WasmSymbols(
            (Symbol(name=each.name) for each in exports),
            {name: types[numbers[number]] for name, number in own.items()},
        ),
    )

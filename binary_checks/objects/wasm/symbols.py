"""Read the imports and exports of a WebAssembly module, with the types of functions.

Section numbers are those of the WebAssembly Core Specification 3.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from binary_checks.errors import MalformedError, Unavailable
from binary_checks.model import Symbol, Symbols
from binary_checks.objects.byte_source import LimitedSource
from binary_checks.objects.wasm.header import (
    EXPORT,
    FUNCTION,
    IMPORT,
    TYPE,
    Cursor,
    Memory,
    Section,
    find_section,
    open_section,
    read_limits,
)

# Types (Core 5.3). A value type is one byte, or a reference type with a heap type after its byte.

FUNCTION_KIND: Final = 0
TABLE_KIND: Final = 1
MEMORY_KIND: Final = 2
GLOBAL_KIND: Final = 3
TAG_KIND: Final = 4
KINDS: Final = ("function", "table", "memory", "global", "tag")

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


def read_types(source: LimitedSource, sections: Sequence[Section]) -> tuple[str, ...]:
    """Return the function types as text: "(i32 i32) -> i32".

    Raises Unavailable for types of garbage-collected languages, which C and C++ do not use.
    """
    section = find_section(sections, TYPE)
    if section is None:
        return ()
    cursor, found = open_section(source, section), []
    for _ in range(cursor.count()):
        form = cursor.byte()
        if form != _FUNCTION_TYPE:
            raise Unavailable(f"it has types of form {form:#x}, which this reader does not know")
        parameters = " ".join(_read_value_type(cursor) for _ in range(cursor.count()))
        results = " ".join(_read_value_type(cursor) for _ in range(cursor.count()))
        found.append(f"({parameters}) -> {results or 'nothing'}")
    return tuple(found)


# Imports (Core 5.5.5) and exports (Core 5.5.10).


class WasmSymbols(Symbols):
    """The imports or the exports of a module, with the types of functions by name."""

    def __init__(self, symbols: Iterable[Symbol], signatures: Mapping[str, str]) -> None:
        super().__init__(symbols)
        self.signatures = signatures


class Imports(NamedTuple):
    """The imports of a module."""

    symbols: WasmSymbols
    functions: tuple[int, ...]  # the type of each imported function
    memories: tuple[Memory, ...]
    tags: tuple[str, ...]  # names of imported exception tags


def read_imports(
    source: LimitedSource,
    sections: Sequence[Section],
    types: Sequence[str],
    weak: frozenset[tuple[str, str]],
) -> Imports:
    """Read the imports; ``weak`` has the module and name of those that may be missing."""
    section = find_section(sections, IMPORT)
    symbols: list[Symbol] = []
    signatures: dict[str, str] = {}
    functions, memories, tags = [], [], []
    cursor = open_section(source, section) if section else Cursor(b"\0", 0)
    for _ in range(cursor.count()):
        module, name, kind = cursor.name(), cursor.name(), cursor.byte()
        if kind == FUNCTION_KIND:
            functions.append(cursor.number())
            signatures[name] = _type_of(types, functions[-1], cursor)
        elif kind == TABLE_KIND:
            _read_value_type(cursor)
            read_limits(cursor)
        elif kind == MEMORY_KIND:
            memories.append(read_limits(cursor))
        elif kind == GLOBAL_KIND:
            _read_value_type(cursor)
            cursor.byte()  # whether it is mutable
        elif kind == TAG_KIND:
            cursor.byte()  # the attribute, always 0
            cursor.number()
            tags.append(name)
        else:
            raise MalformedError(f"an import of unknown kind {kind}", cursor.place)
        symbols.append(Symbol(name=name, library=module, weak=(module, name) in weak))
    found = WasmSymbols(symbols, signatures)
    return Imports(found, tuple(functions), tuple(memories), tuple(tags))


def _type_of(types: Sequence[str], index: int, cursor: Cursor) -> str:
    if index >= len(types):
        raise MalformedError(f"type {index} of {len(types)} is referred to", cursor.place)
    return types[index]


class Export(NamedTuple):
    """One export: a function, a table, a memory, a global or a tag, by its number."""

    name: str
    kind: int
    number: int


def read_exports(source: LimitedSource, sections: Sequence[Section]) -> tuple[Export, ...]:
    """Return the exports in the order of the file. Raises MalformedError."""
    section = find_section(sections, EXPORT)
    if section is None:
        return ()
    cursor, found = open_section(source, section), []
    for _ in range(cursor.count()):
        name, kind, index = cursor.name(), cursor.byte(), cursor.number()
        if kind >= len(KINDS):
            raise MalformedError(f"an export of unknown kind {kind}", cursor.place)
        found.append(Export(name, kind, index))
    return tuple(found)


def read_functions(source: LimitedSource, sections: Sequence[Section]) -> tuple[int, ...]:
    """Return the type of each function that the module defines (Core 5.5.6)."""
    section = find_section(sections, FUNCTION)
    if section is None:
        return ()
    cursor = open_section(source, section)
    return tuple(cursor.number() for _ in range(cursor.count()))


def read_symbols(
    exports: Sequence[Export], types: Sequence[str], functions: Sequence[int]
) -> WasmSymbols:
    """Return the exports as symbols; ``functions`` has the type of every function by its index."""
    signatures = {
        each.name: types[functions[each.number]]
        for each in exports
        if each.kind == FUNCTION_KIND
        and each.number < len(functions)
        and functions[each.number] < len(types)
    }
    return WasmSymbols((Symbol(name=each.name) for each in exports), signatures)

"""Read WebAssembly modules by their sections, as Emscripten's dynamic loader does.

A side module, which Python imports or a library needs, begins with a section `dylink.0`. This
section, `target_features` and `producers` are defined by WebAssembly's tool conventions
(DynamicLinking.md, Linking.md, ProducersSection.md). Instructions are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.model import Dependency, Kind, WasmFile
from binary_checks.objects.byte_source import LimitedSource
from binary_checks.objects.strings import ELF_NAMES, search_strings
from binary_checks.objects.wasm.header import (
    CUSTOM,
    DATA,
    DYLINK,
    EXPORT,
    FUNCTION,
    IMPORT,
    LEGACY_DYLINK,
    MEMORY,
    TYPE,
    Cursor,
    Section,
    architecture_of,
    find_section,
    open_section,
    read_header,
    read_limits,
    read_sections,
)
from binary_checks.objects.wasm.symbols import (
    TAG_KIND,
    make_symbols,
    read_export,
    read_import,
    read_type,
)

_MEMORY_INFO, _NEEDED, _EXPORT_INFO, _IMPORT_INFO, _RUNTIME_PATH = range(1, 6)
_WEAK = 1  # WASM_SYMBOL_BINDING_WEAK
_HIGHEST_ALIGNMENT = 31  # as a power of two


class Dylink(NamedTuple):
    """The facts of a side module; sizes in bytes and in entries of the function table."""

    memory_size: int = 0
    memory_alignment: int = 1  # bytes
    table_size: int = 0
    needed: tuple[Dependency, ...] = ()
    weak: frozenset[tuple[str, str]] = frozenset()  # module and name of imports that may be missing
    runtime_path: tuple[str, ...] = ()


def read_dylink(source: LimitedSource, sections: Sequence[Section]) -> Dylink | None:
    """Return what a side module states; None for a module that is not one."""
    if find_section(sections, CUSTOM, DYLINK) is None:
        if find_section(sections, CUSTOM, LEGACY_DYLINK) is None:
            return None
        cursor = open_section(source, sections, CUSTOM, LEGACY_DYLINK)
        return _read_memory(cursor, Dylink())._replace(needed=_read_needed(cursor))
    cursor, found = open_section(source, sections, CUSTOM, DYLINK), Dylink()
    while cursor.left:
        kind, size = cursor.byte(), cursor.number()
        part = Cursor(cursor.take(size), cursor.place - size)
        if kind == _MEMORY_INFO:
            found = _read_memory(part, found)
        elif kind == _NEEDED:
            found = found._replace(needed=_read_needed(part))
        elif kind == _IMPORT_INFO:
            rows = part.vector(lambda part: (part.name(), part.name(), part.number()))
            weak = frozenset((module, name) for module, name, flags in rows if flags & _WEAK)
            found = found._replace(weak=weak)
        elif kind == _RUNTIME_PATH:
            found = found._replace(runtime_path=tuple(part.vector(Cursor.name)))
    return found


def _read_memory(cursor: Cursor, found: Dylink) -> Dylink:
    size, alignment, table, _ = (cursor.number() for _ in range(4))
    if alignment > _HIGHEST_ALIGNMENT:
        raise MalformedError(f"a memory aligned to 2**{alignment} bytes", cursor.place)
    return found._replace(memory_size=size, memory_alignment=1 << alignment, table_size=table)


def _read_needed(cursor: Cursor) -> tuple[Dependency, ...]:
    return tuple(Dependency(name=name) for name in cursor.vector(Cursor.name))


def read_features(source: LimitedSource, sections: Sequence[Section]) -> tuple[str, ...] | None:
    """Return the features that the code uses: "simd128", "atomics"; None if none are stated."""
    if find_section(sections, CUSTOM, "target_features") is None:
        return None
    cursor = open_section(source, sections, CUSTOM, "target_features")
    rows = cursor.vector(lambda cursor: (cursor.byte(), cursor.name()))
    # Prefixes "+" and "=" are for used features, "-" is for features that the code must not meet.
    return tuple(sorted(name for prefix, name in rows if prefix in b"+="))


def read_producers(source: LimitedSource, sections: Sequence[Section]) -> tuple[str, ...]:
    """Return the tools that made the module: "clang 22.0.0git"."""

    def read_field(cursor: Cursor) -> list[tuple[str, str]]:
        cursor.name()  # "language", "processed-by", "sdk"
        return cursor.vector(lambda cursor: (cursor.name(), cursor.name()))

    fields = open_section(source, sections, CUSTOM, "producers").vector(read_field)
    return tuple(
        sorted({f"{name} {version}".strip() for field in fields for name, version in field})
    )


# Core 5.5.2: each section occurs once at most, in this order of ids; custom ones occur anywhere.
_ORDER = (1, 2, 3, 4, 5, 13, 6, 7, 8, 9, 12, 10, 11)


def find_refusals(sections: Sequence[Section]) -> Iterator[str]:
    """Yield why an engine or a loader refuses the module; each reason continues the path."""
    ids = [each.id for each in sections if each.id != CUSTOM]
    if ids != [each for each in _ORDER if each in ids]:
        listed = " ".join(map(str, ids))
        yield f"has sections twice, out of order or of unknown ids: {listed}"
    names = [each.name for each in sections]
    if DYLINK in names[1:] or LEGACY_DYLINK in names[1:]:
        yield f"does not begin with its section {DYLINK}, which loaders read only there"


def read(path: str, source: LimitedSource) -> tuple[WasmFile, ...]:
    """Return the module. Raises MalformedError, or Unavailable for unknown types."""
    read_header(source)
    sections = read_sections(source)
    dylink = read_dylink(source, sections)
    stated = dylink or Dylink()
    types = open_section(source, sections, TYPE).vector(read_type)
    imported = open_section(source, sections, IMPORT).vector(read_import)
    functions = open_section(source, sections, FUNCTION).vector(Cursor.number)
    exported = open_section(source, sections, EXPORT).vector(read_export)
    defined = open_section(source, sections, MEMORY).vector(read_limits)
    memories = [*(each.memory for each in imported if each.memory), *defined]
    imports, exports = make_symbols(imported, exported, functions, types, stated.weak)
    data = find_section(sections, DATA)
    strings = [(data.offset, data.offset + data.size)] if data else []
    known = [each.name for each in stated.needed]
    pattern = ELF_NAMES if imports.among(("dlopen",)) else None
    opened, texts = search_strings(source, strings, pattern, known)
    # C++ exceptions and longjmp use tags of the engine, or calls through JavaScript.
    by_engine = {each.name for each in imported if each.kind == TAG_KIND} & {
        "__cpp_exception",
        "__c_longjmp",
    }
    by_javascript = any(each.name.startswith("invoke_") for each in imported)
    if dylink is not None:
        kind = Kind.SHARED
    elif find_section(sections, CUSTOM, "linking") is not None:
        kind = Kind.RELOCATABLE
    else:  # a program for WASI begins at _start
        kind = Kind.EXECUTABLE if "_start" in exports.names else Kind.OTHER
    module = WasmFile(
        path=path,
        size=source.size,
        kind=kind,
        architecture=architecture_of(memories),
        needed=stated.needed,
        imports=imports,
        exports=exports,
        refusals=tuple(find_refusals(sections)),
        texts=(*texts, *read_producers(source, sections)),
        opened=opened,
        side_module=dylink is not None,
        runtime_path=stated.runtime_path,
        memory_size=stated.memory_size,
        memory_alignment=stated.memory_alignment,
        table_size=stated.table_size,
        features=read_features(source, sections),
        shared_memory=any(memory.is_shared for memory in memories),
        exceptions="engine" if by_engine else "JavaScript" if by_javascript else "",
        debug_information=find_section(sections, CUSTOM, ".debug_info") is not None,
        debug_bytes=sum(each.size for each in sections if each.name.startswith(".debug_")),
    )
    return (module,)

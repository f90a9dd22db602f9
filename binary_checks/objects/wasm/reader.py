"""Read WebAssembly modules by their sections, as Emscripten's dynamic loader does.

A side module, which Python imports or a library needs, begins with a section `dylink.0`.
Instructions are not read.
"""

from __future__ import annotations

from collections.abc import Sequence

from binary_checks.model import Kind, Observations, OpenedNames, Plan, SymbolTable, WasmFile
from binary_checks.objects.byte_source import LimitedSource
from binary_checks.objects.strings import ELF_NAMES, NameScanner, find_opened, find_texts
from binary_checks.objects.wasm.header import (
    CODE,
    CUSTOM,
    DATA,
    Cursor,
    Dylink,
    Section,
    architecture_of,
    find_section,
    read_dylink,
    read_features,
    read_header,
    read_memories,
    read_producers,
    read_sections,
)
from binary_checks.objects.wasm.refusals import Parsed, find_refusals, verify_extent
from binary_checks.objects.wasm.symbols import (
    Imports,
    read_exports,
    read_functions,
    read_imports,
    read_symbols,
    read_types,
)

# The location of the strings: the data section has the contents of the memory.

_OPENERS = ("dlopen",)


def opens_libraries(imports: SymbolTable) -> bool:
    """Return whether a module imports the function that opens libraries by name."""
    return bool(imports.among(_OPENERS))


def read_texts(
    source: LimitedSource, seen: NameScanner | None, sections: Sequence[Section]
) -> tuple[str, ...]:
    """Return the texts that identify statically linked libraries, and the compilers."""
    found = find_texts(source, seen, _find_strings(sections))
    return (*found, *read_producers(source, sections))


def read_opened(
    source: LimitedSource, seen: NameScanner | None, sections: Sequence[Section], dylink: Dylink
) -> OpenedNames:
    """Return library names in a module's data, except those that it needs."""
    known = tuple(need.name for need in dylink.needed)
    return find_opened(source, seen, ELF_NAMES, known, _find_strings(sections))


def _find_strings(sections: Sequence[Section]) -> tuple[tuple[int, int], ...]:
    data = find_section(sections, DATA)
    return () if data is None else ((data.offset, data.end),)


def plan(head: bytes, size: int, factor: int) -> Plan:
    """Plan to keep the complete file: only a walk over all sections shows where they are."""
    del head, factor
    return Plan(ranges=((0, size),))


# The object of the model.

_START = "_start"  # the entry point of a program for WASI
_CXX_EXCEPTION = "__cpp_exception"  # the tag of C++ exceptions that the engine throws
_C_LONGJMP = "__c_longjmp"
_INVOKE = "invoke_"  # calls through JavaScript, which catches exceptions


def read(path: str, source: LimitedSource, observations: Observations) -> tuple[WasmFile, ...]:
    """Return the module. Raises MalformedError, TooLarge, or Unavailable for unknown types."""
    read_header(source)
    verify_extent(source)
    sections = read_sections(source)
    dylink = read_dylink(source, sections)
    types = read_types(source, sections)
    stated = dylink or Dylink()
    imports = read_imports(source, sections, types, stated.weak)
    exports = read_exports(source, sections)
    functions = (*imports.functions, *read_functions(source, sections))
    memories = (*imports.memories, *read_memories(source, sections))
    seen = observations.of(NameScanner)
    features = read_features(source, sections)
    parsed = Parsed(
        sections=sections,
        exports=exports,
        types=len(types),
        functions=functions,
        imported=len(imports.functions),
        bodies=_count_bodies(source, sections),
    )
    module = WasmFile(
        path=path,
        size=source.size,
        kind=_kind_of(dylink, sections, {export.name for export in exports}),
        architecture=architecture_of(memories),
        needed=stated.needed,
        imports=imports.symbols,
        exports=read_symbols(exports, types, functions),
        refusals=find_refusals(parsed),
        texts=read_texts(source, seen, sections),
        opened=(
            read_opened(source, seen, sections, stated)
            if opens_libraries(imports.symbols)
            else None
        ),
        side_module=dylink is not None,
        runtime_path=stated.runtime_path,
        memory_size=stated.memory_size,
        memory_alignment=stated.memory_alignment,
        table_size=stated.table_size,
        features=features,
        shared_memory=any(memory.is_shared for memory in memories),
        exceptions=_find_exceptions(imports),
        debug_information=find_section(sections, CUSTOM, ".debug_info") is not None,
        debug_bytes=sum(each.size for each in sections if each.name.startswith(".debug_")),
    )
    return (module,)


def _count_bodies(source: LimitedSource, sections: Sequence[Section]) -> int:
    """Return the number of functions in the code section (Core 5.5.13)."""
    section = find_section(sections, CODE)
    if section is None:
        return 0
    return Cursor(source.read(section.offset, min(section.size, 10)), section.offset).number()


def _kind_of(dylink: Dylink | None, sections: Sequence[Section], exported: set[str]) -> Kind:
    if dylink is not None:
        return Kind.SHARED
    if find_section(sections, CUSTOM, "linking") is not None:
        return Kind.RELOCATABLE
    return Kind.EXECUTABLE if _START in exported else Kind.OTHER


def _find_exceptions(imports: Imports) -> str:
    """Return how C++ exceptions and longjmp work: by the engine, or by JavaScript; "" if unused."""
    if {_CXX_EXCEPTION, _C_LONGJMP}.intersection(imports.tags):
        return "engine"
    if any(name.startswith(_INVOKE) for name in imports.symbols.each_name()):
        return "JavaScript"
    return ""

"""What LIEF reads in a Mach-O file, of each slice.

Its ``imported_symbols`` also lists weak symbols that the file defines itself: the bindings are
asked instead. Of a fat file with 64-bit offsets it reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

import lief

from binary_checks.crosscheck.readings import (
    MACHO_TYPES,
    Reading,
    name_platform,
    number,
    spell_cpu,
    sum_up_systems,
    text,
    unparsed,
)

_DEPENDENCIES = {
    "LOAD_WEAK_DYLIB": " weak",
    "REEXPORT_DYLIB": " reexported",
    "LOAD_UPWARD_DYLIB": " upward",
    "LAZY_LOAD_DYLIB": " delayed",
}
_OLDEST = {
    "VERSION_MIN_MACOSX": "macos",
    "VERSION_MIN_IPHONEOS": "ios",
    "VERSION_MIN_TVOS": "tvos",
    "VERSION_MIN_WATCHOS": "watchos",
}
_SELF, _PROGRAM, _WEAK_LOOKUP = 0, -1, -3
_WEAK_TABLE = lief.MachO.DyldBindingInfo.CLASS.WEAK


def read(path: str) -> dict[str, Reading]:
    """The facts of each slice, by its architecture."""
    lief.logging.disable()
    wanted = lief.MachO.ParserConfig.deep
    wanted.parse_dyld_rebases = False
    found = lief.MachO.parse(path, wanted)
    if found is None:
        raise unparsed()
    slices = (_read_slice(item) for item in found)
    return {facts["architecture"]: facts for facts in slices}


def _read_slice(item: Any) -> Reading:
    exports = sorted(set(_find_exports(item)))
    imports = set(_find_imports(item.bindings, {name.removesuffix("*") for name in exports}))
    # A symbol may be bound twice, and be missing by one of the two only.
    imports -= {f"{name}?" for name in imports}
    head = item.header
    cpu = head.cpu_type.name.removeprefix("CPU_TYPE_")
    return {
        "architecture": spell_cpu(cpu, head.cpu_subtype),
        "type": MACHO_TYPES.get(number(head.file_type), "DYLIB"),
        **_read_dylibs(item.libraries),
        "rpaths": [text(command.path) for command in item.rpaths],
        **_read_systems(item.commands),
        "uuid": str(UUID(bytes=bytes(item.uuid.uuid))).upper() if item.uuid else "",
        "signed": item.has_code_signature,
        "two_level": lief.MachO.Header.FLAGS.TWOLEVEL in head.flags_list,
        "chained_fixups": item.has_dyld_chained_fixups,
        "imports": sorted(imports),
        "exports": exports,
    }


def _read_dylibs(libraries: Iterable[Any]) -> Reading:
    names = ("name", "current_version", "compatibility_version")
    facts: Reading = {"needed": [], **dict.fromkeys(names, "")}
    for library in libraries:
        kind = library.command.name
        if kind == "ID_DYLIB":
            facts["name"] = text(library.name)
            facts["current_version"] = ".".join(map(str, library.current_version))
            facts["compatibility_version"] = ".".join(map(str, library.compatibility_version))
        else:
            facts["needed"].append(text(library.name) + _DEPENDENCIES.get(kind, ""))
    return facts


def _read_systems(commands: Iterable[Any]) -> Reading:
    found = []
    for command in commands:
        if isinstance(command, lief.MachO.BuildVersion):
            platform, oldest = name_platform(number(command.platform)), command.minos
        elif isinstance(command, lief.MachO.VersionMin):
            platform, oldest = _OLDEST[command.command.name], command.version
        else:
            continue
        found.append((platform, tuple(oldest), tuple(command.sdk)))
    return sum_up_systems(found)


def _find_exports(item: Any) -> Iterator[str]:
    table = item.dyld_exports_trie if item.has_dyld_exports_trie else item.dyld_info
    for export in table.exports if table is not None else ():
        weak = lief.MachO.ExportInfo.FLAGS.WEAK_DEFINITION in export.flags_list
        yield _c_name(export.symbol) + "*" * weak


def _find_imports(bindings: Iterable[Any], own: set[str]) -> Iterator[str]:
    """Without the weak table, and without weak definitions that the file has itself."""
    for bind in bindings:
        if isinstance(bind, lief.MachO.DyldBindingInfo) and bind.binding_class == _WEAK_TABLE:
            continue
        name, ordinal = _c_name(bind.symbol), bind.library_ordinal
        if ordinal == _SELF or (ordinal == _WEAK_LOOKUP and name in own):
            continue
        library = "@executable" * (ordinal == _PROGRAM)
        library = text(bind.library.name) if bind.has_library else library
        yield f"{library} {name}" + "?" * bind.weak_import


def _c_name(symbol: Any) -> str:
    return text(symbol.name).removeprefix("_") if symbol else "?"

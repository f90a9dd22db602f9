"""Mach-O: our facts, and the facts of macholib and LIEF, slice by slice.

macholib rejects unknown load commands by default, and does not read export tries, bind opcodes and
chained fixups. LIEF's ``imported_symbols`` includes weak symbols that the file defines itself, so
its bindings are used instead. LIEF reads nothing of a fat file with 64-bit offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from binary_checks.crosscheck.fact_tables import (
    Fact,
    Facts,
    Library,
    Table,
    UnparsedError,
    number,
    text,
)
from binary_checks.model import Dependency, Kind

_CPUS = {  # our names of architectures, by CPU and subtype without capabilities
    (7, 3): "i686",
    (0x01000007, 3): "x86_64",
    (0x01000007, 8): "x86_64h",
    (0x0100000C, 0): "aarch64",
    (0x0100000C, 2): "arm64e",
    (18, 0): "ppc",
    (0x01000012, 0): "ppc64",
}
_PLATFORMS = {  # of LC_BUILD_VERSION
    1: "macos",
    2: "ios",
    3: "tvos",
    4: "watchos",
    5: "bridgeos",
    6: "maccatalyst",
    7: "iossimulator",
    8: "tvossimulator",
    9: "watchossimulator",
    10: "driverkit",
    11: "visionos",
    12: "visionossimulator",
}
_TYPES = {1: "OBJECT", 2: "EXECUTE", 6: "DYLIB", 8: "BUNDLE", 10: "DSYM"}
_OUR_TYPES = {Kind.EXECUTABLE: "EXECUTE", Kind.RELOCATABLE: "OBJECT", Kind.DEBUG: "DSYM"}
_DEPENDENCIES = {
    "LOAD_DYLIB": "",
    "LOAD_WEAK_DYLIB": " weak",
    "REEXPORT_DYLIB": " reexported",
    "LOAD_UPWARD_DYLIB": " upward",
    "LAZY_LOAD_DYLIB": " delayed",
}
_WORDS = ("weak", "reexported", "upward", "delayed")
_OLDEST = {
    "VERSION_MIN_MACOSX": "macos",
    "VERSION_MIN_IPHONEOS": "ios",
    "VERSION_MIN_TVOS": "tvos",
    "VERSION_MIN_WATCHOS": "watchos",
}
_TWO_LEVEL = 0x80  # MH_TWOLEVEL
_SELF, _PROGRAM, _WEAK_LOOKUP = 0, -1, -3
_NAMED = frozenset({Kind.SHARED, Kind.EXECUTABLE, Kind.DEBUG})
_EVERY = frozenset(Kind)
_Numbers = tuple[int, ...]  # numbers of a version
_System = tuple[str, _Numbers, _Numbers]  # platform, oldest system, SDK


def _format_system(version: _Numbers) -> str:
    """Return a version of macOS as in the model: 11.0, 10.13.4."""
    *others, patch = version or (0,)
    return ".".join(map(str, [*others, patch] if patch else others))


def _lengthen(version: str) -> str:
    """Return a version with three numbers, as the other libraries do."""
    return version + ".0" * (2 - version.count(".")) if version else ""


def _format_need(need: Dependency) -> str:
    return need.name + "".join(f" {word}" for word in _WORDS if getattr(need, word))


FACTS = (
    Fact(
        "architecture", "CPU type and subtype of the slice", kinds=_EVERY,
    ),
    Fact(
        "type", "file type of the header",
        lambda item: "BUNDLE" if item.bundle else _OUR_TYPES.get(item.kind, "DYLIB"),
        kinds=_EVERY - {Kind.OTHER},
    ),
    Fact("name", "LC_ID_DYLIB", kinds=_NAMED),
    Fact(
        "current_version", "of LC_ID_DYLIB",
        lambda item: _lengthen(item.current_version), kinds=_NAMED,
    ),
    Fact(
        "compatibility_version", "of LC_ID_DYLIB",
        lambda item: _lengthen(item.compatibility_version), kinds=_NAMED,
    ),
    Fact(
        "needed", "dylibs in order, and whether each is weak, reexported, upward or lazy",
        lambda item: [_format_need(need) for need in item.needed],
    ),
    Fact("rpaths", "LC_RPATH, in order", lambda item: list(item.rpaths), kinds=_NAMED),
    Fact(
        "platforms", "LC_BUILD_VERSION or LC_VERSION_MIN_*",
        lambda item: list(item.platforms), kinds=_EVERY,
    ),
    Fact("minimum_os", "the oldest system", kinds=_EVERY),
    Fact("sdk", "the SDK", kinds=_EVERY),
    Fact("uuid", "LC_UUID", kinds=_NAMED),
    Fact("signed", "LC_CODE_SIGNATURE"),
    Fact("two_level", "MH_TWOLEVEL", lambda item: item.two_level_namespace),
    Fact("chained_fixups", "LC_DYLD_CHAINED_FIXUPS"),
    Fact(
        "imports", "binds with their libraries, and which of them may be missing",
        lambda item: sorted(f"{s.library} {s.name}" + "?" * s.weak for s in item.imports),
    ),
    Fact(
        "exports", "the exports trie, and which definitions are weak",
        lambda item: sorted(s.name + "*" * s.weak for s in item.exports),
    ),
)  # fmt: skip


def _format_cpu(cpu: int, subtype: int) -> str:
    return _CPUS.get((cpu, subtype & 0xFFFFFF), f"unknown: {cpu} {subtype:#x}")


def _name_platform(platform: int) -> str:
    return _PLATFORMS.get(platform, f"platform {platform}")


def _describe_systems(systems: list[_System]) -> Facts:
    """Return all platforms, and the oldest system and SDK: for macOS, else for the first platform.

    A zippered dylib is for macOS and for Mac Catalyst, and has a command for each platform.
    """
    chosen = [row for row in systems if row[0] == "macos"] or systems or [("", (), ())]
    _, oldest, sdk = chosen[0]
    return {
        "platforms": [platform for platform, _, _ in systems],
        "minimum_os": _format_system(oldest),
        "sdk": _format_system(sdk) if any(sdk) else "",
    }


def _look_with_macholib(path: str) -> dict[str, Facts]:
    from macholib.MachO import MachO

    found = map(_look_at_header, MachO(path, allow_unknown_load_commands=True).headers)
    return {facts["architecture"]: facts for facts in found}


def _look_at_header(item: Any) -> Facts:
    from macholib import mach_o

    head = item.header
    present = {int(command.cmd) for command, _, _ in item.commands}
    facts: Facts = {
        "architecture": _format_cpu(int(head.cputype), int(head.cpusubtype)),
        "type": _TYPES.get(int(head.filetype), "DYLIB"),
        "name": "",
        "current_version": "",
        "compatibility_version": "",
        "needed": [],
        "rpaths": [],
        "uuid": "",
        "signed": mach_o.LC_CODE_SIGNATURE in present,
        "two_level": bool(int(head.flags) & _TWO_LEVEL),
        "chained_fixups": mach_o.LC_DYLD_CHAINED_FIXUPS in present,
    }
    dylibs = {getattr(mach_o, f"LC_{name}"): word for name, word in _DEPENDENCIES.items()}
    oldest = {getattr(mach_o, f"LC_{name}"): system for name, system in _OLDEST.items()}
    systems: list[_System] = []
    for command, row, data in item.commands:
        kind = int(command.cmd)
        if kind in dylibs:
            facts["needed"].append(_read_name(row.name, row, data) + dylibs[kind])
        elif kind == mach_o.LC_RPATH:
            facts["rpaths"].append(_read_name(row.path, row, data))
        elif kind == mach_o.LC_ID_DYLIB:
            facts["name"] = _read_name(row.name, row, data)
            for name in ("current_version", "compatibility_version"):
                facts[name] = _join(_numbers_of(int(getattr(row, name)._version)))
        elif kind == mach_o.LC_UUID:
            facts["uuid"] = str(UUID(bytes=row.uuid)).upper()
        elif kind == mach_o.LC_BUILD_VERSION or kind in oldest:
            platform = oldest.get(kind) or _name_platform(int(row.platform))
            version = int(row.version if kind in oldest else row.minos)
            systems.append((platform, _numbers_of(version), _numbers_of(int(row.sdk))))
    return facts | _describe_systems(systems)


def _read_name(offset: Any, row: Any, data: bytes) -> str:
    """Return the string of a command; the string's offset is relative to the command."""
    start = int(offset) - 8 - row._size_  # 8 bytes are cmd and cmdsize
    return text(data[start:].partition(b"\0")[0])


def _numbers_of(version: int) -> _Numbers:
    """Return the three numbers of a version packed into 32 bits."""
    return version >> 16, version >> 8 & 255, version & 255


def _join(version: Iterable[int]) -> str:
    return ".".join(map(str, version))


def _look_with_lief(path: str) -> dict[str, Facts]:
    import lief

    lief.logging.disable()
    wanted = lief.MachO.ParserConfig.deep
    wanted.parse_dyld_rebases = False
    found = lief.MachO.parse(path, wanted)
    if found is None:
        raise UnparsedError("it does not parse the file")
    return {facts["architecture"]: facts for facts in map(_look_at_slice, found)}


def _look_at_slice(item: Any) -> Facts:
    head = item.header
    trie = item.dyld_exports_trie if item.has_dyld_exports_trie else item.dyld_info
    exports = {
        _c_name(each.symbol) + "*" * any(flag.name == "WEAK_DEFINITION" for flag in each.flags_list)
        for each in (trie.exports if trie is not None else ())
    }
    imports = set(_find_imports(item.bindings, {name.removesuffix("*") for name in exports}))
    facts: Facts = {
        "architecture": _format_cpu(number(head.cpu_type), head.cpu_subtype),
        "type": _TYPES.get(number(head.file_type), "DYLIB"),
        "name": "",
        "current_version": "",
        "compatibility_version": "",
        "needed": [],
        "rpaths": [text(command.path) for command in item.rpaths],
        "uuid": str(UUID(bytes=bytes(item.uuid.uuid))).upper() if item.uuid else "",
        "signed": item.has_code_signature,
        "two_level": any(flag.name == "TWOLEVEL" for flag in head.flags_list),
        "chained_fixups": item.has_dyld_chained_fixups,
        # A symbol may be bound twice, but be optional in only one of the binds.
        "imports": sorted(imports - {f"{name}?" for name in imports}),
        "exports": sorted(exports),
    }
    for library in item.libraries:
        kind, name = library.command.name, text(library.name)
        if kind == "ID_DYLIB":
            facts["name"] = name
            facts["current_version"] = _join(library.current_version)
            facts["compatibility_version"] = _join(library.compatibility_version)
        else:
            facts["needed"].append(name + _DEPENDENCIES.get(kind, ""))
    systems: list[_System] = []
    for command in item.commands:
        kind = getattr(command.command, "name", "")
        if kind == "BUILD_VERSION" or kind in _OLDEST:
            platform = _OLDEST.get(kind) or _name_platform(number(command.platform))
            version = command.version if kind in _OLDEST else command.minos
            systems.append((platform, tuple(version), tuple(command.sdk)))
    return facts | _describe_systems(systems)


def _find_imports(bindings: Any, own: set[str]) -> Iterator[str]:
    """Yield imports, without the weak table and without weak definitions of the file itself."""
    for bind in bindings:
        if getattr(getattr(bind, "binding_class", None), "name", "") == "WEAK":
            continue
        name, ordinal = _c_name(bind.symbol), bind.library_ordinal
        if ordinal == _SELF or (ordinal == _WEAK_LOOKUP and name in own):
            continue
        library = "@executable" * (ordinal == _PROGRAM)
        library = text(bind.library.name) if bind.has_library else library
        yield f"{library} {name}" + "?" * bind.weak_import


def _c_name(symbol: Any) -> str:
    return text(symbol.name).removeprefix("_") if symbol else "?"


TABLE = Table(
    facts=FACTS,
    libraries=(
        Library(
            name="macholib",
            distribution="macholib",
            look=_look_with_macholib,
            unknown=frozenset({"imports", "exports"}),
        ),
        Library(name="LIEF", distribution="lief", look=_look_with_lief),
    ),
)

"""Mach-O: our facts, and the facts of macholib and LIEF, slice by slice.

macholib rejects unknown load commands by default, and does not read export tries, bind opcodes and
chained fixups. LIEF's ``imported_symbols`` includes weak symbols that the file defines itself, so
its bindings are used instead. LIEF reads nothing of a fat file with 64-bit offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from binary_checks.crosscheck.fact_tables import (
    Fact,
    Library,
    Table,
    UnparsedError,
    View,
    number,
    text,
)
from binary_checks.model import Dependency, Format, Kind

_CPUS = {
    ("X86", 3): "i686",
    ("X86_64", 3): "x86_64",
    ("X86_64", 8): "x86_64h",
    ("ARM64", 0): "aarch64",
    ("ARM64", 2): "arm64e",
    ("POWERPC", 0): "ppc",
    ("POWERPC64", 0): "ppc64",
}
"""Our names of architectures, by CPU and subtype without capabilities."""
_CPU_NAMES = {
    0x0100000C: "ARM64",
    7: "X86",
    0x01000007: "X86_64",
    18: "POWERPC",
    0x01000012: "POWERPC64",
}
_PLATFORMS = (
    *("macos", "ios", "tvos", "watchos", "bridgeos", "maccatalyst"),
    *("iossimulator", "tvossimulator", "watchossimulator", "driverkit"),
    *("visionos", "visionossimulator"),
)
"""Platforms of LC_BUILD_VERSION, from number 1."""
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


@dataclass(kw_only=True)
class MachOView(View):
    """A slice as read by a library; its name is the architecture."""

    type: str
    two_level: bool
    install_name: str = ""
    current_version: str = ""
    compatibility_version: str = ""
    needed: list[str] = field(default_factory=list)
    rpaths: list[str] = field(default_factory=list)
    systems: list[tuple[str, _Numbers, _Numbers]] = field(default_factory=list)
    uuid: str = ""
    signed: bool = False
    chained_fixups: bool = False
    imports: list[str] = field(default_factory=list)
    exports: list[str] = field(default_factory=list)

    def system(self) -> tuple[str, _Numbers, _Numbers]:
        """Return platform, oldest system and SDK: for macOS, else for the first platform.

        A zippered dylib is for macOS and for Mac Catalyst, and has a command for each platform.
        """
        nowhere: tuple[str, _Numbers, _Numbers] = ("", (), ())
        return next((row for row in self.systems if row[0] == "macos"), (*self.systems, nowhere)[0])


def _format_system(version: _Numbers) -> str:
    """Return a version of macOS as in the model: 11.0, 10.13.4."""
    *others, patch = version or (0,)
    return ".".join(map(str, [*others, patch] if patch else others))


def _format_sdk(version: _Numbers) -> str:
    return _format_system(version) if any(version) else ""


def _lengthen(version: str) -> str:
    """Return a version with three numbers, as the other libraries do."""
    return version + ".0" * (2 - version.count(".")) if version else ""


def _format_need(need: Dependency) -> str:
    return need.name + "".join(f" {word}" for word in _WORDS if getattr(need, word))


FACTS = (
    Fact(
        "architecture", "CPU type and subtype of the slice",
        theirs=lambda view: view.name, kinds=_EVERY,
    ),
    Fact(
        "type", "file type of the header",
        lambda item: "BUNDLE" if item.bundle else _OUR_TYPES.get(item.kind, "DYLIB"),
        kinds=_EVERY - {Kind.OTHER},
    ),
    Fact("name", "LC_ID_DYLIB", theirs=lambda view: view.install_name, kinds=_NAMED),
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
        lambda item: list(item.platforms), lambda view: [row[0] for row in view.systems],
        kinds=_EVERY,
    ),
    Fact(
        "minimum_os", "the oldest system",
        theirs=lambda view: _format_system(view.system()[1]), kinds=_EVERY,
    ),
    Fact("sdk", "the SDK", theirs=lambda view: _format_sdk(view.system()[2]), kinds=_EVERY),
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


def _format_cpu(name: str, subtype: int) -> str:
    return _CPUS.get((name, subtype & 0xFFFFFF), f"unknown: {name} {subtype:#x}")


def _name_platform(platform: int) -> str:
    known = 0 < platform <= len(_PLATFORMS)
    return _PLATFORMS[platform - 1] if known else f"platform {platform}"


def _look_with_macholib(path: str) -> list[MachOView]:
    from macholib.MachO import MachO

    return [_look_at_header(each) for each in MachO(path, allow_unknown_load_commands=True).headers]


def _look_at_header(item: Any) -> MachOView:
    from macholib import mach_o

    head = item.header
    present = {int(command.cmd) for command, _, _ in item.commands}
    view = MachOView(
        name=_format_cpu(_CPU_NAMES.get(int(head.cputype), "?"), int(head.cpusubtype)),
        type=_TYPES.get(int(head.filetype), "DYLIB"),
        two_level=bool(int(head.flags) & _TWO_LEVEL),
        signed=mach_o.LC_CODE_SIGNATURE in present,
        chained_fixups=mach_o.LC_DYLD_CHAINED_FIXUPS in present,
    )
    dylibs = {getattr(mach_o, f"LC_{name}"): word for name, word in _DEPENDENCIES.items()}
    oldest = {getattr(mach_o, f"LC_{name}"): system for name, system in _OLDEST.items()}
    for command, row, data in item.commands:
        kind = int(command.cmd)
        if kind in dylibs:
            view.needed.append(_read_name(row.name, row, data) + dylibs[kind])
        elif kind == mach_o.LC_RPATH:
            view.rpaths.append(_read_name(row.path, row, data))
        elif kind == mach_o.LC_ID_DYLIB:
            view.install_name = _read_name(row.name, row, data)
            view.current_version = _join(_numbers_of(int(row.current_version._version)))
            view.compatibility_version = _join(_numbers_of(int(row.compatibility_version._version)))
        elif kind == mach_o.LC_UUID:
            view.uuid = str(UUID(bytes=row.uuid)).upper()
        elif kind == mach_o.LC_BUILD_VERSION or kind in oldest:
            platform = oldest.get(kind) or _name_platform(int(row.platform))
            version = int(row.version if kind in oldest else row.minos)
            view.systems.append((platform, _numbers_of(version), _numbers_of(int(row.sdk))))
    return view


def _read_name(offset: Any, row: Any, data: bytes) -> str:
    """Return the string of a command; the string's offset is relative to the command."""
    start = int(offset) - 8 - row._size_  # 8 bytes are cmd and cmdsize
    return text(data[start:].partition(b"\0")[0])


def _numbers_of(version: int) -> _Numbers:
    """Return the three numbers of a version packed into 32 bits."""
    return version >> 16, version >> 8 & 255, version & 255


def _join(version: _Numbers) -> str:
    return ".".join(map(str, version))


def _look_with_lief(path: str) -> list[MachOView]:
    import lief

    lief.logging.disable()
    wanted = lief.MachO.ParserConfig.deep
    wanted.parse_dyld_rebases = False
    found = lief.MachO.parse(path, wanted)
    if found is None:
        raise UnparsedError
    return [_look_at_slice(item) for item in found]


def _look_at_slice(item: Any) -> MachOView:
    head = item.header
    cpu = head.cpu_type.name.removeprefix("CPU_TYPE_")
    exports = sorted(set(_find_exports(item)))
    imports = set(_find_imports(item.bindings, {name.removesuffix("*") for name in exports}))
    view = MachOView(
        name=_format_cpu(cpu, head.cpu_subtype),
        type=_TYPES.get(number(head.file_type), "DYLIB"),
        two_level=any(flag.name == "TWOLEVEL" for flag in head.flags_list),
        rpaths=[text(command.path) for command in item.rpaths],
        uuid=str(UUID(bytes=bytes(item.uuid.uuid))).upper() if item.uuid else "",
        signed=item.has_code_signature,
        chained_fixups=item.has_dyld_chained_fixups,
        # A symbol may be bound twice, but be optional in only one of the binds.
        imports=sorted(imports - {f"{name}?" for name in imports}),
        exports=exports,
    )
    for library in item.libraries:
        if library.command.name == "ID_DYLIB":
            view.install_name = text(library.name)
            view.current_version = _join(tuple(library.current_version))
            view.compatibility_version = _join(tuple(library.compatibility_version))
        else:
            view.needed.append(text(library.name) + _DEPENDENCIES.get(library.command.name, ""))
    for command in item.commands:
        kind = getattr(command.command, "name", "")
        if kind == "BUILD_VERSION":
            platform, oldest = _name_platform(number(command.platform)), tuple(command.minos)
            view.systems.append((platform, oldest, tuple(command.sdk)))
        elif kind in _OLDEST:
            view.systems.append((_OLDEST[kind], tuple(command.version), tuple(command.sdk)))
    return view


def _find_exports(item: Any) -> Iterator[str]:
    table = item.dyld_exports_trie if item.has_dyld_exports_trie else item.dyld_info
    for export in table.exports if table is not None else ():
        weak = any(flag.name == "WEAK_DEFINITION" for flag in export.flags_list)
        yield _c_name(export.symbol) + "*" * weak


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
            format=Format.MACHO,
            look=_look_with_macholib,
            unknown=frozenset({"imports", "exports"}),
        ),
        Library(name="LIEF", distribution="lief", format=Format.MACHO, look=_look_with_lief),
    ),
)

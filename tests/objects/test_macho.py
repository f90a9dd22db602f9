"""The Mach-O reader agrees with llvm-objdump and LIEF, and never reports less than is there."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from binary_checks.model import (
    Dependency,
    Format,
    Kind,
    MachOFile,
    NeededVersion,
    StaticArchive,
    Symbol,
    Symbols,
    UnreadObject,
)
from binary_checks.objects import read_objects
from binary_checks.objects.macho.header import (
    LC_DYLD_CHAINED_FIXUPS,
    LC_DYLD_INFO_ONLY,
    LC_LOAD_DYLIB,
    LC_LOAD_WEAK_DYLIB,
)
from fixtures.oracles.macho_facts import ARCHITECTURES, FACTS, facts_of
from fixtures.samples import expected_macho_facts, read_macho_sample
from tests.objects.byte_sources import Bytes
from tests.objects.macho_bytes import patched, place_of, table

SLICES = [(name, cpu) for name, facts in sorted(expected_macho_facts().items()) for cpu in facts]
SYSTEM = "/usr/lib/libSystem.B.dylib"


def _read_all(content: bytes) -> dict[str, MachOFile]:
    found = read_objects("demo/a.so", Bytes(content))
    assert all(isinstance(item, MachOFile) for item in found), found
    return {item.architecture: item for item in found if isinstance(item, MachOFile)}


def _read(content: bytes) -> MachOFile:
    (found,) = _read_all(content).values()
    return found


def _sample(name: str) -> MachOFile:
    return _read(read_macho_sample(name))


def _c_names(names: list[str]) -> list[str]:
    split = (name.rpartition(" ") for name in names)
    return sorted(f"{library}{space}{name.removeprefix('_')}" for library, space, name in split)


@pytest.mark.parametrize(("name", "cpu"), SLICES)
def test_a_sample_reads_as_llvm_objdump_prints_it(name: str, cpu: str) -> None:
    ours = {
        ARCHITECTURES.get(key, key): item
        for key, item in _read_all(read_macho_sample(name)).items()
    }
    facts, expected = facts_of(ours[cpu]), expected_macho_facts()[name][cpu]
    for fact in FACTS:
        theirs = expected.get(fact)
        if fact in ("imports", "exports"):
            theirs = _c_names(theirs or [])
        assert (fact, facts[fact] or None) == (fact, theirs or None)


def test_an_extension_module_says_what_it_needs_and_where_it_looks() -> None:
    assert _sample("extension.so") == MachOFile(
        path="demo/a.so",
        size=8656,
        bundle=True,
        needed=(Dependency(name=SYSTEM), Dependency(name="@rpath/libdep.1.dylib")),
        required_versions=(NeededVersion(library="@rpath/libdep.1.dylib", version="1.0"),),
        rpaths=("@loader_path/../demo.dylibs",),
        platforms=("macos",),
        minimum_os="10.9",
        sdk="11.0",
        uuid=expected_macho_facts()["extension.so"]["x86_64"]["uuid"],
        imports=Symbols(
            [
                Symbol(name="PyLong_FromLong"),
                Symbol(name="dep_answer", library="@rpath/libdep.1.dylib"),
                Symbol(name="dyld_stub_binder", library=SYSTEM),
                Symbol(name="free", library=SYSTEM),
                Symbol(name="memcpy", library=SYSTEM),
            ]
        ),
        exports=Symbols(map(_named, ("PyInit_demo", "demo_dep", "demo_used"))),
    )


def _named(name: str) -> Symbol:
    return Symbol(name=name)


def test_a_symbol_table_is_asked_by_name_and_by_library() -> None:
    imports = _sample("weak.so").imports
    assert "memcpy" in imports
    assert "_memcpy" not in imports
    assert imports.find("perhaps") == (Symbol(name="perhaps", library=SYSTEM, weak=True),)
    assert imports.find("nothing") == ()
    assert {(each.library, each.version) for each in imports} == {(SYSTEM, "")}
    assert imports == Symbols(imports)
    assert hash(imports) == hash(Symbols(imports))
    assert repr(imports) == f"<{len(imports)} symbols>"


def test_a_weak_definition_of_its_own_is_no_import() -> None:
    for name in ("weak.so", "chained.so"):
        item = _sample(name)
        assert "shared_by_all" not in item.imports
        assert item.exports.find("shared_by_all") == (Symbol(name="shared_by_all", weak=True),)


def test_a_weak_lookup_asks_no_library_in_particular() -> None:
    assert _sample("chained.so").imports.find("_Znwm") == (Symbol(name="_Znwm"),)


def test_dependencies_say_of_which_kind_they_are() -> None:
    assert _sample("kinds.dylib").needed == (
        Dependency(name="@rpath/libdemo.dylib", weak=True),
        Dependency(name=SYSTEM),
        Dependency(name="@rpath/libdep.1.dylib"),  # LLD writes it twice
        Dependency(name="@rpath/libdep.1.dylib", reexported=True),
    )


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (1, Dependency(name="/usr/lib/libS.dylib", weak=True)),
        (2, Dependency(name="/usr/lib/libS.dylib", reexported=True)),
        (4, Dependency(name="/usr/lib/libS.dylib", upward=True)),
        (5, Dependency(name="/usr/lib/libS.dylib", weak=True, upward=True)),
        (8, Dependency(name="/usr/lib/libS.dylib")),  # initialised later, but loaded at once
    ],
)
def test_the_newer_command_has_its_kinds_as_flags(flags: int, expected: Dependency) -> None:
    content = read_macho_sample("plain.dylib")
    place = place_of(content, LC_LOAD_DYLIB)
    content = patched(content, place + 8, "II", 28, 0x1A741800)
    content = patched(content, place + 24, "I20s", flags, b"/usr/lib/libS.dylib\0")
    assert _read(content).needed == (expected,)


def test_each_slice_of_a_fat_file_is_an_object() -> None:
    for name in ("universal2.dylib", "universal2_64.dylib"):
        found = _read_all(read_macho_sample(name))
        assert found == {
            "x86_64": replace(_sample("libdep.1.dylib"), path="demo/a.so"),
            "aarch64": replace(_sample("libdep_arm64.1.dylib"), path="demo/a.so"),
        }


@pytest.mark.parametrize("content", [b"", bytes(100)], ids=["empty", "broken"])
def test_a_fat_static_library_is_a_static_library(content: bytes) -> None:
    archive = b"!<arch>\n" + content
    head = struct.pack(">2I5I", 0xCAFEBABE, 1, 0x01000007, 3, 28, len(archive), 0)
    (found,) = read_objects("a.a", Bytes(head + archive))
    assert isinstance(found, UnreadObject if content else StaticArchive)
    assert found.format is Format.ARCHIVE


def test_files_that_are_not_loaded_show_no_more_than_their_headers() -> None:
    assert _sample("relocatable.o").kind is Kind.RELOCATABLE
    debug = _sample("debug.dSYM")
    assert debug.kind is Kind.DEBUG
    assert debug.uuid
    assert not debug.exports


def test_a_core_dump_is_of_another_kind() -> None:
    content = patched(read_macho_sample("plain.dylib"), 12, "I", 4)
    (found,) = read_objects("core", Bytes(content))
    assert isinstance(found, MachOFile)
    assert found.kind is Kind.OTHER


def test_the_platform_is_read_and_macos_counts_before_catalyst() -> None:
    assert _sample("ios_arm64.dylib").platforms == ("ios",)
    zippered = _sample("zippered.dylib")
    assert zippered.platforms == ("macos", "maccatalyst")
    assert zippered.minimum_os == "10.9"


def test_other_processors_are_told_apart() -> None:
    arm, intel = read_macho_sample("libdep_arm64.1.dylib"), read_macho_sample("libdep.1.dylib")
    assert _read(arm).architecture == "aarch64"
    assert _read(patched(arm, 8, "I", 0x80000002)).architecture == "arm64e"
    assert _read(patched(intel, 8, "I", 8)).architecture == "x86_64h"
    assert _read(patched(intel, 4, "I", 99)).architecture == "cpu 0x63"


def test_what_the_program_itself_must_have_is_said() -> None:
    content = read_macho_sample("chained.so")
    start, _ = table(content, LC_DYLD_CHAINED_FIXUPS)
    (imports,) = struct.unpack_from("<I", content, start + 8)
    (first,) = struct.unpack_from("<I", content, start + imports)
    changed = patched(content, start + imports, "I", first | 0xFF)
    (found,) = _read(changed).imports.find("free")
    assert found.library == "@executable"


@pytest.mark.parametrize(("form", "layout"), [(2, "Ii"), (3, "QQ")])
def test_imports_with_addends_read_the_same(form: int, layout: str) -> None:
    content = read_macho_sample("chained.so")
    start, size = table(content, LC_DYLD_CHAINED_FIXUPS)
    fixups = content[start : start + size]
    _, _, imports, names, count, _, _ = struct.unpack_from("<7I", fixups)
    rows = [each for (each,) in struct.iter_unpack("<I", fixups[imports : imports + 4 * count])]
    if form == 3:
        rows = [_widen(each) for each in rows]
    packed = b"".join(struct.pack(f"<{layout}", each, 7) for each in rows)
    tables = bytes(64) + packed + fixups[names:]
    header = struct.pack("<7I", 0, 28, 64, 64 + len(packed), count, form, 0)
    place = place_of(content, LC_DYLD_CHAINED_FIXUPS)
    moved = patched(content, place + 8, "II", len(content), len(tables))
    assert _read(moved + header + tables[28:]).imports == _read(content).imports


def _widen(packed: int) -> int:
    ordinal = packed & 0xFF
    ordinal = ordinal + 0xFF00 if ordinal > 0xF0 else ordinal
    return ordinal | (packed >> 8 & 1) << 16 | (packed >> 9) << 32


def test_without_fixups_and_opcodes_the_symbol_table_counts() -> None:
    for name in ("weak.so", "extension.so", "flat_namespace.dylib"):
        content = read_macho_sample(name)
        place = place_of(content, LC_DYLD_INFO_ONLY)
        old = _read(patched(content, place, "I", 0x99))
        assert old.imports == _read(content).imports
        assert old.exports == _read(content).exports


def test_a_lazy_dylib_is_delayed() -> None:
    content = read_macho_sample("plain.dylib")
    lazy = patched(content, place_of(content, LC_LOAD_DYLIB), "I", 0x20)
    assert _read(lazy).needed == (Dependency(name=SYSTEM, delayed=True),)
    weak = patched(content, place_of(content, LC_LOAD_DYLIB), "I", LC_LOAD_WEAK_DYLIB)
    assert _read(weak).needed == (Dependency(name=SYSTEM, weak=True),)


def _old(order: str, name: bytes) -> bytes:
    """Build a 32-bit dylib in this byte order, with only a symbol table."""
    strings = b"\0_mine\0_theirs\0"
    identity = struct.pack(f"{order}6I", 0xD, 24 + len(name), 24, 0, 0x10000, 0x10000) + name
    needed = struct.pack(f"{order}6I", 0xC, 36, 24, 0, 0, 0) + b"/usr/lib/S\0\0"
    start = 28 + len(identity) + len(needed) + 24
    symbols = struct.pack(f"{order}IBBHI", 1, 0x0F, 1, 0x80, 0x100)
    symbols += struct.pack(f"{order}IBBHI", 7, 0x01, 0, 0x0140, 0)
    table = struct.pack(f"{order}6I", 2, 24, start, 2, start + len(symbols), len(strings))
    commands = identity + needed + table
    header = struct.pack(f"{order}7I", 0xFEEDFACE, 18, 0, 6, 3, len(commands), 0x80)
    return header + commands + symbols + strings


@pytest.mark.parametrize("order", ["<", ">"])
def test_files_of_32_bits_and_of_either_byte_order_are_read(order: str) -> None:
    found = _read(_old(order, b"libold.dylib\0\0\0\0"))
    assert found.architecture == "ppc"
    assert found.name == "libold.dylib"
    assert found.current_version == "1.0"
    assert list(found.imports) == [Symbol(name="theirs", library="/usr/lib/S", weak=True)]
    assert list(found.exports) == [Symbol(name="mine", weak=True)]

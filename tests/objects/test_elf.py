"""The ELF reader agrees with readelf and other libraries, and never reports less than is there."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.enums import ENUM_RELOC_TYPE_i386

from binary_checks.crosscheck.opinion import TABLES
from binary_checks.model import ElfFile, Format, Kind, NeededVersion, Symbol
from binary_checks.objects import read_objects
from binary_checks.objects.elf.symbols import THREAD_RELOCATIONS
from fixtures.build_elf import INTERPRETERS, MACHINES, ElfSymbol, build_elf
from fixtures.oracles.elf_facts import FACTS, facts_of
from fixtures.oracles.libraries import compare_libraries
from fixtures.samples import expected_facts, read_sample
from tests.objects.byte_sources import Bytes
from tests.objects.elf_fields import put, segment, value, within

NAMES = sorted(expected_facts())
DEVICES = {"cuda", "amdgpu", "bpf"}


def _read(content: bytes) -> ElfFile:
    (found,) = read_objects("demo/a.so", Bytes(content))
    assert isinstance(found, ElfFile), found
    return found


def _build(**recipe: Any) -> ElfFile:
    return _read(build_elf(**recipe))


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_reads_as_readelf_prints_it(name: str) -> None:
    ours, expected = facts_of(_read(read_sample(name))), expected_facts()[name]
    for fact in FACTS:
        assert (fact, ours[fact] or None) == (fact, expected.get(fact) or None)


@pytest.mark.parametrize("machine", THREAD_RELOCATIONS)
def test_thread_local_data_in_fixed_places_is_read(machine: str) -> None:
    theirs = ElfSymbol("counter", kind="tls")
    assert _build(machine=machine, static_tls=True, tls_size=8).initial_exec == ("",)
    both = _build(machine=machine, static_tls=True, tls_size=8, imports=(theirs,))
    assert both.initial_exec == ("", "counter")
    assert _build(machine=machine, tls_size=8).initial_exec == ()
    names = ("R_386_TLS_TPOFF", "R_386_TLS_TPOFF32")
    assert THREAD_RELOCATIONS["i686"][0] == tuple(ENUM_RELOC_TYPE_i386[name] for name in names)


def test_relocations_in_code_are_counted_where_some_are_announced() -> None:
    """``readelf -r`` prints one: R_X86_64_RELATIVE at 0x12a8, in the segment of code."""
    content = read_sample("text_relocation.so")
    assert _read(content).code_relocations == 1
    place, within = (0x12A8).to_bytes(8, "little"), (0x22B0).to_bytes(8, "little")
    moved = content[:0x290] + within + content[0x298:]
    assert content[0x290:0x298] == place
    assert _read(moved).code_relocations == 0
    assert _build(text_relocations=False).code_relocations is None


@pytest.mark.parametrize("size", [512, 513])
def test_packed_relocations_in_code_are_counted(size: int) -> None:
    """An address, and two bitmaps of the 63 words behind it and of those behind these."""
    packed = struct.pack("<3Q", 0, 0xFFFFFFFFFFFFFFFF, 3)
    content = build_elf(text_relocations=True, relr=True, read_only={".rodata": packed})
    content = put(put(content, value(36), content.index(packed)), value(35), len(packed))
    assert _read(put(content, segment(1, "memsz"), size)).code_relocations == 1 + -(-size // 8)


@pytest.mark.parametrize("name", NAMES)
def test_the_flags_of_a_sample_are_those_that_readelf_prints(name: str) -> None:
    ours, expected = _read(read_sample(name)), expected_facts()[name]
    assert ours.bind_now == expected.get("bind_now", False)
    assert ours.text_relocations == expected.get("text_relocations", False)
    assert ours.static_tls == expected.get("static_tls", False)
    assert ours.relative_relocations == expected.get("relr", False)
    assert ours.writable_executable == expected.get("writable_executable", False)
    assert ours.alignment == expected["alignment"]
    assert ours.debug_information == (".debug_info" in expected.get("debug_sections", ()))


@pytest.mark.parametrize("machine", [name for name in MACHINES if name not in DEVICES])
def test_other_libraries_read_the_same_of_what_was_built(machine: str, tmp_path: Path) -> None:
    content = build_elf(
        machine=machine,
        needed=("libc.so.6", "libm.so.6"),
        rpath="$ORIGIN",
        imports=(ElfSymbol("memcpy", "GLIBC_2.14", "libc.so.6"), ElfSymbol("maybe", weak=True)),
        exports=(ElfSymbol("one", "DEMO_1"), ElfSymbol("one", "DEMO_0", hidden=True)),
        stack="rwx",
        build_id="00ff",
    )
    (tmp_path / "a.so").write_bytes(content)
    counts: Counter[str] = Counter()
    assert list(compare_libraries(_read(content), tmp_path / "a.so", counts)) == []
    assert counts["facts compared with pyelftools"] == len(TABLES[Format.ELF].facts)
    # all but the notes
    assert counts["facts compared with LIEF"] >= len(TABLES[Format.ELF].facts) - 2


@pytest.mark.parametrize("machine", [name for name in MACHINES if name not in DEVICES])
@pytest.mark.parametrize("hashes", [{}, {"gnu_hash": False, "sysv_hash": True}])
def test_every_machine_is_read_alike(machine: str, hashes: dict[str, bool]) -> None:
    found = _build(
        machine=machine,
        soname="libdemo.so.1",
        needed=("libc.so.6",),
        runpath="$ORIGIN/a:$ORIGIN",
        imports=(ElfSymbol("memcpy", "GLIBC_2.14", "libc.so.6"), ElfSymbol("maybe", weak=True)),
        exports=(
            ElfSymbol("one"),
            ElfSymbol("two", "DEMO_2"),
            ElfSymbol("two", "DEMO_1", hidden=True),
        ),
        build_id="abcdef0123",
        tls_size=5,
        **hashes,
    )
    assert (found.kind, found.architecture, found.name) == (Kind.SHARED, machine, "libdemo.so.1")
    assert found.runpath == ("$ORIGIN/a", "$ORIGIN")
    assert found.symbol_versions == (NeededVersion(library="libc.so.6", version="GLIBC_2.14"),)
    assert set(found.defined_versions) == {"DEMO_1", "DEMO_2"}
    assert set(found.imports) == {
        Symbol(name="memcpy", library="libc.so.6", version="GLIBC_2.14"),
        Symbol(name="maybe", weak=True),
    }
    assert found.imports.names == {"memcpy", "maybe"}
    assert set(found.exports) == {
        Symbol(name="one"),
        Symbol(name="two", version="DEMO_2"),
        Symbol(name="two", version="DEMO_1", hidden=True),
    }
    assert {symbol.version for symbol in found.exports.find("two")} == {"DEMO_1", "DEMO_2"}
    assert found.exports.find("three") == ()
    assert "one" in found.exports
    assert found.build_id == "abcdef0123"
    assert found.tls_size >= 5


@pytest.mark.parametrize("machine", sorted(DEVICES))
def test_device_code_is_told_apart(machine: str) -> None:
    # AMD's code objects are ET_DYN with an OS ABI of their own, ELFOSABI_AMDGPU_HSA.
    kind, os_abi = ("shared", 64) if machine == "amdgpu" else ("relocatable", 0)
    found = _build(machine=machine, kind=kind, os_abi=os_abi)
    assert (found.kind, found.architecture) == (Kind.DEVICE, machine)


def test_an_unknown_machine_is_device_code() -> None:
    content = bytearray(build_elf())
    content[18:20] = (4242).to_bytes(2, "little")
    assert _read(bytes(content)).architecture == "machine-4242"


def test_x32_has_a_name_of_its_own() -> None:
    content = bytearray(build_elf(machine="i686"))
    content[18] = 62
    assert _read(bytes(content)).architecture == "x32"


@pytest.mark.parametrize(
    ("machine", "flags", "name"),
    [
        ("armv7l", 0x05000201, "armel"),
        ("armv7l", 0x05000400, "armv7l"),
        ("ppc64le", 0, "ppc64le"),
        ("ppc64le", 1, "ppc64le_elfv1"),
        ("riscv64", 1, "riscv64_lp64"),
        ("riscv64", 3, "riscv64_lp64f"),
        ("riscv64", 5, "riscv64"),
        ("loongarch64", 0x41, "loongarch64_lp64s"),
        ("loongarch64", 0x43, "loongarch64"),
    ],
)
def test_another_calling_convention_is_another_architecture(
    machine: str, flags: int, name: str
) -> None:
    assert _build(machine=machine, flags=flags).architecture == name


@pytest.mark.parametrize(
    ("recipe", "kind"),
    [
        ({"kind": "executable"}, Kind.EXECUTABLE),
        ({"kind": "pie", "interpreter": INTERPRETERS["x86_64"]}, Kind.EXECUTABLE),
        ({"dynamic_entries": ((0x6FFFFFFB, 0x08000000),)}, Kind.EXECUTABLE),  # DF_1_PIE: static
        ({"soname": "libQt6Core.so.6", "interpreter": INTERPRETERS["x86_64"]}, Kind.SHARED),
        ({"kind": "relocatable"}, Kind.RELOCATABLE),
        ({}, Kind.SHARED),
    ],
)
def test_kinds_are_told_apart(recipe: dict[str, Any], kind: Kind) -> None:
    assert _build(**recipe).kind is kind


def test_a_debug_companion_is_no_empty_library() -> None:
    content = bytearray(build_elf(debug_sections=(".debug_info",), needed=("libc.so.6",)))
    start = int.from_bytes(content[40:48], "little")
    for place in range(start, len(content) - 63, 64):
        if content[place + 8] & 2:  # SHF_ALLOC
            content[place + 4 : place + 8] = (8).to_bytes(4, "little")  # SHT_NOBITS
    found = _read(bytes(content))
    assert found.kind is Kind.DEBUG
    assert found.debug_information
    assert 0 < found.debug_bytes < found.size


@pytest.mark.parametrize(
    ("machine", "stack", "executable"),
    [
        ("x86_64", "rw", False),
        ("x86_64", "rwx", True),
        ("x86_64", None, True),
        ("i686", None, True),
        ("armv7l", None, True),
        ("s390x", None, True),
        ("aarch64", None, False),
        ("ppc64le", None, False),
        ("riscv64", None, False),
        ("aarch64", "rwx", True),
    ],
)
def test_a_missing_stack_header_means_what_the_architecture_says(
    machine: str, stack: str | None, executable: bool
) -> None:
    found = _build(machine=machine, stack=stack)
    assert (found.executable_stack, found.stack_header) == (executable, stack is not None)


@pytest.mark.parametrize(
    ("mask", "level"),
    [(0, ""), (1, ""), (3, "x86-64-v2"), (7, "x86-64-v3"), (15, "x86-64-v4"), (8, "x86-64-v4")],
)
def test_the_isa_level_is_the_highest_that_is_needed(mask: int, level: str) -> None:
    assert _build(isa_needed=mask).isa_level == level


@pytest.mark.parametrize(
    ("machine", "mask", "guards"),
    [
        ("x86_64", 0, ()),
        ("x86_64", 1, ("IBT",)),
        ("x86_64", 3, ("IBT", "SHSTK")),
        ("aarch64", 3, ("BTI", "PAC")),
        ("aarch64", 4, ("GCS",)),
        ("s390x", 3, ()),
    ],
)
def test_guards_of_control_flow(machine: str, mask: int, guards: tuple[str, ...]) -> None:
    assert _build(machine=machine, features=mask, isa_needed=0).guards == guards


def test_guards_and_the_isa_level_stand_in_one_note() -> None:
    found = _build(features=3, isa_needed=3)
    assert (found.guards, found.isa_level) == (("IBT", "SHSTK"), "x86-64-v2")


def _change_segments(content: bytes, kinds: set[int], **changed: int) -> bytes:
    """Change type or alignment of these segments of a little-endian 64-bit file."""
    (start,) = struct.unpack_from("<Q", content, 32)
    (count,) = struct.unpack_from("<H", content, 56)
    written = bytearray(content)
    for at in range(start, start + 56 * count, 56):
        if struct.unpack_from("<I", content, at)[0] in kinds:
            if "kind" in changed:
                struct.pack_into("<I", written, at, changed["kind"])
            if "align" in changed:
                struct.pack_into("<Q", written, at + 48, changed["align"])
    return bytes(written)


_PT_NOTE, _PT_GNU_PROPERTY, _PT_NULL = 4, 0x6474E553, 0


def test_glibc_passes_over_property_notes_of_another_alignment() -> None:
    content = build_elf(features=3, isa_needed=3)
    found = _read(_change_segments(content, {_PT_NOTE, _PT_GNU_PROPERTY}, align=4))
    # the level restricts, it promises nothing
    assert (found.guards, found.isa_level) == ((), "x86-64-v2")


@pytest.mark.parametrize(("machine", "guards"), [("x86_64", ("IBT",)), ("aarch64", ())])
def test_notes_tell_of_guards_without_a_segment_of_their_own_on_x86_alone(
    machine: str, guards: tuple[str, ...]
) -> None:
    content = build_elf(machine=machine, features=1)
    assert _read(_change_segments(content, {_PT_GNU_PROPERTY}, kind=_PT_NULL)).guards == guards
    assert len(_read(_change_segments(content, {_PT_NOTE}, kind=_PT_NULL)).guards) == 1


def test_the_first_property_note_counts_though_it_has_no_guards() -> None:
    content = _change_segments(
        build_elf(features=1, isa_needed=3), {_PT_NOTE, _PT_GNU_PROPERTY}, kind=_PT_NULL
    )
    (start,) = struct.unpack_from("<Q", content, 32)
    (count,) = struct.unpack_from("<H", content, 56)
    whole = content.index(b"GNU\0") - 12
    empty = struct.pack("<III", 4, 0, 5) + b"GNU\0"
    both = empty + content[whole : whole + 48]
    written, at = bytearray(content), start
    while struct.unpack_from("<I", written, at)[0] != _PT_NULL:
        at += 56
    assert at < start + 56 * count
    struct.pack_into("<IIQQQQQQ", written, at, _PT_NOTE, 4, len(written), 0, 0, len(both), 0, 8)
    found = _read(bytes(written) + both)
    assert (found.guards, found.isa_level) == ((), "x86-64-v2")


def test_symbols_that_only_the_object_sees_are_no_exports() -> None:
    content = build_elf(exports=(ElfSymbol("one"), ElfSymbol("two")))
    for visibility, names in enumerate(({"one", "two"}, {"two"}, {"two"}, {"one", "two"})):
        assert _read(put(content, within(6, 24 + 5, "B"), visibility)).exports.names == names
    assert _read(put(content, within(6, 24 + 4, "B"), 15)).exports.names == {"two"}  # local


def test_an_absolute_symbol_with_the_name_of_its_version_is_no_export() -> None:
    content = build_elf(exports=(ElfSymbol("DEMO_1", "DEMO_1"), ElfSymbol("two", "DEMO_1")))
    absolute = [put(content, within(6, at + 6, "H"), 0xFFF1) for at in (24, 48)]
    found = sorted(sorted(_read(each).exports.names) for each in absolute)
    assert found == [["DEMO_1", "two"], ["two"]]


def test_thread_local_data_without_an_alignment_have_their_size() -> None:
    content = build_elf(tls_size=5)
    assert _read(put(content, segment(7, "align"), 0)).tls_size == 5
    assert _read(put(content, segment(7, "align"), 4)).tls_size == 8


def test_search_paths_keep_empty_elements() -> None:
    assert _build(runpath="a::b").runpath == ("a", "", "b")
    assert _build(rpath="").rpath == ("",)
    assert _build().runpath == ()


def test_what_androids_loader_asks_for_is_read() -> None:
    entries = ((0x6000000F, 0), (0x6FFFE000, 0))  # DT_ANDROID_REL, DT_ANDROID_RELR
    found = _build(dynamic_entries=entries, sysv_hash=True)
    assert found.android_relocations == ("packed", "relative")
    assert found.sysv_hash
    assert found.section_headers
    found = _build(section_headers=False)
    assert found.android_relocations == ()
    assert not found.sysv_hash
    assert not found.section_headers


def test_hardening_flags_are_read() -> None:
    found = _build(
        relro=False, bind_now=True, text_relocations=True, writable_executable=True,
        static_tls=True, tls_size=100, relr=True, alignment=0x10000,
        dynamic_entries=((0x6FFFFFFB, 0x800),),
    )  # fmt: skip
    assert not found.relro
    assert found.bind_now
    assert found.text_relocations
    assert found.writable_executable
    assert found.static_tls
    assert found.relative_relocations
    assert found.no_default_libraries
    assert found.alignment == 0x10000


def test_weak_version_needs_are_marked() -> None:
    found = _build(weak_version_needs={"libc.so.6": ("GLIBC_2.36",)})
    assert found.symbol_versions == (
        NeededVersion(library="libc.so.6", version="GLIBC_2.36", weak=True),
    )


def test_a_name_that_is_not_utf8_is_kept_visible() -> None:
    content = build_elf(needed=("libXX.so",)).replace(b"libXX.so", b"lib\xff\xfe.so")
    assert [item.name for item in _read(content).needed] == ["lib\\xff\\xfe.so"]


def test_a_name_is_asked_for_as_it_is_told() -> None:
    content = build_elf(exports=(ElfSymbol("sXXc"), ElfSymbol("PyInit_demo")), gnu_hash=False)
    exports = _read(content.replace(b"sXXc", b"s\xff\xfec")).exports
    assert "PyInit_demo" in exports
    assert "s\\xff\\xfec" in exports
    assert "PyInit_other" not in exports
    assert "Init_demo" not in exports  # although DT_STRTAB contains it
    assert 7 not in exports
    assert exports.names == {"PyInit_demo", "s\\xff\\xfec"}


def test_a_gnu_unique_symbol_is_an_export() -> None:
    assert _build(exports=(ElfSymbol("once", kind="unique"),)).exports.names == {"once"}


def test_imports_are_found_where_nothing_is_exported() -> None:
    # GNU ld then writes a DT_GNU_HASH that does not tell how many symbols there are.
    found = _build(imports=(ElfSymbol("a"), ElfSymbol("b")), section_headers=False)
    assert found.imports.names == {"a", "b"}


def test_tables_of_equal_symbols_are_equal() -> None:
    one, two = _build(exports=(ElfSymbol("f"),)), _build(exports=(ElfSymbol("f"),), build_id="aa")
    assert one.exports == two.exports
    assert hash(one.exports) == hash(two.exports)
    assert one.exports != one.imports
    assert repr(one.exports) == "<1 symbols>"


def _cut_first_load(content: bytes, at: int) -> bytes:
    """Split the first PT_LOAD into two that are contiguous."""
    (start,), (count,) = (
        struct.unpack_from("<Q", content, 32),
        struct.unpack_from("<H", content, 56),
    )
    rows = [
        struct.unpack_from("<IIQQQQQQ", content, start + 56 * number) for number in range(count)
    ]
    number = next(n for n, row in enumerate(rows) if row[0] == 1)
    kind, flags, offset, address, _, size, _, align = rows[number]
    first = (kind, flags, offset, address, address, at, at, align)
    rest = (kind, flags, offset + at, address + at, address + at, size - at, size - at, align)
    rows[number : number + 1] = [first, rest]
    # reuse the place of PT_GNU_STACK
    rows.remove(next(row for row in rows if row[0] == 0x6474E551))
    table = b"".join(struct.pack("<IIQQQQQQ", *row) for row in rows)
    return content[:start] + table + content[start + len(table) :]


def test_a_table_may_go_on_in_the_segment_that_follows_in_memory_and_file() -> None:
    exports = [ElfSymbol(f"a_function_with_a_long_name_{number:060}") for number in range(99)]
    whole = build_elf(needed=("libc.so.6",), exports=exports)
    cut = _cut_first_load(whole, 0x2000)
    assert cut.index(exports[0].name.encode()) < 0x2000 < cut.index(exports[-1].name.encode())
    assert _read(cut).exports == _read(whole).exports
    assert _read(cut).needed == _read(whole).needed

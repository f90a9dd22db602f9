from __future__ import annotations

import struct

import pytest

from fixtures.fuzz.neutral import (
    claims_symbols,
    neutralise_elf,
    neutralise_macho,
    neutralise_pe,
    restore_elf,
)
from fixtures.fuzz.readers import Readers
from fixtures.fuzz.wine_oracle import begins_in_code
from fixtures.samples import read_macho_sample, read_pe_sample, read_sample
from tests.objects.elf_fields import Field, get, put, segment, tag, value, within

PE, MACHO = read_pe_sample("plain.dll"), read_macho_sample("plain.dylib")
ELF = read_sample("extension.cpython-311-x86_64-linux-gnu.so")
LOAD, SYMTAB, RELA, RELASZ, JMPREL, GNU_HASH = 1, 6, 7, 8, 23, 0x6FFFFEF5
HEADER = struct.unpack_from("<I", PE, 60)[0]


def damage(content: bytes, offset: int, value: int) -> bytes:
    return content[:offset] + struct.pack("<I", value) + content[offset + 4 :]


@pytest.mark.parametrize("offset", [HEADER + 12, HEADER + 24 + 112 + 8 * 6])
def test_symbols_and_debug_information_are_no_loader_s(offset: int) -> None:
    assert neutralise_pe(damage(PE, offset, 0x7000)) == neutralise_pe(PE)


def test_the_import_directory_is_a_loader_s() -> None:
    damaged = damage(PE, HEADER + 24 + 112 + 8, 0x7000)
    assert neutralise_pe(damaged) != neutralise_pe(PE)


def test_base_relocations_are_a_loader_s_to_follow() -> None:
    damaged = damage(PE, HEADER + 24 + 112 + 8 * 5, 0x7000)
    assert neutralise_pe(damaged) != neutralise_pe(PE)
    assert neutralise_pe(damaged, unfollowed=True) == neutralise_pe(PE, unfollowed=True)


def test_binds_are_a_loader_s_to_follow() -> None:
    opcodes = MACHO.index(struct.pack("<II", 0x80000022, 48))
    damaged = damage(MACHO, opcodes + 16, 0x7000)
    assert neutralise_macho(damaged) != neutralise_macho(MACHO)
    assert neutralise_macho(damaged, unfollowed=True) == neutralise_macho(MACHO, unfollowed=True)
    exports = damage(MACHO, opcodes + 40, 0x7000)
    assert neutralise_macho(exports, unfollowed=True) != neutralise_macho(MACHO, unfollowed=True)


@pytest.mark.parametrize(
    "field",
    [within(RELA, 8, "I"), within(JMPREL, 12, "I"), within(GNU_HASH, 28, "I"), value(RELA)],
)
def test_relocations_and_chains_of_hashes_are_put_back(field: Field) -> None:
    assert restore_elf(ELF, put(ELF, field, 5)) == ELF


@pytest.mark.parametrize("field", [within(SYMTAB, 24, "I"), segment(LOAD, "flags", 3)])
def test_symbols_and_segments_are_not_put_back(field: Field) -> None:
    damaged = put(ELF, field, 5)
    assert restore_elf(ELF, damaged) == damaged


def test_an_import_that_becomes_its_own_is_in_no_hash_table() -> None:
    assert claims_symbols(ELF, put(ELF, within(SYMTAB, 24 + 6, "H"), 7))
    assert not claims_symbols(ELF, put(ELF, within(SYMTAB, 24, "I"), 7))
    assert not claims_symbols(ELF, ELF)


def test_without_relocations_nothing_but_their_sizes_changes() -> None:
    bare = neutralise_elf(ELF)
    assert get(bare, value(RELASZ)) == 0
    assert put(bare, value(RELASZ), get(ELF, value(RELASZ))) != ELF  # DT_PLTRELSZ, too
    assert get(bare, tag(RELASZ)) == RELASZ
    assert restore_elf(ELF, bare) == ELF


def test_relocations_of_sections_are_a_linker_s() -> None:
    first = MACHO.index(b"__text")
    assert neutralise_macho(damage(MACHO, first + 56, 0x7000)) == neutralise_macho(MACHO)
    assert neutralise_macho(damage(MACHO, first + 48, 0x7000)) != neutralise_macho(MACHO)


def test_commands_that_dyld_passes_over_are_told_from_those_that_it_reads() -> None:
    uuid = MACHO.index(struct.pack("<II", 0x1B, 24))
    note, routines = damage(MACHO, uuid, 0x31), damage(MACHO, uuid, 0x1A)
    assert neutralise_macho(note)[uuid] == 0x7F
    assert neutralise_macho(routines)[uuid] == 0x1A


def test_what_is_left_is_still_read() -> None:
    for name, program, content in (
        ("PE", "llvm-readobj", neutralise_pe(PE)),
        ("MachO", "llvm-objdump", neutralise_macho(MACHO)),
    ):
        readers = Readers(name, program, ["--private-headers"] if name == "MachO" else ["-h"])
        assert readers.read(content) == ""
        readers.close()


@pytest.mark.parametrize("cut", [0, 30, 62, 100, 200])
def test_what_is_cut_is_left_as_it_is(cut: int) -> None:
    assert len(neutralise_pe(PE[:cut])) == cut
    assert len(neutralise_macho(MACHO[:cut])) == cut


def test_an_entry_point_lies_in_code_or_not() -> None:
    assert begins_in_code(damage(PE, HEADER + 40, 0x1000))
    assert not begins_in_code(damage(PE, HEADER + 40, 0x10))

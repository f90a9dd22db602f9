"""Each damaged field that makes glibc's loader refuse an object, or crash, is reported."""

from __future__ import annotations

import pytest

from binary_checks.model import ElfFile, Kind
from binary_checks.objects import read_objects
from fixtures.build_elf import MACHINES, ElfSymbol, build_elf
from fixtures.samples import FOLDER, read_sample
from tests.objects.byte_sources import Bytes
from tests.objects.elf_fields import (
    Field,
    header,
    identification,
    put,
    segment,
    tag,
    value,
    within,
)

LOAD, DYNAMIC, INTERP, PHDR, TLS, RELRO = 1, 2, 3, 6, 7, 0x6474E552
PLTRELSZ, PLTGOT, SYMTAB, RELA, RELASZ, RELAENT, PLTREL, JMPREL = 2, 3, 6, 7, 8, 9, 20, 23
HASH, INIT_ARRAY, INIT_ARRAYSZ = 4, 25, 27
GNU_HASH, RELACOUNT, FLAGS_1 = 0x6FFFFEF5, 0x6FFFFFF9, 0x6FFFFFFB
VERSYM, VERNEED, VERDEF = 0x6FFFFFF0, 0x6FFFFFFE, 0x6FFFFFFC
UNUSED = 0x6FFFFD00  # a tag that no loader knows

EXTENSION = read_sample("extension.cpython-311-x86_64-linux-gnu.so")  # written by LLD


def _refusals(content: bytes, name: str = "a.so") -> tuple[str, ...]:
    (found,) = read_objects(name, Bytes(content))
    assert isinstance(found, ElfFile), found
    return found.refusals


@pytest.mark.parametrize("path", sorted((FOLDER / "elf").iterdir()), ids=lambda path: path.name)
def test_what_compilers_write_is_not_refused(path: object) -> None:
    assert _refusals(read_sample(path.name)) == ()


@pytest.mark.parametrize(
    "machine", [name for name, each in MACHINES.items() if each.code not in {190, 224, 247}]
)
@pytest.mark.parametrize("gnu_hash", [True, False])
def test_no_architecture_is_refused(machine: str, gnu_hash: bool) -> None:
    imports = (ElfSymbol("memcpy", "GLIBC_2.17", "libc.so.6"),)
    exports = tuple(ElfSymbol(f"function{number}", "DEMO_1") for number in range(20))
    content = build_elf(
        machine=machine, imports=imports, exports=exports, needed=("libc.so.6",),
        gnu_hash=gnu_hash, sysv_hash=not gnu_hash,
    )  # fmt: skip
    assert _refusals(content) == ()


@pytest.mark.parametrize(
    ("field", "new", "reason"),
    [
        (identification(7), 9, "EI_OSABI 9"),
        (identification(8), 1, "EI_ABIVERSION 1"),
        (identification(12), 1, "padding is not zero"),
        (header("version"), 2, "e_version 0x2"),
        (segment(LOAD, "align", 1), 0x800, "p_align 0x800"),
        (segment(LOAD, "align", 1), 0x10000, "differ modulo p_align 0x10000"),
        (segment(LOAD, "vaddr", 1), 0x13B8, "have different offsets in their pages"),
        (segment(LOAD, "memsz", 1), 0x1060, "overlap or are out of order"),
        (segment(LOAD, "memsz", 3), 1 << 40, "claims more than 64 GiB"),
        (segment(LOAD, "flags", 0), 1, "where nothing is loaded that may be read"),
        (segment(LOAD, "flags", 2), 4, "has a PT_DYNAMIC at 0x2410, where nothing writable"),
        (segment(LOAD, "flags", 2), 0, "has a PT_DYNAMIC at 0x2410, where nothing writable"),
        (segment(PHDR, "vaddr"), 1 << 31, "has a PT_PHDR at 0x80000000"),
        (segment(PHDR, "vaddr"), 0x80, "does not point to its program headers"),
        (segment(LOAD, "align", 0), 1 << 40, "for which there is no room in memory"),
        (segment(PHDR, "type"), DYNAMIC, "has 2 PT_DYNAMIC"),
        (segment(RELRO, "memsz"), 1 << 31, "cannot be protected"),
        (segment(RELRO, "vaddr"), 0x1410, "over its code"),
        (tag(SYMTAB), UNUSED, "has no DT_SYMTAB"),
        (tag(RELASZ), UNUSED, "has DT_RELA and no DT_RELASZ"),
        (tag(JMPREL), UNUSED, "has DT_PLTRELSZ and no DT_JMPREL"),
        (tag(PLTGOT), 25, "has DT_INIT_ARRAY and no DT_INIT_ARRAYSZ"),
        (value(RELA), 1 << 40, "has DT_RELA at 0x10000000000"),
        (value(RELASZ), 121, "has DT_RELASZ 121, not a multiple of 24"),
        (value(RELASZ), 120 + 24 * 200, "cannot be loaded: DT_RELA has"),
        (value(RELAENT), 16, "has DT_RELAENT 16"),
        (value(PLTREL), 17, "has DT_PLTREL 17, not 7"),
        (value(PLTRELSZ), 49, "has DT_PLTRELSZ 49"),
        (within(SYMTAB, 4, "B"), 0x10, "has a symbol number 0 that is not empty"),
        (within(SYMTAB, 24 + 4, "B"), 0x02, "imports PyModule_Create2, but its entry in"),
        (within(SYMTAB, 24 + 5, "B"), 2, "its entry in DT_SYMTAB is hidden"),
        (within(SYMTAB, 24 + 8, "Q"), 0x13B0, "its entry in DT_SYMTAB has an address"),
        (within(SYMTAB, 24 + 4, "B"), 0x92, "a dynamic symbol whose binding no loader knows"),
        (within(SYMTAB, 24 + 4, "B"), 0x13, "a dynamic symbol of a type that no lookup finds"),
        (within(SYMTAB, 3 * 24 + 8, "Q"), 0x10, "has the function PyInit_extension at 0x10"),
        (within(SYMTAB, 24, "I"), 0, "has a dynamic symbol without a name"),
        (within(SYMTAB, 3 * 24 + 8, "Q"), 0x390, "has the function PyInit_extension at 0x390"),
        (within(GNU_HASH, 8, "I"), 3, "has a DT_GNU_HASH whose Bloom filter has 3 words"),
        (within(GNU_HASH, 12, "I"), 40, "shifts hashes of 32 bits by 40"),
    ],
)  # fmt: skip
def test_one_damaged_field_of_an_extension(field: Field, new: int, reason: str) -> None:
    assert _refusals(EXTENSION) == ()
    assert any(reason in sentence for sentence in _refusals(put(EXTENSION, field, new)))


@pytest.mark.parametrize(
    ("name", "new", "reason"),
    [
        ("align", 3, "has a PT_TLS with p_align 0x3"),
        ("memsz", 0x80, "is larger in the file"),
        ("vaddr", 0x9000, "has a PT_TLS at 0x9000, where nothing is loaded"),
    ],
)
def test_storage_for_threads_that_cannot_be_set_up(name: str, new: int, reason: str) -> None:
    threads = put(EXTENSION, segment(RELRO, "type"), TLS)
    assert _refusals(threads) == ()
    (sentence,) = _refusals(put(threads, segment(TLS, name), new))
    assert reason in sentence


def test_an_object_that_forbids_dlopen() -> None:
    content = build_elf(dynamic_entries=[(FLAGS_1, 0x40)])
    assert _refusals(content) == ("has DF_1_NOOPEN in its DT_FLAGS_1: dlopen refuses it",)


VERSIONED = build_elf(
    needed=("libc.so.6",),
    imports=(ElfSymbol("memcpy", "GLIBC_2.14", "libc.so.6"),),
    exports=(ElfSymbol("one", "DEMO_1"),),
)


@pytest.mark.parametrize(
    ("field", "new", "reason"),
    [
        (within(VERNEED, 0, "H"), 2, "has a Verneed record of revision 2"),
        (within(VERDEF, 0, "H"), 0, "has a Verdef record of revision 0"),
        (within(VERNEED, 16, "I"), 1, "needs version GLIBC_2.14 with a wrong hash"),
        (within(VERDEF, 28 + 8, "I"), 1, "defines version DEMO_1 with a wrong hash"),
        (within(VERNEED, 4, "I"), 0, "needs versions of , which is not among its DT_NEEDED"),
        (within(VERSYM, 2, "H"), 2, "imports memcpy in a version that only this file defines"),
        (tag(VERSYM), UNUSED, "has tables of versions but no DT_VERSYM"),
    ],
)
def test_versions_that_no_loader_finds(field: Field, new: int, reason: str) -> None:
    assert _refusals(VERSIONED) == ()
    (sentence,) = _refusals(put(VERSIONED, field, new))
    assert sentence.startswith(reason)


def test_a_chain_of_versions_that_goes_on_behind_its_count_is_malformed() -> None:
    (found,) = read_objects("a.so", Bytes(put(VERSIONED, within(VERNEED, 16 + 12, "I"), 16)))
    assert "a Vernaux continues past its count" in found.reason


def test_a_hash_table_of_the_old_kind_needs_buckets() -> None:
    content = build_elf(exports=[ElfSymbol("one")], gnu_hash=False, sysv_hash=True)
    assert _refusals(content) == ()
    (sentence,) = _refusals(put(content, within(HASH, 0, "I"), 0))
    assert sentence == "has a DT_HASH without buckets: a loader divides by their number"


def test_functions_to_call_that_lie_behind_the_end_of_their_segment() -> None:
    listed = put(put(EXTENSION, tag(PLTGOT), INIT_ARRAY), tag(RELACOUNT), INIT_ARRAYSZ)
    (sentence, *_) = _refusals(put(listed, value(INIT_ARRAYSZ), 1 << 20))
    assert sentence.startswith(
        "cannot be loaded: DT_INIT_ARRAY has 0x100000 bytes, but its segment"
    )


def test_a_program_under_the_name_of_a_library_cannot_be_opened() -> None:
    for kind in ("executable", "pie"):
        (found,) = read_objects("a.so", Bytes(build_elf(kind=kind, interpreter="/lib64/ld.so")))
        assert isinstance(found, ElfFile)
        assert (found.kind, found.opens) == (Kind.EXECUTABLE, False)


@pytest.mark.parametrize("number", [0, 4, 0xFF00])
def test_a_type_that_no_loader_takes(number: int) -> None:
    (found,) = read_objects("a.so", Bytes(put(EXTENSION, header("type"), number)))
    assert isinstance(found, ElfFile)
    assert found.kind is Kind.OTHER


@pytest.mark.parametrize(
    ("number", "kind"),
    [(0, Kind.OTHER), (63, Kind.OTHER), (190, Kind.OTHER), (224, Kind.OTHER), (164, Kind.DEVICE)],
)
def test_a_machine_whose_files_look_otherwise(number: int, kind: Kind) -> None:
    (found,) = read_objects("a.so", Bytes(put(EXTENSION, header("machine"), number)))
    assert isinstance(found, ElfFile)
    assert found.kind is kind


def test_an_interpreter_without_a_dynamic_segment_is_malformed() -> None:
    (found,) = read_objects("a.so", Bytes(put(EXTENSION, segment(DYNAMIC, "type"), INTERP)))
    assert "without a dynamic segment" in found.reason


def test_a_path_of_an_interpreter_that_is_too_long_is_malformed() -> None:
    content = build_elf(kind="executable", interpreter="/" * 4096)
    (found,) = read_objects("demo", Bytes(content))
    assert "a PT_INTERP of 4097 bytes" in found.reason


def test_headers_of_a_program_are_the_kernels_affair() -> None:
    program = build_elf(
        kind="pie", interpreter="/lib64/ld-linux-x86-64.so.2", needed=("libc.so.6",)
    )
    app_image = program[:8] + b"AI\x02" + program[11:]
    assert _refusals(put(app_image, header("version"), 2)) == ()


def test_on_mips_an_undefined_symbol_may_have_the_address_of_its_stub() -> None:
    """Like auditwheel's testsimple for linux_mips64, which CPython imports there."""
    mips = put(EXTENSION, header("machine"), 8)
    assert _refusals(put(mips, within(SYMTAB, 24 + 8, "Q"), 0x13B0)) == ()

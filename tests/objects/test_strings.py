"""Each format's reader finds the strings, and reads no file twice for them."""

from __future__ import annotations

import pytest

from binary_checks.model import ElfFile, MachOFile, MalformedObject, OpenedNames, PeFile
from binary_checks.objects import read_objects
from binary_checks.objects.macho.header import LC_SEGMENT_64
from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.samples import read_macho_sample
from tests.objects.byte_sources import Bytes
from tests.objects.macho_bytes import commands, patched
from tests.objects.pe_sections import add_section

DLOPEN = ElfSymbol("dlopen", "GLIBC_2.2.5", "libc.so.6")


def opener(content: bytes, section: str = ".rodata", **fields: object) -> bytes:
    recipe = {"imports": (DLOPEN,), "needed": ("libc.so.6",), "read_only": {section: content}}
    return build_elf(**{**recipe, **fields})  # type: ignore[arg-type]


def read_elf(content: bytes) -> ElfFile:
    (found,) = read_objects("demo/a.so", Bytes(content))
    assert isinstance(found, ElfFile), found
    return found


def test_an_object_that_opens_nothing_is_told_apart_from_one_without_names() -> None:
    assert read_elf(opener(b"libx.so\0", imports=())).opened is None
    assert read_elf(opener(b"no name\0")).opened == OpenedNames()
    assert read_elf(opener(b"libx.so\0")).opened == OpenedNames(names=("libx.so",))


def test_a_symbol_that_only_ends_so_opens_nothing() -> None:
    content = opener(b"libx.so\0", imports=(ElfSymbol("my_dlopen"),))
    assert read_elf(content).opened is None


def test_what_an_object_needs_and_is_called_is_left_out() -> None:
    found = read_elf(opener(b"libc.so.6\0libme.so.1\0libx.so\0", soname="libme.so.1"))
    assert found.opened == OpenedNames(names=("libx.so",))


@pytest.mark.parametrize("section", [".nv_fatbin", "__nv_module_id", ".eh_frame", ".eh_frame_hdr"])
def test_tables_and_code_for_a_gpu_are_not_searched(section: str) -> None:
    assert read_elf(opener(b"libx.so\0", section)).opened == OpenedNames()


def test_what_is_not_loaded_is_not_searched() -> None:
    content = opener(b"", sections={".comment": b"libx.so\0"})
    assert read_elf(content).opened == OpenedNames()


def test_without_section_headers_it_is_said_that_nothing_was_searched() -> None:
    found = read_elf(opener(b"libx.so\0", section_headers=False)).opened
    assert found is not None
    assert not found.names
    assert "no section headers" in found.unread


def test_a_large_file_is_searched_whole() -> None:
    large = opener(b"libx.so\0".ljust(2 << 20, b"\1") + b"\0liby.so\0")
    assert read_elf(large).opened == OpenedNames(names=("libx.so", "liby.so"))


def test_a_file_cut_anywhere_is_malformed_or_reads_the_same() -> None:
    whole = opener(b"libx.so\0liby.so.1\0")
    expected = read_elf(whole).opened
    for length in range(4, len(whole)):
        (found,) = read_objects("demo/a.so", Bytes(whole[:length]))
        assert isinstance(found, MalformedObject) or found.opened == expected  # type: ignore[union-attr]


def read_pe(content: bytes) -> PeFile:
    (found,) = read_objects("demo/a.dll", Bytes(content))
    assert isinstance(found, PeFile), found
    return found


STRINGS = b"\0nvcuda.dll\0KERNEL32.dll\0" + "\0nvml.dll\0".encode("utf-16-le")


def test_a_dll_that_loads_libraries_is_searched() -> None:
    content = add_section("plain.dll", ".strings", STRINGS)
    loads = content.replace(b"GetTickCount\0", b"LoadLibraryA\0")
    assert read_pe(content).opened is None
    assert read_pe(loads).opened == OpenedNames(names=("nvcuda.dll", "nvml.dll"))


def test_a_dlls_resources_are_not_searched() -> None:
    content = add_section("plain.dll", ".rsrc", STRINGS)
    loads = content.replace(b"GetTickCount\0", b"LoadLibraryA\0")
    assert read_pe(loads).opened == OpenedNames()


def with_strings(sample: str, text: bytes, *, size: int | None = None) -> bytes:
    """Return a Mach-O sample with strings in __text, and an import of dlopen."""
    content = read_macho_sample(sample)
    for kind, place, _ in commands(content):
        name = content[place + 72 : place + 88].rstrip(b"\0")
        if kind == LC_SEGMENT_64 and name == b"__text":
            offset = int.from_bytes(content[place + 120 : place + 124], "little")
            changed = patched(content, place + 136, "I", 2)
            changed = patched(changed, offset, f"{len(text)}s", text)
            length = len(text) if size is None else size
            return patched(changed, place + 112, "Q", length).replace(b"_memcpy\0", b"_dlopen\0")
    raise AssertionError("no __text")


def read_macho(content: bytes) -> MachOFile | MalformedObject:
    (found,) = read_objects("demo/a.dylib", Bytes(content))
    assert isinstance(found, (MachOFile, MalformedObject)), found
    return found


def test_a_mach_o_library_that_opens_libraries_is_searched() -> None:
    assert read_macho(read_macho_sample("plain.dylib")).opened is None  # type: ignore[union-attr]
    found = read_macho(with_strings("plain.dylib", b"libx.1.dylib\0/usr/lib/liby.dylib\0"))
    assert isinstance(found, MachOFile)
    assert found.opened == OpenedNames(names=("libx.1.dylib",))


def test_strings_of_a_mach_o_library_that_lie_outside_of_it_are_no_silence() -> None:
    found = read_macho(with_strings("plain.dylib", b"libx.dylib\0", size=1 << 40))
    unread = "" if isinstance(found, MalformedObject) or not found.opened else found.opened.unread
    assert isinstance(found, MalformedObject) or "were not searched" in unread

"""The PE reader agrees with llvm-readobj, pefile and LIEF, and never reports less than is there."""

from __future__ import annotations

import shutil
import struct
import subprocess

import pytest

from binary_checks.model import Dependency, Kind, PeFile, Symbol, Symbols
from binary_checks.objects import read_objects
from fixtures.oracles.pe_facts import FACTS, facts_of
from fixtures.samples import FOLDER, expected_pe_facts, read_pe_sample
from fixtures.samples.pe_recipes import PE_RECIPES
from fixtures.samples.read_pe_facts import TOOL, read_pe_facts
from tests.objects.byte_sources import Bytes

NAMES = sorted(PE_RECIPES)


def read(content: bytes) -> PeFile:
    (found,) = read_objects("demo/a.pyd", Bytes(content))
    assert isinstance(found, PeFile), found
    return found


def sample(name: str) -> PeFile:
    return read(read_pe_sample(name))


def test_every_recipe_has_its_sample_and_its_facts() -> None:
    assert sorted(path.name for path in (FOLDER / "pe").iterdir()) == NAMES
    assert sorted(expected_pe_facts()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_reads_as_llvm_readobj_prints_it(name: str) -> None:
    found = sample(name)
    ours, expected = facts_of(found), expected_pe_facts()[name]
    for fact in FACTS:
        if fact != "signed":
            assert (fact, ours[fact] or None) == (fact, expected.get(fact) or None)
    assert found.imports.strong == Symbols(found.imports).strong
    assert found.exports.among(("", *found.exports.names)) == found.exports.names


def _llvm_version() -> int:
    if not shutil.which(TOOL):
        return 0
    printed = subprocess.run([TOOL, "--version"], capture_output=True, text=True, check=True)
    return int(printed.stdout.partition("version ")[2].partition(".")[0] or 0)


@pytest.mark.skipif(_llvm_version() < 15, reason="no llvm-readobj of LLVM 15 on this host")
@pytest.mark.parametrize("name", NAMES)
def test_llvm_readobj_says_what_is_expected(name: str) -> None:
    assert read_pe_facts(FOLDER / "pe" / name) == expected_pe_facts()[name]


def test_what_is_imported_is_asked_of_a_library() -> None:
    found = sample("abi3.pyd")
    assert Symbol(name="PyModule_Create2", library="python3.dll") in set(found.imports)
    assert found.imports.find("memcpy") == (Symbol(name="memcpy", library="VCRUNTIME140.dll"),)
    assert found.imports.find("free") == ()
    assert "memcpy" in found.imports
    assert "free" not in found.imports


def test_a_library_is_needed_at_load_or_at_first_use() -> None:
    assert Dependency(name="nvcuda.dll", delayed=True) in sample("delayed.dll").needed
    assert Dependency(name="nvcuda.dll") in sample("eager_driver.dll").needed
    for name in ("delayed.dll", "eager_driver.dll"):
        assert sample(name).imports.find("cuInit")[0].library == "nvcuda.dll"


def test_an_import_by_ordinal_is_called_by_its_number() -> None:
    (symbol,) = sample("ordinal.dll").imports.find("#115")
    assert symbol == Symbol(name="#115", library="WS2_32.dll", ordinal=115)


def test_an_export_is_found_by_name_and_by_ordinal() -> None:
    exports = sample("forwarder.dll").exports
    assert exports.names == {"allocate", "by_number", "demo_used", "#7"}
    assert exports.find("#10") == exports.find("demo_used")
    assert exports.find("#7") == (Symbol(name="#7", ordinal=7),)
    assert exports.find("#11") == ()


def test_hybrid_images_are_told_apart_by_their_load_configuration() -> None:
    names = ("plain.dll", "i686.dll", "arm64.dll", "arm64ec.dll", "arm64x.dll")
    words = ["x86_64", "i686", "aarch64", "arm64ec", "arm64x"]
    assert [sample(name).architecture for name in names] == words


SYMBOLS, TABLE = struct.pack("<QIQI", 3, 0, 6, 0), struct.pack("<II", 1, 24)
PLACE = struct.pack("<IH90x", 0, 4)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (SYMBOLS, struct.pack("<QIQI", 3, 0, 7, 0)),
        (TABLE, struct.pack("<II", 1, 12)),  # the table ends before that symbol
        (TABLE, struct.pack("<II", 2, 24)),  # a layout that nobody uses
        (PLACE, struct.pack("<IH90x", 0, 9)),  # there is no such section
        (PLACE, bytes(96)),  # there is no table
    ],
)
def test_metadata_alone_makes_no_arm64x(old: bytes, new: bytes) -> None:
    content = read_pe_sample("arm64x.dll")
    assert content.count(old) == 1
    assert read(content.replace(old, new)).architecture == "aarch64"


def test_the_kind_is_what_the_file_header_says() -> None:
    assert sample("plain.dll").kind is Kind.SHARED
    assert sample("program.exe").kind is Kind.EXECUTABLE
    assert sample("plain.dll").name == "plain.dll"


def test_where_debug_information_lies_is_read() -> None:
    assert sample("dwarf.dll").debug_information
    assert 0 < sample("dwarf.dll").debug_bytes < sample("dwarf.dll").size
    assert not sample("plain.dll").debug_information
    assert not sample("plain.dll").debug_bytes


def test_the_load_configuration_says_where_dlls_are_searched() -> None:
    assert sample("system32_only.dll").dependent_load_flags == 0x800
    assert sample("plain.dll").dependent_load_flags == 0


def test_what_is_appended_is_an_overlay_and_no_fault() -> None:
    launcher = read(read_pe_sample("program.exe") + b"PK\5\6" + bytes(18))
    assert launcher.overlay == 22
    assert sample("program.exe").overlay == sample("dwarf.dll").overlay == 0


def test_the_symbols_are_a_collection_equal_to_what_they_hold() -> None:
    first, second = sample("forwarder.dll").exports, sample("forwarder.dll").exports
    assert first == second
    assert hash(first) == hash(second)
    assert len(list(first)) == len(first) == 4
    assert repr(first) == "<4 symbols>"


def _header(content: bytes) -> int:
    return int.from_bytes(content[60:64], "little") + 4


def _with_directory(content: bytes, number: int, address: int, size: int) -> bytes:
    """Move a directory of a PE32+ image."""
    place = _header(content) + 20 + 112 + 8 * number
    return content[:place] + struct.pack("<II", address, size) + content[place + 8 :]


@pytest.mark.parametrize(("flags", "managed"), [(1, True), (3, True), (4, True), (0, False)])
def test_only_what_is_net_code_alone_is_managed(flags: int, managed: bool) -> None:
    content = read_pe_sample("pdb.dll")
    record = content.index(b"RSDS")  # long enough to be overwritten by another record
    header = struct.pack("<IHHIII", 72, 2, 5, 0, 0, flags)
    content = content[:record] + header + content[record + len(header) :]
    assert read(_with_directory(content, 14, _address(content, record), 24)).managed is managed


def _address(content: bytes, offset: int) -> int:
    """Return the address of a file offset, in whichever section."""
    table, count = _header(content) + 20 + 240, content[_header(content) + 2]
    for place in range(table, table + 40 * count, 40):
        _, address, size, start = struct.unpack_from("<IIII", content, place + 8)
        if start <= offset < start + size:
            return int(address + offset - start)
    raise AssertionError("in no section")

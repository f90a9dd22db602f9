"""Other libraries read the samples as we do; every difference is reported fact by fact."""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from binary_checks.crosscheck.opinion import TABLES, compare_readings, libraries_of, our_facts
from binary_checks.model import (
    Dependency,
    Disagreement,
    ElfFile,
    Format,
    MachOFile,
    NoOpinion,
    ObjectFile,
    PeFile,
    Symbol,
    Symbols,
)
from binary_checks.objects import read_objects
from fixtures.oracles.files import FileBytes
from fixtures.oracles.libraries import compare_libraries
from fixtures.samples import FOLDER

SAMPLES = [
    path.relative_to(FOLDER).as_posix()
    for folder in ("elf", "macho", "pe")
    for path in sorted((FOLDER / folder).iterdir())
    if path.name != "universal2_64.dylib"  # LIEF reads no fat file with 64-bit offsets
]


def read(name: str) -> list[ObjectFile]:
    found = read_objects("demo/a.so", FileBytes(FOLDER / name))
    assert all(isinstance(item, ObjectFile) for item in found), found
    return [item for item in found if isinstance(item, ObjectFile)]


@pytest.mark.parametrize("name", SAMPLES)
def test_every_library_reads_a_sample_as_we_do(name: str) -> None:
    counts: Counter[str] = Counter()
    for item in read(name):
        assert list(compare_libraries(item, FOLDER / name, counts)) == []
        libraries = {library.name for library in libraries_of(item.format)}
        assert {f"facts compared with {library}" for library in libraries} <= counts.keys()


@pytest.mark.parametrize(
    ("name", "kind"),
    [("elf/plain.so", ElfFile), ("macho/plain.dylib", MachOFile), ("pe/plain.dll", PeFile)],
)
def test_each_declared_fact_is_one_that_we_read(name: str, kind: type[ObjectFile]) -> None:
    (item,) = read(name)
    assert isinstance(item, kind)
    assert list(our_facts(item)) == [fact.name for fact in TABLES[item.format].facts]


def differences(item: ObjectFile, name: str) -> dict[tuple[str, str], tuple[str, str]]:
    """Return what each library reads differently, by library and fact."""
    found = {}
    for library in libraries_of(item.format):
        reading = library.look(str(FOLDER / name))
        for said in compare_readings(item, library, library.name, reading):
            if isinstance(said, Disagreement):
                found[said.library, said.fact] = said.ours, said.theirs
    return found


OVERLOOKED = {"needed": (Dependency(name="libc.so.6"), Dependency(name="libother.so.1"))}
STRANGE = {"imports": Symbols([Symbol(name="strange", library="libstrange")])}


@pytest.mark.parametrize(
    ("name", "mistake", "libraries"),
    [
        ("elf/plain.so", OVERLOOKED, {"pyelftools", "LIEF"}),
        ("macho/weak.so", STRANGE, {"LIEF"}),  # macholib says nothing of imports
        ("pe/delayed.dll", {"dll_characteristics": 0x40}, {"pefile", "LIEF"}),
    ],
)
def test_what_we_misread_is_a_disagreement(
    name: str, mistake: dict[str, Any], libraries: set[str]
) -> None:
    (item,) = read(name)
    (fact,) = mistake
    found = differences(replace(item, **mistake), name)
    assert found.keys() == {(library, fact) for library in libraries}
    if fact == "needed":
        assert set(found.values()) == {("libother.so.1", "nothing more")}


def test_another_order_or_a_slice_that_is_not_seen_is_a_disagreement() -> None:
    (item,) = read("macho/kinds.dylib")
    mistaken = replace(item, needed=tuple(reversed(item.needed)))
    found = differences(mistaken, "macho/kinds.dylib")
    assert found.keys() == {("macholib", "needed"), ("LIEF", "needed")}
    mistaken = replace(read("macho/universal2.dylib")[0], architecture="ppc")
    found = differences(mistaken, "macho/universal2.dylib")
    assert found["LIEF", "architecture"] == ("ppc", "aarch64, x86_64")


def test_without_section_headers_pyelftools_is_silent_on_versions() -> None:
    (item,) = read("elf/no_section_headers.so")
    (library, _) = libraries_of(Format.ELF)
    reading = library.look(str(FOLDER / "elf/no_section_headers.so"))
    said = list(compare_readings(item, library, "pyelftools", reading))
    silent = {each.fact for each in said if isinstance(each, NoOpinion)}
    assert silent == {"version_needs", "defined_versions", "imports", "exports"}
    assert "needed" in said


def test_a_forged_count_of_versions_is_not_followed_without_end(tmp_path: Path) -> None:
    content = bytearray((FOLDER / "elf/plain.so").read_bytes())
    with (FOLDER / "elf/plain.so").open("rb") as stream:
        elf = ELFFile(stream)
        number = next(n for n, s in enumerate(elf.iter_sections()) if s.name == ".gnu.version_r")
        place = elf["e_shoff"] + number * elf["e_shentsize"] + 44  # sh_info
    struct.pack_into("<I", content, place, 0xFFFFFFFF)
    (tmp_path / "forged.so").write_bytes(content)
    (library, _) = libraries_of(Format.ELF)
    reading = library.look(str(tmp_path / "forged.so"))
    assert set(reading[""]["version_needs"]) == {"libc.so.6 GLIBC_2.14", "libc.so.6 GLIBC_2.2.5"}


def test_what_is_not_compared_is_declared_of_facts_that_there_are() -> None:
    for table in TABLES.values():
        facts = {fact.name for fact in table.facts}
        assert len(facts) == len(table.facts)
        for library in table.libraries:
            assert {*library.unknown, *library.allowances} < facts, library.name

"""What a loader refuses at once, and what is no library under the name of one."""

from __future__ import annotations

import pytest

from binary_checks.checks.linkage.needed_libraries import unloadable_object, wrong_object_type
from binary_checks.model import Kind, ObjectFile, Problem, StaticArchive
from fixtures.values import elf_file, macho_file, only, pe_file

REFUSAL = "has SectionAlignment 0x3, which is not a power of 2"


def test_each_refusal_is_a_problem() -> None:
    assert list(unloadable_object(pe_file(refusals=(REFUSAL,)))) == [REFUSAL]


def test_what_no_loader_refuses_or_is_asked_for_is_quiet() -> None:
    assert list(unloadable_object(pe_file())) == []
    assert list(unloadable_object(pe_file(kind=Kind.DEBUG, refusals=(REFUSAL,)))) == []


@pytest.mark.parametrize(
    "library",
    [
        elf_file("demo/a.so", kind=Kind.RELOCATABLE),
        elf_file("demo/a.so.1", kind=Kind.OTHER),
        elf_file("demo/a.so", kind=Kind.DEBUG),
        elf_file("demo/a.so", kind=Kind.EXECUTABLE, opens=False),  # ET_EXEC, or DF_1_PIE
        elf_file("demo/a.cpython-311-x86_64-linux-gnu.so", kind=Kind.DEVICE),
        macho_file("demo/a.dylib", kind=Kind.EXECUTABLE),
        macho_file("demo/a.so", kind=Kind.DEBUG),
        pe_file("demo/a.PYD", kind=Kind.EXECUTABLE),
        pe_file("demo/a.pyd", kind=Kind.EXECUTABLE, managed=True),
        pe_file("demo/a.dll", kind=Kind.EXECUTABLE),
        StaticArchive(path="demo/a.so"),
    ],
)
def test_another_kind_under_the_name_of_a_library(library: ObjectFile) -> None:
    (sentence,) = wrong_object_type(library)
    assert "is named like a library, but no loader accepts this kind of file: " in str(sentence)


def test_a_header_without_a_machine_is_damage_and_no_other_kind() -> None:
    library = elf_file("demo/a.so", kind=Kind.OTHER, architecture="machine-0")
    problem = only(Problem, wrong_object_type(library))
    assert problem.sentence == (
        "its header names no machine (e_machine is 0), so that no loader accepts it"
    )
    assert "-shared" not in problem.fix


@pytest.mark.parametrize(
    "library",
    [
        elf_file("demo/a.so"),
        elf_file("demo/a.o", kind=Kind.RELOCATABLE),
        elf_file("demo/kernel.so", kind=Kind.DEVICE),
        elf_file("demo/.debug/a.so", kind=Kind.DEBUG),
        elf_file("demo/libc.so.6", kind=Kind.EXECUTABLE),  # it has an interpreter, and prints
        macho_file("demo/a.so.dSYM/Contents/Resources/DWARF/a.so", kind=Kind.DEBUG),
        pe_file("demo/a.exe", kind=Kind.EXECUTABLE),
        pe_file("demo/a.dll", kind=Kind.EXECUTABLE, managed=True),  # for dotnet, on every system
        StaticArchive(path="demo/a.lib"),
    ],
)
def test_a_library_or_another_name_is_quiet(library: ObjectFile) -> None:
    assert list(wrong_object_type(library)) == []

"""A program is started by the loader that its PT_INTERP names, and users need to have it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from binary_checks.checks.linkage.programs import missing_program_loader
from binary_checks.model import (
    Claims,
    DispensableObject,
    ElfFile,
    Finding,
    Kind,
    Level,
    Problem,
    TargetSystem,
)
from fixtures.linking import extension, link, target
from fixtures.values import elf_file, only, wheel

NIX = "/nix/store/4r8q-glibc-2.40-66/lib/ld-linux-x86-64.so.2"
OF_MUSL = "/lib/ld-musl-x86_64.so.1"
OF_GLIBC = "/lib64/ld-linux-x86-64.so.2"


def program(interpreter: str, path: str = "demo/bin/tool", architecture: str = "x86_64") -> ElfFile:
    return elf_file(path, kind=Kind.EXECUTABLE, interpreter=interpreter, architecture=architecture)


def judge(library: ElfFile, on: TargetSystem | None = None, idle: str = "") -> list[Finding]:
    objects = (extension(), library)
    linkage = link(*objects)
    if idle:
        linkage = replace(linkage, dispensable=(DispensableObject(path=idle, reason="idle"),))
    return list(missing_program_loader(library, wheel(objects=objects), on or target(), linkage))


@pytest.mark.parametrize(
    ("interpreter", "whose"), [(NIX, "the loader"), (OF_MUSL, "musl's loader")]
)
def test_a_loader_that_users_do_not_have_is_a_problem(interpreter: str, whose: str) -> None:
    problem = only(Problem, judge(program(interpreter)))
    assert problem.level is Level.ERROR
    lack = f"{whose} {interpreter}, which manylinux_2_17_x86_64 does not have"
    assert problem.sentence == f"is to be started by {lack}: the program does not start"
    assert problem.command == f"patchelf --set-interpreter {OF_GLIBC} {{path}}"
    outside = program(interpreter, path="../../../bin/tool")  # the unpacked wheel has no such path
    assert only(Problem, judge(outside)).command == ""
    tool = program(interpreter)  # no import reaches it
    assert only(Problem, judge(tool, idle=tool.path)).level is Level.WARNING


@pytest.mark.parametrize(
    "library",
    [
        program(OF_GLIBC),
        program("/lib/ld-linux.so.2", architecture="i686"),
        program(""),  # linked statically
        program(NIX, architecture="mips64"),  # not in the data
        program(NIX, path="demo/libc.so.6"),  # a library that prints its version
        elf_file("demo/libx.so.1", interpreter=NIX),
    ],
)
def test_programs_with_the_loader_of_their_system_are_quiet(library: ElfFile) -> None:
    assert judge(library) == []


def test_on_musl_its_own_loader_counts() -> None:
    musl = replace(target(), libc="musl")
    assert judge(program(OF_MUSL), musl) == []
    assert only(Problem, judge(program(OF_GLIBC), musl)).command == ""


def test_a_folder_of_programs_may_have_loaders_of_its_own() -> None:
    tool = program(NIX)
    package = wheel(objects=(tool,), claims=Claims(partial=True))
    assert list(missing_program_loader(tool, package, target(), link(tool))) == []

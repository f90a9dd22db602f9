from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.fuzz.elf_oracle import COMPILERS, ElfLoader, find_lack
from fixtures.samples import read_sample


def damage(content: bytes, offset: int, value: bytes) -> bytes:
    return content[:offset] + value + content[offset + len(value) :]


def compile_library(folder: Path, libc: str, code: str) -> bytes:
    source, library = folder / "code.c", folder / "code.so"
    includes = "#include <stdlib.h>\n#include <unistd.h>\n"
    source.write_text(f"{includes}__attribute__((constructor)) void run(void) {{ {code} }}")
    subprocess.run([COMPILERS[libc], "-shared", "-fPIC", "-o", library, source], check=True)
    return library.read_bytes()


@pytest.fixture(scope="module", params=["glibc", "musl"])
def loader(request: pytest.FixtureRequest) -> Iterator[ElfLoader]:
    if lack := find_lack(request.param):
        pytest.skip(lack)
    with ElfLoader.start(request.param) as loader:
        yield loader


def test_a_healthy_library_is_loaded(loader: ElfLoader) -> None:
    assert loader.judge(read_sample("plain.so")).accepted


def test_python_s_functions_are_there(loader: ElfLoader) -> None:
    assert loader.judge(build_elf(imports=[ElfSymbol("PyModule_Create2")])).accepted


def test_what_is_no_library_is_refused(loader: ElfLoader) -> None:
    assert loader.judge(damage(read_sample("plain.so"), 16, b"\1\0")).kind == "refused"


def test_glibc_refuses_another_machine_and_musl_does_not_look(loader: ElfLoader) -> None:
    answer = loader.judge(damage(read_sample("plain.so"), 18, b"\xb7\0"))
    assert answer.accepted is (loader.libc == "musl")


def test_what_is_undefined_is_named(loader: ElfLoader) -> None:
    answer = loader.judge(build_elf(imports=[ElfSymbol("not_anywhere")]))
    assert answer.kind == "refused"
    assert "not_anywhere" in answer.text


def test_the_loader_s_own_death_is_told_from_that_of_the_library_s_code(
    loader: ElfLoader, tmp_path: Path
) -> None:
    answer = loader.judge(build_elf(dynamic_entries=[(12, 0x7000_0000)]))  # DT_INIT
    assert (answer.kind, answer.text.split()[-2]) == ("died", "loader")
    answer = loader.judge(compile_library(tmp_path, loader.libc, "*(volatile int *)8 = 1;"))
    assert (answer.kind, answer.text.split()[-2]) == ("died", "own")


def test_a_library_that_ends_the_process_is_not_loaded(loader: ElfLoader, tmp_path: Path) -> None:
    answer = loader.judge(compile_library(tmp_path, loader.libc, "exit(7);"))
    assert (answer.kind, answer.text) == ("ended", "7 open ")


@pytest.mark.slow
def test_a_library_that_does_not_come_back_hangs(loader: ElfLoader, tmp_path: Path) -> None:
    answer = loader.judge(compile_library(tmp_path, loader.libc, "for (;;) pause();"))
    assert (answer.kind, answer.text.split()[-2]) == ("hung", "own")


def test_it_goes_on_after_a_death(loader: ElfLoader) -> None:
    loader.judge(build_elf(dynamic_entries=[(12, 0x7000_0000)]))
    assert loader.judge(read_sample("plain.so")).accepted

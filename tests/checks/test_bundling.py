from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from binary_checks.checks.bundling import forbidden_bundled_library, orphan_library
from binary_checks.model import Claims, Level, Member, Package, Problem
from fixtures.linking import library, link
from fixtures.values import elf_file, pe_file, wheel


@pytest.mark.parametrize(
    "path",
    ["demo.libs/libc-1a2b3c4d.so.6", "demo.libs/libm-2.28.so", "demo/ld-linux-x86-64.so.2",
     "demo/libpthread.so.0", "nvidia/lib/libcuda.so.1"],
)  # fmt: skip
def test_libc_and_the_driver_must_not_be_bundled(path: str) -> None:
    assert len(list(forbidden_bundled_library(elf_file(path), wheel()))) == 1


@pytest.mark.parametrize("name", ["nvcuda.dll", "NVML.dll", f"nvcuda-{'0a' * 16}.dll"])
def test_the_drivers_dlls_must_not_be_bundled(name: str) -> None:
    assert len(list(forbidden_bundled_library(pe_file(f"demo.libs/{name}"), wheel()))) == 1


@pytest.mark.parametrize("name", ["cudart64_12.dll", "libpthread-1.dll"])
def test_other_dlls_may_be_bundled(name: str) -> None:
    assert list(forbidden_bundled_library(pe_file(f"demo.libs/{name}"), wheel())) == []


def test_a_stub_may_have_no_name_that_is_loaded() -> None:
    for file_name, said in (("libcuda.so", 0), ("libcuda.so.1", 1)):
        stub = elf_file(f"nvidia/lib/stubs/{file_name}", name="libcuda.so.1")
        assert len(list(forbidden_bundled_library(stub, wheel()))) == said


@pytest.mark.parametrize(
    "path",
    ["demo.libs/libcrypto-1a2b3c4d.so.3", "demo/libmkl.so", "demo/libcudart.so.13",
     "nvidia/lib/stubs/libcuda.so", "torch/lib/libc10.so", "demo/libc++.so.1"],
)  # fmt: skip
def test_other_libraries_may_be_bundled(path: str) -> None:
    assert list(forbidden_bundled_library(elf_file(path), wheel())) == []


def test_a_second_loader_that_nothing_calls_by_its_name_is_a_warning() -> None:
    path = "torchvision.libs/ld-linux-aarch64.5cbc5e90.so.1"
    loader = elf_file(path, name="ld-linux-aarch64.so.1")
    (found,) = forbidden_bundled_library(loader, wheel())
    assert isinstance(found, Problem)
    assert found.level is Level.WARNING
    (own,) = forbidden_bundled_library(elf_file("demo/lib/ld-linux-aarch64.so.1"), wheel())
    assert isinstance(own, Problem)
    assert own.level is Level.ERROR


def test_a_folder_may_be_the_users_system_and_a_file_alone_is_bundled_with_nothing() -> None:
    library = elf_file("lib/libc.so.6")
    alone, other = (Member(path=path, archive_name=path) for path in (library.path, "lib/libx.so"))
    folder = Package(path=Path("lib"), claims=Claims(partial=True), members=(alone, other))
    (problem,) = forbidden_bundled_library(library, folder)
    assert isinstance(problem, Problem)
    assert problem.level is Level.WARNING
    assert list(forbidden_bundled_library(library, replace(folder, members=(alone,)))) == []


def test_an_orphan_is_told_when_asked_for() -> None:
    graft = library("demo.libs/liba-1a2b3c4d.so")
    assert list(orphan_library(link(graft), wheel())) == [
        Problem(path=graft.path, sentence="is bundled, but nothing in the package needs it")
    ]
    assert list(orphan_library(link(library("demo/plugin.so")), wheel())) == []

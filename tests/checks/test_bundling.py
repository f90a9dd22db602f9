from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from binary_checks.checks.bundling import (
    forbidden_bundled_library,
    library_past_end_of_life,
    orphan_library,
)
from binary_checks.knowledge.ended_series import find_end, read_ended_series
from binary_checks.model import (
    Claims,
    Format,
    Level,
    MalformedObject,
    Member,
    NotInspected,
    Package,
    Problem,
)
from fixtures.linking import library, link
from fixtures.values import elf_file, only, pe_file, wheel


@pytest.mark.parametrize(
    "path",
    ["demo.libs/libc-1a2b3c4d.so.6", "demo.libs/libm-2.28.so", "demo/ld-linux-x86-64.so.2",
     "demo/libpthread.so.0", "nvidia/lib/libcuda.so.1"],
)  # fmt: skip
def test_libc_and_the_driver_must_not_be_bundled(path: str) -> None:
    assert len(list(forbidden_bundled_library(elf_file(path), wheel()))) == 1


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *((name, 1) for name in ("nvcuda.dll", "NVML.dll", f"nvcuda-{'0a' * 16}.dll")),
        *((name, 0) for name in ("cudart64_12.dll", "libpthread-1.dll")),
    ],
)
def test_the_drivers_dlls_must_not_be_bundled(name: str, count: int) -> None:
    found = forbidden_bundled_library(pe_file(f"demo.libs/{name}"), wheel())
    assert len(list(found)) == count


@pytest.mark.parametrize(
    "path",
    ["demo.libs/libcrypto-1a2b3c4d.so.3", "demo/libmkl.so", "demo/libcudart.so.13",
     "nvidia/lib/stubs/libcuda.so", "torch/lib/libc10.so", "demo/libc++.so.1"],
)  # fmt: skip
def test_other_libraries_may_be_bundled(path: str) -> None:
    assert list(forbidden_bundled_library(elf_file(path), wheel())) == []
    for file_name, count in (("libcuda.so", 0), ("libcuda.so.1", 1)):  # a stub for linkers
        stub = elf_file(f"nvidia/lib/stubs/{file_name}", name="libcuda.so.1")
        assert len(list(forbidden_bundled_library(stub, wheel()))) == count


def test_a_second_loader_that_nothing_calls_by_its_name_is_a_warning() -> None:
    path = "torchvision.libs/ld-linux-aarch64.5cbc5e90.so.1"
    loader = elf_file(path, name="ld-linux-aarch64.so.1")
    own = elf_file("demo/lib/ld-linux-aarch64.so.1")
    assert only(Problem, forbidden_bundled_library(loader, wheel())).level is Level.WARNING
    assert only(Problem, forbidden_bundled_library(own, wheel())).level is Level.ERROR


def test_a_folder_may_be_the_users_system_and_a_file_alone_is_bundled_with_nothing() -> None:
    library = elf_file("lib/libc.so.6")
    alone, other = (Member(path=path, archive_name=path) for path in (library.path, "lib/libx.so"))
    folder = Package(path=Path("lib"), claims=Claims(partial=True), members=(alone, other))
    assert only(Problem, forbidden_bundled_library(library, folder)).level is Level.WARNING
    assert list(forbidden_bundled_library(library, replace(folder, members=(alone,)))) == []


def test_an_orphan_is_told_when_asked_for() -> None:
    graft = library("demo.libs/liba-1a2b3c4d.so")
    assert list(orphan_library(link(graft), wheel())) == [
        Problem(path=graft.path, sentence="is bundled, but nothing in the package needs it")
    ]
    assert list(orphan_library(link(library("demo/plugin.so")), wheel())) == []


DIRECTORY = 'OPENSSLDIR: "/etc/ssl"'


@pytest.mark.parametrize(
    ("texts", "fault"),
    [
        ((DIRECTORY, "OpenSSL 1.1.1k  25 Mar 2021"), "contains OpenSSL 1.1.1k, whose developers"),
        ((DIRECTORY, "OpenSSL 3.1.4 24 Oct 2023"), "supported it until 2025-03-14: unless a Linux"),
        (("FFmpeg version n4.1.3",), "contains FFmpeg 4.1.3, whose developers supported it until"),
        ((DIRECTORY, "OpenSSL 99.0.1 1 Jan 2099"), ""),
        ((DIRECTORY,), ""),
        # CentOS 7, and BoringSSL
        (
            (DIRECTORY, "OpenSSL 1.0.0-fips 29 Mar 2010", "OpenSSL 1.0.2k-fips  26 Jan 2017"),
            "contains OpenSSL 1.0.2k, whose",
        ),
        ((DIRECTORY, "OpenSSL 1.1.1k  FIPS 25 Mar 2021"), "contains OpenSSL 1.1.1k, whose"),
        ((DIRECTORY, "OpenSSL 1.1.1 (compatible; BoringSSL)"), ""),
        (("OpenSSL 1.1.1k  25 Mar 2021",), ""),  # libssl, or a header's macro
    ],
)
def test_a_library_that_its_developers_no_longer_support(
    texts: tuple[str, ...], fault: str
) -> None:
    package = wheel(objects=(elf_file("demo.libs/libcrypto-1a.so.1.1", texts=texts),))
    found = list(library_past_end_of_life(package))
    assert [fault in each.sentence for each in found] == ([True] if fault else [])


def test_one_version_in_many_objects_is_one_problem_and_unread_ones_may_contain_any() -> None:
    texts = (DIRECTORY, "OpenSSL 1.1.1k  25 Mar 2021")
    objects = tuple(elf_file(f"demo/{name}.so", texts=texts) for name in ("b", "a", "c"))
    found = only(Problem, library_past_end_of_life(wheel(objects=objects)))
    assert found.path == "demo/a.so"
    assert "OpenSSL 1.1.1k (and 2 more), whose" in found.sentence
    unread = MalformedObject(path="demo/a.so", format=Format.ELF, reason="it is cut off", offset=0)
    assert only(NotInspected, library_past_end_of_life(wheel(malformed=(unread,))))


def test_only_days_of_the_past_are_listed() -> None:
    for series in read_ended_series().values():
        assert all(end < date.today() for end in series.values())
    assert find_end("OpenSSL", "1.1.1w") == date(2023, 9, 11)
    assert find_end("OpenSSL", "3.5.7") is None
    assert find_end("FFmpeg", "7.1") is None

from __future__ import annotations

from typing import Any

import pytest

from binary_checks.checks.linkage import (
    absolute_search_path,
    dead_search_directory,
    empty_search_path,
    foreign_libc,
    libpython_linked,
    load_order_dependent,
    missing_library,
    missing_search_directory,
    needed_name_with_slash,
    rpath_instead_of_runpath,
    runpath_instead_of_rpath,
    search_path_leaves_prefix,
)
from binary_checks.model import Edge, Linkage, NotLooked, Problem, Rule
from fixtures.linking import EXTENSION, extension, library, link, target
from fixtures.values import elf_file, wheel

MUSL = target(libc="musl", name="musllinux_1_2_x86_64, CPython 3.11")


def linkage(*requirements: str, **fields: Any) -> Linkage:
    edge = Edge(**{"path": "demo/a.so", "architecture": "x86_64", "needed": "libx.so.1", **fields})
    return Linkage(
        target="manylinux_2_17_x86_64, CPython 3.11", edges=(edge,), requirements=requirements
    )


def test_a_library_that_nobody_brings_is_missing() -> None:
    assert list(missing_library(linkage(searched=("demo.libs",)))) == [
        Problem(
            path="demo/a.so",
            sentence="needs libx.so.1, which neither the package nor manylinux_2_17_x86_64 "
            "provides (searched demo.libs/)",
        )
    ]


def test_a_library_that_a_required_wheel_may_bring_is_not_looked_at() -> None:
    subject = linkage("numpy", "nvidia-cudnn-cu13", needed="libcudnn.so.9", leaves_package=True)
    assert list(missing_library(subject)) == [
        NotLooked(
            path="demo/a.so",
            sentence="needs libcudnn.so.9 from a required wheel (nvidia-cudnn-cu13?); "
            "give it with --binary-with",
        )
    ]


def test_a_search_outside_excuses_nothing_where_all_requirements_were_given() -> None:
    (finding,) = missing_library(linkage(leaves_package=True))
    assert isinstance(finding, Problem)


@pytest.mark.parametrize(
    "fields",
    [
        {"resolved": "system:libx.so.1", "rule": Rule.SYSTEM},
        {"elsewhere": ("demo/lib/libx.so.1",)},
        {"needed": "build/libx.so"},
    ],
)
def test_what_is_found_or_has_a_check_of_its_own_is_not_missing(fields: dict[str, Any]) -> None:
    assert list(missing_library(linkage(**fields))) == []


def test_a_library_that_no_path_finds_depends_on_load_order() -> None:
    subject = linkage(searched=("demo",), elsewhere=("demo/lib/libx.so.1",))
    assert list(load_order_dependent(subject)) == [
        Problem(
            path="demo/a.so",
            sentence="needs libx.so.1, which no search path of it finds (searched demo/): "
            "demo/lib/libx.so.1 must have been loaded before",
        )
    ]


def test_a_library_found_only_as_loaded_depends_on_load_order() -> None:
    subject = linkage(resolved="demo/lib/libx.so.1", rule=Rule.LOADED, root="demo/b.so")
    (finding,) = load_order_dependent(subject)
    assert isinstance(finding, Problem)
    assert "found only because demo/lib/libx.so.1 is loaded before it" in finding.sentence


def test_a_library_that_a_search_finds_too_does_not_depend_on_load_order() -> None:
    subject = linkage(resolved="demo/x", rule=Rule.LOADED, shadowed="demo/y")
    assert list(load_order_dependent(subject)) == []


def test_an_absolute_search_path_is_told_with_its_tag() -> None:
    subject = elf_file(rpath=("$ORIGIN", "/opt/lib", "/opt/lib"))
    assert list(absolute_search_path(subject)) == [
        "looks for libraries in /opt/lib, an absolute path (RPATH)"
    ]


def test_paths_from_origin_unused_rpaths_and_allowed_paths_are_no_absolute_ones() -> None:
    assert list(absolute_search_path(elf_file(rpath=("/x",), runpath=("$ORIGIN/..",)))) == []
    assert (
        list(absolute_search_path(elf_file(runpath=("/opt/rocm",)), allowed=("/opt/rocm",))) == []
    )


@pytest.mark.parametrize("runpath", [("$ORIGIN", ""), ("", ""), ("",) * 8, ("lib",), (".",)])
def test_an_empty_or_relative_element_is_the_current_directory(runpath: tuple[str, ...]) -> None:
    (sentence,) = empty_search_path(elf_file(runpath=runpath), target())
    assert "current directory" in str(sentence)


@pytest.mark.parametrize("runpath", [(), ("",), ("$ORIGIN", "/lib")])
def test_a_path_that_is_empty_as_a_whole_is_none(runpath: tuple[str, ...]) -> None:
    assert list(empty_search_path(elf_file(runpath=runpath), target())) == []


def test_musl_passes_over_an_empty_element() -> None:
    assert list(empty_search_path(elf_file(runpath=("$ORIGIN", "")), MUSL)) == []


def test_a_path_beyond_the_environment_leaves_it() -> None:
    subject = elf_file(
        "demo/a.so", runpath=("$ORIGIN/../../../../lib", "$ORIGIN/../../../../../lib")
    )
    assert list(search_path_leaves_prefix(subject)) == [
        "looks for libraries in $ORIGIN/../../../../../lib, outside of the environment (RUNPATH)"
    ]


def test_a_path_within_the_environment_is_fine() -> None:
    subject = elf_file("demo/a.so", runpath=("$ORIGIN/../../../../lib",))
    assert list(search_path_leaves_prefix(subject)) == []


def test_a_directory_that_is_not_there_counts_where_only_luck_finds_the_library() -> None:
    objects = (
        extension("libx.so", runpath=("$ORIGIN/libs",)),
        library("demo/lib/libx.so"),
    )
    findings = list(missing_search_directory(link(*objects), wheel(objects=objects)))
    assert [finding.path for finding in findings if isinstance(finding, Problem)] == [EXTENSION]


def test_a_directory_that_is_not_there_does_not_count_where_the_library_is_found() -> None:
    objects = (
        extension("libx.so", runpath=("$ORIGIN/libs", "$ORIGIN/lib")),
        library("demo/lib/libx.so"),
    )
    assert list(missing_search_directory(link(*objects), wheel(objects=objects))) == []
    assert len(list(dead_search_directory(wheel(objects=objects)))) == 1


def test_a_directory_that_is_there_is_not_dead() -> None:
    objects = (extension(runpath=("$ORIGIN/lib", "/opt")), library("demo/lib/libx.so"))
    assert list(dead_search_directory(wheel(objects=objects))) == []


def test_a_needed_path_is_opened_from_the_current_directory() -> None:
    assert list(needed_name_with_slash(library("demo/a.so", "build/libx.so"))) == [
        "needs build/libx.so, a path, which is opened from the current directory"
    ]


def test_a_needed_name_without_slash_or_from_origin_is_fine() -> None:
    assert list(needed_name_with_slash(library("demo/a.so", "libx.so", "$ORIGIN/liby.so"))) == []


def test_profiles_may_want_either_kind_of_path() -> None:
    old, new = elf_file(rpath=("$ORIGIN",)), elf_file(runpath=("$ORIGIN",))
    assert list(rpath_instead_of_runpath(old)) == ["has RPATH $ORIGIN and no RUNPATH"]
    assert list(rpath_instead_of_runpath(new)) == []
    assert list(runpath_instead_of_rpath(new)) == ["has RUNPATH $ORIGIN, which takes RPATH's place"]
    assert list(runpath_instead_of_rpath(old)) == []


def test_libpython_of_the_interpreter_must_not_be_needed() -> None:
    (finding,) = libpython_linked(link(extension("libpython3.11.so.1.0")))
    assert isinstance(finding, Problem)
    assert finding.path == EXTENSION


def test_a_bundled_libpython_is_the_packages_own() -> None:
    objects = (extension("libpython3.11.so.1.0", runpath=("$ORIGIN",)),)
    bundled = library("demo/libpython3.11.so.1.0")
    assert list(libpython_linked(link(*objects, bundled))) == []


def test_glibc_is_foreign_to_musllinux() -> None:
    assert list(foreign_libc(library("demo/a.so", "libc.so.6"), MUSL)) == [
        "needs libc.so.6, which is glibc's, under musllinux_1_2_x86_64"
    ]
    assert list(foreign_libc(library("demo/a.so", "libc.so", "libc.musl-x86_64.so.1"), MUSL)) == []
    assert list(foreign_libc(library("demo/a.so", "libc.so.6"), target())) == []

from __future__ import annotations

from dataclasses import replace
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
from binary_checks.model import Edge, ElfFile, Kind, Linkage, NotLooked, Problem, Rule
from fixtures.linking import EXTENSION, extension, library, link, target
from fixtures.values import elf_file, wheel

MUSL = target(libc="musl", name="musllinux_1_2_x86_64, CPython 3.11")


NONE = wheel()


def linkage(*requirements: str, given: tuple[str, ...] = (), **fields: Any) -> Linkage:
    edge = Edge(**{"path": "demo/a.so", "architecture": "x86_64", "needed": "libx.so.1", **fields})
    return Linkage(
        target="manylinux_2_17_x86_64, CPython 3.11",
        edges=(edge,),
        closures=((edge.path, (edge.path,)),),
        requirements=requirements,
        given=given,
    )


def lack(subject: Linkage, *objects: ElfFile) -> str:
    """The only sentence of missing-library, at which there must be a problem."""
    (finding,) = missing_library(subject, wheel(objects=objects))
    assert isinstance(finding, Problem)
    return finding.sentence


def test_a_library_that_nobody_brings_is_missing() -> None:
    assert list(missing_library(linkage(searched=("demo.libs", "")), NONE)) == [
        Problem(
            path="demo/a.so",
            sentence="needs libx.so.1, which neither the package nor manylinux_2_17_x86_64 "
            "provides (searched demo.libs/, ./): where users lack it, this file does not load",
        )
    ]


def test_a_library_that_no_given_wheel_brings_either_is_missing() -> None:
    assert "neither the package, nor a given wheel, nor manylinux_2_17_x86_64 provides" in lack(
        linkage(given=("numpy",))
    )


def test_a_file_without_a_search_path_is_told_apart_from_one_whose_path_leads_away() -> None:
    assert "(it has no search path)" in lack(linkage(), library("demo/a.so"))
    absolute = library("demo/a.so", runpath=("/opt/lib",))
    assert "(its RUNPATH leads nowhere in the package)" in lack(linkage(), absolute)


@pytest.mark.parametrize(
    ("needed", "requirements", "whose"),
    [
        ("libcudnn.so.9", ("numpy", "nvidia-cudnn-cu13"), ", perhaps nvidia-cudnn-cu13,"),
        ("libcudnn_ops.so.9", ("nvidia-cudnn-cu13",), ", perhaps nvidia-cudnn-cu13,"),
        ("libQt6Core.so.6", ("pyqt6-qt6", "pyqt6-sip"), ", perhaps pyqt6-qt6,"),
        ("libimf.so", ("intel-cmplr-lib-ur",), ""),
        ("libtbb.so.12", ("tbb-devel", "tbb"), ""),
        ("libcuda.so.1", ("nvidia-cuda-runtime",), ""),
        ("_ops.so", ("nvidia-cudnn-cu13",), ""),
    ],
)
def test_a_library_that_a_required_wheel_may_bring_is_not_looked_at(
    needed: str, requirements: tuple[str, ...], whose: str
) -> None:
    subject = linkage(*requirements, needed=needed, searched=("nvidia/lib",), leaves_package=True)
    assert list(missing_library(subject, NONE)) == [
        NotLooked(
            path="demo/a.so",
            sentence=f"needs {needed}, which a required wheel{whose} may bring "
            "(searched nvidia/lib/); give it with --binary-with",
        )
    ]


def test_a_given_wheel_of_another_version_is_told() -> None:
    loaded = linkage(resolved="system:libx.so.1")
    subject = replace(loaded, refused=("numpy 1.26, where numpy>=2 is required",))
    assert list(missing_library(subject, NONE)) == [
        NotLooked(
            sentence="was given numpy 1.26, where numpy>=2 is required: it was left out; "
            "give one that fits with --binary-with"
        )
    ]


def test_a_search_outside_excuses_nothing_where_all_requirements_were_given() -> None:
    assert lack(linkage(leaves_package=True))


@pytest.mark.parametrize(
    "fields",
    [
        {"resolved": "system:libx.so.1", "rule": Rule.SYSTEM},
        {"elsewhere": ("demo/lib/libx.so.1",)},
        {"needed": "build/libx.so"},
    ],
)
def test_what_is_found_or_has_a_check_of_its_own_is_not_missing(fields: dict[str, Any]) -> None:
    assert list(missing_library(linkage(**fields), wheel(objects=(library("demo/a.so"),)))) == []


@pytest.mark.parametrize(
    ("elsewhere", "lies"),
    [("demo/lib/libx.so.1", "lies in the package"), ("wheel:x:lib/libx.so.1", "was given")],
)
def test_an_executable_lacks_a_library_that_no_path_finds(elsewhere: str, lies: str) -> None:
    subject = linkage(searched=("demo",), elsewhere=(elsewhere,))
    program = library("demo/a.so", kind=Kind.EXECUTABLE)
    assert lack(subject, program) == (
        "needs libx.so.1 and does not start without it (searched demo/); "
        f"{elsewhere} {lies}, but no search path leads there"
    )
    assert list(load_order_dependent(subject, wheel(objects=(program,)))) == []


def test_a_library_that_no_path_finds_depends_on_load_order() -> None:
    subject = linkage(searched=("demo",), elsewhere=("demo/lib/libx.so.1",))
    assert list(load_order_dependent(subject, NONE)) == [
        Problem(
            path="demo/a.so",
            sentence="needs libx.so.1 and does not find it by itself (searched demo/): "
            "it loads only after demo/lib/libx.so.1 was loaded",
        )
    ]


def test_a_library_found_only_as_loaded_depends_on_load_order() -> None:
    subject = linkage(resolved="demo/lib/libx.so.1", rule=Rule.LOADED, root="demo/b.so")
    (finding,) = load_order_dependent(subject, NONE)
    assert isinstance(finding, Problem)
    assert "because demo/b.so, when it is opened, loads demo/lib/libx.so.1" in finding.sentence


def test_a_library_that_a_search_finds_too_does_not_depend_on_load_order() -> None:
    subject = linkage(resolved="demo/x", rule=Rule.LOADED, shadowed="demo/y")
    assert list(load_order_dependent(subject, NONE)) == []


def test_the_absolute_search_paths_of_a_file_are_told_in_one_line_with_their_tag() -> None:
    subject = elf_file(rpath=("$ORIGIN", "/opt/lib", "/opt/lib", "/usr/x", f"/{' ' * 252}"))
    assert list(absolute_search_path(subject)) == [
        "looks for libraries in /opt/lib, /usr/x, /<252 blanks> (RPATH): "
        "absolute paths lead users nowhere, or to other libraries"
    ]


def test_paths_from_origin_unused_rpaths_and_allowed_paths_are_no_absolute_ones() -> None:
    assert list(absolute_search_path(elf_file(rpath=("/x",), runpath=("$ORIGIN/..",)))) == []
    assert (
        list(absolute_search_path(elf_file(runpath=("/opt/rocm",)), allowed=("/opt/rocm",))) == []
    )


def test_thousands_of_search_paths_make_no_endless_line() -> None:
    (sentence,) = absolute_search_path(
        elf_file(runpath=tuple(f"/{n}{'x' * 200}" for n in range(900)))
    )
    assert len(str(sentence)) < 1000
    assert "and 892 more (RUNPATH)" in str(sentence)


@pytest.mark.parametrize(
    ("runpath", "which"),
    [
        (("$ORIGIN", ""), '"$ORIGIN:", whose last element is empty'),
        (("", "$ORIGIN"), '":$ORIGIN", whose first element is empty'),
        (("/a", "", "/b"), '"/a::/b", whose element 2 is empty'),
        (("", "/a", ""), '":/a:", 2 of whose 3 elements are empty'),
        (("",) * 8, '":::::::", all 8 elements of which are empty'),
    ],
)
def test_an_empty_element_is_the_current_directory(runpath: tuple[str, ...], which: str) -> None:
    (sentence,) = empty_search_path(elf_file(runpath=runpath), target())
    assert sentence == (
        f"has the RUNPATH {which}, which means the current directory: "
        "whoever can write there runs code in the user's process"
    )


@pytest.mark.parametrize("runpath", [("lib",), (".",), ("$ORIGIN", ".", "../lib", ".")])
def test_relative_elements_are_told_in_one_line(runpath: tuple[str, ...]) -> None:
    (sentence,) = empty_search_path(elf_file(runpath=runpath), target())
    assert "(RUNPATH), relative to the current directory" in str(sentence)


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
        "looks for libraries in $ORIGIN/../../../../../lib (RUNPATH): "
        "that is outside of the environment, where every user has something else"
    ]


def test_a_path_within_the_environment_is_fine() -> None:
    subject = elf_file("demo/a.so", runpath=("$ORIGIN/../../../../lib",))
    assert list(search_path_leaves_prefix(subject)) == []


def test_directories_that_are_not_there_count_where_only_luck_finds_the_library() -> None:
    objects = (
        extension("libx.so", runpath=("$ORIGIN/libs", "$ORIGIN/../x")),
        library("demo/lib/libx.so"),
    )
    assert list(missing_search_directory(link(*objects), wheel(objects=objects))) == [
        Problem(
            path=EXTENSION,
            sentence="looks for libx.so in demo/libs/, x/, which the package does not have; "
            "the library is demo/lib/libx.so",
        )
    ]


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
    (sentence,) = needed_name_with_slash(library("demo/a.so", "build/libx.so"))
    assert str(sentence).startswith("needs build/libx.so, a path: the loader opens it from ")


def test_a_needed_name_without_slash_or_from_origin_is_fine() -> None:
    assert list(needed_name_with_slash(library("demo/a.so", "libx.so", "$ORIGIN/liby.so"))) == []


def test_profiles_may_want_either_kind_of_path() -> None:
    old, new = elf_file(rpath=("$ORIGIN",)), elf_file(runpath=("$ORIGIN",))
    assert list(rpath_instead_of_runpath(old)) == ["has RPATH $ORIGIN and no RUNPATH"]
    assert list(rpath_instead_of_runpath(new)) == []
    assert list(runpath_instead_of_rpath(new)) == ["has RUNPATH $ORIGIN, which takes RPATH's place"]
    assert list(runpath_instead_of_rpath(old)) == []


def test_libpython_of_the_interpreter_must_not_be_needed() -> None:
    (finding,) = libpython_linked(link(extension("libpython3.11.so.1.0")), NONE)
    assert isinstance(finding, Problem)
    assert finding.path == EXTENSION


def test_a_bundled_libpython_is_the_packages_own() -> None:
    objects = (extension("libpython3.11.so.1.0", runpath=("$ORIGIN",)),)
    bundled = library("demo/libpython3.11.so.1.0")
    assert list(libpython_linked(link(*objects, bundled), NONE)) == []


def test_glibc_is_foreign_to_musllinux() -> None:
    assert list(foreign_libc(library("demo/a.so", "libc.so.6"), MUSL)) == [
        "needs libc.so.6, which is glibc's: a musllinux wheel must do with musl's libc"
    ]
    assert list(foreign_libc(library("demo/a.so", "libc.so", "libc.musl-x86_64.so.1"), MUSL)) == []
    assert list(foreign_libc(library("demo/a.so", "libc.so.6"), target())) == []
    both = target(unjudged=("musllinux_1_2_x86_64",))
    assert len(list(foreign_libc(library("demo/a.so", "libc.so.6"), both))) == 1

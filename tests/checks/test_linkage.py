from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binary_checks.checks.linkage.needed_libraries import (
    foreign_libc,
    libpython_linked,
    load_order_dependent,
    missing_library,
    missing_search_directory,
    needed_name_with_slash,
)
from binary_checks.model import (
    Claims,
    Edge,
    ElfFile,
    Kind,
    Layout,
    Level,
    Linkage,
    NotInspected,
    Problem,
    Rule,
)
from fixtures.linking import EXTENSION, extension, library, link, target
from fixtures.values import only, say, symbols, wheel

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
    return only(Problem, missing_library(subject, wheel(objects=objects))).sentence


def test_a_library_that_nobody_brings_is_missing() -> None:
    assert list(missing_library(linkage(searched=("demo.libs", "")), NONE)) == [
        Problem(
            path="demo/a.so",
            sentence="needs libx.so.1, which neither the package nor manylinux_2_17_x86_64 "
            "provides (searched demo.libs/, ./): where users lack it, this file does not load",
            cause="lost folder demo.libs",
        )
    ]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"unknown": "its SDK is not known"}, "needs libb.so.1: its SDK is not known"),
        ({"partly": "macOS 13 and later"}, "needs libb.so.1, which only macOS 13 and later have"),
    ],
)
def test_a_need_that_only_some_systems_meet_is_told_apart(how: dict[str, str], words: str) -> None:
    searched = ("demo.libs", "")
    (clear,) = linkage(searched=searched, needed="liba.so.1").edges
    (doubtful,) = linkage(searched=searched, needed="libb.so.1", **how).edges
    subject = replace(linkage(), edges=(clear, doubtful))
    lacking, other = (str(each) for each in missing_library(subject, NONE))
    assert "needs liba.so.1, which neither the package" in lacking
    assert words in other


def test_a_library_that_no_given_or_required_wheel_brings_either_is_missing() -> None:
    assert "neither the package, nor a given wheel, nor manylinux_2_17_x86_64 provides" in lack(
        linkage(given=("numpy",))
    )
    assert lack(linkage("numpy", searched=("demo.libs", "lib")))


def test_a_file_without_a_search_path_is_told_apart_from_one_whose_path_leads_away() -> None:
    assert "(it has no search path)" in lack(linkage(), library("demo/a.so"))
    absolute = library("demo/a.so", runpath=("/opt/lib",))
    assert "(its RUNPATH leads nowhere in the package)" in lack(linkage(), absolute)
    of_a_build = library("demo/a.so", runpath=("$ORIGIN/x", "/tmp/build/lib"))
    assert "(its RUNPATH /tmp/build/lib leads nowhere in the package)" in lack(
        linkage(), of_a_build
    )


@pytest.mark.parametrize(
    ("bringers", "whose"),
    [
        (("nvidia-cudnn-cu13",), ", perhaps nvidia-cudnn-cu13,"),
        (("tbb", "tbb-devel"), ", perhaps tbb or tbb-devel,"),
        (("a", "b", "c", "d"), " (a, b, c and 1 more)"),
    ],
)
def test_a_library_that_a_required_wheel_may_bring_is_not_inspected(
    bringers: tuple[str, ...], whose: str
) -> None:
    subject = linkage(*bringers, searched=("nvidia/lib",), may_come_with=bringers)
    assert list(missing_library(subject, NONE)) == [
        NotInspected(
            path="demo/a.so",
            sentence=f"needs libx.so.1, which a required wheel{whose} may ship "
            "(searched nvidia/lib/); give it with --binary-with",
        )
    ]
    not_required = replace(subject, requirements=())
    another = only(NotInspected, missing_library(not_required, NONE)).sentence
    assert another.startswith(f"needs libx.so.1, which another wheel{whose} may ship")


def test_a_given_wheel_of_another_version_is_told() -> None:
    loaded = linkage(resolved="system:libx.so.1")
    subject = replace(loaded, refused=("numpy 1.26, where numpy>=2 is required",))
    assert list(missing_library(subject, NONE)) == [
        NotInspected(
            sentence="was given numpy 1.26, where numpy>=2 is required: it was left out; "
            "give --binary-with a version that fits"
        )
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"resolved": "system:libx.so.1", "rule": Rule.SYSTEM},
        {"elsewhere": ("demo/lib/libx.so.1",)},
        {"needed": "build/libx.so"},
        {"needed": "libcuda.so.1"},
    ],
)
def test_what_is_found_or_has_a_check_of_its_own_is_not_missing(fields: dict[str, Any]) -> None:
    assert list(missing_library(linkage(**fields), wheel(objects=(library("demo/a.so"),)))) == []


@pytest.mark.parametrize(
    ("elsewhere", "lies"),
    [("demo/lib/libx.so.1", "is in the package"), ("wheel:x:lib/libx.so.1", "was given")],
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
            sentence="needs libx.so.1 and does not find it (searched demo/): demo/lib/libx.so.1 is "
            "in the package, but the search does not lead there; it loads only once something "
            "else has loaded it",
            cause="no search path to demo/lib",
            consequence=True,
        )
    ]


def test_the_system_may_search_a_folder_on_disk() -> None:
    """As ld.so.conf says; an extension module there is meant for a package, and lacks its path."""
    subject = linkage(searched=("demo",), elsewhere=("demo/lib/libx.so.1",))
    module = library("demo/a.so", exports=symbols("PyInit_a"))
    program = library("demo/a.so", kind=Kind.EXECUTABLE)
    for check, item, level in (
        (missing_library, program, Level.WARNING),
        (load_order_dependent, library("demo/a.so"), Level.WARNING),
        (load_order_dependent, module, Level.ERROR),
    ):
        folder = replace(wheel(objects=(item,)), claims=Claims(partial=True))
        finding = only(Problem, check(subject, folder))
        assert finding.level is level


@pytest.mark.parametrize("place", ["lib/libx.so.1", "wheel:tbb:lib/libx.so.1"])
def test_libraries_for_other_packages_depend_on_load_order_with_a_warning(place: str) -> None:
    # Modules of scikit-learn-intelex load both libraries of daal, and search that folder.
    subject = linkage(path="lib/a.so", elsewhere=(place,))
    layout = Layout(site_packages="lib/python3.11/site-packages")
    daal = wheel(objects=(library("lib/a.so"),), layout=layout)
    assert only(Problem, load_order_dependent(subject, daal)).level is Level.WARNING
    module = extension(exports=symbols("PyInit__native"))
    with_module = wheel(objects=(library("lib/a.so"), module), layout=layout)
    assert only(Problem, load_order_dependent(subject, with_module)).level is not Level.WARNING


def test_a_library_found_only_as_loaded_depends_on_load_order() -> None:
    subject = linkage(resolved="demo/lib/libx.so.1", rule=Rule.LOADED, root="demo/b.so")
    finding = only(Problem, load_order_dependent(subject, NONE))
    assert "because demo/b.so, when opened, loads demo/lib/libx.so.1" in finding.sentence
    assert finding.level is Level.WARNING  # demo/b.so always loads it before
    found_too = linkage(resolved="demo/x", rule=Rule.LOADED, shadowed="demo/y")
    assert list(load_order_dependent(found_too, NONE)) == []


def test_a_library_that_nothing_loads_before_is_told_apart_from_one_that_something_does() -> None:
    objects = (
        extension("liba.so", "libmid.so", runpath=("$ORIGIN/lib",)),
        library("demo/lib/libmid.so", "liba.so", "libb.so"),
        library("demo/lib/liba.so"),
        library("demo/lib/libb.so"),
    )
    found = list(load_order_dependent(link(*objects), wheel(objects=objects)))
    told = [(each.sentence[:13], each.level) for each in found if isinstance(each, Problem)]
    assert told == [("needs liba.so", Level.WARNING), ("needs libb.so", Level.ERROR)]


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
            cause="no search path to demo/lib",
        )
    ]
    module = objects[0]  # nobody has the library
    assert list(missing_search_directory(link(module), wheel(objects=[module]))) == []


def test_a_needed_path_is_opened_from_the_current_directory() -> None:
    (sentence,) = say(needed_name_with_slash(library("demo/a.so", "build/libx.so")))
    assert sentence.startswith("needs build/libx.so, a path: the loader opens it relative to ")
    assert list(needed_name_with_slash(library("demo/a.so", "libx.so", "$ORIGIN/liby.so"))) == []


def test_libpython_of_the_interpreter_must_not_be_needed() -> None:
    finding = only(Problem, libpython_linked(link(extension("libpython3.11.so.1.0")), NONE))
    assert finding.path == EXTENSION
    objects = (extension("libpython3.11.so.1.0", runpath=("$ORIGIN",)),)
    own = library("demo/libpython3.11.so.1.0")
    assert list(libpython_linked(link(*objects, own), NONE)) == []
    tool = library("bin/tool", "libpython3.11.so.1.0", kind=Kind.EXECUTABLE)
    package, linkage = wheel(objects=(tool,)), link(tool)
    assert only(Problem, libpython_linked(linkage, package))
    folder = replace(package, claims=Claims(partial=True))  # a Python's own programs
    assert list(libpython_linked(linkage, folder)) == []


def test_glibc_is_foreign_to_musllinux() -> None:
    assert say(foreign_libc(library("demo/a.so", "libc.so.6"), MUSL, NONE)) == [
        "needs libc.so.6, which belongs to glibc: a musllinux wheel must use musl's libc"
    ]
    own = library("demo/a.so", "libc.so", "libc.musl-x86_64.so.1")
    assert list(foreign_libc(own, MUSL, NONE)) == []
    assert list(foreign_libc(library("demo/a.so", "libc.so.6"), target(), NONE)) == []
    both = target(unjudged=("musllinux_1_2_x86_64",))
    several = library("demo/a.so", "libc.so.6", "libm.so.6", "libother.so.6")
    problem = only(Problem, foreign_libc(several, both, NONE))
    assert problem.sentence.startswith("needs libc.so.6, libm.so.6, which belong to glibc: ")


def test_the_loader_does_not_find_a_grafted_library_without_a_search_path() -> None:
    grafted = library("demo.libs/libx-1a2b3c4d.so.1", name="libx-1a2b3c4d.so.1")
    objects = (extension("libx-1a2b3c4d.so.1"), grafted)
    package = wheel(objects=objects)
    assert list(load_order_dependent(link(*objects), package)) == []
    problem = only(Problem, missing_library(link(*objects), package))
    assert problem.sentence == (
        "needs libx-1a2b3c4d.so.1 and does not find it (it has no search path): "
        "demo.libs/libx-1a2b3c4d.so.1 is in the package, but no search path leads there: this file "
        "does not load"
    )
    other = library(
        "demo/_other.cpython-311-x86_64-linux-gnu.so",
        "libx-1a2b3c4d.so.1",
        runpath=("$ORIGIN/../demo.libs",),
    )
    found_by_another = link(*objects, other), wheel(objects=(*objects, other))
    assert list(missing_library(*found_by_another)) == []
    assert only(Problem, load_order_dependent(*found_by_another)).path == EXTENSION


def test_a_library_that_a_required_wheel_rather_has_is_not_inspected() -> None:
    # torchvision's own libcudart.faf08d9a.so.13 goes by the name that torch's has.
    fields: dict[str, Any] = {
        "needed": "libcudart.so.13",
        "elsewhere": ("demo.libs/libcudart.faf08d9a.so.13",),
        "may_come_with": ("torch",),
    }
    subject = linkage("torch", **fields)
    assert list(load_order_dependent(subject, NONE)) == []
    assert "perhaps torch" in only(NotInspected, missing_library(subject, NONE)).sentence
    own = linkage("torch", **{**fields, "elsewhere": ("demo/lib/libcudart.so.13",)})
    assert list(missing_library(own, NONE)) == []
    assert len(list(load_order_dependent(own, NONE))) == 1

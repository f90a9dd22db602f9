"""Programs that are built against an archive: what stops them, where they look, which ABI links."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binary_checks.checks.consumer import (
    consumer_compilation_fails,
    consumer_configuration_fails,
    consumer_linking_fails,
    consumer_run_fails,
    consumer_search_path,
    other_cxx_abi_links,
    reached_target_absent,
)
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    BuildStep,
    BuildTools,
    ConsumerReport,
    ConsumerUnit,
    CppArchive,
    Ending,
    ImportedTarget,
    Level,
    Note,
    NotInspected,
    OtherAbi,
    Problem,
    ProgramBuild,
    Stage,
    StatedBuild,
)
from fixtures.values import elf_file, member, only

CMAKE, ALONE = "CMake", "the compiler alone"
TOOLS = BuildTools(cmake="CMake 4.4.4", generator="Ninja", compiler="g++ 12.2.0")
ARCHIVE = CppArchive(path=Path("demo.zip"), stated=StatedBuild(with_deps=True))
BARE = CppArchive(path=Path("demo.zip"), stated=StatedBuild(with_deps=False))


def step(stage: Stage, outcome: Ending = Ending.OK, **fields: Any) -> BuildStep:
    return BuildStep(stage=stage, outcome=outcome, **fields)


def build(last: BuildStep, way: str = CMAKE, *search_path: str) -> ProgramBuild:
    program = elf_file("consumer") if last.stage is Stage.RUN else None
    return ProgramBuild(way=way, last=last, program=program, search_path=search_path)


def unit(*lasts: BuildStep, name: str = "example Demo", **fields: Any) -> ConsumerUnit:
    builds = tuple(build(last, way) for last, way in zip(lasts, (CMAKE, ALONE), strict=False))
    known = {"package": "Demo", "configured": step(Stage.CONFIGURE), "builds": builds}
    return ConsumerUnit(name=name, **{**known, **fields})


def report(*units: ConsumerUnit, **fields: Any) -> ConsumerReport:
    return ConsumerReport(python="CPython 3.11.7", tools=TOOLS, units=units, **fields)


RUNS = step(Stage.RUN)
GOOD = report(unit(RUNS, RUNS))


def sentences(found: Any) -> list[str]:
    texts = (each if isinstance(each, str) else each.sentence for each in found)
    return [text for text in texts if not text.startswith("built with")]


def test_what_builds_and_runs_is_fit() -> None:
    assert list(consumer_configuration_fails(GOOD, ARCHIVE)) == [
        Note(sentence="built with CMake 4.4.4 (Ninja), g++ 12.2.0")
    ]
    assert list(consumer_compilation_fails(GOOD)) == []
    assert list(consumer_linking_fails(GOOD, ARCHIVE)) == []
    assert list(consumer_run_fails(GOOD, ARCHIVE)) == []
    assert list(consumer_search_path(GOOD)) == []
    assert list(reached_target_absent(GOOD)) == []


def test_a_package_that_cmake_does_not_configure_fails_once_for_all_units() -> None:
    error = step(Stage.CONFIGURE, Ending.EXITED, message="DemoTargets.cmake:9: no lib/libx.so")
    units = [unit(name=name, configured=error) for name in ("example Demo", "fft", "mm", "qr")]
    found = sentences(consumer_configuration_fails(report(*units), ARCHIVE))
    assert found == [
        "example Demo, fft, mm and 1 more are not configured: DemoTargets.cmake:9: no lib/libx.so"
    ]


def test_what_was_not_configured_was_not_linked_either() -> None:
    error = step(Stage.CONFIGURE, Ending.EXITED, message="no")
    broken = report(unit(configured=error))
    lack = NotInspected(sentence="example Demo: the build ended before this step")
    assert list(consumer_compilation_fails(broken)) == [lack]
    assert list(consumer_linking_fails(broken, ARCHIVE)) == [lack]
    assert list(consumer_run_fails(broken, ARCHIVE)) == [lack]
    assert list(consumer_search_path(broken)) == [NotInspected(sentence="no program was built")]
    assert list(reached_target_absent(broken)) == [
        NotInspected(sentence="example Demo: CMake did not finish")
    ]


def test_a_unit_that_was_never_tried_is_not_inspected() -> None:
    untried = unit(configured=None, untried="find_package(Demo) hung for 300 s before")
    found = list(consumer_configuration_fails(report(untried), ARCHIVE))
    sentence = "example Demo: find_package(Demo) hung for 300 s before"
    assert found[1:] == [NotInspected(sentence=sentence)]
    found = list(
        consumer_configuration_fails(report(elsewhere=(("cuda", "builds for cu*"),)), BARE)
    )
    assert Note(sentence="cuda is for builds for cu* only") in found


@pytest.mark.parametrize(
    ("outcome", "fields", "why"),
    [
        (Ending.EXITED, {"message": "a.h:1: error: no b.h"}, "a.h:1: error: no b.h"),
        (Ending.HUNG, {"detail": "300 s"}, "it does not end within 300 s"),
        (Ending.CRASHED, {"detail": "SIGSEGV"}, "it crashes: SIGSEGV"),
        (Ending.EXITED, {"detail": "exit status 4"}, "it ends with exit status 4"),
        (Ending.STOPPED, {"detail": "it took 9 GiB"}, "it is stopped: it took 9 GiB"),
    ],
)
def test_a_unit_that_does_not_compile_fails(
    outcome: Ending, fields: dict[str, str], why: str
) -> None:
    end = step(Stage.COMPILE, outcome, **fields)
    found = sentences(consumer_compilation_fails(report(unit(end, end))))
    assert found == [f"example Demo does not compile: {why}"]
    alone = sentences(consumer_compilation_fails(report(unit(RUNS, end))))
    assert alone == [f"example Demo (the compiler alone) does not compile: {why}"]


@pytest.mark.parametrize(
    "message",
    [
        "libcudart.so.12, needed by lib/libx.so, not found (try using -rpath or -rpath-link)",
        "/usr/bin/ld: cannot find -lcudart.so.12: No such file or directory",
        "error while loading shared libraries: libcudart.so.12: cannot open shared object file",
    ],
)
def test_what_an_archive_without_dependencies_lacks_is_not_inspected(message: str) -> None:
    end = step(Stage.LINK, Ending.EXITED, message=message)
    found = only(NotInspected, consumer_linking_fails(report(unit(end, end)), BARE))
    assert "the archive comes without" in found.sentence
    assert only(Problem, consumer_linking_fails(report(unit(end, end)), ARCHIVE))


def test_an_archive_without_dependencies_must_have_its_own_libraries() -> None:
    own = CppArchive(
        path=Path("demo.zip"),
        stated=StatedBuild(with_deps=False),
        members=(member("lib/libx.so", archive_name="lib/libx.so"),),
    )
    message = "libx.so, needed by lib/liby.so, not found (try using -rpath or -rpath-link)"
    end = step(Stage.LINK, Ending.EXITED, message=message)
    assert sentences(consumer_linking_fails(report(unit(end)), own)) == [
        f"example Demo does not link: {message}"
    ]


@pytest.mark.parametrize(
    "message",
    [
        "lib/libx.so: undefined reference to `strlcpy@GLIBC_2.38'",
        "consumer: /lib/libc.so.6: version `GLIBC_2.38' not found (required by lib/libx.so)",
    ],
)
def test_what_needs_a_newer_system_than_this_is_not_inspected(message: str) -> None:
    end = step(Stage.LINK, Ending.EXITED, message=message)
    (found,) = consumer_linking_fails(report(unit(end, end)), ARCHIVE)
    assert found == NotInspected(
        sentence="example Demo does not link: GLIBC_2.38 is newer than what this host has"
    )


def test_a_library_for_extension_modules_is_not_linked_with_a_program() -> None:
    names = ("PyInstanceMethod_Type", "_Py_Dealloc")
    end = step(Stage.LINK, Ending.EXITED, message="undefined reference", undefined=names)
    found = only(NotInspected, consumer_linking_fails(report(unit(end, end)), ARCHIVE))
    assert "PyInstanceMethod_Type is a symbol of Python" in found.sentence
    mixed = step(Stage.LINK, Ending.EXITED, message="no f", undefined=("Py_IncRef", "f"))
    assert sentences(consumer_linking_fails(report(unit(mixed)), ARCHIVE)) == [
        "example Demo does not link: no f"
    ]


@pytest.mark.parametrize(
    "message, name",
    [
        ("python.cmake:568: Failed to detect numpy", "numpy"),
        ("Package 'eigen3', required by 'eigenpy', not found", "eigen3"),
        ('Could not find a package configuration file provided by "Eigen3" with', "Eigen3"),
        ("Could NOT find MPI_C (missing: MPI_C_LIB_NAMES)", "MPI_C"),
        ("include could not find requested file: ECMSetupVersion", "ECMSetupVersion"),
    ],
)
def test_a_dependency_that_this_host_lacks_is_not_inspected(message: str, name: str) -> None:
    error = step(Stage.CONFIGURE, Ending.EXITED, message=message)
    broken = report(unit(configured=error))
    lack = f"the archive comes without {name}, and this host has none"
    found = sentences(consumer_configuration_fails(broken, BARE))
    assert found == [f"example Demo is not configured: {lack}"]
    assert sentences(consumer_configuration_fails(broken, ARCHIVE)) == [
        f"example Demo is not configured: {message}"
    ]
    own = "include could not find requested file: lib/cmake/Demo/DemoTargets.cmake"
    error = step(Stage.CONFIGURE, Ending.EXITED, message=own)
    found = sentences(consumer_configuration_fails(report(unit(configured=error)), BARE))
    assert found == [f"example Demo is not configured: {own}"]


def test_a_program_that_prints_something_else_or_ends_badly_fails() -> None:
    for printed, shown in (("41", "41"), ("4" * 500, "4" * 500), ("4" * 501, "4" * 500)):
        end, right = step(Stage.RUN, printed=printed), step(Stage.RUN, printed="42")
        asked = unit(end, right, name="sum", expected="42\n")
        assert sentences(consumer_run_fails(report(asked), ARCHIVE)) == [
            f"sum (CMake) prints '{shown}', where '42' is expected"
        ]
    end = step(Stage.RUN, Ending.CRASHED, detail="SIGABRT", message="terminate called")
    assert sentences(consumer_run_fails(report(unit(end, end)), ARCHIVE)) == [
        "example Demo does not run: it crashes: SIGABRT (terminate called)"
    ]


def test_a_program_that_was_only_linked_is_not_inspected() -> None:
    linked = unit(step(Stage.LINK), name="cuda", not_run="no NVIDIA driver on this host")
    assert list(consumer_run_fails(report(linked), ARCHIVE)) == [
        NotInspected(
            sentence="cuda: linked, but not run: no NVIDIA driver on this host", by_host=True
        )
    ]


@pytest.mark.parametrize(
    "path, level",
    [
        ("/lib/intel64", Level.WARNING),
        ("/tmp/build/lib", Level.ERROR),
        ("", Level.ERROR),
        ("lib", Level.ERROR),
    ],
)
def test_a_directory_of_another_machine_in_every_program_is_found(path: str, level: Level) -> None:
    builds = (build(RUNS, CMAKE, path, "$PREFIX/lib"), build(RUNS, ALONE, path, "$PREFIX/lib"))
    found = only(Problem, consumer_search_path(report(unit(builds=builds))))
    assert found.level is level
    assert f"(example Demo) get the search path {path}: " in found.sentence


@pytest.mark.parametrize("path", ["$PREFIX/lib", "$BUILD/unit0", "$ORIGIN/../lib", "$PREFIX"])
def test_the_packages_own_directories_are_none_of_another_machine(path: str) -> None:
    own = report(unit(builds=(build(RUNS, CMAKE, path),)))
    assert list(consumer_search_path(own)) == []
    of_compiler = unit(builds=(build(RUNS, CMAKE, "/nix/store/gcc/lib"),))  # in every program
    tools = BuildTools(cmake="", generator="", compiler="", search_path=("/nix/store/gcc/lib",))
    found = ConsumerReport(python="", tools=tools, units=(of_compiler,))
    assert list(consumer_search_path(found)) == []


REFUSES = ("_ZN4demo4fail*",)
OLD, NEW = "_ZN4demo4failERKSs", "_ZN4demo4failERKNSt7__cxx1112basic_stringIcEE"


def other(last: BuildStep, flag: str = "-D_GLIBCXX_USE_CXX11_ABI=0", **fields: Any) -> OtherAbi:
    return OtherAbi(flag=flag, last=last, **fields)


def judge_abi(abi: OtherAbi) -> list[str]:
    return sentences(other_cxx_abi_links(report(unit(RUNS, RUNS, refuses=REFUSES, other_abi=abi))))


@pytest.mark.parametrize("name", [OLD, NEW])
def test_the_other_abi_must_miss_the_names_that_the_profile_knows(name: str) -> None:
    assert judge_abi(other(step(Stage.LINK, Ending.EXITED, undefined=(name,)))) == []


@pytest.mark.parametrize("value", [0, 1])
def test_the_other_abi_must_not_link(value: int) -> None:
    flag = f"-D_GLIBCXX_USE_CXX11_ABI={value}"
    assert judge_abi(other(step(Stage.LINK), flag)) == [
        f"example Demo links although it is compiled for the other C++ ABI ({flag})"
    ]


@pytest.mark.parametrize(
    "last",
    [
        step(Stage.COMPILE, Ending.EXITED, message="no x.h"),
        step(Stage.LINK, Ending.EXITED, message="no x.h", undefined=("_ZN5other4failERKSs",)),
    ],
)
def test_the_other_abi_must_fail_for_no_other_reason(last: BuildStep) -> None:
    assert judge_abi(other(last)) == [
        "compiled for the other C++ ABI (-D_GLIBCXX_USE_CXX11_ABI=0), example Demo fails, but "
        "not because _ZN4demo4fail* is not found: no x.h"
    ]


@pytest.mark.parametrize(
    "broken",
    [
        unit(step(Stage.LINK, Ending.EXITED)),
        unit(configured=step(Stage.CONFIGURE, Ending.EXITED, message="no")),
    ],
)
def test_where_its_own_abi_does_not_link_the_other_says_nothing(broken: ConsumerUnit) -> None:
    last = step(Stage.LINK, Ending.EXITED, undefined=(OLD,))
    tried = other(last) if broken.builds else None
    judged = replace(broken, refuses=REFUSES, other_abi=tried)
    assert list(other_cxx_abi_links(report(judged))) == [
        NotInspected(sentence="example Demo does not link with its own ABI either")
    ]


def test_a_compiler_without_libstdcxx_has_no_other_abi() -> None:
    lack = other(step(Stage.COMPILE), "", untried="clang does not build with libstdc++")
    assert list(other_cxx_abi_links(report(unit(RUNS, refuses=REFUSES, other_abi=lack)))) == [
        NotInspected(sentence="example Demo: clang does not build with libstdc++")
    ]
    with pytest.raises(NotApplicable, match="names no unit for the other C"):
        list(other_cxx_abi_links(GOOD))


def test_a_target_of_an_absent_library_is_found_where_a_consumer_reaches_it() -> None:
    targets = (
        ImportedTarget(name="Demo::x", kind="STATIC_LIBRARY", file="lib/libx.a", is_absent=True),
        ImportedTarget(name="Demo::y", kind="STATIC_LIBRARY", file="lib/liby.a"),
    )
    units = (unit(RUNS, targets=targets), unit(RUNS, name="other", targets=targets))
    assert list(reached_target_absent(report(*units))) == [
        Problem(
            path="lib/libx.a",
            sentence="not there, and find_package(Demo) defines the target Demo::x for it",
        )
    ]
    without = report(unit(RUNS, name="pkg-config demo", package=""))  # a package of CMake
    with pytest.raises(NotApplicable):
        list(reached_target_absent(without))

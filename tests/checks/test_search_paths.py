from __future__ import annotations

from typing import Any

import pytest

from binary_checks.checks.linkage.needed_libraries import missing_search_directory
from binary_checks.checks.linkage.search_paths import (
    absolute_search_path,
    dead_search_directory,
    empty_search_path,
    search_path_leaves_prefix,
)
from binary_checks.model import (
    DispensableObject,
    Edge,
    ElfFile,
    Finding,
    Kind,
    Level,
    Linkage,
    MachOFile,
    Note,
    Problem,
    TargetSystem,
)
from fixtures.linking import extension, library, link, needs, target
from fixtures.values import elf_file, macho_file, only, wheel


def absolute(library: ElfFile | MachOFile, **options: Any) -> list[Finding]:
    """What is said of its absolute search paths, where it finds all that it needs."""
    return list(absolute_search_path(library, Linkage(target="x"), wheel(), **options))


def empty(library: ElfFile | MachOFile, on: TargetSystem) -> list[str]:
    """What is said of its search paths into the current directory."""
    found = empty_search_path(library, on, Linkage(target="x"))
    return [each if isinstance(each, str) else each.sentence for each in found]


MUSL = target(libc="musl", name="musllinux_1_2_x86_64, CPython 3.11")


def test_the_absolute_search_paths_of_a_file_are_told_in_one_line_with_their_tag() -> None:
    subject = elf_file(rpath=("$ORIGIN", "/opt/lib", "/opt/lib", "/usr/x", f"/{' ' * 252}"))
    assert absolute(subject) == [
        lost(subject, "looks for libraries in /opt/lib, /usr/x, /<252 blanks> (RPATH)")
    ]


def lost(subject: ElfFile | MachOFile, named: str) -> Problem:
    """What is said of directories that nobody has, or only an administrator can fill."""
    sentence = f"{named}: absolute paths lead users nowhere, or to other libraries"
    return Problem(path=subject.path, sentence=sentence, level=Level.WARNING)


@pytest.mark.parametrize(
    "directory",
    ["/tmp", "/tmp/build/lib", "/opt/../tmp/x", "/var/tmp/x", "/dev/shm/x", "/Volumes/build/lib"],
)
def test_a_directory_that_anyone_can_make_lets_their_code_in(directory: str) -> None:
    subject = elf_file(runpath=("$ORIGIN", directory))
    sentence = (
        f"looks for libraries in {directory} (RUNPATH): anyone who can write there runs code as "
        "the user"
    )
    assert absolute(subject) == [Problem(path=subject.path, sentence=sentence)]


@pytest.mark.parametrize(
    ("kind", "level"), [(Kind.SHARED, Level.WARNING), (Kind.EXECUTABLE, Level.ERROR)]
)
def test_the_path_of_a_library_that_no_import_reaches_is_a_warning(
    kind: Kind, level: Level
) -> None:
    subject = elf_file("demo/plugin.so", kind=kind, runpath=("/tmp/build", ""))
    spare = DispensableObject(path=subject.path, reason="no import of the package reaches it")
    linkage = Linkage(target="x", dispensable=(spare,))
    assert only(Problem, absolute_search_path(subject, linkage, wheel())).level is level
    assert only(Problem, empty_search_path(subject, target(), linkage)).level is level


@pytest.mark.parametrize(
    "directory", ["/opt/_internal/lib", "/usr/local/lib64", "/tmpfs/lib", "/home/builder/lib"]
)
def test_a_directory_that_only_an_administrator_can_make_is_a_warning(directory: str) -> None:
    subject = elf_file(rpath=(directory,))
    assert absolute(subject) == [lost(subject, f"looks for libraries in {directory} (RPATH)")]


@pytest.mark.parametrize("directory", ["/tmp/build/lib", "/home/builder/lib"])
def test_the_library_that_only_the_build_machine_has_is_the_cause(directory: str) -> None:
    subject = elf_file(runpath=(directory,))
    lacking = Edge(path=subject.path, architecture="x86_64", needed="libdep.so.1")
    linkage = Linkage(target="x", edges=(lacking,))
    problem = only(Problem, absolute_search_path(subject, linkage, wheel()))
    assert (problem.cause, problem.consequence) == ("library libdep.so.1", True)


def test_each_kind_of_directory_is_told_by_itself_and_some_are_no_absolute_ones() -> None:
    found = absolute(elf_file(rpath=("/opt/x", "/tmp/x")))
    levels = [each.level for each in found if isinstance(each, Problem)]
    assert levels == [Level.ERROR, Level.WARNING]
    assert absolute(elf_file(rpath=("/x",), runpath=("$ORIGIN/..",))) == []
    assert absolute(elf_file(runpath=("/opt/rocm",)), allowed=("/opt/rocm",)) == []


def test_thousands_of_search_paths_make_no_endless_line() -> None:
    paths = tuple(f"/{n}{'x' * 200}" for n in range(900))
    sentence = only(Problem, absolute(elf_file(runpath=paths))).sentence
    assert len(sentence) < 1000
    assert "and 892 more (RUNPATH)" in sentence


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
    (sentence,) = empty(elf_file(runpath=runpath), target())
    assert sentence == (
        f"has the RUNPATH {which}, which means the current directory: "
        "anyone who can write there runs code as the user"
    )


@pytest.mark.parametrize("runpath", [("lib",), (".",), ("$ORIGIN", ".", "../lib", ".")])
def test_relative_elements_are_told_in_one_line(runpath: tuple[str, ...]) -> None:
    (sentence,) = empty(elf_file(runpath=runpath), target())
    assert "(RUNPATH), relative to the current directory" in str(sentence)


@pytest.mark.parametrize("runpath", [(), ("",), ("$ORIGIN", "/lib")])
def test_a_path_that_is_empty_as_a_whole_is_none_and_musl_passes_over_an_empty_element(
    runpath: tuple[str, ...],
) -> None:
    assert empty(elf_file(runpath=runpath), target()) == []
    assert empty(elf_file(runpath=("$ORIGIN", *runpath, "")), MUSL) == []


SITE = "lib/python3.11/site-packages"


def test_a_path_beyond_the_environment_leaves_it() -> None:
    within, beyond = "$ORIGIN/../../../../lib", "$ORIGIN/../../../../../lib"
    subject = elf_file(f"{SITE}/demo/a.so", runpath=(within, beyond))
    (problem,) = search_path_leaves_prefix(subject, wheel())
    assert problem == Problem(
        path=subject.path,
        sentence=f"looks for libraries in {beyond} (RUNPATH): "
        "that is outside the environment, and differs from user to user",
    )
    assert problem.command == f"patchelf --set-rpath '{within}' {{path}}"
    fine = elf_file(f"{SITE}/demo/a.so", runpath=(within,))
    assert list(search_path_leaves_prefix(fine, wheel())) == []


def test_a_directory_that_is_not_there_does_not_count_where_the_library_is_found() -> None:
    objects = (
        extension("libx.so", runpath=("$ORIGIN/libs", "$ORIGIN/lib")),
        library("demo/lib/libx.so"),
    )
    assert list(missing_search_directory(link(*objects), wheel(objects=objects))) == []
    assert len(list(dead_search_directory(wheel(objects=objects)))) == 1
    there = extension(runpath=("$ORIGIN/lib", "/opt"))
    assert list(dead_search_directory(wheel(objects=(there, objects[1])))) == []


def test_absolute_run_paths_lead_macos_away_but_to_its_own_libraries() -> None:
    rpaths = ("@loader_path", "/usr/lib/swift", "/usr/lib", "/opt/homebrew/lib")
    subject = macho_file(rpaths=rpaths, needed=needs("@rpath/libx.dylib"))
    named = "looks for libraries in /opt/homebrew/lib (LC_RPATH)"
    assert absolute(subject) == [lost(subject, named)]
    unsearched = macho_file(rpaths=rpaths, needed=needs("@loader_path/libx.dylib"))
    assert absolute(unsearched) == [
        Note(sentence=f"{named}; nothing that it needs is looked for there")
    ]


def test_a_relative_run_path_counts_where_something_is_looked_for_in_it() -> None:
    named = "looks for libraries in ./ (LC_RPATH)"
    subject = macho_file(rpaths=("./",), needed=needs("@rpath/libx.dylib"))
    assert empty(subject, target()) == [
        f"{named}, relative to the current directory: anyone who can write there runs code as the "
        "user"
    ]
    unsearched = macho_file(rpaths=("./",), needed=needs("@loader_path/libx.dylib"))
    assert empty(unsearched, target()) == [f"{named}; nothing that it needs is looked for there"]


def test_a_run_path_beyond_the_environment_leaves_it() -> None:
    beyond = macho_file(f"{SITE}/demo/a.so", rpaths=("@loader_path/../../../../../lib",))
    assert len(list(search_path_leaves_prefix(beyond, wheel()))) == 1
    within = macho_file("demo/a.so", rpaths=("@loader_path/../.dylibs", "@executable_path/../lib"))
    assert list(search_path_leaves_prefix(within, wheel())) == []
    assert len(list(dead_search_directory(wheel(objects=[within])))) == 1


def test_executable_path_is_the_own_folder_of_a_program_and_pythons_for_a_library() -> None:
    folders = [library("demo/lib/liba.so"), library("lib/libb.so")]
    rpaths = ("@executable_path/../lib",)
    program = macho_file("demo/bin/tool", kind=Kind.EXECUTABLE, bundle=False, rpaths=rpaths)
    module = macho_file("demo/bin/a.so", rpaths=rpaths)
    for within, without, other in ((program, 0, 1), (module, 1, 0)):
        for present, expected in zip(folders, (without, other), strict=True):
            found = list(dead_search_directory(wheel(objects=[within, present])))
            assert len(found) == expected


@pytest.mark.parametrize(
    ("spelled", "meant"),
    [
        ("RIGIN/../demo.libs", "$ORIGIN/../demo.libs"),  # make took $O
        ("ORIGIN/../demo.libs", "$ORIGIN/../demo.libs"),
        ("$$ORIGIN/../demo.libs", "$ORIGIN/../demo.libs"),
        (r"\$ORIGIN/../demo.libs", "$ORIGIN/../demo.libs"),
        ("'$ORIGIN'/../demo.libs", "$ORIGIN/../demo.libs"),
        ("{ORIGIN}", "$ORIGIN"),
    ],
)
def test_an_origin_that_lost_its_beginning_is_restored(spelled: str, meant: str) -> None:
    subject = elf_file(runpath=("$ORIGIN", spelled))
    found = only(Problem, empty_search_path(subject, target(), Linkage(target="x")))
    assert "it was to begin with $ORIGIN" in found.sentence
    assert found.command == f"patchelf --set-rpath '$ORIGIN:{meant}' {{path}}"


@pytest.mark.parametrize("spelled", ["./lib", "origin/lib", "lib", "ORIGINAL/lib"])
def test_another_relative_path_is_removed(spelled: str) -> None:
    subject = elf_file(runpath=(spelled,))
    found = only(Problem, empty_search_path(subject, target(), Linkage(target="x")))
    assert "$ORIGIN" not in found.sentence
    assert found.command == "patchelf --remove-rpath {path}"

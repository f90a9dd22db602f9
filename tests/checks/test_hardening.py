"""Each fault of hardening is found where it is, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binary_checks.checks import hardening
from binary_checks.model import (
    DispensableObject,
    ElfFile,
    Format,
    Kind,
    Level,
    Linkage,
    MalformedObject,
    Note,
    NotInspected,
    Problem,
    TargetSystem,
    Wheel,
)
from fixtures.values import elf_file, only, say, symbols, wheel

GLIBC, MUSL = TargetSystem(name="manylinux"), TargetSystem(name="musllinux", libc="musl")
ANDROID = wheel("demo-1.0-cp313-cp313-android_24_arm64_v8a.whl")


@pytest.mark.parametrize(("package", "level"), [(wheel(), Level.WARNING), (ANDROID, Level.ERROR)])
def test_writable_code_does_not_load_on_android(package: Wheel, level: Level) -> None:
    library = elf_file(writable_executable=True)
    problem = only(Problem, hardening.writable_executable_segment(library, package))
    assert problem.level is level
    assert problem.sentence.startswith("has a segment that is writable and executable")
    assert list(hardening.writable_executable_segment(elf_file(), package)) == []


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (3, "has 3 relocations in its code or constants (DT_TEXTREL)"),
        (1, "has 1 relocation in its code or constants (DT_TEXTREL)"),
        (None, "has some relocations in its code or constants (DT_TEXTREL)"),
    ],
)
def test_text_relocations_are_counted(number: int | None, sentence: str) -> None:
    library = elf_file(text_relocations=True, code_relocations=number)
    problem = only(Problem, hardening.text_relocations(library, wheel()))
    assert (problem.sentence, problem.level) == (sentence, Level.WARNING)


def test_text_relocations_that_are_only_announced_are_noted_except_on_android() -> None:
    announced = elf_file(text_relocations=True, code_relocations=0)
    note = only(Note, hardening.text_relocations(announced, wheel()))
    assert note.sentence.startswith("has DT_TEXTREL set, but no relocation in its code")
    problem = only(Problem, hardening.text_relocations(announced, ANDROID))
    assert problem.level is Level.ERROR
    assert problem.sentence == "has DT_TEXTREL set: Android's loader refuses it"


@pytest.mark.parametrize("kind", [Kind.DEVICE, Kind.RELOCATABLE, Kind.DEBUG])
def test_what_is_sound_or_never_loaded_is_left_alone(kind: Kind) -> None:
    fields: dict[str, Any] = {"text_relocations": True, "writable_executable": True}
    idle = elf_file(kind=kind, relro=False, needed=("x",), executable_stack=True, **fields)
    for library in (idle, elf_file()):
        assert list(hardening.text_relocations(library, wheel())) == []
        assert list(hardening.writable_executable_segment(library, wheel())) == []
        assert list(hardening.executable_stack(library, GLIBC)) == []


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "asks for an executable stack (PT_GNU_STACK with PF_X)"),
        (
            {"stack_header": False, "architecture": "i686"},
            "has no PT_GNU_STACK, which on i686 means an executable stack",
        ),
    ],
)
def test_a_library_with_an_executable_stack_does_not_load_with_glibc(
    fields: dict[str, Any], sentence: str
) -> None:
    library = elf_file(executable_stack=True, **fields)
    assert list(hardening.executable_stack(library, GLIBC)) == [
        Problem(path=library.path, sentence=sentence)
    ]


@pytest.mark.parametrize(("kind", "target"), [(Kind.EXECUTABLE, GLIBC), (Kind.SHARED, MUSL)])
def test_an_executable_stack_is_a_warning_where_it_loads(kind: Kind, target: TargetSystem) -> None:
    library = elf_file(executable_stack=True, kind=kind)
    assert only(Problem, hardening.executable_stack(library, target)).level is Level.WARNING


def test_where_the_loader_is_not_known_an_executable_stack_is_not_judged() -> None:
    """auditwheel's testsimple for linux_mips64 has one, as all code for MIPS had."""
    library = elf_file(executable_stack=True)
    (found,) = hardening.executable_stack(library, wheel("demo-1.0-cp313-cp313-linux_mips64.whl"))
    assert isinstance(found, NotInspected)
    assert only(Problem, hardening.executable_stack(library, wheel("demo-1.0-py3-none-any.whl")))


@pytest.mark.parametrize(
    ("level", "weight"),
    [
        ("x86-64-v2", Level.WARNING),
        ("x86-64-v3", Level.ERROR),
        ("x86-64-v4", Level.ERROR),
    ],
)
def test_a_newer_cpu_than_promised_matters_where_users_lack_it(level: str, weight: Level) -> None:
    library = elf_file(isa_level=level)
    sentence = f"needs a CPU of level {level}; the platform tag promises any x86-64"
    linkage = Linkage(target="x")
    assert list(hardening.isa_level_over_baseline(library, linkage)) == [
        Problem(path=library.path, sentence=sentence, level=weight)
    ]
    assert list(hardening.isa_level_over_baseline(elf_file(), linkage)) == []
    chosen = elf_file(f"demo/glibc-hwcaps/{level}/libx.so", isa_level=level)
    assert list(hardening.isa_level_over_baseline(chosen, linkage)) == []


@pytest.mark.parametrize(
    ("package", "architecture", "page"),
    [
        (wheel(), "aarch64", 0x10000),
        (wheel(), "ppc64le", 0x10000),
        (wheel(), "ppc64", 0x10000),
        (wheel(), "loongarch64", 0x4000),
        (ANDROID, "aarch64", 0x4000),
        (ANDROID, "x86_64", 0x4000),
    ],
)
def test_the_architectures_largest_page_is_enough(
    package: Wheel, architecture: str, page: int
) -> None:
    for alignment, count in ((page, 0), (page - 1, 1), (1, 1), (0, 0)):
        library = elf_file(architecture=architecture, alignment=alignment)
        assert len(list(hardening.segment_alignment(library, package))) == count


def test_small_pages_do_not_load_where_kernels_have_large_ones_unless_it_is_android() -> None:
    small = elf_file(architecture="aarch64", alignment=0x1000)
    assert list(hardening.segment_alignment(small, wheel())) == [
        "has segments aligned to 0x1000 bytes; kernels for aarch64 have pages of up to 0x10000"
    ]
    for quiet in (replace(small, architecture="x86_64"), replace(small, kind=Kind.DEBUG)):
        assert list(hardening.segment_alignment(quiet, wheel())) == []
    problem = only(Problem, hardening.segment_alignment(small, ANDROID))
    assert problem.level is Level.WARNING
    assert "aligned to 0x1000 bytes: Android devices with pages of 0x4000" in problem.sentence


def test_an_object_for_the_cpu_of_the_build_machine_is_told() -> None:
    library = elf_file("demo/a.so", native_cpu="znver3 with AVX-512")
    spare = DispensableObject(path="demo/a.so", reason="no import of the package reaches it")
    sentence = (
        "was compiled with -march=native on a znver3 with AVX-512: elsewhere it may end the process"
        " with an illegal instruction"
    )
    linkage = Linkage(target="x")
    (problem,) = hardening.compiled_for_build_machine(library, linkage)
    assert problem == Problem(path="demo/a.so", sentence=sentence)
    unreached = replace(linkage, dispensable=(spare,))
    problem = only(Problem, hardening.compiled_for_build_machine(library, unreached))
    assert problem.level is Level.WARNING
    assert list(hardening.compiled_for_build_machine(elf_file(), linkage)) == []


def _closure(*objects: ElfFile) -> tuple[Linkage, Wheel]:
    paths = tuple(item.path for item in objects)
    return Linkage(target="x", closures=((paths[0], paths[1:]),)), wheel(objects=objects)


def test_static_tls_of_one_import_is_added_up() -> None:
    linkage, package = _closure(
        elf_file("demo/a.so"),
        elf_file("demo/b.so", static_tls=True, tls_size=1200),
        elf_file("demo/c.so", static_tls=True, tls_size=1000),
        elf_file("demo/d.so", static_tls=True),
    )
    ((root, loaded),) = linkage.closures  # of another package's libraries, too
    linkage = replace(linkage, closures=((root, (*loaded, "x.so")), ("x.so", ("demo/d.so",))))
    assert list(hardening.static_tls_budget(linkage, package, GLIBC)) == [
        Problem(
            path="demo/a.so",
            sentence="its import needs 2200 bytes of static TLS, about 1664 are available: "
            "b.so 1200, c.so 1000",
        )
    ]
    assert list(hardening.static_tls_budget(linkage, package, GLIBC, budget=2200)) == []
    assert only(Problem, hardening.static_tls_budget(linkage, package, GLIBC, budget=2199))


@pytest.mark.parametrize(
    "objects",
    [
        (elf_file("a.so"), elf_file("b.so", static_tls=True, tls_size=120)),
        (elf_file("a.so"), elf_file("b.so", static_tls=False, tls_size=40_000)),
        (elf_file("a", kind=Kind.EXECUTABLE), elf_file("b.so", static_tls=True, tls_size=4096)),
    ],
)
def test_static_tls_within_the_budget_is_quiet(objects: tuple[ElfFile, ...]) -> None:
    assert list(hardening.static_tls_budget(*_closure(*objects), GLIBC)) == []


def test_a_library_in_a_folder_may_be_one_that_programs_are_linked_to() -> None:
    fields: dict[str, Any] = {"static_tls": True, "tls_size": 4096, "initial_exec": ("",)}
    for path, level, start in (
        ("libtsan.so", Level.WARNING, "opened by dlopen it needs"),
        ("_demo.abi3.so", Level.ERROR, "its import needs"),
    ):
        linkage, package = _closure(elf_file(path, exports=symbols("PyInit__demo"), **fields))
        folder = replace(package, claims=replace(package.claims, partial=True))
        problem = only(Problem, hardening.static_tls_budget(linkage, folder, GLIBC))
        assert (problem.level, problem.sentence.startswith(start)) == (level, True)
        assert only(Problem, hardening.static_tls_budget(linkage, folder, MUSL)).level is level


def test_each_import_is_judged_after_one_within_the_budget() -> None:
    small = elf_file("b.so", static_tls=True, tls_size=8)
    large = elf_file("d.so", static_tls=True, tls_size=4096)
    objects = (elf_file("a.so"), small, elf_file("c.so"), large)
    linkage = Linkage(target="x", closures=(("a.so", ("b.so",)), ("c.so", ("d.so",))))
    problem = only(Problem, hardening.static_tls_budget(linkage, wheel(objects=objects), GLIBC))
    assert problem.path == "c.so"
    both = replace(linkage, closures=(("a.so", ("d.so",)), ("c.so", ("d.so",))))  # told once
    assert only(Problem, hardening.static_tls_budget(both, wheel(objects=objects), GLIBC))


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (("",), "has the place of thread-local data fixed (initial-exec): musl refuses"),
        (("own",), "has the place of thread-local data own fixed"),
        (("theirs",), "has the place of thread-local data theirs of b.so fixed"),
        (("own", "theirs"), "has the place of thread-local data own fixed"),
        (("flat",), ""),  # of a library without thread-local data
        (("of_python",), ""),  # a program's variables have fixed places anyway
        ((), ""),
    ],
)
def test_musl_fixes_no_places_of_thread_local_data_after_the_start(
    names: tuple[str, ...], sentence: str
) -> None:
    user = elf_file("a.so", static_tls=True, tls_size=8, initial_exec=names, exports=symbols("own"))
    theirs = elf_file("b.so", tls_size=8, exports=symbols("theirs"))
    flat = elf_file("c.so", exports=symbols("flat"), initial_exec=None)
    linkage, package = _closure(user, theirs, flat)
    twice = replace(linkage, closures=linkage.closures * 2)
    also = TargetSystem(name="manylinux", unjudged=("musllinux_1_2_x86_64",))
    for closures, on in ((linkage, MUSL), (twice, MUSL), (linkage, also)):
        found = say(hardening.static_tls_budget(closures, package, on))
        assert [each.startswith(sentence) for each in found] == [True] * bool(sentence)
    assert list(hardening.static_tls_budget(linkage, package, GLIBC)) == []
    program, package = _closure(elf_file("p", kind=Kind.EXECUTABLE), user)
    assert list(hardening.static_tls_budget(program, package, MUSL)) == []
    unread = _closure(elf_file("a.so", static_tls=True, initial_exec=None))  # its relocations
    assert only(NotInspected, hardening.static_tls_budget(*unread, MUSL))


def test_a_library_that_replaces_malloc_may_be_loaded_at_the_start() -> None:
    fields: dict[str, Any] = {"static_tls": True, "tls_size": 8, "initial_exec": ("",)}
    library = elf_file("libjemalloc.so.2", exports=symbols("malloc"), **fields)
    for objects, level in (
        ((library,), Level.WARNING),
        ((elf_file("a.so"), library), Level.ERROR),
    ):
        found = hardening.static_tls_budget(*_closure(*objects), MUSL)
        assert only(Problem, found).level is level


def test_a_library_that_is_made_to_be_preloaded_has_room_at_the_start() -> None:
    """As filprofiler's _filpreload, which is named like a module and is none."""
    fields: dict[str, Any] = {"static_tls": True, "tls_size": 2952}
    levels = []
    for exports in (("malloc",), ("malloc", "PyInit__demo"), ()):
        library = elf_file("_demo.abi3.so", exports=symbols(*exports), **fields)
        problem = only(Problem, hardening.static_tls_budget(*_closure(library), GLIBC))
        levels.append(problem.level)
    assert levels == [Level.WARNING, Level.ERROR, Level.ERROR]
    preloaded = elf_file("libdemo.so", exports=symbols("malloc"), **fields)
    (needed,) = hardening.static_tls_budget(*_closure(elf_file("a.so"), preloaded), GLIBC)
    assert isinstance(needed, Problem)
    assert needed.level is Level.ERROR


def test_a_library_over_the_budget_that_no_import_reaches_is_a_warning() -> None:
    linkage, package = _closure(elf_file("libdemo.so", static_tls=True, tls_size=4096))
    spare = DispensableObject(path="libdemo.so", reason="no import of the package reaches it")
    unreached = replace(linkage, dispensable=(spare,))
    found = only(Problem, hardening.static_tls_budget(unreached, package, GLIBC))
    assert found.level is Level.WARNING


def test_each_malformed_object_is_told_with_its_place_and_data_for_tests_is_noted() -> None:
    broken = MalformedObject(path="demo/a.so", format=Format.ELF, offset=64, reason="cut")
    package = wheel(malformed=(broken,), test_data=("demo/tests/data/a.ir",))
    assert sorted(hardening.malformed_object(package), key=lambda each: each.path) == [
        Problem(
            path="demo/a.so",
            sentence="is a malformed ELF file: cut (at byte 0x40)",
            cause="damaged object demo/a.so",
        ),
        Note(
            path="demo/tests/data/a.ir",
            sentence="only begins like an object file: it is data for tests",
        ),
    ]
    assert list(hardening.malformed_object(wheel())) == []

"""What a clean system's loader says is a problem where users meet it, else it is nothing."""

from __future__ import annotations

from typing import Any

import pytest

from binary_checks.checks.runtime import image_newer_than_tag, object_does_not_load
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    DispensableObject,
    Edge,
    Level,
    Linkage,
    LoadFault,
    LoadFaultKind,
    LoadReport,
    Note,
    NotInspected,
    Problem,
    Rule,
    UnresolvedSymbol,
)
from fixtures.values import elf_file, symbols, wheel

OBJECT = "lib/python3.11/site-packages/demo/_native.cpython-311-x86_64-linux-gnu.so"
SYSTEM = "image bullseye (glibc 2.31)"
LIBRARY, VERSION, SYMBOL = LoadFaultKind.LIBRARY, LoadFaultKind.VERSION, LoadFaultKind.SYMBOL


def fault(kind: LoadFaultKind, **fields: Any) -> LoadFault:
    return LoadFault(**{"kind": kind, "path": OBJECT, "root": OBJECT, **fields})


def report(*faults: LoadFault, **fields: Any) -> LoadReport:
    known = {"system": SYSTEM, "libc": "glibc 2.31", "architecture": "x86_64"}
    return LoadReport(**{"python": "", **known, "loaded": (OBJECT,), "faults": faults, **fields})


def linkage(*edges: Edge, **fields: Any) -> Linkage:
    return Linkage(target="manylinux_2_17_x86_64", edges=edges, **fields)


def judge(found: LoadReport, known: Linkage | None = None, **fields: Any) -> list[Any]:
    native = elf_file(OBJECT, exports=symbols("PyInit__native"), **fields)
    package = wheel(objects=(native, elf_file("demo/other.so", exports=symbols("of_other"))))
    said = object_does_not_load(found, known or linkage(), package)
    return [each for each in said if not isinstance(each, Note)]


def test_what_was_loaded_where_is_noted_with_what_that_does_not_prove() -> None:
    assert judge(report()) == []
    found = report(reservation="aarch64 was emulated by qemu")
    assert list(object_does_not_load(found, linkage(), wheel())) == [
        Note(sentence=f"1 object was loaded on {SYSTEM}, each with everything it needs"),
        Note(sentence="aarch64 was emulated by qemu"),
    ]


def test_a_version_that_its_libc_lacks_is_named_once_with_the_system() -> None:
    lacking = fault(VERSION, version="GLIBC_2.36", provider="libc.so.6")
    unbound = fault(SYMBOL, name="arc4random", version="GLIBC_2.36")
    (problem,) = judge(report(lacking, unbound))
    assert problem.sentence == (
        f"does not load on {SYSTEM}: libc.so.6 of that system does not define "
        "GLIBC_2.36, which it needs"
    )
    assert (problem.path, problem.level) == (OBJECT, Level.ERROR)


def test_a_library_that_is_nowhere_is_missing() -> None:
    edge = Edge(path=OBJECT, architecture="x86_64", needed="libxcb.so.1")
    (problem,) = judge(report(fault(LIBRARY, name="libxcb.so.1")), linkage(edge))
    assert problem.sentence == f"does not load on {SYSTEM}: libxcb.so.1 is not found there"
    assert (problem.cause, problem.level) == ("library libxcb.so.1", Level.ERROR)
    beside = DispensableObject(path=OBJECT, reason="no import of the package reaches it")
    known = linkage(edge, dispensable=(beside,))
    (problem,) = judge(report(fault(LIBRARY, name="libabsent.so.1")), known)
    assert problem.level is Level.WARNING


def test_a_library_that_the_tag_promises_and_the_image_lacks_is_not_inspected() -> None:
    name = "libGL.so.1"
    edge = Edge(path=OBJECT, architecture="x86_64", needed=name, resolved=f"system:{name}")
    found = report(fault(LIBRARY, name=name))
    why = "it lacks libGL.so.1, which the platform tag promises"
    assert judge(found, linkage(edge)) == [
        NotInspected(path=OBJECT, sentence=f"not loaded on {SYSTEM}: {why}")
    ]


@pytest.mark.parametrize(
    "edge",
    [
        {"resolved": "demo/libown.so.1", "rule": Rule.LOADED_FIRST},
        {"resolved": "demo/libown.so.1", "rule": Rule.LOADED},
        {"resolved": "python:libown.so.1", "rule": Rule.PYTHON},
    ],
)
def test_what_the_package_or_python_loads_first_is_not_missing(edge: dict[str, Any]) -> None:
    found = report(fault(LIBRARY, name="libown.so.1"))
    known = Edge(path=OBJECT, architecture="x86_64", needed="libown.so.1", **edge)
    assert judge(found, linkage(known)) == []


@pytest.mark.parametrize(("code", "level"), [("", Level.ERROR), ("CDLL in a.py", Level.WARNING)])
def test_what_the_package_s_own_code_may_load_first_warns(code: str, level: Level) -> None:
    there = ("demo/lib/libown.so.1",)
    edge = Edge(path=OBJECT, architecture="x86_64", needed="libown.so.1", elsewhere=there)
    known = linkage(edge, loading_code=code, loads_everywhere=bool(code))
    (problem,) = judge(report(fault(LIBRARY, name="libown.so.1")), known)
    assert problem.level is level
    (problem,) = judge(report(fault(SYMBOL, name="own_call")), known)
    assert problem.level is level


@pytest.mark.parametrize(
    ("elsewhere", "missing", "level"),
    [
        ("", (), Level.ERROR),
        ("", ("torch",), Level.WARNING),
        ("wheel:torch:torch/lib/libtorch.so", (), Level.WARNING),
    ],
    ids=["nobody has it", "a requirement may", "a requirement does"],
)
def test_what_is_loaded_for_the_whole_process_may_define_what_a_requirement_has(
    elsewhere: str, missing: tuple[str, ...], level: Level
) -> None:
    lost = UnresolvedSymbol(path=OBJECT, architecture="x86_64", name="call", elsewhere=elsewhere)
    known = linkage(
        unresolved=(lost,),
        requirements=missing,
        loading_code="RTLD_GLOBAL in a.py",
        loads_everywhere=True,
    )
    (problem,) = judge(report(fault(SYMBOL, name="call")), known)
    assert problem.level is level


def test_what_only_libraries_of_requirements_need_warns_or_is_promised() -> None:
    promised, other = (fault(LIBRARY, name=name) for name in ("libglib-2.0.so.0", "libdbus-1.so.3"))
    gap, problem = judge(report(promised, other))
    assert "lacks libglib-2.0.so.0, which the platform tag promises" in gap.sentence
    assert problem.level is Level.WARNING
    assert problem.sentence == (
        f"does not load on {SYSTEM}: libdbus-1.so.3 is not found there; "
        "libraries of its requirements need it"
    )


def test_what_a_requirement_may_have_loaded_before_is_not_inspected() -> None:
    found = report(fault(LIBRARY, name="libtorch.so"), fault(SYMBOL, name="of_torch"))
    edge = Edge(path=OBJECT, architecture="x86_64", needed="libtorch.so", may_come_with=("torch",))
    (gap,) = judge(found, linkage(edge))
    assert gap == NotInspected(
        path=OBJECT, sentence=f"not loaded on {SYSTEM}: libtorch.so may come with torch"
    )


def test_symbols_of_the_interpreter_are_exempt_and_others_are_not() -> None:
    missing = ("PyLong_FromLong", "b_gone", "a_gone")
    faults = [fault(SYMBOL, name=name) for name in missing]
    (problem,) = judge(report(*faults), imports=symbols(*missing))
    assert problem.sentence == (
        f"does not load on {SYSTEM}: no library that it loads there defines 2 symbols "
        "(a_gone, b_gone)"
    )


def test_a_library_may_find_symbols_in_what_is_loaded_before_it() -> None:
    found = report(fault(SYMBOL, path="demo/plugin.so", root="demo/plugin.so", name="of_other"))
    plugin = elf_file("demo/plugin.so", imports=symbols("of_other"))
    package = wheel(objects=(plugin, elf_file("demo/other.so", exports=symbols("of_other"))))
    gap, _ = object_does_not_load(found, linkage(), package)
    assert gap == NotInspected(
        path="demo/plugin.so",
        sentence=f"not loaded on {SYSTEM}: only libraries loaded before it may define of_other",
    )


def test_a_library_needs_what_the_simulation_finds_nowhere_either() -> None:
    found = report(fault(SYMBOL, path="demo/plugin.so", root="demo/plugin.so", name="gone"))
    plugin = elf_file("demo/plugin.so", imports=symbols("gone"))
    known = linkage(unresolved=(UnresolvedSymbol(path="demo/plugin.so", name="gone"),))
    problem, _ = object_does_not_load(found, known, wheel(objects=(plugin,)))
    assert isinstance(problem, Problem)
    assert "no library that it loads there defines a symbol (gone)" in problem.sentence
    assert problem.cause == "undefined symbol gone"


def test_a_refusal_is_told_in_the_loaders_words_and_silence_is_not_inspected() -> None:
    refused = fault(LoadFaultKind.REFUSED, detail="ELF load command alignment not page-aligned")
    problem, gap = judge(report(refused, untried=(("demo/b.so", "hung 60 s"),)))
    assert isinstance(problem, Problem)
    assert problem.sentence.endswith("ELF load command alignment not page-aligned")
    assert gap == NotInspected(path="demo/b.so", sentence=f"not loaded on {SYSTEM}: hung 60 s")


def tagged(platform: str) -> Any:
    return wheel(f"demo-1.0-cp311-cp311-{platform}.whl")


def test_an_image_newer_than_the_tag_says_what_was_not_inspected() -> None:
    (gap,) = image_newer_than_tag(report(), tagged("manylinux_2_28_x86_64"))
    assert gap == NotInspected(sentence="manylinux_2_28 on glibc 2.31: not inspected below 2.31")
    assert list(image_newer_than_tag(report(), tagged("manylinux_2_31_x86_64"))) == []


@pytest.mark.parametrize("platform", ["linux_x86_64", "musllinux_1_2_x86_64"])
def test_a_tag_that_promises_no_glibc_has_none_to_be_proved(platform: str) -> None:
    with pytest.raises(NotApplicable, match="promises no version of glibc"):
        list(image_newer_than_tag(report(), tagged(platform)))

"""The libraries really loaded are compared with the simulated ones, and only where both speak."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binary_checks.checks.crosscheck import simulation_differs
from binary_checks.checks.runtime import loaded_libraries_differ
from binary_checks.errors import ReadersDisagree
from binary_checks.knowledge.loaded_files import Deviation
from binary_checks.model import (
    Edge,
    Ending,
    ExtensionReport,
    Linkage,
    Note,
    NotInspected,
    Problem,
    Step,
    Wheel,
)
from fixtures.values import elf_file, only, wheel

ROOT, DEP = "demo/_a.so", "demo.libs/libdep.so.1"


def facts(
    mapped: tuple[str, ...] | None, *edges: Edge, **fields: Any
) -> tuple[ExtensionReport, Linkage, Wheel]:
    closure = (ROOT, *(e.resolved for e in edges if e.resolved and ":" not in e.resolved))
    usual = {"roots": (ROOT,), "closures": ((ROOT, closure),), "edges": edges}
    linkage = Linkage(target="manylinux_2_17_x86_64", **{**usual, **fields})
    report = ExtensionReport(python="CPython 3.11.7", libraries=mapped)
    package = wheel(objects=[elf_file(ROOT), elf_file(DEP)])
    return report, linkage, package


def deviation(path: str, sentence: str) -> Deviation:
    return Deviation(path=path, sentence=f"the simulation expected otherwise: {sentence}")


def edge(needed: str, resolved: str | None, path: str = ROOT) -> Edge:
    return Edge(path=path, architecture="x86_64", needed=needed, resolved=resolved, root=ROOT)


def test_loaded_libraries_differ_fires_when_another_file_was_taken() -> None:
    other = "/opt/lib/libdep.so.1"
    sentence = f"should load {DEP}, but the process did not; it has {other}"
    given = facts((ROOT, other), edge("libdep.so.1", DEP))
    assert list(loaded_libraries_differ(*given)) == [
        Problem(path=ROOT, sentence=sentence, facts=("libdep.so.1",))
    ]
    assert list(simulation_differs(*given)) == []  # it is no error of ours
    other = "demo/plugins/libdep.so.1"
    sentence = f"should load {DEP}, but the process did not; it has {other}"
    report, linkage, _ = facts((ROOT, other), edge("libdep.so.1", DEP))
    package = wheel(objects=[elf_file(path) for path in (ROOT, DEP, other)])
    found = [
        each for each in loaded_libraries_differ(report, linkage, package) if each.path == ROOT
    ]  # type: ignore[union-attr]
    assert found == [deviation(ROOT, sentence)]


def test_it_is_noted_when_the_system_gave_way_to_the_package() -> None:
    found = list(
        loaded_libraries_differ(*facts((ROOT, DEP), edge("libdep.so.1", "system:libdep.so.1")))
    )
    assert found == [
        deviation(ROOT, f"should load system:libdep.so.1, but the process did not; it has {DEP}"),
        deviation(DEP, "is loaded, but no loaded module appears to need it"),
    ]


def test_a_missing_library_that_this_system_has_is_noted() -> None:
    """Where it has none, nothing is found: that must make no difference to the verdict."""
    found = loaded_libraries_differ(*facts((ROOT, "/usr/lib/libz.so.1"), edge("libz.so.1", None)))
    unneeded = "is loaded, but no loaded module appears to need it"
    assert list(loaded_libraries_differ(*facts((ROOT, DEP)))) == [deviation(DEP, unneeded)]
    sentence = "finds libz.so.1 on this system, which not all users have"
    assert list(found) == [Note(path=ROOT, sentence=sentence)]


def test_it_is_our_error_alone_that_the_simulation_did_not_find_a_loaded_library() -> None:
    found = facts((ROOT, DEP), edge("libdep.so.1", None))
    assert deviation(ROOT, f"finds libdep.so.1 in {DEP}") in list(loaded_libraries_differ(*found))
    with pytest.raises(ReadersDisagree) as raised:
        list(simulation_differs(*found))
    assert raised.value.lines == (
        f"{ROOT}: the simulation expected otherwise: finds libdep.so.1 in {DEP}",
        f"{DEP}: the simulation expected otherwise: is loaded, but no loaded module appears to "
        "need it",
    )


def test_a_library_that_code_of_the_package_loads_first_is_no_deviation() -> None:
    proven = replace(edge("libdep.so.1", None), elsewhere=(DEP,), proven=DEP)
    found = facts((ROOT, DEP), proven, roots=(ROOT, DEP))
    assert list(loaded_libraries_differ(*found)) == list(simulation_differs(*found)) == []


@pytest.mark.parametrize(
    ("needed", "resolved", "file"),
    [
        ("libdep.so.1", DEP, DEP),
        ("libz.so.1", "system:libz.so.1", "/lib/libz.so.1.2.13"),
        ("libm.so.6", "system:libm.so.6", "/lib/libm-2.31.so"),
        ("libm.so.6", "system:libm.so.6", "/lib/libm.so.6"),
        ("ld-linux-x86-64.so.2", "system:ld-linux-x86-64.so.2", "/lib/ld-2.31.so"),
        ("libc.so", "system:libc.so", "/lib/ld-musl-x86_64.so.1"),
        ("libx.so.1", "wheel:other:other.libs/libx.so.1", "other.libs/libx.so.1"),
    ],
)
def test_loaded_libraries_differ_is_quiet_when_they_agree(
    needed: str, resolved: str, file: str
) -> None:
    assert list(loaded_libraries_differ(*facts((ROOT, file), edge(needed, resolved)))) == []


HASHED = "libdep-040039e1.so.1"


@pytest.mark.parametrize(
    "given",
    [
        facts((), edge("libdep.so.1", DEP)),  # the module was not loaded
        facts((ROOT, "torch/lib/libtorch.so"), edge("libtorch.so", None), requirements=("torch",)),
        # scipy 1.15.3 and numpy 2.2.6 bring the same libgfortran; numpy is imported first.
        facts((ROOT, "numpy.libs/libdep.so.1"), edge("libdep.so.1", DEP), requirements=("numpy",)),
        facts((ROOT, f"numpy.libs/{HASHED}"), edge(HASHED, f"demo.libs/{HASHED}")),
        facts((ROOT, DEP), roots=(ROOT, DEP)),  # the library was opened by itself
    ],
)
def test_loaded_libraries_differ_is_quiet_where_the_package_explains_what_is_there(
    given: tuple[ExtensionReport, Linkage, Wheel],
) -> None:
    assert list(loaded_libraries_differ(*given)) == []


def test_loaded_libraries_differ_is_quiet_about_what_a_refused_module_would_need() -> None:
    _, linkage, package = facts((), edge("libdep.so.1", DEP))
    steps = (Step(name=ROOT, outcome=Ending.LOADER_ERROR),)
    report = ExtensionReport(python="CPython", libraries=(DEP,), steps=steps)
    assert only(NotInspected, loaded_libraries_differ(report, linkage, package))


def test_a_module_that_the_process_never_had_is_not_inspected() -> None:
    _, linkage, package = facts((ROOT,))
    steps = (
        Step(name=ROOT),
        Step(name="demo/_b.so", outcome=Ending.LOADER_ERROR),
        Step(name="", outcome=Ending.CRASHED, finished=True),
    )
    untried = ("demo/_c.so",)
    report = ExtensionReport(python="CPython", libraries=(ROOT,), steps=steps, untried=untried)
    sentence = "was not loaded, so its libraries were not compared"
    assert list(loaded_libraries_differ(report, linkage, package)) == [
        NotInspected(path=path, sentence=sentence) for path in ("demo/_b.so", "demo/_c.so")
    ]


def test_a_system_that_does_not_tell_is_not_inspected() -> None:
    sentence = "this system does not report which libraries a process has loaded"
    assert list(loaded_libraries_differ(*facts(None))) == [NotInspected(sentence=sentence)]
    assert only(NotInspected, simulation_differs(*facts(None)))

"""What the loads of extension modules show is judged, and modules that nobody needs stay quiet."""

from __future__ import annotations

from typing import Any

import pytest

from binary_checks.checks.runtime import extension_fails_to_load
from binary_checks.model import (
    CodeNames,
    DispensableObject,
    Edge,
    Ending,
    ExtensionReport,
    Finding,
    ImportReport,
    Level,
    Linkage,
    Note,
    NotInspected,
    Problem,
    Step,
    Wheel,
)
from fixtures.values import elf_file, only, symbols, wheel

PYTHON = "CPython 3.11.7"
NO_OBJECTS = Linkage(target="manylinux_2_17_x86_64")


def imported(**fields: Any) -> ImportReport:
    return ImportReport(python=PYTHON, steps=(Step(name="demo", **fields),))


def loaded(*steps: Step, **fields: Any) -> ExtensionReport:
    return ExtensionReport(python=PYTHON, steps=steps, **fields)


def judge(
    report: ExtensionReport,
    must_import: tuple[str, ...] = (),
    linkage: Linkage = NO_OBJECTS,
    package: Wheel | None = None,
    code: CodeNames | None = None,
    **fields: Any,
) -> list[Finding]:
    facts = (imported(**fields), linkage, package or wheel(), code or CodeNames())
    return list(extension_fails_to_load(report, *facts, must_import=must_import))


def test_an_exception_in_an_extension_is_open_while_no_import_says_who_needs_it() -> None:
    report = loaded(Step(name="demo/a.so", outcome=Ending.RAISED, detail="KeyError: 1"))
    (gap,) = judge(report, outcome=Ending.CRASHED)
    doubt = "it is not known whether an import of the package loads it: import demo did not succeed"
    sentence = f"raises KeyError: 1; {doubt}"
    assert gap == NotInspected(path="demo/a.so", sentence=sentence)


def test_extension_fails_to_load_fires_on_every_refusal() -> None:
    report = loaded(
        Step(name="demo/a.so", outcome=Ending.LOADER_ERROR, detail="exports no PyInit_a"),
        Step(name="demo/b.so", outcome=Ending.CRASHED, detail="SIGSEGV"),
        Step(name="", outcome=Ending.CRASHED, detail="SIGABRT", finished=True),
        untried=("demo/c.so",),
    )
    assert judge(report) == [
        Problem(
            path="demo/a.so",
            sentence="is refused by the loader: exports no PyInit_a",
            cause="init function PyInit_a",
            consequence=True,
        ),
        Problem(path="demo/b.so", sentence="crashes: SIGSEGV", cause="crashes: SIGSEGV"),
        Problem(sentence="a process that loaded all extension modules crashes: SIGABRT"),
        NotInspected(
            path="demo/c.so", sentence="not loaded, because too many other modules crashed or hung"
        ),
    ]


def test_a_module_for_another_architecture_has_the_cause_of_wrong_architecture() -> None:
    package = wheel(objects=(elf_file("demo/a.so", architecture="aarch64"),))
    refused = "demo/a.so: cannot open shared object file: No such file or directory"
    step = Step(name="demo/a.so", outcome=Ending.LOADER_ERROR, detail=refused)
    problem = only(Problem, judge(loaded(step), package=package))
    assert (problem.cause, problem.consequence) == ("code for aarch64", True)


def test_a_library_that_code_opens_by_its_name_needs_no_init_function() -> None:
    """A debugger loads memray's _inject.abi3.so into another process."""
    path, imports = "demo/_inject.abi3.so", symbols("PyGILState_Ensure")
    package = wheel(objects=(elf_file(path, imports=imports),))
    step = Step(name=path, outcome=Ending.LOADER_ERROR, detail="exports no PyInit__inject")
    named = CodeNames(named=frozenset({path}))
    crashed = Step(name="demo/b.so", outcome=Ending.CRASHED, detail="SIGSEGV")
    assert judge(loaded(step, crashed), package=package, code=named) == [
        Note(path=path, sentence="loads, but is not a module: code opens it by its name"),
        Problem(path="demo/b.so", sentence="crashes: SIGSEGV", cause="crashes: SIGSEGV"),
    ]
    assert only(Problem, judge(loaded(step), package=package))
    refused = Step(name=path, outcome=Ending.LOADER_ERROR, detail="undefined symbol: f")
    assert only(Problem, judge(loaded(refused), package=package, code=named))


@pytest.mark.parametrize("named", ["demo.core._a", "demo/core/_a.abi3.so"])
def test_extension_fails_to_load_fires_on_an_exception_that_matters(named: str) -> None:
    path = "demo/core/_a.abi3.so"
    report = loaded(Step(name=path, outcome=Ending.RAISED, detail="ImportError: no"))
    expected = [Problem(path=path, sentence="raises ImportError: no", cause="ImportError: no")]
    assert judge(report, extensions=(path,)) == expected
    assert judge(report, must_import=(named,)) == expected
    # an optional module: scipy 1.18's _matfuncs_sqrtm_triu imports itself half-way
    assert judge(report, extensions=("demo/b.so",)) == []


PATH = "demo/a.so"


def refused(library: str) -> ExtensionReport:
    detail = f"{library}: cannot open shared object file: No such file or directory"
    return loaded(Step(name=PATH, outcome=Ending.LOADER_ERROR, detail=detail))


def needing(library: str, resolved: str | None, **fields: Any) -> Linkage:
    edge = Edge(path=PATH, architecture="x86_64", needed=library, resolved=resolved)
    return Linkage(target="manylinux_2_17_x86_64", edges=(edge,), **fields)


def test_a_library_that_the_tag_promises_is_not_missing_where_this_system_lacks_it() -> None:
    """A container lacks libGL.so.1, and users of opencv have it."""
    (found,) = judge(refused("libGL.so.1"), linkage=needing("libGL.so.1", "system:libGL.so.1"))
    assert isinstance(found, NotInspected)
    assert found.sentence.endswith("this system lacks libGL.so.1, which the platform tag promises")


def test_what_a_library_of_a_requirement_needs_is_promised_too() -> None:
    """PyQt5's Qt is another package, and its libQt5Core.so.5 needs libglib."""
    assert only(NotInspected, judge(refused("libglib-2.0.so.0")))
    assert only(Problem, judge(refused("libdbus-1.so.3")))


def test_a_module_that_the_package_can_do_without_warns_where_it_does_not_load() -> None:
    """numba's tbbpool loads where libtbb happens to be."""
    without = (
        DispensableObject(path=PATH, reason="the package continues without it", complete=False),
    )
    linkage = needing("libtbb.so.12", None, dispensable=without)
    assert only(Problem, judge(refused("libtbb.so.12"), linkage=linkage)).level is Level.WARNING
    found = only(Problem, judge(refused("libtbb.so.12"), linkage=needing("libtbb.so.12", None)))
    assert found.level is Level.ERROR

"""What the loads of extension modules show is judged, and modules that nobody needs stay quiet."""

from __future__ import annotations

from typing import Any

import pytest

from binary_checks.checks.runtime import extension_fails_to_load
from binary_checks.model import (
    Ending,
    ExtensionReport,
    Finding,
    ImportReport,
    Linkage,
    NotInspected,
    Problem,
    Step,
)
from fixtures.values import wheel

PYTHON = "CPython 3.11.7"


def imported(**fields: Any) -> ImportReport:
    return ImportReport(python=PYTHON, steps=(Step(name="demo", **fields),))


def loaded(*steps: Step, **fields: Any) -> ExtensionReport:
    return ExtensionReport(python=PYTHON, steps=steps, **fields)


def judge(
    report: ExtensionReport, must_import: tuple[str, ...] = (), **fields: Any
) -> list[Finding]:
    linkage = Linkage(target="manylinux_2_17_x86_64")
    return list(
        extension_fails_to_load(
            report, imported(**fields), linkage, wheel(), must_import=must_import
        )
    )


def test_an_exception_in_an_extension_is_open_while_no_import_says_who_needs_it() -> None:
    report = loaded(Step(name="demo/a.so", outcome=Ending.RAISED, detail="KeyError: 1"))
    (gap,) = judge(report, outcome=Ending.CRASHED)
    sentence = "raises KeyError: 1; unknown whether that counts: import demo did not succeed"
    assert gap == NotInspected(path="demo/a.so", sentence=sentence)


def test_extension_fails_to_load_fires_on_every_refusal() -> None:
    report = loaded(
        Step(name="demo/a.so", outcome=Ending.LOADER_ERROR, detail="exports no PyInit_a"),
        Step(name="demo/b.so", outcome=Ending.CRASHED, detail="SIGSEGV"),
        Step(name="", outcome=Ending.CRASHED, detail="SIGABRT", finished=True),
        untried=("demo/c.so",),
    )
    assert judge(report) == [
        Problem(path="demo/a.so", sentence="is refused by the loader: exports no PyInit_a"),
        Problem(path="demo/b.so", sentence="crashes: SIGSEGV"),
        "a process that loaded all extension modules crashes: SIGABRT",
        NotInspected(
            path="demo/c.so", sentence="not loaded, because too many others crashed or hung"
        ),
    ]


@pytest.mark.parametrize("named", ["demo.core._a", "demo/core/_a.abi3.so"])
def test_extension_fails_to_load_fires_on_an_exception_that_matters(named: str) -> None:
    path = "demo/core/_a.abi3.so"
    report = loaded(Step(name=path, outcome=Ending.RAISED, detail="ImportError: no"))
    expected = [Problem(path=path, sentence="raises ImportError: no")]
    assert judge(report, extensions=(path,)) == expected
    assert judge(report, must_import=(named,)) == expected


def test_extension_fails_to_load_is_quiet_on_an_optional_module_that_raises() -> None:
    # scipy 1.18's _matfuncs_sqrtm_triu imports itself half-way and never loads by name.
    report = loaded(Step(name="demo/a.so", outcome=Ending.RAISED), Step(name="demo/b.so"))
    assert judge(report, extensions=("demo/b.so",)) == []

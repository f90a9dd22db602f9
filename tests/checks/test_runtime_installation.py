"""What an installation leaves behind is judged, and one that was refused is not looked into."""

from __future__ import annotations

from typing import Any

from binary_checks.checks.runtime import (
    installation_fails,
    installed_files_differ,
    unrecorded_files,
)
from binary_checks.model import InstallReport, NotInspected, Problem
from fixtures.values import wheel

PYTHON = "CPython 3.11.7"
REFUSED = NotInspected(sentence="it could not be installed: no version of absent")


def installed(**fields: Any) -> InstallReport:
    return InstallReport(python=PYTHON, installer="uv 0.13.8", **fields)


def test_installation_fails_fires_with_the_installers_words() -> None:
    report = installed(error="no version of absent")
    assert list(installation_fails(report)) == ["uv 0.13.8 refuses it: no version of absent"]
    assert list(installation_fails(installed())) == []


def test_unrecorded_files_fires_for_each_file() -> None:
    sentence = "installed, but RECORD does not name it"
    expected = [Problem(path="demo/extra", sentence=sentence)]
    assert list(unrecorded_files(installed(unrecorded=("demo/extra",)), wheel())) == expected
    assert list(unrecorded_files(installed(), wheel())) == []


def test_files_are_not_inspected_where_nothing_was_installed() -> None:
    report = installed(error="no version of absent")
    assert list(unrecorded_files(report, wheel())) == [REFUSED]
    assert list(installed_files_differ(report)) == [REFUSED]


def test_installed_files_differ_fires_for_altered_and_missing_files() -> None:
    report = installed(altered=("a.py",), missing=("b.py",))
    assert list(installed_files_differ(report)) == [
        Problem(path="a.py", sentence="the installed file differs from the one in the package"),
        Problem(path="b.py", sentence="in the package, but not installed"),
    ]
    assert list(installed_files_differ(installed())) == []

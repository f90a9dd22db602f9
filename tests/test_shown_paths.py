"""Findings have paths in the prefix; users and waivers see paths relative to site-packages."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from binary_checks.declaring import Check, check
from binary_checks.examination.judging import Case, Verdict, judge_case
from binary_checks.examination.settings import RunSettings
from binary_checks.model import ElfFile, Finding, Layout, Package, Problem
from binary_checks.profile import KnownProblem, Profile
from fixtures.values import elf_file, wheel

SITE = "lib/python3.11/site-packages"
LAID_OUT = Layout(site_packages=SITE)


@check
def bad_library(library: ElfFile) -> Iterator[Finding]:
    """A library is bad."""
    del library
    yield "is bad"


@check
def names_no_place(package: Package) -> Iterator[Finding]:
    """It names what is no place of the package."""
    del package
    yield Problem(path="demo-1.0.data/scripts/x", sentence="a name of the archive")
    yield Problem(path=f"wheel:dep:{SITE}/dep/x.so", sentence="of another package")


def verdict_on(
    judged: Check[Any], package: Package, *subjects: Any, known: tuple[KnownProblem, ...] = ()
) -> Verdict:
    case = Case(
        check=judged,
        package_file_name=package.file_name,
        package=package,
        subjects=subjects,
        evidence=(),
    )
    return judge_case(
        case, RunSettings(profile=Profile(known_problems=known), today=date(2026, 1, 1))
    )


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        (f"{SITE}/demo/a.so", "demo/a.so"),
        ("lib/libdemo.so", "../../../lib/libdemo.so"),
        ("../out.so", "../../../../out.so"),
    ],
)
def test_a_path_is_shown_and_waived_as_it_counts_from_site_packages(place: str, shown: str) -> None:
    library = elf_file(place)
    package = wheel(objects=(library,), layout=LAID_OUT)
    problem = Problem(path=shown, sentence="is bad")
    assert verdict_on(bad_library, package, library).problems == (problem,)
    known = KnownProblem(check="bad-library", reason="ours to fix", path=shown)
    verdict = verdict_on(bad_library, package, library, known=(known,))
    assert (verdict.problems, verdict.accepted[0].problem) == ((), problem)


def test_what_is_no_place_of_the_package_is_shown_as_it_is_named() -> None:
    package = wheel(layout=LAID_OUT)
    verdict = verdict_on(names_no_place, package, package)
    assert [problem.path for problem in verdict.problems] == [
        "demo-1.0.data/scripts/x",
        "wheel:dep:dep/x.so",
    ]

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from packaging.tags import parse_tag

from binary_checks.checks.bundling import orphan_library
from binary_checks.checks.duplicates import duplicate_runtime
from binary_checks.checks.hardening import static_tls_budget
from binary_checks.checks.linkage.needed_libraries import (
    libpython_linked,
    load_order_dependent,
    missing_library,
    missing_search_directory,
)
from binary_checks.checks.symbols import missing_version, undefined_symbol
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.tags import read_claims
from binary_checks.model import (
    Finding,
    Format,
    Linkage,
    MalformedObject,
    NotInspected,
    Package,
    TargetSystem,
    UnreadObject,
)
from binary_checks.systems import target_for
from fixtures.linking import extension, link
from fixtures.values import wheel

Check = Callable[[Linkage, Package], Iterator[Finding]]


def _static_tls_budget(linkage: Linkage, package: Package) -> Iterator[Finding]:
    return static_tls_budget(linkage, package, TargetSystem(name="manylinux_2_17_x86_64"))


CHECKS: tuple[Check, ...] = (
    duplicate_runtime,
    libpython_linked,
    load_order_dependent,
    missing_library,
    missing_search_directory,
    missing_version,
    orphan_library,
    _static_tls_budget,
    undefined_symbol,
)
each_check = pytest.mark.parametrize(
    "check", CHECKS, ids=lambda check: getattr(check, "id", "static-tls-budget")
)


@each_check
def test_a_package_with_nothing_to_load_is_not_applicable(check: Check) -> None:
    with pytest.raises(
        NotApplicable, match="no ELF object that is loaded on manylinux_2_17_x86_64"
    ):
        list(check(link(), wheel()))


@each_check
def test_an_object_that_nobody_could_read_is_not_inspected(check: Check) -> None:
    unread = UnreadObject(path="demo/big.so", format=Format.ELF, reason="too large")
    broken = MalformedObject(path="demo/bad.so", format=Format.ELF, offset=0, reason="cut short")
    foreign = UnreadObject(path="demo/x.dll", format=Format.PE, reason="no reader")
    package = wheel(unread=(unread, foreign), malformed=(broken,))
    assert list(check(link(), package)) == [
        NotInspected(path="demo/bad.so", sentence="cut short"),
        NotInspected(path="demo/big.so", sentence="too large"),
    ]


@each_check
def test_what_is_loaded_and_has_no_fault_passes(check: Check) -> None:
    objects = (extension("libc.so.6"),)
    assert list(check(link(*objects), wheel(objects=objects))) == []


@each_check
def test_a_tag_that_the_target_does_not_stand_for_is_not_judged(check: Check) -> None:
    linkage = replace(link(), unjudged=("musllinux_1_2_x86_64",))
    assert list(check(linkage, wheel())) == [
        NotInspected(
            sentence="musllinux_1_2_x86_64 was not judged; manylinux_2_17_x86_64 was judged instead"
        )
    ]


def test_what_a_set_of_tags_leaves_unjudged_is_told_by_the_simulation() -> None:
    on = target_for(
        read_claims(parse_tag("cp311-cp311-manylinux2014_x86_64.musllinux_1_2_x86_64")), frozenset()
    )
    assert link(on=on).unjudged == ("musllinux_1_2_x86_64",)

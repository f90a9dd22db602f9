"""Every check is documented, belongs to a family, fires in one test and is quiet in another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from inspect import Parameter
from types import NoneType
from typing import Any

import pytest

from binary_checks.declaring import FAMILIES, Check, find_checks, find_gatherers
from binary_checks.errors import BinaryChecksError, NotApplicable, ReadersDisagree
from binary_checks.examination.facts import ON_DEMAND, find_gatherer
from binary_checks.gather.linkage import OwnCode
from binary_checks.gather.member_contents import MemberContents
from binary_checks.model import (
    Level,
    Note,
    NotInspected,
    ObjectFile,
    Package,
    Place,
    Reading,
    Request,
    Survey,
)
from binary_checks.probes import load_readers
from binary_checks.reports.explanation import explain, read_documentation
from fixtures.recorded.inputs import load

CHECKS = find_checks()
CHECKS_BY_ID = {check.id: check for check in CHECKS}
each_check = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)


def test_each_family_has_checks_and_no_two_share_an_id() -> None:
    ids = [check.id for check in CHECKS]
    assert {check.family for check in CHECKS} == {*FAMILIES}
    assert len(ids) == len(set(ids))


@each_check
def test_a_check_has_a_family_a_title_a_why_a_fix_and_the_reason_of_its_level(
    check: Check[Any],
) -> None:
    assert check.family in FAMILIES
    documentation = read_documentation(check)
    assert documentation.title.endswith(".")
    assert documentation.why
    assert documentation.fix
    assert "\n" not in documentation.title, "a title is one line: tables and --explain show it"
    reason = documentation.level
    assert reason.endswith("."), "its docstring has no section 'Level:'"
    named = tuple(f"{level.value}:" for level in Level)
    assert not reason.lower().startswith(named), "the pages put the level before the reason"


CONTENTS = (MemberContents, OwnCode, Reading, Place)
"""Parameters of gatherers only: a check does no I/O."""


@each_check
def test_a_check_says_what_it_runs_on_and_every_option_has_a_default(check: Check[Any]) -> None:
    assert check.subjects
    for kind in (kind for kinds in check.facts for kind in kinds if kind is not NoneType):
        known = issubclass(kind, (ObjectFile, Request)) or find_gatherer(kind, {})
        assert known, f"{kind}: nothing gathers it"
        assert kind not in CONTENTS, f"{kind}: a gatherer turns contents into a fact"
    assert [] == [
        name for name, option in check.options.items() if option.default is Parameter.empty
    ]
    assert check.id in explain(check)
    for kind in check.subjects:
        if issubclass(kind, (Package, Survey)):
            assert kind.noun.startswith(("a ", "an ")), f"{kind} has no noun of its own"


GAPS = {"image-newer-than-tag", "variant-label-undecided"}
"""Checks that never find a problem: they only report gaps."""


def test_every_check_fires_in_one_recorded_call_and_is_quiet_in_another() -> None:
    missing = {
        check: {"tells of a gap", "is quiet"} if check in GAPS else {"fires", "is quiet"}
        for check in CHECKS_BY_ID
    }
    for check, given, options in load("calls"):
        if check in missing:
            missing[check].discard(_judge(CHECKS_BY_ID[check], given, options))
    assert {check: how for check, how in missing.items() if how} == {}


def _judge(check: Check[Any], given: Sequence[Any], options: Mapping[str, Any]) -> str:
    try:
        found = [each for each in check(*given, **options) if not isinstance(each, Note)]
    except ReadersDisagree:  # not a problem of the package, but what the check looks for
        return "fires"
    except NotApplicable:
        return "is quiet"
    except BinaryChecksError:
        return "cannot judge"
    if not found:
        return "is quiet"
    is_gap = all(isinstance(each, NotInspected) for each in found)
    return "tells of a gap" if is_gap else "fires"


def test_what_is_gathered_on_demand_wants_nothing_beforehand() -> None:
    modules = [import_module(f"binary_checks.gather.{name}") for name in ON_DEMAND]
    late = find_gatherers((*modules, *load_readers()))
    assert {kind.__name__ for kind, each in late.items() if each.wants} == set()

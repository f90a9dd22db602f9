"""Rules that recognise a cause from a line: a project's causes.toml, then the shipped one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

from binary_checks.errors import ProfileError
from binary_checks.profile import convert, convert_table, parse_toml, reject_unknown
from binary_checks.safe_text import cut

INFRA, PRODUCT, TOOL, UNKNOWN = "infra", "product", "tool", "unknown"
"""Kinds of causes: infra (the network, the disk or the host), product (the package), tool
(binary-checks or its options), and unknown.
"""
REASON, LOG = "reason", "log"
"""What a rule reads: reasons of errors in a result, or lines of a log without a result."""
SHIPPED = "causes.toml"
_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_FIELDS: Mapping[str, Any] = {
    "name": str,
    "kind": Literal["infra", "product", "tool", "unknown"],
    "reads": tuple[Literal["reason", "log"], ...],
    "patterns": tuple[str, ...],
    "example": str,
    "counter_example": str,
    "advice": str,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class CauseRule:
    """A rule; its patterns are searched in a line, ignoring case."""

    name: str
    kind: str
    patterns: tuple[re.Pattern[str], ...]
    example: str  # a line from a real failure with this cause
    counter_example: str  # a similar line with another cause
    reads: tuple[str, ...] = (REASON, LOG)
    advice: str = ""  # what to do about the cause
    listed: str  # its location: "own.toml: causes[0]"

    def matches(self, line: str) -> bool:
        """Return whether the line shows this cause."""
        return any(pattern.search(line) for pattern in self.patterns)


@dataclass(frozen=True, kw_only=True, slots=True)
class Causes:
    """A project's rules, and the shipped rules whose names the project does not reuse."""

    own: tuple[CauseRule, ...] = ()
    shipped: tuple[CauseRule, ...] = ()

    @property
    def rules(self) -> tuple[CauseRule, ...]:
        """All rules, in the order in which they are tried."""
        return (*self.own, *self.shipped)

    def advice_on(self, name: str) -> str:
        """Return what to do about a cause, or "" if no rule says so."""
        return next((rule.advice for rule in self.rules if rule.name == name), "")


@cache
def shipped_causes() -> Causes:
    """Return the rules that come with binary_checks."""
    text = (resources.files("binary_checks.fleet.causes") / SHIPPED).read_bytes()
    return _agree(Causes(shipped=_read(text, SHIPPED)))


def load_causes(own: bytes | None = None, named: str = "causes") -> Causes:
    """Return the rules of a project's file, called ``named`` in messages, and the shipped ones.

    Raises ProfileError, which names file and rule, for rules that contradict their examples or each
    other, and for patterns that may take too long.
    """
    shipped = shipped_causes()
    if own is None:
        return shipped
    rules = _read(own, named)
    replaced = {rule.name for rule in rules}
    left = tuple(rule for rule in shipped.shipped if rule.name not in replaced)
    return _agree(Causes(own=rules, shipped=left))


def _read(text: bytes, named: str) -> tuple[CauseRule, ...]:
    table = parse_toml(text, named)
    reject_unknown(table, {"causes": list}, named, "key")
    rows = convert(table.get("causes", []), list, f"{named}: causes")
    rules = tuple(_read_rule(row, f"{named}: causes[{at}]") for at, row in enumerate(rows))
    names = [rule.name for rule in rules]
    for at, rule in enumerate(rules):
        if rule.name in names[:at]:
            raise ProfileError(f"{rule.listed}: {rule.name!r} is the name of an earlier rule")
    return rules


def _read_rule(row: object, where: str) -> CauseRule:
    if not isinstance(row, dict):
        raise ProfileError(f"{where}: not a table")
    values = {"reads": (REASON, LOG), **convert_table(row, _FIELDS, where)}
    for required in ("name", "kind", "patterns", "example", "counter_example", "reads"):
        if not values.get(required):
            raise ProfileError(f"{where}: {required!r} is missing")
    where = cut(f"{where} ({values['name']})")
    if not _NAME.fullmatch(values["name"]):
        raise ProfileError(
            f"{where}: its name may contain only lower-case letters, digits and single hyphens"
        )
    values["patterns"] = tuple(compile_pattern(each, where) for each in values["patterns"])
    rule = CauseRule(**values, listed=where)
    if not rule.matches(rule.example):
        raise ProfileError(f"{where}: none of its patterns matches its example")
    if rule.matches(rule.counter_example):
        raise ProfileError(f"{where}: one of its patterns matches its counter_example")
    return rule


def _agree(causes: Causes) -> Causes:
    """Return the rules. Raises ProfileError if a rule matches the example of a later rule."""
    for place, rule in enumerate(causes.rules):
        for earlier in causes.rules[:place]:
            if {*earlier.reads} & {*rule.reads} and earlier.matches(rule.example):
                raise ProfileError(
                    f"{earlier.listed}: it also matches the example of {rule.listed}"
                )
    return causes


# Regular expressions with bounded time: patterns with unlimited backtracking are rejected.

LONGEST_LINE = 500
"""Most characters of a line; the slowest allowed pattern takes the square of this in steps."""
_LONGEST_PATTERN = 500
_MOST_OPTIONAL = 8  # each may double the ways to match
_LITERAL = re.compile(r"\\[^1-9]|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_GROUP = re.compile(r"\([^()]*\)")


def compile_pattern(text: str, where: str) -> re.Pattern[str]:
    """Compile a pattern, ignoring case. Raises ProfileError, which begins with ``where``.

    One unlimited repetition is allowed, two after ``^``, and none of a group. Searching a line then
    takes at most the square of its length in steps.
    """
    fault = f"{len(text)} characters; at most {_LONGEST_PATTERN} are allowed"
    if len(text) <= _LONGEST_PATTERN:
        try:
            compiled = re.compile(text, re.IGNORECASE)
        except (re.error, RecursionError, OverflowError) as error:
            fault = f"not a regular expression: {error}"
        else:
            fault = "it matches every line" if compiled.match("") else _find_slow_part(text)
    if fault:
        raise ProfileError(f"{where}: pattern {cut(text, 80)!r}: {fault}")
    return compiled


def _find_slow_part(text: str) -> str:
    """Return why a valid pattern may have too many ways to match, or "" if it has few."""
    plain = _LITERAL.sub("x", text).replace("(?:", "(")
    outside = plain
    while _GROUP.search(outside):
        outside = _GROUP.sub("", outside)
    anchored = plain.startswith("^") and "|" not in outside
    faults = {
        "a look-around, a back-reference or an extension is not supported": (
            "(?" in plain or "\\" in plain
        ),
        # (a|aa)* has exponentially many ways
        "a group is repeated": re.search(r"\)[*+{]", plain) is not None,
        "too many repetitions: one is allowed, or two after ^": (
            len(re.findall("[*+{]", plain)) > 1 + anchored
        ),
        f"more than {_MOST_OPTIONAL} optional parts": plain.count("?") > _MOST_OPTIONAL,
    }
    return next((fault for fault, found in faults.items() if found), "")

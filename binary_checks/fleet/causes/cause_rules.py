"""Rules that recognise a cause from a line: a project's causes.toml, then the shipped one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from binary_checks.errors import ProfileError
from binary_checks.profile import convert, convert_table, parse_toml, reject_unknown
from binary_checks.safe_text import cut

INFRA, PRODUCT, TOOL, UNKNOWN = "infra", "product", "tool", "unknown"
"""Kinds of causes: infra (the network, the disk or the host), product (the package), tool
(binary-checks or its options), and unknown.
"""
KINDS = (INFRA, PRODUCT, TOOL, UNKNOWN)
REASON, LOG = "reason", "log"
"""What a rule reads: reasons of errors in a result, or lines of a log without a result."""
SHIPPED = "causes.toml"
_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_MOST = 500  # most rules of one file
_FIELDS: Mapping[str, Any] = {
    "name": str,
    "kind": str,
    "reads": tuple[str, ...],
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
    if len(rows) > _MOST:
        raise ProfileError(f"{named}: {len(rows):,} rules; at most {_MOST} are allowed")
    rules = tuple(_read_rule(row, f"{named}: causes[{at}]") for at, row in enumerate(rows))
    known: dict[str, CauseRule] = {}
    for rule in rules:
        if rule.name in known:
            raise ProfileError(f"{rule.listed}: {rule.name!r} is the name of an earlier rule")
        known[rule.name] = rule
    return rules


def _read_rule(row: object, where: str) -> CauseRule:
    if not isinstance(row, dict):
        raise ProfileError(f"{where}: not a table")
    values = convert_table(row, _FIELDS, where)
    for required in ("name", "kind", "patterns", "example", "counter_example"):
        if not row.get(required):
            raise ProfileError(f"{where}: {required!r} is missing")
    where = cut(f"{where} ({values['name']})")
    if not _NAME.fullmatch(values["name"]):
        raise ProfileError(
            f"{where}: its name may contain only lower-case letters, digits and single hyphens"
        )
    _require(values["kind"], KINDS, f"{where}: kind")
    for source in values.get("reads", ()):
        _require(source, (REASON, LOG), f"{where}: reads")
    if values.get("reads") == ():
        raise ProfileError(f"{where}: reads: the list is empty")
    try:
        values["patterns"] = tuple(map(compile_pattern, values["patterns"]))
    except SlowPattern as error:
        raise ProfileError(f"{where}: {error}") from None
    return _require_examples(CauseRule(**values, listed=where))


def _require(value: str, known: Iterable[str], where: str) -> None:
    if value not in known:
        raise ProfileError(f"{where}: {cut(repr(value), 60)} is not one of: {', '.join(known)}")


def _require_examples(rule: CauseRule) -> CauseRule:
    if not rule.matches(rule.example):
        raise ProfileError(f"{rule.listed}: none of its patterns matches its example")
    if rule.matches(rule.counter_example):
        raise ProfileError(f"{rule.listed}: one of its patterns matches its counter_example")
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
_TOKEN = re.compile(
    r"""
      (?P<escape>\\(?:[wWdDsSbB]|[^a-zA-Z0-9]))       # no \1, no \N{...}
    | (?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])
    | (?P<open>\((?:\?:)?(?!\?))
    | (?P<close>\))
    | (?P<branch>\|)
    | (?P<repeat>(?:[*+?]|\{\d*,?\d*\})\??)
    | (?P<plain>[^\\\[()|*+?{}])
    """,
    re.VERBOSE | re.DOTALL,
)


class SlowPattern(ValueError):
    """A pattern that is invalid or may take too long, with the reason."""


def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern, ignoring case. Raises SlowPattern.

    One unlimited repetition is allowed, two after ``^``, and none of a group. Searching a line then
    takes at most the square of its length in steps.
    """
    try:
        return _compile(text)
    except SlowPattern as error:
        raise SlowPattern(f"pattern {cut(text, 80)!r}: {error}") from None


def _compile(text: str) -> re.Pattern[str]:
    if len(text) > _LONGEST_PATTERN:
        raise SlowPattern(f"{len(text)} characters; at most {_LONGEST_PATTERN} are allowed")
    try:
        compiled = re.compile(text, re.IGNORECASE)
    except (re.error, RecursionError, OverflowError) as error:
        raise SlowPattern(f"not a regular expression: {error}") from None
    if compiled.match(""):
        raise SlowPattern("it matches every line")
    _require_bounded(_split(text))
    return compiled


def _split(text: str) -> Iterator[re.Match[str]]:
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise SlowPattern(f"{text[place : place + 3]!r} at {place} is not supported")
        yield found
        place = found.end()


def _require_bounded(tokens: Iterable[re.Match[str]]) -> None:
    """Raise SlowPattern if an alternative of the pattern has too many ways to match."""
    depth = repeats = optional = 0
    anchored = fresh = True
    after = ""  # the token before
    for token in tokens:
        if fresh:
            anchored, fresh = token.group() == "^", False
        depth += (token.lastgroup == "open") - (token.lastgroup == "close")
        if token.lastgroup == "branch" and not depth:
            repeats = optional = 0
            fresh = True
        elif token["repeat"] and _is_optional(token):
            optional += 1
        elif token["repeat"]:
            if after == ")":  # (a|aa)* has exponentially many ways
                raise SlowPattern("a group is repeated")
            repeats += 1
        if repeats > 1 + anchored:
            raise SlowPattern("too many repetitions: one is allowed, or two after ^")
        if optional > _MOST_OPTIONAL:
            raise SlowPattern(f"more than {_MOST_OPTIONAL} optional parts")
        after = token.group()


def _is_optional(token: re.Match[str]) -> bool:
    return token.group() in ("?", "??")

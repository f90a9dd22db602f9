"""Turns a check's declaration into text: for ``--explain``, for docs/checks.md and for SARIF."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterable, Iterator
from typing import Any

from binary_checks.declaring import FAMILIES, Check, Documentation
from binary_checks.model import CheckText
from binary_checks.model.requests import Request


def explain(check: Check[Any]) -> str:
    """Everything its declaration says, as Markdown under a second-level heading."""
    documentation = check.documentation
    lines = [f"## {check.id}", "", documentation.title, ""]
    if documentation.details:
        lines += [documentation.details, ""]
    lines += [f"**Why:** {documentation.why}", "", f"**Fix:** {documentation.fix}", ""]
    lines += [f"**Level:** {_level(check)}", "", _declaration(check), ""]
    if check.options:
        lines += ["Options:", "", *_options(check), ""]
    return "\n".join(lines)


def explain_family(family: str, checks: Iterable[Check[Any]]) -> str:
    """What the family is about, and the fault that each of its checks finds."""
    subject = FAMILIES.get(family, "checks of the project's own")
    ours = sorted((check for check in checks if check.family == family), key=lambda each: each.id)
    lines = (f"- {check.id}: {check.documentation.title}" for check in ours)
    return "\n".join((f"## {family}: {subject}", "", *lines, ""))


def abridge(check: Check[Any]) -> CheckText:
    """What reports say of it."""
    text = check.documentation
    return CheckText(
        id=check.id,
        family=check.family,
        title=text.title,
        why=text.why,
        fix=text.fix,
        runs_package=check.runs_package,
    )


def advice(check: Documentation | CheckText) -> Iterator[str]:
    """Why it matters and what to do, a line each, indented to stand below the problems."""
    for heading, text in (("why", check.why), ("fix", check.fix)):
        if text:
            yield f"  {heading}: {_plain(' '.join(text.split()))}"


_SENTENCE = re.compile(r"(?<=[.]) +(?=[A-Z`])")


def remedy(check: CheckText) -> str:
    """What to do about it, the first sentence of that."""
    return _SENTENCE.split(_plain(" ".join(check.fix.split())), maxsplit=1)[0].removesuffix(".")


def _plain(text: str) -> str:
    """Text for a terminal: a literal in single quotes, or bare where it has such itself."""
    literals = re.compile("``(.+?)``")
    return literals.sub(lambda found: found[1] if "'" in found[1] else f"'{found[1]}'", text)


def _declaration(check: Check[Any]) -> str:
    subjects = " or ".join(f"`{kind.__name__}`" for kind in check.subjects)
    rest = [f"`{_name(kind)}`" for kinds in check.facts[1:] for kind in kinds]
    using = f", with {', '.join(rest)}" if rest else ""
    tables = [name for name in rest if name.startswith("`[")]
    ways = ("enables it", "sets one of its options", *(f"has the table {name}" for name in tables))
    off = "" if check.enabled else f" Off until a profile {', '.join(ways[:-1])} or {ways[-1]}."
    return f"Family `{check.family}`; runs on {subjects}{using}.{off}"


def _level(check: Check[Any]) -> str:
    reason = check.documentation.level
    return f"{check.level.value}: {reason}" if reason else f"{check.level.value}."


def _name(fact: type) -> str:
    """Name a fact by its class, and what a profile asks for by its table."""
    return f"[probes.{fact.table}]" if issubclass(fact, Request) else fact.__name__


def _options(check: Check[Any]) -> Iterator[str]:
    for option in check.options.values():
        yield f"- `{option.name}`: `{_spell(option.annotation)}` = `{option.default!r}`"


def _spell(annotation: Any) -> str:
    """A type as it was written, the same on every Python (3.10 makes unions with None Optional)."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return " | ".join(_spell(kind) for kind in typing.get_args(annotation))
    if annotation is type(None):
        return "None"
    if typing.get_origin(annotation):
        return str(annotation).replace("collections.abc.", "")
    return str(annotation.__name__)


def _row(check: Check[Any]) -> str:
    title = check.documentation.title
    return f"| {check.family} | [{check.id}](#{check.id}) | {check.level.value} | {title} |"


def document(checks: Iterable[Check[Any]]) -> str:
    """The whole of docs/checks.md."""
    checks = sorted(checks, key=lambda check: (check.family, check.id))
    lines = [
        "# Checks",
        "",
        "Generated from the checks' own declarations by `nox -s docs`; edit the docstrings.",
        "",
        "A check's level is that of its gravest problems; some may be milder, as its text says. A",
        "profile's [levels](profile.md#levels) replace them.",
        "",
        "| family | check | level | fault |",
        "|---|---|---|---|",
        *map(_row, checks),
        "",
        *(explain(check) for check in checks),
    ]
    return "\n".join(lines).rstrip() + "\n"

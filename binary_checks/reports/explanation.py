"""Text made from a check's declaration, for ``--explain``, the pages in docs/checks and SARIF."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from binary_checks.declaring import FAMILIES, Check, Difference, find_checks
from binary_checks.model import UNREADABLE, CheckText, Problem, Request
from binary_checks.options import Program

DOCUMENTATION = "https://binary-checks.readthedocs.io/en/stable"
"""The site that ``nox -s site`` builds from docs/; pyproject.toml names it, too."""


def find_page(name: str) -> str:
    """Return the address of the documentation of a check or family of this project.

    Return "" for a project's own check or family, which this documentation does not describe.
    """
    return _pages().get(name, "")


@cache
def _pages() -> Mapping[str, str]:
    families = {name: f"{DOCUMENTATION}/checks/{name}.html" for name in FAMILIES}
    checks = {each.id: f"{families[each.family]}#{each.id}" for each in find_checks()}
    return {**families, **checks, UNREADABLE: f"{DOCUMENTATION}/checks.html#{UNREADABLE}"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Documentation:
    """The parts of a check's docstring; a part that it lacks is ""."""

    title: str  # the fault, one sentence
    details: str  # the text between the title and ``Why:``
    why: str
    fix: str
    level: str  # the reason for the check's level


_SECTION = re.compile(r"^(Why|Fix|Level): ", re.MULTILINE)


@cache
def read_documentation(declared: Check[Any] | Difference[Any]) -> Documentation:
    """Return the parts of a declaration's docstring."""
    text, *sections = _SECTION.split(inspect.getdoc(declared.function) or "")
    title, _, details = text.strip().partition("\n\n")
    parts = {"title": title, "details": details, "why": "", "fix": "", "level": ""}
    parts.update(zip(map(str.lower, sections[::2]), sections[1::2], strict=True))
    tidy = re.compile(r"^ +| +$", re.MULTILINE)
    return Documentation(**{name: tidy.sub("", part.strip()) for name, part in parts.items()})


def explain(check: Check[Any]) -> str:
    """Return all texts of the declaration, as Markdown under a second-level heading."""
    documentation = read_documentation(check)
    lines = [f"## {check.id}", "", documentation.title, ""]
    if documentation.details:
        lines += [documentation.details, ""]
    lines += [f"**Why:** {documentation.why}", "", f"**Fix:** {documentation.fix}", ""]
    reason = f": {documentation.level}" if documentation.level else "."
    lines += [f"**Level:** {check.level.value}{reason}", "", _declaration(check), ""]
    if check.options:
        lines += [f"Options, in a profile's table `[options.{check.id}]`:", ""]
        for option in check.options.values():
            lines.append(
                f"- `{option.name}`: `{_format_type(option.annotation)}` = `{option.default!r}`"
            )
        lines.append("")
    return as_markdown("\n".join(lines))


def explain_family(family: str, checks: Iterable[Check[Any]]) -> str:
    """Return the family's description, and the fault that each of its checks finds."""
    subject = FAMILIES.get(family, "the project's own checks")
    ours = sorted((check for check in checks if check.family == family), key=lambda each: each.id)
    lines = (f"- {check.id}: {read_documentation(check).title}" for check in ours)
    return as_markdown("\n".join((f"## {family}: {subject}", "", *lines, "")))


def abridge(check: Check[Any], program: Program = Program.COMMAND) -> CheckText:
    """Return the texts of a check for reports, with options named as in the program's help."""
    text = read_documentation(check)
    return CheckText(
        id=check.id,
        family=check.family,
        title=program.name_options(text.title),
        why=program.name_options(text.why),
        fix=program.name_options(text.fix),
        runs_package=check.runs_package,
        level=check.level,
    )


def advice(check: Documentation | CheckText, problems: Iterable[Problem] = ()) -> Iterator[str]:
    """Yield why the problems matter and what to do, indented as continuations of the problems."""
    for heading, text in (
        ("why", check.why),
        *(("fix", fix) for fix in list_fixes(check, problems)),
    ):
        if text:
            yield f"  {heading}: {as_plain(' '.join(text.split()))}"


def list_fixes(
    check: Documentation | CheckText | None, problems: Iterable[Problem]
) -> tuple[str, ...]:
    """Return what to do about problems of a check, each advice once; without problems, its own."""
    usual = check.fix if check else ""
    found = dict.fromkeys(problem.fix or usual for problem in problems)
    return tuple(filter(None, found or (usual,)))


_SENTENCE = re.compile(r"(?<=[.]) +(?=[A-Z`])")


def remedy(fix: str) -> str:
    """Return the first sentence on what to do."""
    return _SENTENCE.split(as_plain(" ".join(fix.split())), maxsplit=1)[0].removesuffix(".")


def as_markdown(text: str) -> str:
    """Return text with literals as Markdown has them, between single backticks."""
    return re.sub("``([^`]+)``", r"`\1`", text)


def as_plain(text: str) -> str:
    """Return text for a terminal: literals are quoted unless they contain quotes."""
    literals = re.compile("``(.+?)``")
    return literals.sub(lambda found: found[1] if "'" in found[1] else f"'{found[1]}'", text)


def _declaration(check: Check[Any]) -> str:
    subjects = " or ".join(f"`{kind.__name__}`" for kind in check.subjects)
    # a profile's request is named by its table
    needed = dict.fromkeys(
        f"[probes.{kind.table}]" if issubclass(kind, Request) else kind.__name__
        for kinds in check.facts[1:]
        for kind in kinds
    )
    rest = [f"`{name}`" for name in needed if name != types.NoneType.__name__]
    using = f", with {', '.join(rest)}" if rest else ""
    tables = [name for name in rest if name.startswith("`[")]
    ways = ("enables it", "sets one of its options", *(f"has the table {name}" for name in tables))
    off = "" if check.enabled else f" Off until a profile {', '.join(ways[:-1])} or {ways[-1]}."
    return f"Family `{check.family}`; runs on {subjects}{using}.{off}"


def _format_type(annotation: Any) -> str:
    """Return a type as written in the source.

    The result is the same on every Python, although 3.10 turns unions with None into Optional.
    """
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return " | ".join(_format_type(kind) for kind in typing.get_args(annotation))
    if annotation is type(None):
        return "None"
    if typing.get_origin(annotation):
        return str(annotation).replace("collections.abc.", "")
    return str(annotation.__name__)

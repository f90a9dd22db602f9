"""The morning mail: a night in some forty lines, as text or Markdown; in three if all is well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from binary_checks.fleet.page.morning import Breakage, Morning, TroubledCell
from binary_checks.fleet.page.morning_texts import (
    OTHERS,
    entitle,
    list_notes,
    name_check,
    spell_beginning,
    tally,
)
from binary_checks.fleet.page.naming import spell, spell_projects
from binary_checks.lines import LONGEST
from binary_checks.reports.markdown import spell_code
from binary_checks.reports.verdict_texts import count

_BROKE, _STILL, _LINES, _CELLS = 5, 4, 2, 3
"""Breakages, groups that are still broken, lines of anything else, and cells that are named."""
_SENTENCE = 240  # characters


@dataclass(frozen=True, kw_only=True, slots=True)
class _Form:
    """How a mail is set; ``code`` keeps what comes from outside from being markup."""

    head: str
    gap: Sequence[str]  # lines between two parts
    tally: str
    title: str
    bullet: str
    code: Callable[[str], str]


_TEXT = _Form(head="{}", gap=(), tally="  {}", title="{}:", bullet="  ", code=str)
_MARKDOWN = _Form(
    head="## {}", gap=("",), tally="{}", title="**{}:**", bullet="- ", code=spell_code
)


def write_mail(morning: Morning, *, markdown: bool = False) -> Iterator[str]:
    """The lines of what is worth reading, as plain text or as Markdown."""
    form = _MARKDOWN if markdown else _TEXT
    yield form.head.format(f"{morning.night}: {entitle(morning)}")
    yield from form.gap
    yield form.tally.format(
        ", ".join(f"{number} {word}" for _, number, word in tally(morning.counts))
    )
    yield from _list_lines("Notice", morning.remarks.notices, form)
    yield from _list_breakages("Broke tonight", morning.broke[:_BROKE], morning, form)
    yield from _count_rest(morning.broke, _BROKE, form)
    yield from _list_breakages("Still broken", morning.still[:_STILL], morning, form, brief=True)
    yield from _count_rest(morning.still, _STILL, form)
    if morning.mended:
        yield from _entitle("Mended", _name_cells(morning.mended, "", form), form)
    for state, (_, title) in OTHERS.items():
        if cells := morning.others.get(state):
            oldest = min(cells, key=lambda each: each.since)
            since = f" {spell_beginning(oldest, morning)}"
            yield from _entitle(title, _name_cells(cells, since, form), form)
    for title, lines in list_notes(morning):
        yield from _list_lines(title, lines, form)


def _entitle(title: str, said: str, form: _Form) -> Iterator[str]:
    yield from form.gap
    yield f"{form.title.format(title)} {said}".rstrip()


def _list_breakages(
    title: str, found: Sequence[Breakage], morning: Morning, form: _Form, *, brief: bool = False
) -> Iterator[str]:
    if found:
        yield from _entitle(title, "", form)
    for each in found:
        cause = f" ({spell(each.cause)})" if each.cause else ""
        what = f"{spell_projects(each.projects)}: {name_check(each.check)}{cause}"
        since = f" {spell_beginning(each.cells[0], morning)}"
        where = _name_cells(each.cells, since, form, named=not brief)
        yield f"{form.bullet}{form.code(what)} in {where}"
        if each.said and not brief:
            yield f"    {form.code(spell(each.said, _SENTENCE))}"


def _list_lines(title: str, lines: Iterable[str], form: _Form) -> Iterator[str]:
    said = [form.code(spell(each, LONGEST)) for each in lines]
    if len(said) == 1:
        yield from _entitle(title, said[0], form)
    elif said:
        yield from _entitle(title, "", form)
        yield from (f"{form.bullet}{each}" for each in said[:_LINES])
        yield from _count_rest(said, _LINES, form)


def _count_rest(found: Sequence[object], shown: int, form: _Form) -> Iterator[str]:
    if len(found) > shown:
        yield f"{form.bullet}and {len(found) - shown:,} more"


def _name_cells(
    cells: Sequence[TroubledCell], since: str, form: _Form, *, named: bool = True
) -> str:
    number = f"{count(len(cells), 'cell')}{since}"
    if not named:
        return number
    names = ", ".join(spell(each.row.cell, 120) for each in cells[:_CELLS])
    more = len(cells) - _CELLS
    return f"{number}: {form.code(f'{names} and {more} more' if more > 0 else names)}"

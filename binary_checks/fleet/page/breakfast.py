"""The morning mail: a night in some forty lines, as text or Markdown; in three if all is well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from binary_checks.fleet.page.morning import Breakage, Morning, TroubledCell
from binary_checks.fleet.page.morning_texts import GONE, entitle, spell_gone, spell_updates, tally
from binary_checks.fleet.page.naming import spell, spell_projects, spell_since
from binary_checks.fleet.page.remarks import Remarks
from binary_checks.fleet.states import CellState
from binary_checks.lines import LONGEST
from binary_checks.reports.markdown import spell_code
from binary_checks.reports.verdict_texts import count

_BROKE, _STILL, _LINES, _CELLS = 5, 4, 2, 3
"""Breakages, groups that are still broken, lines of anything else, and cells that are named."""
_SENTENCE = 240  # characters
_OTHERS = (
    (CellState.FLAKY, "Flaky"),
    (CellState.MISSING, "Missing"),
    (CellState.STALE, "Too old"),
    (CellState.LOST, "No result"),
    (CellState.INFRA, "Infra"),
    (CellState.NOT_JUDGED, "Not judged"),
    (CellState.BLOCKED, "GPU waits"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class MailItem:
    """One line of a section, and one that explains it."""

    head: str = ""  # from outside: what it is about
    ours: str = ""  # where and since when, in our words
    names: str = ""  # from outside: cells
    said: str = ""  # from outside: a sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class MailSection:
    """A title with its items, and how many are left out."""

    title: str
    items: tuple[MailItem, ...]
    left_out: int = 0

    @property
    def is_one_line(self) -> bool:
        """Whether title and all go in one."""
        return len(self.items) == 1 and not self.left_out and not self.items[0].head


@dataclass(frozen=True, kw_only=True, slots=True)
class Mail:
    """What is said of a night."""

    night: str
    title: str
    tally: str
    sections: tuple[MailSection, ...]


def write_mail(morning: Morning, remarks: Remarks) -> Mail:
    """What is worth reading."""
    sections = (
        _cut("Notice", _said(remarks.notices), _LINES),
        _cut("Broke tonight", [_show(each, morning) for each in morning.broke], _BROKE),
        _cut("Still broken", [_show(each, morning, brief=True) for each in morning.still], _STILL),
        _cut("Mended", _mended(morning), 1),
        *_others(morning),
        _cut("New versions", _said(spell_updates(morning)), _LINES),
        _cut(GONE, _said(spell_gone(morning)), 1),
        *(_cut(title, _said(lines), _LINES) for title, lines in remarks.by_title()),
    )
    return Mail(
        night=morning.night,
        title=entitle(morning),
        tally=", ".join(f"{number} {word}" for _, number, word in tally(morning.counts)),
        sections=tuple(each for each in sections if each.items),
    )


def _cut(title: str, items: Sequence[MailItem], most: int) -> MailSection:
    return MailSection(title=title, items=tuple(items[:most]), left_out=len(items[most:]))


def _said(lines: Iterable[str]) -> list[MailItem]:
    return [MailItem(said=spell(each, LONGEST)) for each in lines]


def _show(broken: Breakage, morning: Morning, *, brief: bool = False) -> MailItem:
    first = broken.cells[0]
    since = spell_since(first.since, morning.night, known=first.known_before)
    cause = f" ({spell(broken.cause)})" if broken.cause else ""
    check = spell(broken.check) or "no check"
    return MailItem(
        head=f"{spell_projects(broken.projects)}: {check}{cause}",
        ours=f"in {count(len(broken.cells), 'cell')} {since}",
        names="" if brief else _name(broken.cells),
        said="" if brief else spell(broken.said, _SENTENCE),
    )


def _mended(morning: Morning) -> list[MailItem]:
    cells = morning.mended
    return [MailItem(ours=count(len(cells), "cell"), names=_name(cells))] if cells else []


def _others(morning: Morning) -> Iterator[MailSection]:
    for state, title in _OTHERS:
        if cells := morning.others.get(state, ()):
            oldest = min(cells, key=lambda each: each.since)
            since = spell_since(oldest.since, morning.night, known=oldest.known_before)
            ours = f"{count(len(cells), 'cell')} {since}"
            item = MailItem(ours=ours, names=_name(cells))
            yield MailSection(title=title, items=(item,))


def _name(cells: Sequence[TroubledCell]) -> str:
    named = ", ".join(spell(each.row.cell, 120) for each in cells[:_CELLS])
    more = len(cells) - _CELLS
    return f"{named} and {more} more" if more > 0 else named


def write_text(mail: Mail) -> Iterator[str]:
    """Its lines as plain text."""
    yield f"{mail.night}: {mail.title}"
    yield f"  {mail.tally}"
    for section in mail.sections:
        yield from _lay_out(section, "  ", lambda title: f"{title}:", str)


def write_markdown(mail: Mail) -> Iterator[str]:
    """Its lines as Markdown; of what comes from outside nothing becomes markup."""
    yield f"## {mail.night}: {mail.title}"
    yield ""
    yield mail.tally
    for section in mail.sections:
        yield ""
        yield from _lay_out(section, "- ", lambda title: f"**{title}:**", spell_code)


def _lay_out(
    section: MailSection, bullet: str, entitled: Callable[[str], str], code: Callable[[str], str]
) -> Iterator[str]:
    if section.is_one_line:
        yield f"{entitled(section.title)} {_first(section.items[0], code)}"
        return
    yield entitled(section.title)
    for each in section.items:
        yield f"{bullet}{_first(each, code)}"
        if each.said and each.head:
            yield f"{' ' * len(bullet)}  {code(each.said)}"
    if section.left_out:
        yield f"{bullet}and {section.left_out:,} more"


def _first(item: MailItem, code: Callable[[str], str]) -> str:
    """An item's line without its sentence, unless that is all that it has."""
    head = " ".join(filter(None, (code(item.head) if item.head else "", item.ours)))
    names = code(item.names) if item.names else ""
    return ": ".join(filter(None, (head, names))) or code(item.said)

"""An Atom feed of what broke and what was mended, whose entries keep their names (RFC 4287)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import urljoin
from xml.etree import ElementTree

from binary_checks.fleet.page.history import History
from binary_checks.fleet.page.morning import Morning, look_back
from binary_checks.fleet.page.morning_texts import entitle
from binary_checks.fleet.page.naming import name_cell_page, spell, spell_projects
from binary_checks.reports.verdict_texts import count

_SPACE = "http://www.w3.org/2005/Atom"
_NAMES = uuid.uuid5(uuid.NAMESPACE_URL, "binary-checks/hud/1")
_MOST = 200  # entries
_NAMED = 20  # cells of an entry


@dataclass(frozen=True, kw_only=True, slots=True)
class NewsItem:
    """A check that broke, or a project's cells that were mended, in one night."""

    night: str
    title: str
    text: str
    href: str  # below the site's folder
    key: str  # the same for the same news in every later feed


def find_news(history: History, shown: int) -> tuple[NewsItem, ...]:
    """What broke and what was mended in the last nights, the newest first."""
    found = list[NewsItem]()
    for night in reversed(history.nights[-shown:]):
        if night == history.nights[0]:
            break  # there is nothing that it could be held against
        found += _find_in(look_back(history.until(night)))
        if len(found) >= _MOST:
            break
    return tuple(found[:_MOST])


def _find_in(morning: Morning) -> Iterator[NewsItem]:
    for each in morning.broke:
        cells = [cell.row.cell for cell in each.cells]
        check = spell(each.check) or "no check"
        yield NewsItem(
            night=morning.night,
            title=f"{spell_projects(each.projects)}: {check} broke in {count(len(cells), 'cell')}",
            text=f"{spell(each.said, 400)} ({_name(cells)})",
            href=f"{name_cell_page(cells[0])}#n{morning.night}",
            key=f"broke {morning.night} {' '.join(each.projects)} {each.check}",
        )
    for project in sorted({cell.row.project for cell in morning.mended}):
        cells = [cell.row.cell for cell in morning.mended if cell.row.project == project]
        yield NewsItem(
            night=morning.night,
            title=f"{spell(project)}: {count(len(cells), 'cell')} mended",
            text=_name(cells),
            href=f"{name_cell_page(cells[0])}#n{morning.night}",
            key=f"mended {morning.night} {project}",
        )


def _name(cells: list[str]) -> str:
    named = ", ".join(spell(cell) for cell in cells[:_NAMED])
    return f"{named} and {len(cells) - _NAMED} more" if len(cells) > _NAMED else named


def write_feed(morning: Morning, news: Iterable[NewsItem], base: str) -> str:
    """The feed's text; ``base`` is where the site is published, "" where that is not known."""
    base = base and f"{base.rstrip('/')}/"  # else its last part would be that of a page
    feed = ElementTree.Element("feed", xmlns=_SPACE)
    _add(feed, "title", "Nightly binary checks")
    _add(feed, "subtitle", entitle(morning))
    _add(feed, "id", uuid.uuid5(_NAMES, base).urn)
    _add(feed, "updated", _at(morning.night))
    ElementTree.SubElement(ElementTree.SubElement(feed, "author"), "name").text = "binary-checks"
    ElementTree.SubElement(feed, "link", rel="self", href=urljoin(base, "feed.xml"))
    ElementTree.SubElement(feed, "link", rel="alternate", href=urljoin(base, "index.html"))
    for each in news:
        entry = ElementTree.SubElement(feed, "entry")
        _add(entry, "title", each.title)
        _add(entry, "id", uuid.uuid5(_NAMES, each.key).urn)
        _add(entry, "updated", _at(each.night))
        ElementTree.SubElement(entry, "link", rel="alternate", href=urljoin(base, each.href))
        _add(entry, "content", each.text)
    ElementTree.indent(feed)
    text = ElementTree.tostring(feed, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _add(parent: ElementTree.Element, name: str, text: str) -> None:
    ElementTree.SubElement(parent, name).text = text


def _at(night: str) -> str:
    """When a night's news are of: its date alone, so that each feed says the same."""
    return f"{night}T00:00:00Z"

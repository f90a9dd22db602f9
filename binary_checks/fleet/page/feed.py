"""An Atom feed of what broke and what was mended, whose entries keep their names (RFC 4287)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from urllib.parse import urljoin
from xml.etree import ElementTree

from binary_checks.fleet.page.history import History
from binary_checks.fleet.page.morning import Morning, look_back
from binary_checks.fleet.page.morning_texts import entitle, name_check
from binary_checks.fleet.page.naming import name_cell_page, spell, spell_projects
from binary_checks.reports.verdict_texts import count

_SPACE = "http://www.w3.org/2005/Atom"
_NAMES = uuid.uuid5(uuid.NAMESPACE_URL, "binary-checks/hud/1")
_MOST = 200  # entries
_NAMED = 20  # cells of an entry


def find_mornings(history: History, shown: int) -> Iterator[Morning]:
    """The last nights, the newest first, that there is another one before."""
    for night in reversed(history.nights[-shown:]):
        if night != history.nights[0]:
            yield look_back(history.until(night))


def write_feed(last: Morning, mornings: Iterable[Morning], base: str) -> str:
    """The feed's text; ``base`` is where the site is published, "" where that is not known."""
    base = base and f"{base.rstrip('/')}/"  # else its last part would be that of a page
    feed = ElementTree.Element("feed", xmlns=_SPACE)
    _add(feed, "title", "Nightly binary checks")
    _add(feed, "subtitle", entitle(last))
    _add(feed, "id", uuid.uuid5(_NAMES, base).urn)
    _add(feed, "updated", _at(last.night))
    ElementTree.SubElement(ElementTree.SubElement(feed, "author"), "name").text = "binary-checks"
    ElementTree.SubElement(feed, "link", rel="self", href=urljoin(base, "feed.xml"))
    ElementTree.SubElement(feed, "link", rel="alternate", href=urljoin(base, "index.html"))
    entries = chain.from_iterable(_make_entries(each, base) for each in mornings)
    feed.extend(islice(entries, _MOST))
    ElementTree.indent(feed)
    text = ElementTree.tostring(feed, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _make_entries(morning: Morning, base: str) -> Iterator[ElementTree.Element]:
    """An entry for each check that broke, and one for each project with cells that were mended."""
    for each in morning.broke:
        cells = [cell.row.cell for cell in each.cells]
        what = f"{spell_projects(each.projects)}: {name_check(each.check)}"
        yield _make_entry(
            morning.night,
            f"broke {morning.night} {' '.join(each.projects)} {each.check}",
            f"{what} broke in {count(len(cells), 'cell')}",
            f"{spell(each.said, 400)} ({_name(cells)})",
            urljoin(base, f"{name_cell_page(cells[0])}#n{morning.night}"),
        )
    for project in sorted({cell.row.project for cell in morning.mended}):
        cells = [cell.row.cell for cell in morning.mended if cell.row.project == project]
        yield _make_entry(
            morning.night,
            f"mended {morning.night} {project}",
            f"{spell(project)}: {count(len(cells), 'cell')} mended",
            _name(cells),
            urljoin(base, f"{name_cell_page(cells[0])}#n{morning.night}"),
        )


def _make_entry(night: str, key: str, title: str, text: str, href: str) -> ElementTree.Element:
    """One entry; ``key`` is the same for the same news in every later feed."""
    entry = ElementTree.Element("entry")
    _add(entry, "title", title)
    _add(entry, "id", uuid.uuid5(_NAMES, key).urn)
    _add(entry, "updated", _at(night))
    ElementTree.SubElement(entry, "link", rel="alternate", href=href)
    _add(entry, "content", text)
    return entry


def _name(cells: list[str]) -> str:
    named = ", ".join(spell(cell) for cell in cells[:_NAMED])
    return f"{named} and {len(cells) - _NAMED} more" if len(cells) > _NAMED else named


def _add(parent: ElementTree.Element, name: str, text: str) -> None:
    ElementTree.SubElement(parent, name).text = text


def _at(night: str) -> str:
    """When a night's news are of: its date alone, so that each feed says the same."""
    return f"{night}T00:00:00Z"

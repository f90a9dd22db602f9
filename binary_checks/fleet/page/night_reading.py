"""Open a night of a store for the site and the mail, which ask the shipped queries about it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from typing import Any, TypeVar

from binary_checks.errors import BinaryChecksError, StoreError
from binary_checks.fleet.known import list_ended
from binary_checks.fleet.night import NightPlan
from binary_checks.fleet.nights import read_closed
from binary_checks.fleet.page.remarks import review_waivers
from binary_checks.fleet.store import open_store, plan_name
from binary_checks.fleet.stored_nights import closed_nights, find_plan, list_nights, read_date
from binary_checks.fleet.tables.table_questions import ask, shipped_queries
from binary_checks.fleet.tables.views import Connection, open_tables
from binary_checks.safe_text import cut, one_line

_MORE = 60  # earlier nights that are read, too, to find when trouble began and what is new
_STRANGE = """
SELECT night, cell, state FROM cells
WHERE night IS NULL OR cell IS NULL OR state NOT IN (SELECT state FROM letters) LIMIT 1
"""
_Found = TypeVar("_Found")
Row = dict[str, Any]
"""A row of an answer: column -> value, with dates as text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NightView:
    """A night in a store, which answers questions about it and about the nights before."""

    connection: Connection
    night: str
    shown: int = 30  # nights
    plan: NightPlan | None = None
    notices: Sequence[str] = ()  # about missing or unknown parts
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)  # title -> lines

    def ask(self, name: str, **given: object) -> Iterator[Row]:
        """Yield the rows of a shipped query's answer; one answer at a time is read."""
        query = shipped_queries()[name]
        own = {"night": self.night, "rows": self.shown, **given}
        wanted = {each: str(value) for each, value in own.items() if each in query.parameters}
        with ask(self.connection, query.sql, wanted, ours=True) as answer:
            for row in answer.rows:
                values = (str(each) if isinstance(each, date) else each for each in row)
                yield dict(zip(answer.columns, values, strict=True))


@contextmanager
def open_night(
    url: str, *, nights: int = 1, project: str = "", date: str = ""
) -> Iterator[NightView]:
    """Open the last collected night, or the night of a date, with earlier ones.

    ``nights`` nights are shown; more are read to find when trouble began. Raises ProfileError for
    an invalid request, and StoreError for a missing night.
    """
    store = open_store(url)
    closed = closed_nights(store)
    if date and read_date(date) not in closed:
        given = f"--date {date} --store {shlex.quote(store.url)}"
        collect = f"`binary-checks nightly collect {given}`"
        known = (
            f"night {date} is not collected yet: {collect}" if date in list_nights(store) else ""
        )
        raise StoreError(f"{store.url}: {known or f'no night {date}'}")
    until = [night for night in closed if not date or night <= date]
    last = until[-nights - _MORE :] or None  # if the store has no night, open_tables reports that
    with open_tables(
        store, tables=("cells", "checks", "parts"), nights=last, project=project
    ) as connection:
        (night,) = connection.execute("SELECT max(night)::VARCHAR FROM cells").fetchone()
        require_known_states(connection)
        later = (each for each in list_nights(store) if each > night and each not in closed)
        notices = [f"The night of {each} is not collected yet, and not shown." for each in later]
        closing = try_to_read(lambda: read_closed(store, night), None, notices)
        notices += closing.complaints if closing else ()
        notes: dict[str, Sequence[str]] = {}
        plan = try_to_read(lambda: find_plan(store, night), None, notices)
        if plan:
            notes |= review_waivers(store, plan, list_ended(connection), whole=not project)
        else:
            lost = "known problems and commands are not shown"
            notices.append(f"{plan_name(night)} is missing or not readable: {lost}.")
        yield NightView(
            connection=connection,
            night=night,
            shown=nights,
            plan=plan,
            notices=notices,
            notes=notes,
        )


def require_known_states(connection: Connection) -> None:
    """Raise StoreError for a state that this version does not know, and for incomplete rows."""
    if found := connection.execute(_STRANGE).fetchone():
        row = "night {}: {}: state {!r}".format(*found)
        raise StoreError(f"{row}: unknown to this version; a newer binary-checks wrote it")


def try_to_read(read: Callable[[], _Found], otherwise: _Found, complaints: list[str]) -> _Found:
    """Return what is read; if it cannot be read, add a complaint and return ``otherwise``."""
    try:
        return read()
    except (BinaryChecksError, OSError) as error:
        complaints.append(cut(one_line(str(error))))
        return otherwise

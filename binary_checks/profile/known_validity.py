"""A list of known problems as a whole: its entries, and from when until when they may hold."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any

from binary_checks.errors import ProfileError
from binary_checks.profile.known import LIST, TABLE, KnownProblem, read_known_problems
from binary_checks.profile.toml_values import convert, parse_toml, reject_unknown
from binary_checks.regular_files import read_named

LARGEST_LIST = 16 << 20
"""Bytes of a file."""
_KEYS = {TABLE: list, "issued": date, "valid_until": date}
_SKEW = timedelta(minutes=5)  # that clocks may be apart
_FARTHEST_EAST = timedelta(hours=14)  # from UTC: where a day begins first


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownList:
    """What one file lists; it is published where it says of when it is, or how long it holds."""

    entries: tuple[KnownProblem, ...] = ()
    issued: str = ""  # as written, 2026-11-22 or 2026-11-22T04:00:00+00:00; "" where it is not
    valid_until: str = ""  # likewise; a date is valid until its end in UTC

    def issued_at(self) -> datetime | None:
        """When it was issued; on a day, at its beginning in UTC."""
        return _as_time(self.issued, time.min) if self.issued else None

    def valid_to(self) -> datetime | None:
        """The last moment at which it is valid."""
        return _as_time(self.valid_until, time.max) if self.valid_until else None

    def find_fault(self, now: datetime) -> str:
        """Why none of its entries holds at that time; "" where they do."""
        issued, until = self.issued_at(), self.valid_to()
        if until is not None and now > until:
            return f"it was valid until {self.valid_until}"
        ahead = _SKEW if "T" in self.issued else _SKEW + _FARTHEST_EAST
        if issued is not None and issued > now + ahead:
            return f"it says that it was issued on {self.issued}, which is in the future"
        return ""


def _as_time(text: str, of_day: time) -> datetime:
    if "T" in text:
        return datetime.fromisoformat(text)
    return datetime.combine(date.fromisoformat(text), of_day, timezone.utc)


def read_known_list(content: bytes, where: str) -> KnownList:
    """The list in a file of nothing else. Raises ProfileError, which begins with ``where``."""
    table = parse_toml(content, where)
    reject_unknown(table, _KEYS, where, "key")
    issued = _read_time(table, "issued", where)
    valid_until = _read_time(table, "valid_until", where)
    found = KnownList(
        entries=read_known_problems(
            convert(table.get(TABLE, []), list, f"{where}: {TABLE}"),
            where,
            shared=bool(issued or valid_until),
        ),
        issued=issued,
        valid_until=valid_until,
    )
    first, last = found.issued_at(), found.valid_to()
    if first is not None and last is not None and first > last:
        raise ProfileError(f"{where}: valid_until: {valid_until} is before it was issued, {issued}")
    return found


def _read_time(table: dict[str, Any], key: str, where: str) -> str:
    """A date, or a time with its offset from UTC, as text; "" where there is none."""
    value = table.get(key)
    if value is None:
        return ""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ProfileError(f"{where}: {key}: {value.isoformat()} has no offset from UTC: add Z")
        return value.isoformat()
    return str(convert(value, date, f"{where}: {key}").isoformat())


def load_known_list(path: Path, name: str) -> KnownList:
    """The same of a file, which the user called ``name``. Raises ProfileError."""
    where = f"{LIST}{name}"
    return read_known_list(read_named(path, LARGEST_LIST, where), where)

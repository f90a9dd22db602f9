"""Versions as packages state them: when two are the same, and of which day a nightly is."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

from packaging.version import Version


def same_version(one: str, other: str) -> bool:
    """Whether installers take the two for one; of what is no version, whether they are equal."""
    try:
        return Version(one.replace("_", "-")) == Version(other)
    except ValueError:  # none, or one of thousands of digits
        return one == other


def development_number(version: str) -> int | None:
    """The number behind ``.dev``; None where there is none."""
    try:
        return Version(version).dev
    except ValueError:
        return None


def read_date(number: int) -> date | None:
    """The day that a number such as 20260131 stands for."""
    try:
        return datetime.strptime(f"{number:08}", "%Y%m%d").date()
    except ValueError:
        return None


def find_day(version: str, uploaded: str, modified: str) -> tuple[str, date] | None:
    """The day of a published file, and what happened then; None where nobody says.

    By ``.devYYYYMMDD`` in its version, else the upload as the index states it (ISO 8601), else the
    server's Last-Modified.
    """
    number = development_number(version)
    if number is not None and (built := read_date(number)):
        return "built", built
    if (day := _read_iso(uploaded)) is not None:
        return "uploaded", day
    try:
        return "last modified", _in_utc(parsedate_to_datetime(modified))
    except (ValueError, TypeError, OverflowError):  # "", or no date
        return None


def _read_iso(text: str) -> date | None:
    try:  # Python 3.10 reads no Z
        return _in_utc(datetime.fromisoformat(text.replace("Z", "+00:00")[:32]))
    except (ValueError, OverflowError):
        return None


def _in_utc(moment: datetime) -> date:
    return (moment.astimezone(timezone.utc) if moment.tzinfo else moment).date()


def judge_age(built: date, today: date, days: int, what: str) -> str:
    """What is wrong with the age of something of that day; "" where it is right."""
    if (age := (today - built).days) > days:
        return f"it was {what} {built}, {age} days ago; {days} are allowed"
    if built > today + timedelta(days=1):
        return f"it was {what} {built}, which is {-age} days from now"
    return ""

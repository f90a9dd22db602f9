"""Which night is meant: today's in UTC, the one of a date, or the newest that a store has."""

from __future__ import annotations

from datetime import datetime, timezone

from binary_checks.errors import ProfileError, StoreError
from binary_checks.fleet.store import Store
from binary_checks.fleet.store.store_names import is_night
from binary_checks.fleet.stored_nights import list_nights


def tonight() -> str:
    """The date of now, in UTC, as every night is named."""
    return datetime.now(timezone.utc).date().isoformat()


def now() -> str:
    """The time, in UTC, as documents have it."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def read_date(text: str, given: str = "") -> str:
    """A date as the user gives it. Raises ProfileError, with ``given``, for what is none."""
    if not is_night(text):
        raise ProfileError(f"{given or '--date'} {text!r:.40}: not a date, as {tonight()} is one")
    return text


def choose_night(store: Store, named: str = "") -> str:
    """The night of that date; of none the newest. Raises StoreError where there is none such."""
    nights = list_nights(store)
    if named and read_date(named) not in nights:
        newest = f"; the newest is {nights[-1]}" if nights else ""
        raise StoreError(f"{store.url}: no night {named}{newest}")
    if not nights:
        raise StoreError(
            f"{store.url}: it has no nights yet: `binary-checks nightly run` makes one"
        )
    return named or nights[-1]

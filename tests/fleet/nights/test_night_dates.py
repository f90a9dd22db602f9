from __future__ import annotations

import pytest

from binary_checks.errors import ProfileError, StoreError
from binary_checks.fleet.store import Store
from binary_checks.fleet.stored_nights import choose_night, list_nights, read_date


def test_of_several_nights_the_newest_is_meant(store: Store) -> None:
    for night in ("2026-11-20", "2026-11-22", "2026-11-21"):
        store.create(f"night={night}/plan.json", b"{}")
    assert list_nights(store) == ["2026-11-20", "2026-11-21", "2026-11-22"]
    assert choose_night(store) == "2026-11-22"
    assert choose_night(store, "2026-11-20") == "2026-11-20"


def test_a_night_that_the_store_lacks_names_the_newest_if_there_is_one(store: Store) -> None:
    with pytest.raises(StoreError, match="no nights yet"):
        choose_night(store)
    store.create("night=2026-11-20/plan.json", b"{}")
    with pytest.raises(StoreError, match=r"no night 2026-11-21; the newest is 2026-11-20"):
        choose_night(store, "2026-11-21")


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "20261120", "2026-11-20T00", ""])
def test_what_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(ProfileError, match="not a date"):
        read_date(text)

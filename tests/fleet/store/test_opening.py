"""URLs that name a store, and places that contain none."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.errors import ProfileError, StoreError
from binary_checks.fleet.store import open_store


@pytest.mark.parametrize(
    ("mark", "reason"),
    [
        (b"", "not the mark of a store, or truncated"),
        (b'{"id": "', "not the mark of a store, or truncated"),
        (
            b'{"schema": "binary-checks/store/2", "id": "1"}',
            "its schema is .*, not binary-checks/store/1",
        ),
        (b'{"schema": "binary-checks/store/1"}', "not the mark of a store, or truncated"),
        (b"[]", "not the mark of a store, or truncated"),
    ],
)
def test_a_broken_mark_is_no_store(tmp_path: Path, mark: bytes, reason: str) -> None:
    (tmp_path / "store.json").write_bytes(mark)
    with pytest.raises(StoreError, match=reason):
        open_store(str(tmp_path), make=True)


@pytest.mark.parametrize("url", ["", "ftp://host/x", "file://host/store", "file:store", "a\0b"])
def test_what_is_no_store_by_its_url_is_refused(url: str) -> None:
    with pytest.raises(ProfileError, match="--store"):
        open_store(url)

"""A night's attempts by cell, from a single listing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from binary_checks.fleet.store import Store, Stored, result_name
from binary_checks.fleet.store.folder_store import FolderStore
from binary_checks.fleet.stored_nights import NightAttempts, write_attempt
from tests.fleet.nights.test_merging import NIGHT, attempt


class CountingStore(FolderStore):
    """A store that remembers what was listed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, str(folder))
        self.listed: list[str] = []

    def names(self, prefix: str) -> Iterator[Stored]:
        self.listed.append(prefix)
        return super().names(prefix)


def keep_attempt(store: Store, cell: str, number: int) -> None:
    made = write_attempt(attempt(cell, number))
    store.create(result_name(NIGHT, cell, "cpu", number), made)


def test_a_night_is_listed_once_however_many_cells_are_asked_for(tmp_path: Path) -> None:
    store = CountingStore(tmp_path / "store")
    for cell in ("a-3.11", "a-3.12", "b-3.12"):
        keep_attempt(store, cell, 1)
    keep_attempt(store, "a-3.12", 2)
    attempts = NightAttempts(store, NIGHT)
    assert [each.number for each in attempts.read("a-3.12")] == [1, 2]
    assert [each.cell for each in attempts.read("b-3.12")] == ["b-3.12"]
    assert not [*attempts.read("c")]
    assert store.listed == [f"night={NIGHT}/results/"]


def test_a_document_that_is_cut_is_named_and_the_others_count(folder_store: Store) -> None:
    keep_attempt(folder_store, "a", 2)
    folder_store.create(result_name(NIGHT, "a", "cpu", 1), b'{"schema": ')
    broken: list[str] = []
    assert [each.number for each in NightAttempts(folder_store, NIGHT).read("a", broken)] == [2]
    (line,) = broken
    assert f"night={NIGHT}/results/a.cpu1.json" in line

"""Scheduling for xdist: one package after another, in time linear in the number of packages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


class PackageScheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """xdist's scheduling by file, made fast for very many items.

    For a thousand packages xdist would search all 57,000 items to find the index of one, and go
    through the completed items after each item.
    """

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Store the items that a worker collected."""
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = _Numbered(collection)

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        """Forget a package when its last item is done."""
        super().mark_test_complete(node, item_index, duration)
        work = self.assigned_work[node]
        package = next(iter(work))  # workers run packages in order
        if all(work[package].values()):
            del work[package]


class _Numbered(list[str]):
    """A list that finds the index of an item without a search."""

    def __init__(self, items: Sequence[str]) -> None:
        super().__init__(items)
        self._numbers = {item: number for number, item in enumerate(items)}

    def index(self, item: str, *_: SupportsIndex, **__: Any) -> int:
        """Return the index of an item."""
        return self._numbers[item]

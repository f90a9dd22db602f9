"""Gives xdist's workers one package after the other, in time that grows with their number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


class PackageScheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """As xdist does it for files, of which it has fewer than there may be packages.

    Of a thousand packages it would go through all 57,000 items to find the number of one, and
    through those that are done after each.
    """

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Take in what a worker has collected."""
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = _Numbered(collection)

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        """Forget a package when the last item of it is done."""
        super().mark_test_complete(node, item_index, duration)
        work = self.assigned_work[node]
        package = next(iter(work))  # a worker has them in order
        if all(work[package].values()):
            del work[package]


class _Numbered(list[str]):
    """A list that knows where each of its items is."""

    def __init__(self, items: Sequence[str]) -> None:
        super().__init__(items)
        self._numbers = {item: number for number, item in enumerate(items)}

    def index(self, item: str, *_: SupportsIndex, **__: Any) -> int:
        """The place of an item."""
        return self._numbers[item]

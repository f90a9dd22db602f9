"""Keeps contents of members while a package is read, so that nobody opens it again for them."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from binary_checks.model.protocols import TreeEntry, Want
from binary_checks.trees.kept import Kept

_MOST = 128 << 20  # bytes of one package; torch 2.15 has 33 MiB of Python, ansible 60


class KeptContents:
    """The contents that some facts want, as many of them as there is room for.

    Members are charged in their order, by the sizes that their tree lists, before they are read.
    What finds no room is read again by the fact that asks for it.
    """

    def __init__(self, wants: Sequence[Want] = ()) -> None:
        self._wants = tuple(wants)
        self._listed = False
        self._left = _MOST
        self._chosen: dict[str, TreeEntry] = {}
        self._places: dict[str, tuple[int, int]] = {}
        self._size = 0
        self._kept = Kept()
        self._lock = Lock()

    def expect(self, entries: Sequence[TreeEntry]) -> None:
        """Choose among all members that will be read."""
        self._listed = True
        self._wants = tuple(
            want for want in self._wants if want.beside is None or any(map(want.beside, entries))
        )
        if self._wants:
            for entry in entries:
                self._choose(entry)

    def _choose(self, entry: TreeEntry) -> None:
        size = entry.size
        if any(size <= want.longest and want.chooses(entry) for want in self._wants) and (
            size <= self._left
        ):
            self._left -= size
            self._chosen[entry.stored] = entry

    def wants(self, entry: TreeEntry) -> bool:
        """Whether it is kept; of several members of one name, the last."""
        if not self._listed:  # as members of a stream come, nothing is known of later ones
            self._choose(entry)
        return self._chosen.get(entry.stored) is entry

    def keep(self, entry: TreeEntry, content: bytes) -> None:
        """Keep the content of a member."""
        with self._lock:
            self._places[entry.stored] = self._size, len(content)
            self._kept.append(content)
            self._size += len(content)

    def find(self, stored: str) -> bytes | None:
        """The content of the member that is stored by that name, None where it is not kept."""
        place = self._places.get(stored)
        return None if place is None else self._kept.read(*place)

    def close(self) -> None:
        """Let go of all contents."""
        self._places.clear()
        self._kept.close()

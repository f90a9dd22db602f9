"""The store: a folder or an object store, of which no more is asked than both can do alike.

Names are relative, with "/" between their parts. What was created is never changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """One object of the store."""

    name: str
    size: int  # bytes


class Store(Protocol):
    """Whatever fails raises StoreError, one line with the store's URL and the object's name."""

    @property
    def url(self) -> str:
        """How the user named it, without credentials."""

    def create(self, name: str, content: bytes | Path) -> bool:
        """Write an object whole, unless there is one of that name; whether it was written."""

    def read(self, name: str) -> bytes | None:
        """All of an object; None where there is none of that name."""

    def names(self, prefix: str) -> Iterator[Stored]:
        """Every object whose name begins so, sorted by name."""

    def delete(self, name: str) -> None:
        """Remove an object; one that is not there is no error. Only retention and logs do it."""

    def local(self, name: str) -> AbstractContextManager[Path]:
        """An object that never changes as a file of this host: its own, or a copy kept by name."""

"""A package that was named, and could not be found out about: the network or an index broke."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from binary_checks.errors import GatherError
from binary_checks.model.packages import Package
from binary_checks.model.protocols import ObjectReader, Preview, Progress, Reading, Tree, Want
from binary_checks.sources.opened import OpenedSource


@dataclass(frozen=True, kw_only=True, slots=True)
class LostSource(OpenedSource):
    """Whatever is asked of it raises why it is lost: the package is not to blame."""

    path: Path
    reason: str

    @property
    def label(self) -> str:
        """How the user named it."""
        return self.path.name

    def _raise(self) -> NoReturn:
        raise GatherError(self.reason)

    def identity(self) -> str:
        """Nothing is known of it."""
        self._raise()

    def open(self) -> Tree:
        """There is nothing to open."""
        self._raise()

    def preview(self, reader: ObjectReader) -> Preview:
        """There is nothing to look at."""
        del reader
        self._raise()

    def read(
        self, reader: ObjectReader, progress: Progress | None = None, wants: Sequence[Want] = ()
    ) -> Reading:
        """There is nothing to read."""
        del reader, progress, wants
        self._raise()

    def restate(self, package: Package) -> Package:
        """Nobody knows whether it is the same."""
        del package
        self._raise()

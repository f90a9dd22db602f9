"""Facts documents, kept for reports until the end of the run.

The process that gathered the facts writes them after the package's last check, into a folder that
all workers share.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from binary_checks.documents.facts import DERIVED, write_facts
from binary_checks.errors import BinaryChecksError
from binary_checks.examination.facts import Facts
from binary_checks.model import Linkage, LinkedLibraries, Package

_INPUT = "binary_checks_kept_facts"  # the key under which an xdist worker receives the folder


class KeptFacts:
    """The folder of facts documents, used by the controller and by every worker."""

    def __init__(self, config: pytest.Config, *, symbols: bool) -> None:
        # whether documents include symbols, their largest part, which only a facts report needs
        self._symbols = symbols
        given = getattr(config, "workerinput", {}).get(_INPUT)
        self._own: tempfile.TemporaryDirectory[str] | None = None
        if given is None:
            self._own = tempfile.TemporaryDirectory(prefix="binary_checks-")
            given = self._own.name
        self._folder = Path(given)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Pass the folder's path to an xdist worker."""
        node.workerinput[_INPUT] = str(self._folder)

    def pytest_unconfigure(self) -> None:
        """Remove the folder if this process made it."""
        if self._own is not None:
            self._own.cleanup()

    def keep(self, node: str, facts: Facts, sha256: str) -> None:
        """Write the document; if this fails, reports state that the document is missing."""
        path = self._place(node)
        try:
            package = facts.get(Package)
            derived: dict[str, object] = {
                name: facts.linked_libraries if kind is LinkedLibraries else facts.get(kind)
                for name, kind in DERIVED.items()
            }
            linkage = None
            with contextlib.suppress(BinaryChecksError):
                linkage = facts.get(Linkage) if facts.knows_linkage else None
            with path.open("w", encoding="utf-8", newline="\n") as file:
                symbols = self._symbols
                file.writelines(write_facts(package, sha256, linkage, derived, symbols=symbols))
        except (BinaryChecksError, OSError):
            path.unlink(missing_ok=True)

    def lacks(self, node: str) -> bool:
        """Return whether the package has no document yet."""
        return not self._place(node).exists()

    def find(self, nodes: Iterable[str]) -> dict[str, Path]:
        """Return the paths of existing documents by node."""
        return {node: path for node in nodes if (path := self._place(node)).is_file()}

    def _place(self, node: str) -> Path:
        return self._folder / f"{hashlib.sha256(node.encode()).hexdigest()}.json"

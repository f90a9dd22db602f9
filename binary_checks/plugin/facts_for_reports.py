"""Keeps the facts of each package as a document, where a report asks for it, until reports are due.

Each is written by the process that gathered the facts, when the last check of the package is done,
into a folder that all workers share.
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
from binary_checks.model import Linkage, Package
from binary_checks.model.binary_configuration import LinkedLibraries

_INPUT = "binary_checks_kept_facts"  # the key under which a worker of xdist's is given the folder


class KeptFacts:
    """The folder, in the controller and in every worker."""

    def __init__(self, config: pytest.Config, *, symbols: bool) -> None:
        self._symbols = symbols  # which are most of a document; only one that is written needs them
        given = getattr(config, "workerinput", {}).get(_INPUT)
        self._own: tempfile.TemporaryDirectory[str] | None = None
        if given is None:
            self._own = tempfile.TemporaryDirectory(prefix="binary_checks-")
            given = self._own.name
        self._folder = Path(given)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of xdist's where it is."""
        node.workerinput[_INPUT] = str(self._folder)

    def pytest_unconfigure(self) -> None:
        """Remove it, where it was made."""
        if self._own is not None:
            self._own.cleanup()

    def keep(self, node: str, facts: Facts, sha256: str) -> None:
        """Write the document; where that fails there is none, which its report will say."""
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
        """Whether there is none of that package yet."""
        return not self._place(node).exists()

    def find(self, nodes: Iterable[str]) -> dict[str, Path]:
        """The documents that there are, by node."""
        return {node: path for node in nodes if (path := self._place(node)).is_file()}

    def _place(self, node: str) -> Path:
        return self._folder / f"{hashlib.sha256(node.encode()).hexdigest()}.json"

"""The facts document of a package, as `binary-checks inspect` writes it."""

from __future__ import annotations

import shutil
from typing import TextIO

from binary_checks.errors import GatherError
from binary_checks.model import RunResult

name = "facts"
of_facts = uses_facts = True


def write(run: RunResult, out: TextIO) -> None:
    """Write the document of the run's only package, whose facts the run has kept."""
    (package,) = (each for each in run.packages if not each.parts)
    kept = run.facts.get(package.node)
    if kept is None:
        raise GatherError(f"{package.file_name}: its facts were not gathered")
    with kept.open(encoding="utf-8", newline="") as file:
        shutil.copyfileobj(file, out, 1 << 20)

"""The directories that a loader looks into, in order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from binary_checks.model import ElfFile, Rule
from binary_checks.model.search_path import expand


@dataclass(frozen=True, kw_only=True, slots=True)
class Directory:
    """One directory that a loader looks into."""

    directory: str | None  # relative to site-packages; None where no package can have a file
    rule: Rule  # by which what is found there is found
    absolute: str = ""  # a directory of the user's machine, where that may be the system's own


def places(elements: Iterable[str], rule: Rule, owner: ElfFile) -> tuple[Directory, ...]:
    """Expand the elements of a search path of ``owner``, in order."""
    return tuple(Directory(directory=expand(element, owner), rule=rule) for element in elements)

"""Where a package's files lie on a Windows that is only imagined, so that paths can be computed."""

from __future__ import annotations

import ntpath
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cached_property

from binary_checks.python_code.parsing import ParsingBudget

PREFIX = "Q:\\python"
SITE = PREFIX + "\\Lib\\site-packages"  # the same in a virtual environment


class Places:
    """The files of a package, asked for by the paths that its code computes."""

    def __init__(self, paths: Iterable[str], budget: ParsingBudget) -> None:
        self._paths = tuple(paths)
        self._budget = budget

    @cached_property
    def _files(self) -> dict[str, str]:
        return {path.lower(): path for path in self._paths}

    def file(self, place: str) -> str | None:
        """The package's own file at that place."""
        path = (relative(place) or "").lower()
        return self._files.get(path) or self._files.get(f"{path}.dll")

    def match(self, pattern: str) -> frozenset[str]:
        """The files that glob would find in one directory."""
        folder, name = ntpath.split(pattern)
        directory = (relative(folder) or "").lower()
        self._budget.pay(len(self._files))
        inside = (path for path in self._files if path.rpartition("/")[0] == directory)
        return frozenset(join(path) for path in inside if self._fits(path, name.lower()))

    def _fits(self, path: str, pattern: str) -> bool:
        last = path.rpartition("/")[2]
        self._budget.pay(len(path) + len(last) * len(pattern))
        return fnmatchcase(last, pattern)

    def module(self, name: str) -> str | None:
        """The file of the package's own module; a directory of DLLs alone passes for one."""
        self._budget.pay(len(self._files) + len(name))
        path = name.replace(".", "/").lower()
        if f"{path}.py" in self._files:
            return join(f"{path}.py")
        inside = any(each.startswith(f"{path}/") for each in self._files)
        return join(path, "__init__.py") if inside else None


def join(*parts: str) -> str:
    """The place of a path that is written as RECORD writes it."""
    return ntpath.normpath(ntpath.join(SITE, *(part.replace("/", "\\") for part in parts)))


def relative(place: str) -> str | None:
    """Say where a place lies seen from site-packages; None where that is none of the package's."""
    text = ntpath.normpath(place)
    lowered = text.lower()
    if lowered != PREFIX.lower() and not lowered.startswith(PREFIX.lower() + "\\"):
        return None
    path = ntpath.relpath(text, SITE).replace("\\", "/")
    return "" if path == "." else path

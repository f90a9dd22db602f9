"""Where a wheel's files lie on a Windows that is only imagined, so that paths can be computed."""

from __future__ import annotations

import ntpath
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import islice
from pathlib import PureWindowsPath

from binary_checks.packages.python_code.values import (
    MOST_ITEMS,
    UNKNOWN,
    Items,
    TooMuchError,
    Values,
    known,
)

PREFIX = "Q:\\python"
SITE = PREFIX + "\\Lib\\site-packages"  # the same in a virtual environment
_MOST_NAMES = 2_000_000  # looked at for one package; torch has 12,000 files
_MAGIC = re.compile(r"[*?\[]")


class Places:
    """The files of a wheel, asked for by the paths that its code computes."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = tuple(paths)
        self._left = _MOST_NAMES

    @cached_property
    def _files(self) -> dict[str, str]:
        return {path.lower(): path for path in self._paths}

    @cached_property
    def _children(self) -> dict[str, dict[str, None]]:
        """The names in each directory."""
        found: dict[str, dict[str, None]] = {}
        for path in self._paths:
            parent, name = _split(path)
            while name and name not in (names := found.setdefault(parent.lower(), {})):
                names[name] = None
                parent, name = _split(parent)
        return found

    def file(self, place: str) -> str | None:
        """The wheel's own file at that place."""
        path = relative(place)
        if path is None:
            return None
        return self._files.get(path.lower()) or self._files.get(f"{path.lower()}.dll")

    def exists(self, place: object) -> bool | None:
        """True for what the wheel has; another wheel may bring what it has not."""
        path = relative(place)
        lowered = None if path is None else path.lower()
        return True if lowered in self._files or lowered in self._children else None

    def names(self, place: object) -> tuple[str, ...]:
        """What the wheel has in that directory."""
        path = relative(place)
        found = () if path is None else self._children.get(path.lower(), ())
        self._left -= len(found)
        if self._left < 0:
            raise TooMuchError
        return tuple(sorted(found))

    def match(self, pattern: str) -> Values:
        """What glob finds of the wheel; ``**`` is not followed."""
        if "**" in pattern:
            return UNKNOWN
        found = (known(place) for place in self._expand(pattern))
        return known(Items(values=tuple(islice(found, MOST_ITEMS)), exact=False))

    def _expand(self, pattern: str) -> Iterator[str]:
        folder, name = ntpath.split(pattern)
        lowered = name.lower()
        for place in self._expand(folder) if _MAGIC.search(folder) else (folder,):
            for each in self.names(place):
                if fnmatchcase(each.lower(), lowered):
                    yield f"{place}\\{each}"

    def module(self, name: str) -> str | None:
        """The place of the wheel's own module of that name: its file, or a directory."""
        folder, _, last = name.replace(".", "/").rpartition("/")
        inside = self.names(join(folder))
        if last in inside and self.exists(join(folder, last, "__init__.py")):
            return join(folder, last, "__init__.py")
        files = (each for each in inside if each.partition(".")[0] == last)
        fitting = (each for each in files if each.endswith((".py", ".pyd")))
        return next((join(folder, each) for each in fitting), None) or (
            join(folder, last) if last in inside else None
        )


def _split(path: str) -> tuple[str, str]:
    """A path's folder and its name; none where it leads out of site-packages."""
    folder, _, name = path.rpartition("/")
    return folder, "" if name == ".." else name


def join(*parts: str) -> str:
    """The place of a path that is written as RECORD writes it."""
    return ntpath.normpath(ntpath.join(SITE, *(part.replace("/", "\\") for part in parts)))


def relative(place: object) -> str | None:
    """Say where a place lies seen from site-packages; None where that is none of the wheel's."""
    text = ntpath.normpath(str(place))
    lowered = text.lower()
    if lowered != PREFIX.lower() and not lowered.startswith(PREFIX.lower() + "\\"):
        return None
    path = ntpath.relpath(text, SITE).replace("\\", "/")
    return "" if path == "." else path


def make_absolute(place: object) -> object:
    """``abspath`` of an absolute path; of another, the current directory is the user's."""
    if not isinstance(place, (str, PureWindowsPath)):
        raise TypeError
    text = ntpath.normpath(str(place))
    if not ntpath.isabs(text) or not ntpath.splitdrive(text)[0]:
        raise ValueError(text)
    return PureWindowsPath(text) if isinstance(place, PureWindowsPath) else text

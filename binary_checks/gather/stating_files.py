"""Finds the small files of a package that state something of its build, by globs and patterns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from binary_checks.errors import ProfileError

LONGEST = 1 << 20  # bytes of one of them
_WILD = frozenset("*?[")


def compile_patterns(
    patterns: Mapping[str, str], where: str, what: str
) -> dict[str, re.Pattern[str]]:
    """Compile the regular expressions of a table. Raises ProfileError for one that is none."""
    found = {}
    for glob, pattern in patterns.items():
        place = f"{where}.{glob}"
        try:
            found[glob] = re.compile(pattern)
        except re.error as error:
            raise ProfileError(f"{place}: not a regular expression: {error}") from None
        if found[glob].groups != 1:
            raise ProfileError(f"{place}: it needs one group, around the {what}")
    return found


def find_pattern(name: str, patterns: Mapping[str, re.Pattern[str]]) -> re.Pattern[str] | None:
    """The pattern for a file; a ``*`` of a glob stands for no slash."""
    return next((known for glob, known in patterns.items() if _matches(name, glob)), None)


def find_named(
    paths: Iterable[str], tables: Iterable[Mapping[str, re.Pattern[str]]]
) -> Iterator[str]:
    """Yield the paths that any of the tables has a pattern for.

    Of nearly all of them the last part of the path tells that it has none.
    """
    globs = tuple(dict.fromkeys(glob for table in tables for glob in table))
    leaves = {glob.rpartition("/")[2] for glob in globs}
    wild = [leaf for leaf in leaves if not _WILD.isdisjoint(leaf)]
    for path in paths:
        name = path.rpartition("/")[2]
        if (name in leaves or any(fnmatchcase(name, leaf) for leaf in wild)) and any(
            _matches(path, glob) for glob in globs
        ):
            yield path


def list_endings(tables: Iterable[Mapping[str, object]]) -> Iterator[str]:
    """Yield how the names of files end that globs are for, in whichever folder they lie."""
    for glob in dict.fromkeys(glob for table in tables for glob in table):
        yield re.split(r"[*?]|\[[^]]*\]", glob)[-1]


def _matches(name: str, glob: str) -> bool:
    if name.count("/") != glob.count("/"):
        return False
    return all(map(fnmatchcase, name.split("/"), glob.split("/")))

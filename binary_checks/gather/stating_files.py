"""Finds the small files of a package that state something of its build, by globs and patterns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

from binary_checks.errors import ProfileError

LONGEST = 1 << 20  # bytes of one of them


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


def _matches(name: str, glob: str) -> bool:
    if name.count("/") != glob.count("/"):
        return False
    return all(map(fnmatchcase, name.split("/"), glob.split("/")))

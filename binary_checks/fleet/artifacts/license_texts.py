"""Under which licenses a package says that it is, and which license files it has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from binary_checks.lines import cut, one_line
from binary_checks.model import Distribution, Package

_FILE = re.compile(
    r"(?:licen[cs]e|copying|copyright|notice|third[-_]?party(?:[-_](?:licen[cs]es?|notices?))?)"
    r"(?:[._-][^/]*)?",
    re.IGNORECASE,
)
_CODE = (".py", ".pyc", ".pyi", ".h", ".hpp", ".so", ".c", ".cpp", ".js", ".pyd", ".dll")
_CLASSIFIER = "License :: "
_LONGEST = 120  # characters of an expression; some METADATA has the whole text in its place
_MOST = 200


def list_licenses(package: Package, record: Mapping[str, Any]) -> tuple[str, ...]:
    """Expressions first, then the license files that the package has itself, each once."""
    said = (*_list_expressions(package, record), *_list_files(package))
    return tuple(dict.fromkeys(said))[:_MOST]


def _list_expressions(package: Package, record: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(package, Distribution):
        expression = package.header("License-Expression")
        classifiers = [
            value.removeprefix(_CLASSIFIER).rpartition(":: ")[2]
            for key, value in package.metadata
            if key.lower() == "classifier" and value.startswith(_CLASSIFIER)
        ]
        header = package.header("License")
        plain = header if len(header) <= _LONGEST and "\n" not in header else ""
        # The newest way to say it counts, and the others repeat it in words.
        found = [expression] if expression else [*classifiers, plain]
    else:
        found = [record.get("license", "")]
    for each in found:
        text = each.strip() if isinstance(each, str) else ""
        if text and text.upper() != "UNKNOWN":
            yield cut(one_line(text), _LONGEST)


def _list_files(package: Package) -> Iterator[str]:
    for member in package.members:
        name = member.archive_name.rpartition("/")[2]
        if _FILE.fullmatch(name) and not name.lower().endswith(_CODE) and not member.is_directory:
            yield cut(one_line(member.archive_name), 300)

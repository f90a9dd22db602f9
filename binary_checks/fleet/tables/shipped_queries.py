"""The questions that come with us: each an SQL file, whose head says what it answers and takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).with_name("queries")
_PARAMETER = re.compile(r"-- \$(?P<name>\w+)(?: = (?P<default>.*?))?: (?P<meaning>.*)")
NIGHT = "night"
"""The parameter that is the last night where it is not given."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryParameter:
    """What a question can be asked with."""

    name: str
    default: str | None  # None: the last night
    meaning: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ShippedQuery:
    """A question by its name."""

    name: str
    description: str
    parameters: Mapping[str, QueryParameter]
    sql: str


@cache
def shipped_queries() -> Mapping[str, ShippedQuery]:
    """All of them by name, sorted."""
    paths = sorted(_FOLDER.glob("*.sql"))
    return {path.stem: _parse(path.stem, path.read_text(encoding="utf-8")) for path in paths}


def _parse(name: str, sql: str) -> ShippedQuery:
    head = sql.splitlines()
    found = [match for line in head if (match := _PARAMETER.fullmatch(line))]
    parameters = [
        QueryParameter(name=each["name"], default=each["default"], meaning=each["meaning"])
        for each in found
    ]
    return ShippedQuery(
        name=name,
        description=head[0].removeprefix("-- "),
        parameters={each.name: each for each in parameters},
        sql=sql,
    )

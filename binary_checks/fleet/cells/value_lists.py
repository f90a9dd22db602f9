"""Lists of values that several blocks of a matrix share, by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from binary_checks.errors import ProfileError
from binary_checks.fleet.cell import AXES
from binary_checks.profile.toml_values import convert, reject_unknown

TABLE = "values"
_NAMED = re.compile(r"\{([^{}]*)\}")

ValueLists = Mapping[str, tuple[object, ...]]


def read_lists(value: object, name: str) -> ValueLists:
    """The lists of ``[values]`` in the file of that name. Raises ProfileError."""
    table = convert(value, dict, f"{name}: {TABLE}")
    for key, listed in table.items():
        if not isinstance(listed, list):
            raise ProfileError(f"{name}: {TABLE}: {key}: {listed!r:.40} is not a list")
    return {key: tuple(listed) for key, listed in table.items()}


def put_lists(row: Mapping[str, Any], lists: ValueLists, where: str) -> dict[str, Any]:
    """A block with the values of a list where its name stands in braces: ``"{cuda}"``."""
    found = dict(row)
    for axis in AXES:
        if any(_find_name(each) is not None for each in listed(row.get(axis, ()))):
            found[axis] = [
                value
                for each in listed(row[axis])
                for value in _expand(each, lists, f"{where}: {axis}")
            ]
    return found


def listed(value: Any) -> list[Any]:
    """The values of an axis, of which one may stand for itself."""
    return [*value] if isinstance(value, (list, tuple)) else [value]


def find_names(row: Mapping[str, Any]) -> set[str]:
    """The lists that a block names."""
    names = (_find_name(each) for axis in AXES for each in listed(row.get(axis, ())))
    return {name for name in names if name is not None}


def _find_name(value: object) -> str | None:
    found = _NAMED.fullmatch(value) if isinstance(value, str) else None
    return found[1] if found else None


def _expand(value: object, lists: ValueLists, where: str) -> tuple[object, ...]:
    name = _find_name(value)
    if name is None:
        return (value,)
    reject_unknown([name], dict.fromkeys(lists), where, f"list of [{TABLE}]")
    return lists[name]

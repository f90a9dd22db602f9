"""How much problems matter to a project: a level for a check, or for some of its paths."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from binary_checks.errors import ProfileError
from binary_checks.model import Level
from binary_checks.profile.toml_values import reject_unknown

ByPath = Mapping[str, Level]
"""The levels of one check by globs on a problem's path; the first that matches counts."""
EVERYWHERE = "*"


def read_levels(table: Mapping[str, Any], where: str) -> dict[str, ByPath]:
    """The table ``[levels]``: of each check one level, or a table of levels by globs on paths.

    Raises ProfileError.
    """
    return {check: _read_one(value, f"{where}.{check}") for check, value in table.items()}


def _read_one(value: object, where: str) -> ByPath:
    if isinstance(value, dict):
        return {glob: _level(each, f"{where}.{glob}") for glob, each in value.items()}
    return {EVERYWHERE: _level(value, where)}


def _level(value: object, where: str) -> Level:
    if not isinstance(value, str):
        raise ProfileError(f"{where}: neither a level nor a table of levels by paths")
    reject_unknown([value], {level.value: level for level in Level}, where, "level")
    return Level(value)


def merge_levels(base: Mapping[str, ByPath], own: Mapping[str, ByPath]) -> dict[str, ByPath]:
    """Both; where a path is matched by both, the own level counts."""
    return {**base, **{check: _above(levels, base.get(check, {})) for check, levels in own.items()}}


def _above(own: ByPath, base: ByPath) -> ByPath:
    return {**own, **{glob: level for glob, level in base.items() if glob not in own}}


def choose(levels: ByPath, path: str) -> Level | None:
    """The level of a problem with that path; None where no glob matches."""
    return next((level for glob, level in levels.items() if fnmatchcase(path, glob)), None)


def asks(levels: ByPath) -> bool:
    """Whether somebody who sets these levels wants the check to run."""
    return any(level is not Level.OFF for level in levels.values())


def switches_off(levels: ByPath) -> bool:
    """Whether no problem of the check could be reported."""
    return EVERYWHERE in levels and not asks(levels)

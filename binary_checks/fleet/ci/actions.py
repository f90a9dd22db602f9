"""Pins in ``[ci.actions]``: each names a commit and the tag that the commit had."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from binary_checks.errors import ProfileError
from binary_checks.profile import convert, convert_table

NAME = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}(?:/[A-Za-z0-9._/-]{1,100})?"
)
COMMIT = re.compile(r"[0-9a-f]{40}")
TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}")
_KEYS = {"commit": str, "tag": str}


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionPin:
    """An action pinned to a commit, which nobody can move, and the tag that people know."""

    name: str  # owner/repository, followed by a path if the action lies in a folder
    commit: str  # 40 hexadecimal digits
    tag: str  # v4.2.2

    @property
    def used(self) -> str:
        """The value of ``uses:``."""
        return f"{self.name}@{self.commit}"


def read_pins(value: object, where: str) -> dict[str, ActionPin]:
    """Read the table ``[ci.actions]``. Raises ProfileError, also for a pin without its tag."""
    table = convert(value, dict, where)
    return {name: _read_pin(name, row, f"{where}: {name!r}") for name, row in table.items()}


def _read_pin(name: str, row: Any, where: str) -> ActionPin:
    if not NAME.fullmatch(name):
        raise ProfileError(f"{where}: not an action, such as 'actions/checkout'")
    if not isinstance(row, dict):
        example = '{ commit = "40 hex digits", tag = "v4.2.2" }'
        raise ProfileError(f"{where}: write {example}")
    values = convert_table(row, _KEYS, where)
    if not COMMIT.fullmatch(values.get("commit", "")):
        raise ProfileError(f"{where}: commit: not the 40 hexadecimal digits of a commit")
    if not TAG.fullmatch(values.get("tag", "")):
        raise ProfileError(
            f"{where}: tag: not the tag of a version, such as v4.2.2, which had the commit"
        )
    return ActionPin(name=name, **values)


def require_pin(pins: Mapping[str, ActionPin], name: str) -> ActionPin:
    """Return the pin of an action. Raises ProfileError if there is none."""
    if name not in pins:
        raise ProfileError(f"ci.actions: {name} is used but not pinned")
    return pins[name]

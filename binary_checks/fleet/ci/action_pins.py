"""Which commits of actions generated workflows use: each stands beside the tag that it had."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from binary_checks.errors import ProfileError
from binary_checks.profile.toml_values import convert, reject_unknown

NAME = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}(?:/[A-Za-z0-9._/-]{1,100})?"
)
COMMIT = re.compile(r"[0-9a-f]{40}")
TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}")
_KEYS = {"commit": str, "tag": str}


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionPin:
    """An action at a commit, which nobody can move, and the tag that people know it by."""

    name: str  # owner/repository, with a path behind it where the action lies in one
    commit: str  # 40 hexadecimal digits
    tag: str  # v4.2.2

    @property
    def used(self) -> str:
        """What stands behind ``uses:``."""
        return f"{self.name}@{self.commit}"


def read_pins(value: object, where: str) -> dict[str, ActionPin]:
    """The table ``[ci.actions]``. Raises ProfileError, for a pin without its tag too."""
    table = convert(value, dict, where)
    return {name: _read_pin(name, row, f"{where}: {name!r}") for name, row in table.items()}


def _read_pin(name: str, row: Any, where: str) -> ActionPin:
    if not NAME.fullmatch(name):
        raise ProfileError(f"{where}: not an action, as 'actions/checkout' is")
    if not isinstance(row, dict):
        example = '{ commit = "40 hex digits", tag = "v4.2.2" }'
        raise ProfileError(f"{where}: write {example}")
    reject_unknown(row, _KEYS, where, "key")
    said = {key: convert(row[key], str, f"{where}: {key}") for key in row}
    if not COMMIT.fullmatch(said.get("commit", "")):
        raise ProfileError(f"{where}: commit: not the 40 hexadecimal digits of a commit")
    if not TAG.fullmatch(said.get("tag", "")):
        raise ProfileError(
            f"{where}: a pin needs its tag, which tells people the version; "
            f"`binary-checks ci pin {name}@TAG` prints both"
        )
    return ActionPin(name=name, **said)


def demand_pin(pins: Mapping[str, ActionPin], name: str) -> ActionPin:
    """The pin of an action that is used. Raises ProfileError where there is none."""
    if name not in pins:
        raise ProfileError(f"ci.actions: {name} is used but not pinned")
    return pins[name]

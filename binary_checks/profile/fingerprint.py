"""By what a profile is known: hashes of all that it says, wherever it lies and however ordered."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from binary_checks.model import ProfileIdentity
from binary_checks.profile.reading import Profile

_OF_NO_MEANING = {"source", "shipped", "left_out", "cell", "foreign"}
"""Fields that say where it comes from, not what holds."""


def identify_profile(profile: Profile) -> ProfileIdentity:
    """Hash what it says; of its own checks their files' bytes count, not where they lie."""
    said = {
        field.name: getattr(profile, field.name)
        for field in fields(profile)
        if field.name not in _OF_NO_MEANING
    }
    # Of levels the first that matches holds: the order in which they stand says something.
    said["levels"] = {check: tuple(each.items()) for check, each in profile.levels.items()}
    known = sorted(map(_spell, said.pop("known_problems")))
    return ProfileIdentity(
        source=profile.source,
        sha256=_hash(_spell(said)),
        known_problems_sha256=_hash("\n".join(known)),
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _spell(value: Any) -> str:
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    """As JSON has it, sets in order."""
    if isinstance(value, Path):
        return hashlib.sha256(value.read_bytes()).hexdigest()
    if isinstance(value, frozenset):
        return sorted(map(_spell, value))
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if is_dataclass(value):
        said = (field for field in fields(value) if field.compare)
        return {field.name: _plain(getattr(value, field.name)) for field in said}
    return value if isinstance(value, (str, int, float, type(None))) else str(value)

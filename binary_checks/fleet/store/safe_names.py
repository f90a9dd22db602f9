"""Which names an object may have: those that mean the same in every store and on every system."""

from __future__ import annotations

import re

from binary_checks.errors import StoreError
from binary_checks.fleet.store.store_names import DERIVED
from binary_checks.lines import cut, one_line

# No leading dot (what is ours alone), no trailing one and no blank (Windows drops them).
_PART = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._+=!@,~-]*[A-Za-z0-9_+=!@,~-])?")
_DEVICES = re.compile(r"(?:CON|PRN|AUX|NUL|COM[0-9]|LPT[0-9])(?:\..*)?", re.IGNORECASE)
_LONGEST_PART, _LONGEST = 200, 900  # S3 takes 1,024 bytes with its prefix, file systems 255 a part


def is_safe_part(part: str) -> bool:
    """Whether it may stand between two "/" of a name."""
    return (
        len(part) <= _LONGEST_PART
        and _PART.fullmatch(part) is not None
        and _DEVICES.fullmatch(part) is None
    )


def demand_name(name: str) -> str:
    """The name of an object. Raises StoreError for one that is none, or leads elsewhere."""
    if len(name) > _LONGEST or not all(map(is_safe_part, name.split("/"))):
        raise StoreError(f"{cut(one_line(repr(name)), 120)}: not a name that a store may have")
    return name


def demand_derived(name: str) -> str:
    """The name of an object that may be replaced. Raises StoreError for any other."""
    if not demand_name(name).startswith(DERIVED):
        raise StoreError(f"{cut(one_line(name), 120)}: an object that is never replaced")
    return name


def demand_prefix(prefix: str) -> str:
    """The beginning of names. Raises StoreError for what no name begins with."""
    folder, slash, rest = prefix.rpartition("/")
    if slash:
        demand_name(folder)
    if rest and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._+=!@,~-]*", rest):
        raise StoreError(f"{cut(one_line(repr(prefix)), 120)}: no name of a store begins so")
    return prefix

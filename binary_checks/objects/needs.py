"""Makes each needed library once: the objects of a package need the same few, or each other."""

from __future__ import annotations

import functools
from typing import Final

from binary_checks.model import Dependency

_LONGEST = 255  # bytes of a name that is kept, as systems allow; others are made to be long
_share: Final = functools.lru_cache(maxsize=4096)(Dependency)


def make_dependency(*, name: str, **how: bool) -> Dependency:
    """A `Dependency` of these fields, for all who ask the same one."""
    return _share(name=name, **how) if len(name) <= _LONGEST else Dependency(name=name, **how)

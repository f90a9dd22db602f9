"""Knows the marks that repair tools put into the names of the libraries they bundle.

auditwheel makes libcudart-c64a25f3.so.12 of libcudart.so.12, delvewheel cudart64_12-<md5>.dll of
cudart64_12.dll; torchvision's build has libcudart.faf08d9a.so.13. delocate keeps the names.
"""

from __future__ import annotations

import re
from functools import lru_cache

_HASH = re.compile(r"[-.](?:[0-9a-f]{8}|[0-9a-f]{32})(?=[-.])")
_GRAFTED = re.compile(r"[-.](?:[0-9a-f]{8}(?:[-.].*)?\.so(?:\.|$)|[0-9a-f]{32}\.(?i:dll)$)")
"""Where no other library has them: a date of eight digits stands in front of other endings too."""


@lru_cache(maxsize=4096)
def is_grafted_name(name: str) -> bool:
    """Whether a repair tool made it up, so that nobody but the wheel itself has the file."""
    return _GRAFTED.search(name) is not None


@lru_cache(maxsize=4096)
def strip_graft(name: str) -> str:
    """The name without that mark, as the library is known by elsewhere."""
    return _HASH.sub("", name)

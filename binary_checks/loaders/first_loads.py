"""What a process has when a root is loaded, because the code that loads it loads that before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic

from binary_checks.loaders.image import load
from binary_checks.loaders.loader import Loader, ObjectT
from binary_checks.model import Kind

_OUTSIDE = ("system:", "python:")


class FirstLoads(Generic[ObjectT]):
    """What is loaded before each root, with all that it needs; found out once for many roots."""

    def __init__(self, loader: Loader[ObjectT], loads: Mapping[str, tuple[str, ...]]) -> None:
        """``loads``: by root the objects that are loaded before it, as linkages name them."""
        self._loader, self._loads = loader, loads
        self._known: dict[tuple[str, tuple[str, ...]], Mapping[str, str]] = {}

    def before(self, root: ObjectT) -> Mapping[str, str]:
        """By the name that it is asked for, what Python has loaded before the root.

        Nothing before an executable, which has a process of its own.
        """
        loads = self._loads.get(root.path)
        if not loads or root.kind is not Kind.SHARED:
            return {}
        key = root.architecture, loads
        if key not in self._known:
            self._known[key] = self._load(root.architecture, loads)
        return self._known[key]

    def _load(self, architecture: str, loads: tuple[str, ...]) -> Mapping[str, str]:
        names: dict[str, str] = {}
        for each in loads:
            item = self._loader.layout.fitting(each, architecture)
            if item is None:
                continue
            for name, label in load(item, self._loader, names).loaded.items():
                if not label.startswith(_OUTSIDE):
                    names.setdefault(name, label)
        return names

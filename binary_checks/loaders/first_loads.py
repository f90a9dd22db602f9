"""What a process has when a root is loaded, because the code that loads it loads that before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic

from binary_checks.loaders.image import Before, load
from binary_checks.loaders.loader import Loader, ObjectT
from binary_checks.model import FirstLoad, Kind

_OUTSIDE = ("system:", "python:")


class FirstLoads(Generic[ObjectT]):
    """What is loaded before each root, with all that it needs; found out once for many roots."""

    def __init__(self, loader: Loader[ObjectT], loads: Mapping[str, tuple[FirstLoad, ...]]) -> None:
        self._loader, self._loads = loader, loads
        self._known: dict[tuple[str, tuple[FirstLoad, ...]], Before[ObjectT]] = {}

    def before(self, root: ObjectT) -> Before[ObjectT] | None:
        """What Python has loaded before the root; an executable has a process of its own."""
        loads = self._loads.get(root.path)
        if not loads or root.kind is not Kind.SHARED:
            return None
        key = root.architecture, loads
        if key not in self._known:
            self._known[key] = self._load(root.architecture, loads)
        return self._known[key]

    def _load(self, architecture: str, loads: tuple[FirstLoad, ...]) -> Before[ObjectT]:
        names: dict[str, str] = {}
        everywhere: dict[str, ObjectT] = {}
        for each in loads:
            item = self._loader.layout.fitting(each.path, architecture)
            if item is None:
                continue
            image = load(item, self._loader, Before(names=names))
            for name, label in image.loaded.items():
                if not label.startswith(_OUTSIDE):
                    names.setdefault(name, label)
            if each.everywhere:
                everywhere.update((item.path, item) for item in image.objects)
        return Before(names=names, everywhere=tuple(everywhere.values()))

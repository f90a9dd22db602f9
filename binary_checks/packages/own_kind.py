"""A kind of package that a project adds, whose errors name its file."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from binary_checks.errors import BinaryChecksError, CheckError, ProfileError
from binary_checks.model import (
    ContentStore,
    ObjectReader,
    Package,
    PackageKind,
    Preview,
    Progress,
    Tree,
)

_FUNCTIONS = tuple(name for name in vars(PackageKind) if not name.startswith("_"))


class OwnKind:
    """The functions of a project's module as a `PackageKind`; their faults are not the package's.

    Raises ProfileError if the module lacks one of the functions.
    """

    def __init__(self, path: Path, module: ModuleType) -> None:
        self.path = path
        for name in _FUNCTIONS:
            function = getattr(module, name, None)
            if not callable(function):
                raise ProfileError(f"kinds file {path}: it has no function {name!r}")
            wanted = list(inspect.signature(getattr(PackageKind, name)).parameters)[1:]
            try:
                inspect.signature(function).bind(*wanted)
            except TypeError:
                form = f"{name}({', '.join(wanted)})"
                raise ProfileError(f"kinds file {path}: {name}: it must accept {form}") from None
        self.module = module

    def recognises(self, label: str, look: Callable[[], Tree]) -> bool:
        """Return whether the package is of this kind. Raises ProfileError if the module fails."""
        return bool(self._call(ProfileError, "recognises", label, look))

    def preview(self, tree: Tree, reader: ObjectReader) -> Preview:
        """Return the module's preview. Raises CheckError if the module fails."""
        found: object = self._call(CheckError, "preview", tree, reader)
        if not (isinstance(found, Preview) and issubclass(found.kind, Package)):
            raise CheckError(f"kinds file {self.path}: preview: {found!r:.80} is not a Preview")
        return found

    def read(
        self,
        tree: Tree,
        reader: ObjectReader,
        progress: Progress | None = None,
        store: ContentStore | None = None,
    ) -> Package:
        """Return the package that the module reads. Raises CheckError if the module fails."""
        found: object = self._call(CheckError, "read", tree, reader, progress, store)
        if not isinstance(found, Package):
            raise CheckError(f"kinds file {self.path}: read: {found!r:.80} is not a Package")
        return found

    def _call(self, blame: type[BinaryChecksError], name: str, *arguments: object) -> object:
        """Call a function of the module. Raises ``blame``, in one line, if the module fails."""
        try:
            return getattr(self.module, name)(*arguments)
        except (BinaryChecksError, MemoryError):
            raise
        except Exception as error:
            first = [*str(error).splitlines(), ""][0]
            line = f"kinds file {self.path}: {name}: {type(error).__name__}: {first}"
            raise blame(line) from error

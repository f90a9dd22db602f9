"""Archive in, Package out: one module a kind, each with the same three functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from binary_checks.errors import PackageError
from binary_checks.model.packages import Package, Wheel
from binary_checks.model.protocols import ObjectReader
from binary_checks.packages import wheel
from binary_checks.trees.zip.members import Progress
from binary_checks.trees.zip.preview import Preview

__all__ = ["Preview", "Progress", "open_package", "package_kind", "preview", "recognises"]


class _Kind(NamedTuple):
    makes: type[Package]
    recognises: Callable[[Path], bool]
    preview: Callable[[Path, ObjectReader], Preview]
    open_package: Callable[[Path, ObjectReader, Progress | None], Package]


_KINDS = (_Kind(Wheel, wheel.recognises, wheel.preview, wheel.open_package),)


def _find_kind(path: Path) -> _Kind | None:
    return next((kind for kind in _KINDS if kind.recognises(path)), None)


def recognises(path: Path) -> bool:
    """Whether the path is named like a package of a kind that is known here."""
    return _find_kind(path) is not None


def package_kind(path: Path) -> type[Package] | None:
    """Say which class ``open_package`` would return, None for a path that is not recognised."""
    kind = _find_kind(path)
    return None if kind is None else kind.makes


def preview(path: Path, reader: ObjectReader) -> Preview:
    """Look at a package's directory and the first bytes of its members: quick, and no verdict.

    Raises PackageError where ``open_package`` could not begin either.
    """
    return _demand_kind(path).preview(path, reader)


def open_package(path: Path, reader: ObjectReader, progress: Progress | None = None) -> Package:
    """Read a package from start to end, every member once, in bounded memory.

    ``progress`` is told, in the calling thread, how many of how many bytes have been inflated.
    The reader is called from several threads. Raises PackageError, one line that names the file,
    where the package cannot be read as a whole; what is wrong with a part of it becomes a fact.
    """
    return _demand_kind(path).open_package(path, reader, progress)


def _demand_kind(path: Path) -> _Kind:
    if (kind := _find_kind(path)) is None:
        raise PackageError(f"{path.name}: not a kind of package that is known here")
    return kind

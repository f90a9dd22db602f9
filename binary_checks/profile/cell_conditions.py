"""Cells of a matrix as conditions name them: a value for each axis, and globs on these values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase

from binary_checks.errors import ProfileError
from binary_checks.profile.toml_values import reject_unknown


@dataclass(frozen=True, kw_only=True, slots=True)
class CellAxes:
    """Which cell it is; an axis that is not known, or that its matrix lacks, is empty."""

    id: str = ""
    project: str = ""
    kind: str = ""  # wheel, conda, libtorch
    libtorch: str = ""  # shared-with-deps, static-without-deps, …
    system: str = ""  # linux, macos, windows
    architecture: str = ""  # x86_64, aarch64, arm64, amd64, …, as tags of the system have it
    python: str = ""  # 3.12, 3.13t
    variant: str = ""  # cpu, cu126, rocm6.4
    cxx_abi: str = ""  # pre-cxx11, cxx11
    source: str = ""  # where it is published; a table of the matrix


_NAMES = {each.name: str for each in fields(CellAxes)}


@dataclass(frozen=True, kw_only=True, slots=True)
class CellCondition:
    """Globs by axis: what satisfies all of them is meant."""

    written: str  # "variant=cu* python=3.13*"
    globs: tuple[tuple[str, str], ...]

    def meets(self, cell: CellAxes) -> bool:
        """Whether it is one of those that are meant."""
        return all(fnmatchcase(getattr(cell, axis), glob) for axis, glob in self.globs)


def read_condition(text: str, where: str, names: Mapping[str, type] = _NAMES) -> CellCondition:
    """The parts of ``variant=cu* python=3.13*``: a space means and. Raises ProfileError."""
    globs = tuple(_split(text, where, "AXIS=GLOB, as variant=cu* is", names))
    if not globs:
        raise ProfileError(f"{where}: it names no axis, as variant=cu* does")
    return CellCondition(written=" ".join(text.split()), globs=globs)


def read_cell(text: str, where: str) -> CellAxes:
    """The cell of ``id=demo-3.13-cu126,python=3.13,variant=cu126``. Raises ProfileError."""
    pairs = [*_split(text.replace(",", " "), where, "AXIS=VALUE, as variant=cu126 is", _NAMES)]
    values = dict(pairs)
    if not values:
        raise ProfileError(f"{where}: it names no axis, as variant=cu126 does")
    if len(values) < len(pairs):
        raise ProfileError(f"{where}: it names an axis twice")
    return CellAxes(**values)


def spell_cell(cell: CellAxes) -> str:
    """The text that ``read_cell`` reads, one word."""
    pairs = ((name, getattr(cell, name)) for name in _NAMES)
    return ",".join(f"{name}={value}" for name, value in pairs if value)


def _split(text: str, where: str, form: str, names: Mapping[str, type]) -> list[tuple[str, str]]:
    pairs = []
    for word in text.split():
        axis, found, value = word.partition("=")
        if not found or not value:
            raise ProfileError(f"{where}: {word:.200}: not {form}")
        reject_unknown([axis], names, where, "axis")
        pairs.append((axis, value))
    return pairs

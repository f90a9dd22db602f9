"""The matrix of cells.toml: cells, their sources, and exceptions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from binary_checks.errors import ProfileError
from binary_checks.fleet.night import Cell
from binary_checks.profile import hint


@dataclass(frozen=True, kw_only=True, slots=True)
class CellSource:
    """A source of packages: at most one of index, folder, url and conda is set.

    Without any, pip's own index is used. An axis's name in braces stands for the cell's value.
    """

    name: str = ""  # "" for the default
    index: str = ""  # URL of a package index: https://example.org/nightly/{variant}
    folder: str = ""  # relative to the matrix's file
    url: str = ""  # of the file itself
    conda: str = ""  # a channel's name or URL
    freshness: int | None = None  # days after which a package is stale
    prereleases: bool = False  # whether pre-releases are used although there are releases
    gate: str = ""  # policy for `artifact promote`, relative to the matrix's file


PIPS_INDEX = CellSource()
"""The source of a cell that names none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """An exception: cells that match it are left out until it expires."""

    when: str
    reason: str
    expires: str = ""  # the last day on which it is valid: 2027-01-31
    cells: int = 0  # how many cells it leaves out
    expired: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Matrix:
    """The content of one cells.toml, in the file's order."""

    source: str  # the path, as the user gave it
    folder: Path  # of the file; paths in it are relative to this folder
    sha256: str  # of the file
    cells: tuple[Cell, ...]
    product: tuple[Cell, ...]  # cells of all blocks, including those that are left out
    axes: tuple[str, ...]  # axes that the file uses, in the order of AXES
    sources: Mapping[str, CellSource] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()
    known: str = ""  # a file of known problems, for all cells
    causes: str = ""  # a file of the project's own causes
    warnings: tuple[str, ...] = ()  # a line each
    content: bytes = field(default=b"", repr=False)  # of the file

    def source_of(self, cell: Cell) -> CellSource:
        """Return the source of a cell."""
        return self.sources.get(cell.source, PIPS_INDEX)


# Values of axes: which are valid, and the corresponding tags of wheels.

_NEWEST = {"linux": "manylinux_2_39", "musllinux": "musllinux_1_2", "macos": "macosx_15_0"}
"""System -> tag that stands for it: a new one, which also accepts older wheels."""
_ARCHITECTURES = {
    "linux": ("x86_64", "aarch64", "i686", "armv7l", "ppc64le", "riscv64", "s390x"),
    "macos": ("x86_64", "arm64"),
    "windows": ("amd64", "arm64", "x86"),
}
KINDS = ("wheel", "conda", "libtorch")
"""Our kinds of packages; others are the files in ``kinds`` of a cell's profile."""
_KNOWN: Mapping[str, tuple[str, ...]] = {
    "libtorch": tuple(
        f"{how}-{what}-deps" for how in ("shared", "static") for what in ("with", "without")
    ),
    "cxx_abi": ("pre-cxx11", "cxx11"),
}
_SYSTEM = re.compile(
    r"linux|musllinux|macos|windows|manylinux_2_\d{1,2}|musllinux_1_\d{1,2}|macosx_\d{2}_\d{1,2}"
)
_PYTHON = re.compile(r"3\.\d{1,2}|3\.(?:1[3-9]|[2-9]\d)t")
_PLAIN = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._+-]*[A-Za-z0-9_+])?")
_FAMILIES = {"musllinux": "linux", "manylinux": "linux", "macosx": "macos"}


def require_value(axis: str, value: object, where: str) -> str:
    """Return a value of an axis. Raises ProfileError if it is invalid."""
    if not isinstance(value, str):
        why = " (TOML reads 3.10 as 3.1)" if isinstance(value, float) else ""
        raise ProfileError(f"{where}: {value!r:.40} is not a string; write it in quotes{why}")
    if not _PLAIN.fullmatch(value):
        raise ProfileError(
            f"{where}: {value!r:.60} cannot name a file: only letters, digits and ._+- are allowed"
        )
    known = _KNOWN.get(axis)
    if known and value not in known:
        raise ProfileError(
            f"{where}: {value!r} is not one of: {', '.join(known)}{hint(value, known)}"
        )
    if axis == "system" and not _SYSTEM.fullmatch(value):
        systems = ("linux", "musllinux", "macos", "windows")
        raise ProfileError(
            f"{where}: {value!r} is not one of: {', '.join(systems)}, nor a tag such as "
            f"manylinux_2_28, musllinux_1_2 or macosx_14_0{hint(value, systems)}"
        )
    if axis == "python" and not _PYTHON.fullmatch(value):
        message = "is not a Python version, such as 3.12 or 3.13t, the first with free threading"
        raise ProfileError(f"{where}: {value!r} {message}")
    return value


def family_of(system: str) -> str:
    """Return the operating system: linux for manylinux_2_28, macos for macosx_14_0."""
    name = system.partition("_")[0]
    return _FAMILIES.get(name, name)


def require_consistent(cell: Cell, where: str) -> None:
    """Raise ProfileError if axes of a cell contradict each other."""
    if bool(cell.architecture) is not bool(cell.system):
        given = cell.architecture or cell.system
        raise ProfileError(f"{where}: {given!r}: a system needs an architecture, and the reverse")
    known = _ARCHITECTURES[family_of(cell.system)] if cell.system else ("",)
    if cell.architecture not in known:
        raise ProfileError(
            f"{where}: {cell.system} has no architecture {cell.architecture!r}, but "
            f"{', '.join(known)}"
        )
    if cell.system.startswith("macosx_10_") and cell.architecture == "arm64":
        raise ProfileError(f"{where}: {cell.system} has no arm64; that needs macosx_11_0 or later")
    if cell.libtorch and cell.kind != "libtorch":
        raise ProfileError(f"{where}: libtorch = {cell.libtorch!r}, but kind is {cell.kind!r}")
    if cell.kind == "libtorch" and cell.python:
        raise ProfileError(
            f"{where}: remove python = {cell.python!r}: a libtorch archive has no Python"
        )


def name_target(cell: Cell) -> str:
    """Return the value of ``--for`` with the cell's Python and system, or "".

    A system without a version counts as its newest version, so that no published file is
    overlooked.
    """
    if not cell.system or not cell.python:
        return ""
    return f"cp{cell.python.replace('.', '')}-{name_platform(cell)}"


def name_platform(cell: Cell) -> str:
    """Return the platform tag of the cell's system: manylinux_2_39_x86_64."""
    if cell.system == "windows":
        return {"amd64": "win_amd64", "arm64": "win_arm64", "x86": "win32"}[cell.architecture]
    return f"{_NEWEST.get(cell.system, cell.system)}_{cell.architecture}"


def name_subdir(cell: Cell) -> str:
    """Return conda's name for the cell's system, or "" if it has none."""
    if not cell.system:
        return ""
    family = {"linux": "linux", "macos": "osx", "windows": "win"}[family_of(cell.system)]
    bits = {"x86_64": "64", "amd64": "64", "x86": "32", "i686": "32"}
    return f"{family}-{bits.get(cell.architecture, cell.architecture)}"

"""Looks up what is no wheel in a folder of packages: conda packages and libtorch archives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from packaging.version import InvalidVersion, Version

from binary_checks.fleet.cell import Cell
from binary_checks.fleet.cells.matrix import name_subdir
from binary_checks.fleet.published.index_pages import look_up_wheels_in_folder
from binary_checks.fleet.published.looked_up import LookedUp, fail, miss
from binary_checks.fleet.published.single_files import look_up_file, read_name
from binary_checks.packages.cpp_archive_name import SUFFIXES
from binary_checks.sources.surroundings import Surroundings

_CONDA = (".conda", ".tar.bz2")
_FEW = 5  # names that a reason lists
_BUILD = re.compile(r"(?:^|_)(?:py|cp)3(\d{1,2})(?=[_ht]|$)")


def look_up_in_folder(
    folder: Path, cells: Sequence[Cell], surroundings: Surroundings, *, prereleases: bool
) -> list[LookedUp]:
    """What each cell gets of a folder, by the names of its files. All are of one kind and name."""
    if not folder.is_dir():
        return fail(cells, f"{folder}: no such folder", str(folder))
    if cells[0].kind == "wheel":
        return look_up_wheels_in_folder(folder, cells, surroundings, prereleases=prereleases)
    try:
        return [_look_up(folder, cell, surroundings) for cell in cells]
    except OSError as error:
        return fail(cells, f"{folder}: cannot be read: {error.strerror}", str(folder))


def _look_up(folder: Path, cell: Cell, surroundings: Surroundings) -> LookedUp:
    list_fitting = _list_conda if cell.kind == "conda" else _list_archives
    paths = [*_list_files(folder, cell)]
    found = [*list_fitting(paths, cell)]
    if not found:
        near = sorted(path.name for path in paths if cell.package.split("-")[0] in path.name)
        there = ", ".join(near[:_FEW]) + ", …" * (len(near) > _FEW)
        said = f"no {cell.kind} file for it; there are {there or 'none of that name'}"
        return miss(cell, f"{cell.package}: {said} (asked: {folder})", str(folder))
    newest = max(found, key=_age)
    return look_up_file(newest.as_uri(), [cell], surroundings)[0]


def _list_files(folder: Path, cell: Cell) -> Iterator[Path]:
    """The files that lie there, of conda's also in the folders of the system."""
    below = [folder / name for name in (name_subdir(cell), "noarch") if name]
    for each in (folder, *below) if cell.kind == "conda" else (folder,):
        if each.is_dir():
            yield from (path for path in sorted(each.iterdir()) if path.is_file())


def _list_conda(paths: Iterable[Path], cell: Cell) -> Iterator[Path]:
    for path in paths:
        suffix = next((each for each in _CONDA if path.name.endswith(each)), "")
        name, version, build = ["", "", "", *path.name.removesuffix(suffix).rsplit("-", 2)][-3:]
        wanted, _, asked = cell.package.replace("==", "=").partition("=")
        python = _BUILD.search(build)
        fits = python is None or f"3.{python[1]}" == cell.python.rstrip("t")
        if suffix and name == wanted.strip() and asked.strip() in ("", version) and fits:
            yield path


def _list_archives(paths: Iterable[Path], cell: Cell) -> Iterator[Path]:
    """Those that a glob names, or that begin so and have the cell's values in their names."""
    if "*" in cell.package or cell.package.endswith(SUFFIXES):
        yield from (path for path in paths if fnmatchcase(path.name, cell.package))
        return
    words = [word for word in (cell.libtorch, cell.variant) if word]
    for path in paths:
        named = path.name.startswith(cell.package) and path.name.endswith(SUFFIXES)
        if named and all(word in path.name for word in words):
            yield path


def _age(path: Path) -> tuple[Version, str, float]:
    """What says which of two files is the newer one: version, build, and time."""
    version = read_name(path.name)[1]
    try:
        number = Version(version)
    except InvalidVersion:
        number = Version("0")
    build = path.name.rpartition("_")[2].partition(".")[0].rjust(8)
    return number, build if path.name.endswith(_CONDA) else "", path.stat().st_mtime

"""Reads the identifiers of cibuildwheel's builds: cp312-manylinux_x86_64, one a line or in JSON."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator

from binary_checks.errors import ProfileError
from binary_checks.fleet.cell import Cell
from binary_checks.fleet.cells.axis_values import demand_consistent
from binary_checks.fleet.cells.foreign_matrix import ForeignMatrix, describe_left_out, merge_cells

_IDENTIFIER = re.compile(r"([a-z]{2})(\d+)(?:_\d+)?(t?)-([a-z0-9]+)(?:_([a-z0-9_]+))?")
_SYSTEMS = {"manylinux": "linux", "musllinux": "musllinux", "macosx": "macos"}
_WINDOWS = {"win32": "x86", "win_amd64": "amd64", "win_arm64": "arm64"}
_PYTHONS = {"pp": "PyPy", "gp": "GraalPy"}
_FOREIGN = {"android": "Android", "ios": "iOS", "pyodide": "Pyodide"}
_UNIVERSAL = {"universal2": ("x86_64", "arm64")}  # one wheel, which both hosts take


def read_identifiers(text: str, named: str, project: str) -> ForeignMatrix:
    """The cells of a project for what ``cibuildwheel --print-build-identifiers`` prints.

    Raises ProfileError for what is no identifier. A build whose wheels no cell stands for is left
    out with a note.
    """
    cells: list[Cell] = []
    left: dict[str, list[str]] = defaultdict(list)
    for identifier, where in _list_identifiers(text, named):
        found = _IDENTIFIER.fullmatch(identifier)
        if found is None:
            raise ProfileError(
                f"{where}: {identifier!r:.60} is not a cibuildwheel identifier, as "
                "cp312-manylinux_x86_64 is"
            )
        if reason := _find_reason(found):
            left[reason].append(identifier)
        else:
            cells += _make_cells(identifier, found, project, where)
    if not cells:
        raise ProfileError(f"{named}: no identifier in it that is a cell")
    return ForeignMatrix(cells=merge_cells(cells), notes=describe_left_out(left))


def _list_identifiers(text: str, named: str) -> Iterator[tuple[str, str]]:
    """Each with its place: a line, or the value of ``only`` in JSON as the manual makes it."""
    if text.lstrip()[:1] == "[":
        entries = _load(text, named)
        for number, entry in enumerate(entries if isinstance(entries, list) else ()):
            yield _read_only(entry, f"{named}: [{number}]")
        return
    for number, line in enumerate(text.splitlines(), 1):
        bare, where = line.strip(), f"{named}: line {number}"
        if bare.startswith("{"):
            yield _read_only(_load(bare, where), where)
        elif bare:
            yield bare, where


def _read_only(entry: object, where: str) -> tuple[str, str]:
    found = entry.get("only") if isinstance(entry, dict) else entry
    if not isinstance(found, str):
        raise ProfileError(f"{where}: neither an identifier nor an object whose 'only' is one")
    return found, where


def _load(text: str, where: str) -> object:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        raise ProfileError(f"{where}: not JSON") from None
    return found


def _find_reason(found: re.Match[str]) -> str:
    """Why no cell stands for it; "" where one does."""
    python, _, _, system, _ = found.groups()
    if python in _PYTHONS:
        return f"{_PYTHONS[python]}: cells support only CPython"
    if system in _FOREIGN:
        return f"{_FOREIGN[system]}: cells have no such system"
    return ""


def _make_cells(identifier: str, found: re.Match[str], project: str, where: str) -> Iterator[Cell]:
    python, digits, threads, family, rest = found.groups()
    platform = identifier.partition("-")[2]
    if python != "cp" or not digits.startswith("3") or len(digits) < 2:
        raise ProfileError(f"{where}: {identifier:.60}: a Python that is not known")
    if platform in _WINDOWS:
        hosts = [("windows", _WINDOWS[platform])]
    elif family in _SYSTEMS and rest:
        hosts = [(_SYSTEMS[family], each) for each in _UNIVERSAL.get(rest, (rest,))]
    else:
        raise ProfileError(f"{where}: {identifier:.60}: a system that is not known")
    for system, architecture in hosts:
        cell = Cell(
            id="",
            project=project,
            system=system,
            architecture=architecture,
            python=f"3.{digits[1:]}{threads}",
            package=project,
        )
        demand_consistent(cell, f"{where}: {identifier:.60}")
        yield cell

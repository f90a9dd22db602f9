"""Read cibuildwheel's build identifiers, such as cp312-manylinux_x86_64, from lines or JSON."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from binary_checks.errors import ProfileError
from binary_checks.fleet.cells.matrix import require_consistent
from binary_checks.fleet.night import Cell
from binary_checks.profile import quote_toml

_IDENTIFIER = re.compile(r"([a-z]{2})(\d+)(?:_\d+)?(t?)-([a-z0-9]+)(?:_([a-z0-9_]+))?")
_SYSTEMS = {"manylinux": "linux", "musllinux": "musllinux", "macosx": "macos"}
_WINDOWS = {"win32": "x86", "win_amd64": "amd64", "win_arm64": "arm64"}
_PYTHONS = {"pp": "PyPy", "gp": "GraalPy"}
_FOREIGN = {"android": "Android", "ios": "iOS", "pyodide": "Pyodide"}
_UNIVERSAL = {"universal2": ("x86_64", "arm64")}  # one wheel for both architectures
_SHOWN = 3  # identifiers that a note lists


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltCells:
    """The cells that correspond to builds; their ids are assigned when cells.toml is read."""

    cells: tuple[Cell, ...]
    notes: tuple[str, ...] = ()  # why builds are left out, a line for each reason

    def write_toml(self, source: str) -> str:
        """Return a cells.toml with one block for each cell."""
        lines = [f"# The matrix of {source}, as `binary-checks cells --from … --toml` writes it."]
        lines += [f"# {note}" for note in self.notes]
        for cell in self.cells:
            lines += [
                "",
                "[[cells]]",
                f"project = {quote_toml(cell.project)}",
                f'system = "{cell.system}-{cell.architecture}"',
                f'python = "{cell.python}"',
            ]
        return "\n".join(lines) + "\n"


def read_identifiers(text: str, named: str, project: str) -> BuiltCells:
    """Return a project's cells for the output of ``cibuildwheel --print-build-identifiers``.

    Raises ProfileError for anything that is not an identifier. Builds without a corresponding cell
    are left out with a note.
    """
    cells: list[Cell] = []
    left: dict[str, list[str]] = defaultdict(list)
    for identifier, where in _list_identifiers(text, named):
        found = _IDENTIFIER.fullmatch(identifier)
        if found is None:
            raise ProfileError(
                f"{where}: {identifier!r:.60} is not a cibuildwheel identifier, such as "
                "cp312-manylinux_x86_64"
            )
        if reason := _find_reason(found):
            left[reason].append(identifier)
        else:
            cells += _make_cells(identifier, found, project, where)
    if not cells:
        raise ProfileError(f"{named}: no identifier corresponds to a cell")
    notes = (
        f"{len(names):,} left out ({', '.join(names[:_SHOWN])}{', …' * (len(names) > _SHOWN)}): "
        f"{reason}"
        for reason, names in left.items()
    )
    return BuiltCells(cells=tuple(dict.fromkeys(cells)), notes=tuple(notes))


def _list_identifiers(text: str, named: str) -> Iterator[tuple[str, str]]:
    """Yield each identifier with its location, from lines or from ``only`` in JSON objects."""
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
        raise ProfileError(f"{where}: neither an identifier nor an object with one in 'only'")
    return found, where


def _load(text: str, where: str) -> object:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        raise ProfileError(f"{where}: not JSON") from None
    return found


def _find_reason(found: re.Match[str]) -> str:
    """Return why a build has no cell, or "" if it has one."""
    python, _, _, system, _ = found.groups()
    if python in _PYTHONS:
        return f"{_PYTHONS[python]}: cells support only CPython"
    if system in _FOREIGN:
        return f"{_FOREIGN[system]}: cells do not support this system"
    return ""


def _make_cells(identifier: str, found: re.Match[str], project: str, where: str) -> Iterator[Cell]:
    python, digits, threads, family, rest = found.groups()
    platform = identifier.partition("-")[2]
    if python != "cp" or not digits.startswith("3") or len(digits) < 2:
        raise ProfileError(f"{where}: {identifier:.60}: unknown Python")
    if platform in _WINDOWS:
        hosts = [("windows", _WINDOWS[platform])]
    elif family in _SYSTEMS and rest:
        hosts = [(_SYSTEMS[family], each) for each in _UNIVERSAL.get(rest, (rest,))]
    else:
        raise ProfileError(f"{where}: {identifier:.60}: unknown system")
    for system, architecture in hosts:
        cell = Cell(
            id="",
            project=project,
            system=system,
            architecture=architecture,
            python=f"3.{digits[1:]}{threads}",
            package=project,
        )
        require_consistent(cell, f"{where}: {identifier:.60}")
        yield cell

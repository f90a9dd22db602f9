"""Freezes what cells are judged by: profiles with all that they name, known problems, causes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from binary_checks.errors import ProfileError
from binary_checks.fleet.causes.cause_rules import load_causes
from binary_checks.fleet.cells.matrix import Matrix
from binary_checks.lines import one_line
from binary_checks.model.run_results import KnownListIdentity
from binary_checks.profile.known import LIST
from binary_checks.profile.reading import load_profile
from binary_checks.profile.toml_values import read_toml
from binary_checks.regular_files import read_named
from binary_checks.sources.known_problem_lists import HeldList, hold_list, is_url

_LARGEST = 4 << 20  # bytes of one file


@dataclass(frozen=True, kw_only=True, slots=True)
class FrozenInputs:
    """What holds for a whole night; ``files`` has the bytes by SHA-256."""

    profiles: Mapping[str, str] = field(default_factory=dict)
    """Each file that any profile consists of, by its path, as a folder of a run has it."""
    named: Mapping[str, str] = field(default_factory=dict)
    """That path of each profile that a cell names, as it names it; not of those shipped."""
    known_sha256: str = ""
    known_source: str = ""  # its path, or its URL without what may be secret
    known_remark: str = ""  # why a copy of it holds
    known_complaint: str = ""
    causes_sha256: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)


def is_shipped(named: str) -> bool:
    """Whether it is the name of a profile that comes with this package, and no path."""
    return "/" not in named and not named.endswith(".toml")


def freeze(
    matrix: Matrix, known: str | None, causes: Path | None, now: datetime | None = None
) -> FrozenInputs:
    """Read all of it once. Raises ProfileError, but for known problems: then no waiver holds.

    ``known``, a path or a URL, stands in for the list that the matrix names.
    """
    files: dict[str, bytes] = {}
    named, profiles = _read_profiles(matrix)
    held = _hold(matrix, known, now or datetime.now(timezone.utc))
    known_sha256 = _keep(held.content, files) if held and not held.complaint else ""
    own = causes or (matrix.folder / matrix.causes if matrix.causes else None)
    causes_sha256 = ""
    if own is not None:
        content = read_named(own, _LARGEST, f"causes {own.name}")
        load_causes(content, own.name)
        causes_sha256 = _keep(content, files)
    _keep(matrix.content, files)
    return FrozenInputs(
        profiles={path: _keep(content, files) for path, content in profiles},
        named=named,
        known_sha256=known_sha256,
        known_source=held.identity.source if held else "",
        known_remark=one_line(held.identity.remark) if held else "",
        known_complaint=held.complaint if held else "",
        causes_sha256=causes_sha256,
        files=files,
    )


def _hold(matrix: Matrix, known: str | None, now: datetime) -> HeldList | None:
    """The list that is named, fetched once for all cells; None where none is."""
    argument, folder = (known, Path.cwd()) if known else (matrix.known, matrix.folder)
    if not argument:
        return None
    try:
        return hold_list(argument, folder, now)
    except ProfileError as error:
        source = "" if is_url(argument) else one_line(argument)
        return HeldList(
            identity=KnownListIdentity(source=source, complaint=str(error).removeprefix(LIST))
        )


def _keep(content: bytes, files: dict[str, bytes]) -> str:
    digest = hashlib.sha256(content).hexdigest()
    files[digest] = content
    return digest


def _read_profiles(matrix: Matrix) -> tuple[dict[str, str], list[tuple[str, bytes]]]:
    """The paths of the cells' own profiles, and every file that these consist of.

    Paths are below the nearest folder of all of them.
    """
    named = sorted({cell.profile for cell in matrix.cells} - {""})
    for each in filter(is_shipped, named):
        load_profile(each)
    own = [each for each in named if not is_shipped(each)]
    paths: dict[Path, str] = {}
    for each in own:
        load_profile(str(matrix.folder / each))  # with all that it names, or it says what lacks
        paths.update((path, each) for path in _follow(matrix.folder / each))
    if not paths:
        return {}, []
    try:
        root = Path(os.path.commonpath([matrix.folder, *(path.parent for path in paths)]))
    except ValueError:  # several drives
        raise ProfileError(f"profile {own[0]}: on another drive than {matrix.source}") from None

    def shorten(path: Path) -> str:
        return path.relative_to(root).as_posix()

    return (
        {each: shorten(Path(os.path.normpath(matrix.folder / each))) for each in own},
        [
            (shorten(path), read_named(path, _LARGEST, f"profile {profile}: {path.name}"))
            for path, profile in sorted(paths.items())
        ],
    )


def _follow(path: Path) -> Iterator[Path]:
    """A profile's own file, those that it extends, and those that they name."""
    path = Path(os.path.normpath(path))
    table = read_toml(path, f"profile {path.name}")
    if path.name == "pyproject.toml":
        table = table.get("tool", {}).get("binary_checks", {})
    yield path
    for name in (*table.get("checks", ()), *_list_sources(table.get("probes", {}))):
        yield Path(os.path.normpath(path.parent / name))
    if not is_shipped(table.get("extends", "")):
        yield from _follow(path.parent / table["extends"])


def _list_sources(probes: Mapping[str, Any]) -> Iterator[str]:
    for table in probes.values():
        for unit in table.get("units", {}).values() if isinstance(table, dict) else ():
            if "file" in unit:
                yield unit["file"]

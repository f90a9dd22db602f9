"""tox.toml: an environment for each cell, which judges its package as the test stage does.

A package lies in dist/ (or $DIST), in a folder named after the cell, or next to packages of other
cells if its tags identify it. Arguments after ``--`` are additional options.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

from binary_checks.fleet.cells import family_of
from binary_checks.fleet.ci.pipeline import Pipeline, choose_job_python, make_options, name_values
from binary_checks.fleet.ci.templating import identify, render
from binary_checks.fleet.night import Cell

_FACTOR = re.compile(
    r"(?:py|pypy|cpython|jython|graalpy|rustpython|ironpython)[2-9][.\d]*t?d?|[23]\.\d+t?d?"
)
"""Matches parts of a name that tox takes for a Python; only the Python of base_python is
allowed.
"""
_PLATFORMS = {"linux": "linux", "macos": "darwin", "windows": "win32"}  # values of sys.platform


def write(pipeline: Pipeline) -> Mapping[str, str]:
    """Return path -> text of the only file."""
    cells, settings = pipeline.matrix.cells, pipeline.settings
    pythons = {cell.id: choose_job_python(cell, settings) for cell in cells}
    names = _name_environments(pythons)
    patterns = {cell.id: [*_list_patterns(cell)] for cell in cells}
    shared = Counter(pattern for each in patterns.values() for pattern in each)
    environments = []
    for cell in cells:
        python = pythons[cell.id]
        static = () if python == (cell.python or python) else ("--static",)
        own = [pattern for pattern in patterns[cell.id] if shared[pattern] == 1]
        environments.append(
            {
                "name": names[cell.id],
                "python": python,
                "platform": _PLATFORMS[family_of(cell.system)] if cell.system else "",
                "variables": name_values(cell, pipeline.matrix.axes),
                # in this order: the first that matches a file counts
                "patterns": (f"{cell.id}/*", *own, f"{cell.id}/*"),
                "options": make_options(
                    cell, pipeline.matrix, Path(pipeline.source), python=static
                ),
            }
        )
    return {"tox.toml": render("tox.toml", pipeline, environments=environments)}


def _name_environments(pythons: Mapping[str, str]) -> dict[str, str]:
    """Return id -> environment's name; it differs if tox would read another Python from the id."""
    found = {}
    for cell, python in pythons.items():
        parts = cell.split("-")
        own = parts.index(python) if python in parts else None
        name = "-".join(
            f"_{part}" if _FACTOR.fullmatch(part) and number != own else part
            for number, part in enumerate(parts)
        )
        found[cell] = name if name == cell or name not in pythons else identify(name, "_")
    return found


def _list_patterns(cell: Cell) -> Sequence[str]:
    """Return globs for the cell's files in dist/; several cells may have the same ones."""
    if cell.kind != "wheel" or not cell.python or not cell.system:
        return ()
    project = canonicalize_name(cell.package or cell.project).replace("-", "_")
    if not project.replace("_", "").isalnum():  # a requirement or a path
        project = canonicalize_name(cell.project).replace("-", "_")
    tag = f"cp{cell.python.rstrip('t').replace('.', '')}"
    abi = f"{tag}t" if cell.python.endswith("t") else tag
    letters = (f"[{each}{each.upper()}]" if each.isalpha() else each for each in project)
    return [f"{''.join(letters).replace('_', '[_.]')}-*-{tag}-{abi}-{_match_platform(cell)}.whl"]


def _match_platform(cell: Cell) -> str:
    """Return a glob for the platform tags of the cell's system."""
    if family_of(cell.system) == "windows":
        return {"amd64": "win_amd64", "arm64": "win_arm64", "x86": "win32"}[cell.architecture]
    name = {"linux": "*linux*", "macos": "macosx_*", "musllinux": "*musllinux*"}.get(
        cell.system, f"*{cell.system}"
    )
    return f"{name}_{cell.architecture}"

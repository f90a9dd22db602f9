"""tox.toml: an environment for each cell, which judges its package as the test stage does.

A package lies in dist/ (or $DIST), in a folder named after the cell, or next to packages of other
cells if its tags identify it. Arguments after ``--`` are additional options.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from packaging.utils import canonicalize_name

from binary_checks.fleet.cells import family_of
from binary_checks.fleet.ci.generated_files import heading
from binary_checks.fleet.ci.job_scripts import find_family, identify
from binary_checks.fleet.ci.pipeline import Pipeline, PipelineCell, name_values
from binary_checks.fleet.night import Cell
from binary_checks.profile import quote_toml

_FILE = "tox.toml"
_DIST = "{env:DIST:dist}"
_REQUIRES = "tox>=4.47"
_FACTOR = re.compile(
    r"(?:py|pypy|cpython|jython|graalpy|rustpython|ironpython)[2-9][.\d]*t?d?|[23]\.\d+t?d?"
)
"""Matches parts of a name that tox takes for a Python; only the Python of base_python is
allowed.
"""
_PLATFORMS = {"linux": "linux", "macos": "darwin", "windows": "win32"}  # values of sys.platform


def write(pipeline: Pipeline) -> Mapping[str, str]:
    """Return path -> text of the only file."""
    names = _name_environments(pipeline.cells)
    patterns = {cell.id: [*_patterns(cell.cell)] for cell in pipeline.cells}
    shared = Counter(pattern for each in patterns.values() for pattern in each)
    lines = [
        f"# {heading(pipeline)}",
        f"requires = {_format_toml([_REQUIRES])}",
        f"env_list = {_format_toml([*names.values()], 1)}",
        "skip_missing_interpreters = true",
        "",
        "[env_run_base]",
        "skip_install = true",
        f"deps = {_format_toml([*map(_escape, pipeline.settings.install)])}",
        'pass_env = ["BINARY_CHECKS_*", "SSL_CERT_FILE"]',
    ]
    if pipeline.settings.environment:
        lines.append(f"set_env = {_format_toml(_escape_all(pipeline.settings.environment))}")
    for cell in pipeline.cells:
        own = [pattern for pattern in patterns[cell.id] if shared[pattern] == 1]
        lines += ["", f"[env.{_format_toml(names[cell.id])}]", *_environment(cell, own, pipeline)]
    return {_FILE: "\n".join(lines) + "\n"}


def _name_environments(cells: Sequence[PipelineCell]) -> dict[str, str]:
    """Return id -> environment's name; it differs if tox would read another Python from the id."""
    found = {}
    ids = {cell.id for cell in cells}
    for cell in cells:
        parts = cell.id.split("-")
        own = parts.index(cell.python) if cell.python in parts else None
        name = "-".join(
            f"_{part}" if _FACTOR.fullmatch(part) and number != own else part
            for number, part in enumerate(parts)
        )
        found[cell.id] = name if name == cell.id or name not in ids else identify(name, "_")
    return found


def _environment(cell: PipelineCell, patterns: Sequence[str], pipeline: Pipeline) -> Iterator[str]:
    """Yield the settings of one cell's environment, which needs the cell's system and Python."""
    yield f"base_python = {_format_toml([cell.python])}"
    if cell.cell.system:
        yield f"platform = {_format_toml(_PLATFORMS[find_family(cell.cell)])}"
    yield f"set_env = {_format_toml(_escape_all(name_values(cell.cell, pipeline.matrix.axes)))}"
    given = [{"replace": "posargs", "extend": True}, _find_files(cell.id, patterns)]
    options = [_escape(option) for option in cell.options]
    yield f"commands = [{_format_toml(['binary-checks', *given, *options])}]"


def _find_files(cell: str, patterns: Sequence[str]) -> dict[str, Any]:
    """Return the files to judge: all in the cell's folder, or else all that match its tags.

    If there is no such file, return the pattern itself, so that the command fails.
    """
    own = f"{_DIST}/{cell}/*"
    default: Any = [own]
    for pattern in (*reversed(patterns), f"{cell}/*"):
        default = {
            "replace": "glob",
            "pattern": f"{_DIST}/{pattern}",
            "default": default,
            "extend": True,
        }
    found: dict[str, Any] = default
    return found


def _patterns(cell: Cell) -> Iterator[str]:
    """Yield globs for the cell's files in dist/; several cells may have the same ones."""
    project = canonicalize_name(cell.package or cell.project).replace("-", "_")
    if cell.kind != "wheel" or not cell.python or not cell.system:
        return
    if not project.replace("_", "").isalnum():  # a requirement or a path
        project = canonicalize_name(cell.project).replace("-", "_")
    tag = f"cp{cell.python.rstrip('t').replace('.', '')}"
    abi = f"{tag}t" if cell.python.endswith("t") else tag
    letters = (f"[{each}{each.upper()}]" if each.isalpha() else each for each in project)
    yield f"{''.join(letters).replace('_', '[_.]')}-*-{tag}-{abi}-{_platform(cell)}.whl"


def _platform(cell: Cell) -> str:
    """Return a glob for the platform tags of the cell's system."""
    if family_of(cell.system) == "windows":
        return {"amd64": "win_amd64", "arm64": "win_arm64", "x86": "win32"}[cell.architecture]
    name = {"linux": "*linux*", "macos": "macosx_*", "musllinux": "*musllinux*"}.get(
        cell.system, f"*{cell.system}"
    )
    return f"{name}_{cell.architecture}"


def _escape(text: str) -> str:
    """Return the text with tox's substitutions in braces escaped."""
    return text.replace("{", "\\{").replace("}", "\\}")


def _escape_all(values: Mapping[str, str]) -> dict[str, str]:
    return {name: _escape(value) for name, value in values.items()}


def _format_toml(value: Any, depth: int = 0) -> str:
    """Return a value in TOML; a nested list has a line for each item."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f"{key} = {_format_toml(each)}" for key, each in value.items()) + " }"
        )
    if isinstance(value, (list, tuple)):
        if depth:
            return "[\n" + "".join(f"    {_format_toml(each)},\n" for each in value) + "]"
        return "[" + ", ".join(map(_format_toml, value)) + "]"
    return quote_toml(str(value))

"""Where packages run in one run: ``--binary-place`` held against the older options beside it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from binary_checks.errors import ProfileError
from binary_checks.model.places import PlaceName, read_place
from binary_checks.plugin.failures import misused

_OPTION = "--binary-place"


@dataclass(frozen=True, kw_only=True, slots=True)
class Placing:
    """The places of a run, and the interpreter that goes with them."""

    interpreters: Mapping[PlaceName, Path]  # of each place: that it has, or that it is made from

    @property
    def names(self) -> tuple[PlaceName, ...]:
        """The places, in the order in which they were named."""
        return tuple(self.interpreters)

    @property
    def python(self) -> Path:
        """The interpreter that installed packages are looked up for: that of what is there."""
        there = [path for name, path in self.interpreters.items() if name.is_there]
        return (*there, *self.interpreters.values())[0]

    @property
    def option(self) -> str:
        """How the user names that interpreter."""
        there = [name for name in self.names if name.is_there]
        return f"{_OPTION} {there[0].label}" if there else "--binary-python"


def read_placing(config: pytest.Config, *, installed: bool) -> Placing:
    """Read where packages are to run; ``installed`` says whether one is named that lies somewhere.

    Raises pytest.UsageError with one line for what contradicts itself or is not there.
    """
    folder, given = config.invocation_params.dir, config.option.binary_python
    try:
        names = tuple(dict.fromkeys(map(read_place, config.option.binary_place)))
    except ProfileError as error:
        raise misused(f"{_OPTION} {error}") from None
    _demand_one_meaning(config, names, installed=installed)
    python = demand_program(folder, given or sys.executable, f"--binary-python {given}")
    placing = Placing(
        interpreters={
            name: find_interpreter(folder, name) if name.is_there else python
            for name in names or (PlaceName(),)
        }
    )
    if installed and not placing.python.exists():
        raise misused(f"{placing.option}: there is no Python in it")
    return placing


def _demand_one_meaning(
    config: pytest.Config, names: tuple[PlaceName, ...], *, installed: bool
) -> None:
    python, static = config.option.binary_python, config.option.binary_static
    there = [name.label for name in names if name.is_there]
    kinds = {name.kind for name in names}
    if python is not None and names and kinds.isdisjoint({"venv", "image"}):
        said = f"{_OPTION} {names[0].label} makes no venv from it; give one of the two"
        raise misused(f"--binary-python {python}: {said}")
    if len(there) > 1:
        raise misused(f"{_OPTION} {there[1]}: {there[0]} is given already; one run has one")
    if installed and "venv" in kinds:
        said = "what is installed runs where it lies: name that by existing:PYTHON or prefix:PATH"
        raise misused(f"{_OPTION} venv: {said}")
    if static and "image" in kinds:
        label = next(name.label for name in names if name.kind == "image")
        raise misused(f"{_OPTION} {label}: with --binary-static nothing runs anywhere")


def find_interpreter(folder: Path, name: PlaceName) -> Path:
    """Find the interpreter of an environment that is there; of a folder without one, where not."""
    path = Path(os.path.normpath(folder / name.argument))
    if name.kind == "existing":
        return demand_program(folder, name.argument, f"{_OPTION} {name.label}")
    if not path.is_dir():
        raise misused(f"{_OPTION} {name.label}: no such folder")
    from binary_checks.places.existing import find_python  # for few runs

    return find_python(path) or path / "bin" / "python"


def demand_program(folder: Path, name: str, option: str) -> Path:
    """The path of a program that may be run: as a shell finds it, a bare name is one of PATH."""
    path = Path(os.path.normpath(folder / name))
    if not path.exists() and Path(name).name == name and (found := shutil.which(name)):
        return Path(found)
    if not path.exists():
        raise misused(f"no such file or folder: {name}")
    if path.is_dir() or not os.access(path, os.X_OK):
        raise misused(f"{option}: no program to run")
    return path

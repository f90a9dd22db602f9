"""How a planned cell is run: the arguments of `binary-checks` for its bytes, and no others."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from binary_checks.errors import ProfileError
from binary_checks.fleet.cell import Cell
from binary_checks.fleet.nights.frozen_inputs import find_frozen, is_shipped
from binary_checks.fleet.plan import NightPlan, PlannedCell
from binary_checks.fleet.store.store_names import frozen_name

KNOWN = "known.toml"
_PROFILES = "profiles"


@dataclass(frozen=True, kw_only=True, slots=True)
class CellCommand:
    """What is run in a folder of its own, which has the inputs under these names."""

    arguments: tuple[str, ...]  # behind `binary-checks`
    inputs: Mapping[str, str]  # path in that folder -> name of an object in the store


def find_python(name: str) -> str:
    """The path of python3.12 or python3.13t on this host; "" where there is none."""
    return shutil.which(f"python{name}") or ""


def command_of(
    plan: NightPlan,
    planned: PlannedCell,
    *,
    find_python: Callable[[str], str] = find_python,
) -> CellCommand:
    """The command of a cell that has a file. Raises ProfileError for one that has none.

    The URL states the hash of the plan: other bytes are an error of the index (exit code 6), and
    no verdict. A package of another system is inspected, and what would run it says why it did not.
    """
    cell = planned.cell
    if not planned.url or not planned.sha256:
        raise ProfileError(f"{cell.id}: the plan has no file for it: {planned.reason}")
    inputs = dict(_list_inputs(plan, cell))
    arguments = [f"{planned.url}#sha256={planned.sha256}"]
    if cell.place:
        arguments += ["--binary-place", cell.place]
    elif python := _choose_python(cell, find_python):
        arguments += ["--binary-python", python]
    if cell.profile:
        frozen = find_frozen(cell.profile, plan.profiles)
        arguments += ["--binary-profile", f"{_PROFILES}/{frozen}" if frozen else cell.profile]
    if KNOWN in inputs:
        arguments += ["--binary-known", KNOWN]
    return CellCommand(arguments=(*arguments, *cell.options), inputs=inputs)


def _list_inputs(plan: NightPlan, cell: Cell) -> Iterator[tuple[str, str]]:
    if plan.known_sha256:
        yield KNOWN, frozen_name(plan.night, plan.known_sha256)
    if cell.profile and not is_shipped(cell.profile):
        for path, digest in plan.profiles.items():  # one may extend any other
            yield f"{_PROFILES}/{path}", frozen_name(plan.night, digest)


def _choose_python(cell: Cell, find_python: Callable[[str], str]) -> str:
    """The interpreter of the cell's Python, where its environment is made from one of this host.

    "" where this process has it, or nothing is stated.
    """
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if not cell.python or cell.python == own or "--binary-python" in cell.options:
        return ""
    return find_python(cell.python)

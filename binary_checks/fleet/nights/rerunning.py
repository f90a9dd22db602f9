"""The one command that reruns a cell at one's own desk, on the very bytes that the night judged."""

from __future__ import annotations

import shlex

from binary_checks.fleet.nights.cell_commands import command_of
from binary_checks.fleet.plan import NightPlan, PlannedCell
from binary_checks.model import RunResult

_PLACE, _IMAGE = "--binary-place", "image:"


def rerun_command(
    plan: NightPlan, planned: PlannedCell, store: str, result: RunResult | None = None
) -> str:
    """The command, to be pasted into a shell; "" for a cell that the plan has no file for.

    Where the ``result`` of the night's run names the image that it ran in, the command takes that
    very image. One without frozen files needs nothing of the store. Else `nightly rerun` fetches
    them from there: the profile as it was, with those that it extends, and the known problems.
    """
    if not planned.url or not planned.sha256:
        return ""
    command = command_of(plan, planned, find_python=lambda version: f"python{version}")
    place = pin_place(planned.cell.place, result)
    if command.inputs:
        at = ["--date", plan.night, "--store", store]
        pinned = [_PLACE, place] if place != planned.cell.place else []
        return shlex.join(("binary-checks", "nightly", "rerun", planned.cell.id, *at, *pinned))
    return shlex.join(("binary-checks", *_replace(command.arguments, planned.cell.place, place)))


def pin_place(place: str, result: RunResult | None) -> str:
    """The place with the digest of the image that it was; as it is where the result names none."""
    images = result.packages[0].roots if result and result.packages else ()
    pins = len(images) == 1 and place.startswith(_IMAGE)
    return f"{_IMAGE}{images[0]}" if pins else place


def _replace(arguments: tuple[str, ...], old: str, new: str) -> list[str]:
    replaced = list(arguments)
    if old and _PLACE in arguments:
        replaced[arguments.index(_PLACE) + 1] = new
    return replaced

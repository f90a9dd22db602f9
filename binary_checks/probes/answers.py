"""The answers of probes, and the ends of their processes, as values of the model.

Code of a package may answer instead of a script, so a value of another type counts as missing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from binary_checks.errors import GatherError
from binary_checks.model import Ending, Place, ProbeAnswer, Step
from binary_checks.places.processes import explain_missing_stack

_STATES = {
    **dict.fromkeys(("imported", "loaded", "ran", "unavailable", "finished"), Ending.OK),
    "raised": Ending.RAISED,
    "loader error": Ending.LOADER_ERROR,
    "exited": Ending.EXITED,
}
_SHOWN = 20  # lines of stderr
_FRAMES = 6  # innermost frames of a stack
# Frames of the probe itself, which are the same in every stack and contain a path of this machine.
_OURS = re.compile(
    r"^<frozen importlib\.|/importlib/__init__\.py:\d+ in import_module$"
    r"|/binary_checks/probes/(?:\w+/)?\w+\.py:"
)


def read_text(row: Mapping[str, Any], key: str) -> str:
    """Return the text under a key, or ""."""
    value = row.get(key)
    return value if isinstance(value, str) else ""


def list_texts(row: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Return the texts in the list under a key."""
    value = row.get(key)
    return tuple(map(str, value)) if isinstance(value, list) else ()


def list_rows(row: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the objects in the list under a key."""
    value = row.get(key)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def show_all(place: Place, paths: object) -> tuple[str, ...] | None:
    """Return paths relative to site-packages if they are below it, sorted; None for None."""
    if not isinstance(paths, list):
        return None
    return tuple(sorted(place.shown(str(path)) for path in paths))


def read_row(name: str, row: Mapping[str, Any], place: Place) -> Step:
    """Return a step for its row in an answer."""
    gil = row.get("gil_enabled")
    return Step(
        name=name,
        outcome=_STATES.get(read_text(row, "state"), Ending.EXITED),
        detail=place.scrub(read_text(row, "detail")),
        missing_module=read_text(row, "missing_module"),
        missing_file=read_text(row, "missing_file"),
        broken_file=read_text(row, "broken_file"),
        gil_enabled=gil if isinstance(gil, bool) else None,
        libraries=show_all(place, row.get("libraries")),
    )


def read_step(name: str, result: ProbeAnswer, place: Place, *, calls: bool = False) -> Step:
    """Return a step for an answer with one state, and for the end of its process.

    With ``calls`` the detail of a process that hung has its stacks (`Conditions.calls`).

    If the process ended badly after the state, an earlier failure counts. Raises GatherError if
    there is no answer, though the process did not crash: then the probe itself is broken.
    """
    if not result.answer and result.outcome in {Ending.OK, Ending.EXITED}:
        raise GatherError(f"the probe of {name} ended without an answer: {find_last_words(result)}")
    step = read_row(name, result.answer, place)
    finished = step.outcome is Ending.OK and result.outcome is not Ending.OK
    if finished or read_text(result.answer, "state") not in _STATES:
        death = read_death(name, result, place, calls=calls)
        step = replace(step, outcome=death.outcome, detail=death.detail, finished=finished)
    return replace(step, stderr=last_lines(place.scrub(result.stderr)))


def read_death(name: str, result: ProbeAnswer, place: Place, *, calls: bool = False) -> Step:
    """Return a step for the end of a process before its answer was complete."""
    describe = describe_stack if calls and result.outcome is Ending.HUNG else describe_end
    return Step(
        name=name,
        outcome=Ending.EXITED if result.outcome is Ending.OK else result.outcome,
        detail=place.scrub(describe(result, place) or "exit status 0"),
        stderr=last_lines(place.scrub(result.stderr)),
    )


def describe_end(result: ProbeAnswer, place: Place) -> str:
    """Describe how a process ended, with the innermost line in installed code."""
    site = f"{place.target.site_packages}{os.sep}"
    inner = next((line for line in result.places if line.startswith(site)), "")
    return f"{result.detail} at {place.shown(inner)}" if inner else result.detail


def describe_stack(result: ProbeAnswer, place: Place) -> str:
    """Describe a process that hung, with its innermost calls."""
    own = (line for line in map(place.shown, result.places) if not _OURS.search(line))
    places = " < ".join(islice(own, _FRAMES))
    calls = " < ".join(result.calls[:_FRAMES])
    lack = "" if calls else explain_missing_stack()
    return "".join(
        (
            result.detail,
            places and f" at {places}",
            calls and f", in native code at {calls}",
            lack and f" ({lack})",
        )
    )


def find_last_words(result: ProbeAnswer) -> str:
    """Return the last line of stderr of a process, or else how the process ended."""
    return result.stderr.strip().rpartition("\n")[2] or result.detail or "exit status 0"


def last_lines(text: str) -> str:
    """Return the last lines of a text, each cut to a readable length."""
    return "\n".join(line[:500] for line in text.splitlines()[-_SHOWN:])

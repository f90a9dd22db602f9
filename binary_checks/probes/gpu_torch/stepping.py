"""Takes the shipped steps in few processes, each within its bound, and the others after a fault.

An import of torch costs seconds, so one process takes many steps. One that fails is the last of its
process, and what is left goes on in a new one: no fault hides another, and none makes another. When
the GPU itself hangs, nothing more is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from binary_checks.errors import GatherError, ProfileError
from binary_checks.model import Ending
from binary_checks.model.places import ProbeAnswer

FIRST = "first_kernel"
IMPORT = "import torch"
END = "end"  # the stage of a process that has taken its steps
_LEAVING = 30.0  # seconds for an interpreter's own end, with all that a device holds
_LONGEST = 3600  # seconds that a step may ask for
_HANGS = 2  # so many steps hang before it is the GPU

RunResult = Callable[[Mapping[str, object], Mapping[str, float]], ProbeAnswer]
"""Runs the script with a request, within seconds by stage."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuStep:
    """One step that the script can take."""

    name: str
    bound: float  # seconds after which it hangs
    expected: float = 0.0  # seconds on a healthy GPU
    alone: bool = False  # whether it has a process of its own
    thorough: bool = False  # whether it is taken in a thorough run alone


def read_steps(result: ProbeAnswer) -> tuple[GpuStep, ...]:
    """Read what the script lists. Raises GatherError where it lists nothing."""
    try:
        steps = tuple(GpuStep(**row) for row in result.answer["steps"])
    except (KeyError, TypeError):
        steps = ()
    if not steps or not all(map(_is_sound, steps)):
        lack = result.detail or "the answer is not the script's"
        raise GatherError(f"the steps on a GPU cannot be listed: {lack}")
    return steps


def _is_sound(step: GpuStep) -> bool:
    """Whether it may be the script's: a file that starts with the interpreter may answer for it."""
    numbers = isinstance(step.bound, (int, float)) and isinstance(step.expected, (int, float))
    return isinstance(step.name, str) and numbers and 0 < step.bound <= _LONGEST


def choose_steps(
    steps: Sequence[GpuStep], leave_out: Iterable[str], *, thorough: bool
) -> tuple[GpuStep, ...]:
    """Choose those of a run. Raises ProfileError where one is left out that there is not."""
    if unknown := sorted(set(leave_out).difference(each.name for each in steps)):
        raise ProfileError(f"probes.gpu.leave_out: no step {unknown[0]!r}")
    left_out = frozenset(leave_out)
    return tuple(
        each for each in steps if each.name not in left_out and (thorough or not each.thorough)
    )


def take_steps(
    run: RunResult, steps: Sequence[GpuStep], patience: float
) -> Iterator[tuple[str, ProbeAnswer | str]]:
    """Take them, and give what came of each as if it had had a process of its own.

    ``patience`` is what the profile allows one process: the import has all of it, and a step's
    bound grows with it beyond the default. A step that is not tried gives the reason, a text.
    """
    factor = max(1.0, patience / 300.0)
    bounds = {each.name: each.bound * factor for each in steps}
    stages = {**bounds, IMPORT: patience, END: _LEAVING * factor}
    hung: list[str] = []
    left = list(steps)
    while left:
        group = _choose_group(left)
        names = [each.name for each in group]
        result = run({"steps": names, "bounds": bounds}, stages)
        taken = dict(_split(result, names))
        left = [each for each in left if each.name not in taken]
        yield from taken.items()
        hung += [name for name, each in taken.items() if each.outcome is Ending.HUNG]
        if reason := find_stop(hung) or _find_no_import(result):
            yield from ((each.name, reason) for each in left)
            return


def find_stop(hung: Sequence[str]) -> str:
    """Say why nothing more is to be tried after these steps hung; "" where more is."""
    if FIRST in hung:
        return f"it was not tried: {FIRST} hangs"
    if len(hung) >= _HANGS:
        return f"it was not tried: {' and '.join(hung)} hang"
    return ""


def _find_no_import(result: ProbeAnswer) -> str:
    at_import = result.answer.get("stage") == IMPORT
    return "it was not tried: torch cannot be imported on this host" if at_import else ""


def _choose_group(left: Sequence[GpuStep]) -> Sequence[GpuStep]:
    """Choose what the next process takes: one step, or all that are not for themselves."""
    return [each for each in left if not each.alone] or left[:1]


def _split(result: ProbeAnswer, names: Sequence[str]) -> Iterator[tuple[str, ProbeAnswer]]:
    """Split the answer of a process that took steps into one for each that it came to."""
    answer = result.answer
    rows = answer.get("results")
    rows = rows if isinstance(rows, dict) else {}
    done = [name for name in names if isinstance(rows.get(name), dict)]
    for name in done:
        yield name, ProbeAnswer(answer={"stage": name, **rows[name]})
    rest = [name for name in names if name not in done]
    stage = answer.get("stage")
    if stage in rest or (not done and rest):  # it was at one, or came to none
        name = stage if stage in rest else rest[0]
        row = {key: value for key, value in answer.items() if key != "results"}
        yield name, _end_at(result, row)
    elif result.outcome is not Ending.OK and rows[done[-1]].get("state") == "finished":
        label = f"{done[0]} to {done[-1]}" if len(done) > 1 else done[0]
        yield f"the process of {label}", _end_at(result, {"state": "finished"})


def _end_at(result: ProbeAnswer, answer: Mapping[str, Any]) -> ProbeAnswer:
    """Give a result another answer."""
    return ProbeAnswer(
        answer=answer,
        outcome=result.outcome,
        detail=result.detail,
        places=result.places,
        calls=result.calls,
        stderr=result.stderr,
    )

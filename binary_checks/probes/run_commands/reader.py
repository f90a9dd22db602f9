"""Run commands in a place, sequentially or in parallel, and report how they ended."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binary_checks.errors import GatherError
from binary_checks.model import Conditions, Ending, Place, ProbeAnswer
from binary_checks.probes.answers import describe_end, find_last_words, read_text

PARALLEL = 2  # commands that run at the same time
_GRACE = 15.0  # seconds in addition to the limits of all commands


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A program of the place, with its arguments."""

    argv: tuple[str, ...]
    folder: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandEnd:
    """How a command ended, with its output."""

    outcome: Ending = Ending.OK
    detail: str = ""  # name of a signal, seconds of the limit, or exit status; one line
    stdout: str = ""
    stderr: str = ""

    @property
    def output(self) -> str:
        """All output: some compilers and build tools report errors on standard output."""
        return f"{self.stderr}\n{self.stdout}"


def run_jobs(
    place: Place, jobs: Sequence[Sequence[Command]], conditions: Conditions
) -> tuple[tuple[CommandEnd, ...], ...]:
    """Run all jobs, two at a time; stop a job at its first command that fails.

    Each command has the place's time limit. Raises GatherError if no command could be started.
    """
    asked = {
        "jobs": [[{"argv": each.argv, "folder": str(each.folder)} for each in job] for job in jobs],
        "seconds": place.timeout,
        "parallel": PARALLEL,
    }
    longest = place.timeout * max(sum(map(len, jobs)), 1) + _GRACE
    result = place.run("run_commands", asked, timeout=longest, conditions=conditions)
    rows = result.answer.get("jobs")
    if not isinstance(rows, list) or len(rows) != len(jobs):
        raise GatherError(f"no command could be run: {find_last_words(result)}")
    return tuple(
        _read_job(row if isinstance(row, list) else [], job, result, place)
        for row, job in zip(rows, jobs, strict=True)
    )


def _read_job(
    rows: list[Any], job: Sequence[Command], result: ProbeAnswer, place: Place
) -> tuple[CommandEnd, ...]:
    """Read the results of a job's commands.

    If the probe died, the next command without a result gets the end of the probe as its result.
    """
    found = [_read_end(row, place.timeout) for row in rows[: len(job)] if isinstance(row, dict)]
    done = len(found) == len(job) or (found and found[-1].outcome is not Ending.OK)
    if not done:
        outcome = Ending.EXITED if result.outcome is Ending.OK else result.outcome
        found.append(CommandEnd(outcome=outcome, detail=describe_end(result, place)))
    return tuple(found)


def _read_end(row: Mapping[str, Any], seconds: float) -> CommandEnd:
    status, outcome, detail = row.get("status"), Ending.OK, ""
    if not isinstance(status, int):
        outcome, detail = Ending.HUNG, f"{seconds:g} s"
    elif status < 0:
        known = {item.value: item.name for item in signal.Signals}
        outcome, detail = Ending.CRASHED, known.get(-status, f"signal {-status}")
    elif status:
        outcome, detail = Ending.EXITED, read_text(row, "refusal") or f"exit status {status}"
    return CommandEnd(
        outcome=outcome,
        detail=detail,
        stdout=read_text(row, "stdout"),
        stderr=read_text(row, "stderr"),
    )

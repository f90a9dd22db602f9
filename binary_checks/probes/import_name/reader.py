"""Imports each name of an installed package in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from binary_checks.errors import GatherError
from binary_checks.model import Ending, ImportReport, Step
from binary_checks.places.left_behind import hash_file
from binary_checks.places.running import ProbeAnswer
from binary_checks.places.venv import Environment

_STATES = {
    "imported": Ending.OK,
    "raised": Ending.RAISED,
    "loader error": Ending.LOADER_ERROR,
    "exited": Ending.EXITED,
}
_SHOWN = 20  # lines of stderr


def import_names(environment: Environment, names: Iterable[str], *, timeout: float) -> ImportReport:
    """Import every name, each in a fresh process with ``timeout`` seconds.

    Raises Unavailable when the package could not be installed.
    """
    environment.require_installed()
    return ImportReport(
        python=environment.target.name,
        steps=tuple(_import(environment, name, timeout) for name in names),
    )


def _import(environment: Environment, name: str, timeout: float) -> Step:
    result = environment.run_probe("import_name", {"name": name}, timeout=timeout)
    return read_step(name, result, environment)


def read_step(name: str, result: ProbeAnswer, environment: Environment) -> Step:
    """Turn the answer of the import probe, and the end of its process, into a step."""
    answer = result.answer
    state = str(answer.get("state", ""))
    if not state and result.outcome in {Ending.OK, Ending.EXITED}:
        last = result.stderr.strip().rpartition("\n")[2] or result.detail or "exit status 0"
        raise GatherError(f"the import probe ended without an answer: {last}")
    outcome, detail = _STATES.get(state, result.outcome), _text(answer, "detail")
    finished = state == "imported" and result.outcome is not Ending.OK
    if state not in _STATES or finished:
        outcome, detail = result.outcome, describe_end(result, environment)
    if outcome is Ending.OK and state != "imported":
        outcome, detail = Ending.EXITED, "exit status 0"
    origin, gil = _text(answer, "origin"), answer.get("gil_enabled")
    return Step(
        name=name,
        outcome=outcome,
        detail=environment.scrub(detail),
        finished=finished,
        stderr=last_lines(environment.scrub(result.stderr)),
        origin=environment.place(origin),
        origin_sha256=hash_file(environment.site_packages / origin) if origin else "",
        version=_text(answer, "version"),
        missing_module=_text(answer, "missing_module"),
        directory_changed=environment.scrub(_text(answer, "directory_changed")),
        gil_enabled=gil if isinstance(gil, bool) else None,
        extensions=place_all(environment, answer.get("extensions")) or (),
        libraries=place_all(environment, answer.get("libraries")),
    )


def describe_end(result: ProbeAnswer, environment: Environment) -> str:
    """Say how a process ended, and at which line of what is installed, the innermost one."""
    site = f"{environment.site_packages}{os.sep}"
    inner = next((place for place in result.places if place.startswith(site)), "")
    return f"{result.detail} at {environment.place(inner)}" if inner else result.detail


def last_lines(text: str) -> str:
    """The last lines of what was written, each cut to a readable length."""
    return "\n".join(line[:500] for line in text.splitlines()[-_SHOWN:])


def place_all(environment: Environment, paths: Any) -> tuple[str, ...] | None:
    """Write paths relative to site-packages where they lie below it, sorted; None stays None."""
    if not isinstance(paths, list):
        return None
    return tuple(sorted(environment.place(str(path)) for path in paths))


def _text(answer: Any, key: str) -> str:
    value = answer.get(key)
    return value if isinstance(value, str) else ""

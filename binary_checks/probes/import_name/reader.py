"""Import each name of an installed package in a separate process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from binary_checks.declaring import gathers
from binary_checks.errors import GatherError
from binary_checks.knowledge.failed_imports import find_asked_module
from binary_checks.model import (
    Ending,
    ImportReport,
    ImportRequest,
    Package,
    Place,
    ProbeAnswer,
    Step,
    parse_extension_name,
)
from binary_checks.probes.importable import find_holder, find_import_names
from binary_checks.probes.shared_time import SharedTime
from binary_checks.wording.problem_lines import read_refusal

_STATES = {
    "imported": Ending.OK,
    "raised": Ending.RAISED,
    "loader error": Ending.LOADER_ERROR,
    "exited": Ending.EXITED,
}
_SHOWN = 20  # lines of stderr


@gathers(ImportReport)
def import_names(place: Place, package: Package, request: ImportRequest) -> ImportReport:
    """Import every name of a package. Raises Unavailable if the package could not be installed."""
    installed = place.install(package)
    names = find_import_names(package, place.target.extension_suffixes)
    place.require_installed(package)
    imported = import_each(
        place, names, first=request.first, find_first=partial(find_first_import, place, package)
    )
    return replace(imported, requirements_installed=installed is not None)


def import_each(
    place: Place,
    names: Iterable[str],
    now: Callable[[], float] = time.monotonic,
    *,
    first: Iterable[str] = (),
    find_first: Callable[[Step], str] = find_asked_module,
) -> ImportReport:
    """Import these names, each in a fresh process, while time is left for the package.

    ``first`` are modules to import before them. A failed import is tried again after the module
    that ``find_first`` returns for it, and counts if it then succeeds.
    """
    names, left, steps = tuple(names), SharedTime(place.timeout, now), []
    for name in names:
        if left.spent:
            break
        step = _import(place, name, first)
        if asked := find_first(step):
            again = _import(place, name, (*first, asked))
            if again.outcome is Ending.OK:
                step = replace(again, after=asked)
            elif again.missing_module == asked:
                step = replace(step, missing_module=asked)
        steps.append(step)
    target = place.target
    return ImportReport(
        python=target.name,
        reservation=target.reservation,
        steps=tuple(steps),
        untried=names[len(steps) :],
        limit=left.spent if len(steps) < len(names) else "",
    )


def _import(place: Place, name: str, first: Iterable[str]) -> Step:
    request = {"name": name, "first": list(first)}
    return read_step(name, place.run("import_name", request), place)


def find_first_import(place: Place, package: Package, step: Step) -> str:
    """Return a module without which a failed import cannot succeed, and must come first; or "".

    Either the exception asks for it; or the name is an extension module without a parent package,
    and another project's module contains the library that it lacks, as torch contains libc10.so.
    """
    if asked := find_asked_module(step):
        return asked
    bare = (package.layout.inside(item.path) or "" for item in package.objects)
    modules = (parse_extension_name(path) for path in bare if "/" not in path)
    if not any(name is not None and name.module == step.name for name in modules):
        return ""
    return find_holder(place, package, read_refusal(step.detail))


def read_step(name: str, result: ProbeAnswer, place: Place) -> Step:
    """Return a step for the import probe's answer and the end of its process."""
    answer = result.answer
    state = str(answer.get("state", ""))
    if not state and result.outcome in {Ending.OK, Ending.EXITED}:
        last = result.stderr.strip().rpartition("\n")[2] or result.detail or "exit status 0"
        raise GatherError(f"the import probe ended without an answer: {last}")
    outcome, detail = _STATES.get(state, result.outcome), _text(answer, "detail")
    finished = state == "imported" and result.outcome is not Ending.OK
    if state not in _STATES or finished:
        outcome, detail = result.outcome, describe_end(result, place)
    if outcome is Ending.OK and state != "imported":
        outcome, detail = Ending.EXITED, "exit status 0"
    origin, gil = _text(answer, "origin"), answer.get("gil_enabled")
    return Step(
        name=name,
        outcome=outcome,
        detail=place.scrub(detail),
        finished=finished,
        stderr=last_lines(place.scrub(result.stderr)),
        origin=place.shown(origin),
        origin_sha256=place.digest(origin) if origin else "",
        version=_text(answer, "version"),
        missing_module=_text(answer, "missing_module"),
        missing_file=_text(answer, "missing_file"),
        broken_file=_text(answer, "broken_file"),
        directory_changed=place.scrub(_text(answer, "directory_changed")),
        gil_enabled=gil if isinstance(gil, bool) else None,
        extensions=show_all(place, answer.get("extensions")) or (),
        libraries=show_all(place, answer.get("libraries")),
    )


def describe_end(result: ProbeAnswer, place: Place) -> str:
    """Describe how a process ended, with the innermost line in installed code."""
    site = f"{place.target.site_packages}{os.sep}"
    inner = next((line for line in result.places if line.startswith(site)), "")
    return f"{result.detail} at {place.shown(inner)}" if inner else result.detail


def last_lines(text: str) -> str:
    """Return the last lines of a text, each cut to a readable length."""
    return "\n".join(line[:500] for line in text.splitlines()[-_SHOWN:])


def show_all(place: Place, paths: Any) -> tuple[str, ...] | None:
    """Return paths relative to site-packages if they are below it, sorted; None for None."""
    if not isinstance(paths, list):
        return None
    return tuple(sorted(place.shown(str(path)) for path in paths))


def _text(answer: Any, key: str) -> str:
    value = answer.get(key)
    return value if isinstance(value, str) else ""

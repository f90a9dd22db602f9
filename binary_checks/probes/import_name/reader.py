"""Import each name of an installed package in a separate process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from binary_checks.declaring import gathers
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
from binary_checks.probes import answers
from binary_checks.probes.answers import read_text, show_all
from binary_checks.probes.importable import find_holder, find_import_names
from binary_checks.probes.shared_time import SharedTime
from binary_checks.wording.problem_lines import read_refusal


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
    origin = read_text(answer, "origin")
    return replace(
        answers.read_step(name, result, place),
        origin=place.shown(origin),
        origin_sha256=place.digest(origin) if origin else "",
        version=read_text(answer, "version"),
        directory_changed=place.scrub(read_text(answer, "directory_changed")),
        extensions=show_all(place, answer.get("extensions")) or (),
    )

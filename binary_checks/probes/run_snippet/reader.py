"""Run a profile's snippets of Python with an installed package, each in a separate process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import chain

from binary_checks.declaring import gathers
from binary_checks.errors import Unavailable
from binary_checks.model import (
    Conditions,
    Package,
    Place,
    ProbeAnswer,
    SnippetReport,
    SnippetRequest,
    SnippetRun,
    TargetPython,
)
from binary_checks.probes.answers import read_step, read_text

_SYSTEMS = {"macosx": "macos", "win32": "windows", "win": "windows"}


@gathers(SnippetReport)
def run_snippets(place: Place, package: Package, request: SnippetRequest) -> SnippetReport:
    """Run every snippet that is for this system and has code; the long ones in a thorough run.

    Snippets with additional requirements get a separate place, since imports of the package must
    not find these requirements. Long snippets with further requirements get another one; if it is
    not available, the other snippets are still run. Raises Unavailable if the package could not be
    installed.
    """
    place.require_installed(package)
    system = name_system(place.target)
    wanted = {
        name: any(fnmatchcase(system, glob) for glob in request.only.get(name, ("*",)))
        for name, code in request.code.items()
        if code
    }
    here = [name for name, fits in wanted.items() if fits]
    long = [name for name in here if name in request.long]
    now = [name for name in here if request.thorough or name not in long]
    further = {name: request.long[name] for name in now if request.long.get(name)}
    plain = [name for name in now if name not in further]
    report = _run_with(place, package, request, plain, request.requires)
    untried: tuple[tuple[str, str], ...] = ()
    if further:
        requires = tuple(dict.fromkeys((*request.requires, *chain(*further.values()))))
        try:
            more = _run_with(place, package, request, list(further), requires)
            report = replace(report, runs=(*report.runs, *more.runs))
        except Unavailable as error:
            lack = f"{', '.join(requires)} cannot be installed alongside the package: {error}"
            untried = tuple((name, lack) for name in further)
    return replace(
        report,
        system=system,
        elsewhere=tuple(name for name, fits in wanted.items() if not fits),
        long=() if request.thorough else tuple(long),
        untried=untried,
    )


def _run_with(
    place: Place,
    package: Package,
    request: SnippetRequest,
    names: Sequence[str],
    requires: Sequence[str],
) -> SnippetReport:
    """Run snippets where the package and these requirements are installed."""
    if not (requires and names):
        return _run_all(place, request, names)
    with place.with_requirements(tuple(requires)) as own:
        own.require_installed(package)
        return _run_all(own, request, names)


def _run_all(place: Place, request: SnippetRequest, names: Sequence[str]) -> SnippetReport:
    return SnippetReport(
        python=place.target.name,
        runs=tuple(run_code(place, name, request.code[name]) for name in names),
        preinstalled=place.preinstalled,
    )


def name_system(target: TargetPython) -> str:
    """Return system and architecture in a uniform notation: ``macos-aarch64``."""
    system = target.platform.partition("-")[0]
    return f"{_SYSTEMS.get(system, system)}-{target.architecture}"


def run_code(place: Place, name: str, code: str) -> SnippetRun:
    """Run a snippet in a separate process."""
    result = place.run("run_snippet", {"code": code}, conditions=Conditions(bytecode=True))
    return read_run(name, result, place)


def read_run(name: str, result: ProbeAnswer, place: Place) -> SnippetRun:
    """Return a run for the snippet probe's answer and the end of its process."""
    step = read_step(name, result, place)
    lacks = result.answer.get("state") == "unavailable" and not step.finished
    return SnippetRun(
        step=replace(step, detail="") if lacks else step,
        printed=place.scrub(read_text(result.answer, "printed").strip()),
        unavailable=step.detail if lacks else "",
    )

"""Run a profile's snippets of Python with an installed package, each in a separate process."""

from __future__ import annotations

from fnmatch import fnmatchcase

from binary_checks.declaring import gathers
from binary_checks.errors import GatherError
from binary_checks.model import (
    Conditions,
    Ending,
    Package,
    Place,
    ProbeAnswer,
    SnippetReport,
    SnippetRequest,
    SnippetRun,
    Step,
    TargetPython,
)
from binary_checks.probes.import_name.reader import describe_end, last_lines

_STATES = {
    "ran": Ending.OK,
    "unavailable": Ending.OK,
    "raised": Ending.RAISED,
    "exited": Ending.EXITED,
}
_SYSTEMS = {"macosx": "macos", "win32": "windows", "win": "windows"}


@gathers(SnippetReport)
def run_snippets(place: Place, package: Package, request: SnippetRequest) -> SnippetReport:
    """Run every snippet that is for this system and has code.

    Snippets with additional requirements get a separate place, since imports of the package must
    not find these requirements. Raises Unavailable if the package could not be installed.
    """
    place.require_installed(package)
    if not request.requires:
        return _run_all(place, request)
    with place.with_requirements(request.requires) as own:
        own.require_installed(package)
        return _run_all(own, request)


def _run_all(place: Place, request: SnippetRequest) -> SnippetReport:
    system = name_system(place.target)
    wanted = {
        name: any(fnmatchcase(system, glob) for glob in request.only.get(name, ("*",)))
        for name, code in request.code.items()
        if code
    }
    return SnippetReport(
        python=place.target.name,
        system=system,
        runs=tuple(_run(place, name, request.code[name]) for name, here in wanted.items() if here),
        elsewhere=tuple(name for name, here in wanted.items() if not here),
        preinstalled=place.preinstalled,
    )


def name_system(target: TargetPython) -> str:
    """Return system and architecture in a uniform notation: ``macos-aarch64``."""
    system = target.platform.partition("-")[0]
    return f"{_SYSTEMS.get(system, system)}-{target.architecture}"


def _run(place: Place, name: str, code: str) -> SnippetRun:
    result = place.run("run_snippet", {"code": code}, conditions=Conditions(bytecode=True))
    return read_run(name, result, place)


def read_run(name: str, result: ProbeAnswer, place: Place) -> SnippetRun:
    """Return a run for the snippet probe's answer and the end of its process."""
    state, detail = str(result.answer.get("state", "")), str(result.answer.get("detail", ""))
    if not state and result.outcome in {Ending.OK, Ending.EXITED}:
        last = result.stderr.strip().rpartition("\n")[2] or result.detail or "exit status 0"
        raise GatherError(f"the snippet probe ended without an answer: {last}")
    outcome = _STATES.get(state, Ending.EXITED)
    finished = outcome is Ending.OK and result.outcome is not Ending.OK
    if state not in _STATES or finished:
        outcome = Ending.EXITED if result.outcome is Ending.OK else result.outcome
        detail = describe_end(result, place) or "exit status 0"
    reason = place.scrub(detail) if state == "unavailable" and not finished else ""
    return SnippetRun(
        step=Step(
            name=name,
            outcome=outcome,
            detail="" if reason else place.scrub(detail),
            finished=finished,
            stderr=last_lines(place.scrub(result.stderr)),
        ),
        printed=place.scrub(str(result.answer.get("printed", "")).strip()),
        unavailable=reason,
    )

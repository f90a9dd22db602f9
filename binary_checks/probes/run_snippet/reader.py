"""Runs a profile's own snippets of Python beside an installed package, each in its own process."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from binary_checks.errors import GatherError
from binary_checks.model import Ending, Step
from binary_checks.model.requests import SnippetRequest
from binary_checks.model.snippet_report import SnippetReport, SnippetRun
from binary_checks.places.interpreter import TargetPython
from binary_checks.places.running import Conditions, ProbeAnswer
from binary_checks.places.venv import Environment
from binary_checks.probes.import_name.reader import describe_end, last_lines

_STATES = {
    "ran": Ending.OK,
    "unavailable": Ending.OK,
    "raised": Ending.RAISED,
    "exited": Ending.EXITED,
}
_SYSTEMS = {"macosx": "macos", "win32": "windows", "win": "windows"}


def run_snippets(
    environment: Environment, request: SnippetRequest, *, timeout: float
) -> SnippetReport:
    """Run every snippet that is for this system; each may take ``timeout`` seconds.

    One without code is none. Raises Unavailable when the package could not be installed.
    """
    environment.require_installed()
    system = name_system(environment.target)
    wanted = {
        name: any(fnmatchcase(system, glob) for glob in request.only.get(name, ("*",)))
        for name, code in request.code.items()
        if code
    }
    return SnippetReport(
        python=environment.target.name,
        system=system,
        runs=tuple(
            _run(environment, name, request.code[name], timeout)
            for name, here in wanted.items()
            if here
        ),
        elsewhere=tuple(name for name, here in wanted.items() if not here),
        beside=environment.beside,
    )


def name_system(target: TargetPython) -> str:
    """Name system and architecture, each with one spelling: ``macos-aarch64``."""
    system = target.platform.partition("-")[0]
    return f"{_SYSTEMS.get(system, system)}-{target.architecture}"


def _run(environment: Environment, name: str, code: str, timeout: float) -> SnippetRun:
    # Compiled once for all of them: twenty imports of torch take a minute less.
    bytecode = Path(environment.folder.name, "bytecode")
    bytecode.mkdir(exist_ok=True)
    request = {"code": code, "bytecode": str(bytecode)}
    conditions = Conditions(writable=(bytecode,))
    result = environment.run_probe("run_snippet", request, timeout=timeout, conditions=conditions)
    return read_run(name, result, environment)


def read_run(name: str, result: ProbeAnswer, environment: Environment) -> SnippetRun:
    """Turn the answer of the snippet probe, and the end of its process, into a run."""
    state, detail = str(result.answer.get("state", "")), str(result.answer.get("detail", ""))
    if not state and result.outcome in {Ending.OK, Ending.EXITED}:
        last = result.stderr.strip().rpartition("\n")[2] or result.detail or "exit status 0"
        raise GatherError(f"the snippet probe ended without an answer: {last}")
    outcome = _STATES.get(state, Ending.EXITED)
    finished = outcome is Ending.OK and result.outcome is not Ending.OK
    if state not in _STATES or finished:
        outcome = Ending.EXITED if result.outcome is Ending.OK else result.outcome
        detail = describe_end(result, environment) or "exit status 0"
    reason = environment.scrub(detail) if state == "unavailable" and not finished else ""
    return SnippetRun(
        step=Step(
            name=name,
            outcome=outcome,
            detail="" if reason else environment.scrub(detail),
            finished=finished,
            stderr=last_lines(environment.scrub(result.stderr)),
        ),
        printed=environment.scrub(str(result.answer.get("printed", "")).strip()),
        unavailable=reason,
    )

"""Imports a package where no driver and no toolkit is to be found, and asks it about CUDA."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from binary_checks.errors import GatherError, NotApplicable
from binary_checks.model import Answer, CudaReport, Ending, Step
from binary_checks.model.requests import CudaRequest
from binary_checks.places.native_stacks import describe_lack
from binary_checks.places.running import Conditions, ProbeAnswer
from binary_checks.places.venv import Environment
from binary_checks.probes.ask_module.hidden_drivers import hide_driver
from binary_checks.probes.import_name.reader import describe_end, last_lines, place_all
from binary_checks.probes.nvidia_libraries.reader import read_versions
from binary_checks.probes.run_snippet.reader import name_system

_STATES = {"finished": Ending.OK, "raised": Ending.RAISED, "exited": Ending.EXITED}
_FRAMES = 6  # of a stack, the innermost ones
# How a probe comes to the package: the same in every stack, with a path that is this machine's.
_OURS = re.compile(
    r"^<frozen importlib\.|/importlib/__init__\.py:\d+ in import_module$"
    r"|/binary_checks/probes/(?:\w+/)?\w+\.py:"
)


def demand_module(request: CudaRequest) -> None:
    """Raise NotApplicable where the profile names no module to be asked."""
    if not request.module:
        raise NotApplicable(
            "the profile names no module to be asked about CUDA ([probes.cuda] module)"
        )


def list_expressions(request: CudaRequest) -> tuple[str, ...]:
    """List what is evaluated, each once; the use of a GPU last: it may well break the process."""
    told = (request.available, request.devices, request.version, request.architectures)
    return tuple(dict.fromkeys(filter(None, (*told, *request.parts.values(), request.use))))


def ask_without_gpu(
    environment: Environment, request: CudaRequest, *, timeout: float
) -> CudaReport:
    """Ask in two processes of ``timeout`` seconds each: the package, and NVIDIA's libraries.

    Raises Unavailable when the package could not be installed.
    """
    demand_module(request)
    environment.require_installed()
    decoys = Path(environment.folder.name, "without-driver")
    python, sandbox = environment.python, environment.sandbox
    variables, host = hide_driver(python, decoys, timeout=timeout, sandbox=sandbox)
    run = partial(
        _run, request.module, environment=environment, variables=variables, timeout=timeout
    )
    result = run("ask_module", snippet=request.snippet, questions=list_expressions(request))
    rows = result.answer.get("answers")
    report = CudaReport(
        python=environment.target.name,
        step=read_step(request.module, result, environment),
        stage=str(result.answer.get("stage", "")),
        answers=tuple(
            _read_answer(row, environment)
            for row in (rows if isinstance(rows, list) else ())
            if isinstance(row, dict)
        ),
        host=host,
        system=name_system(environment.target),
    )
    if report.step.outcome is not Ending.OK or _is_without_cuda(report, request.version):
        return report
    libraries = run("nvidia_libraries", compiled=request.compiled)
    return replace(
        report,
        versions=tuple(read_versions(libraries.answer)),
        versions_step=read_step("versions", libraries, environment),
    )


def _run(
    module: str,
    script: str,
    *,
    environment: Environment,
    variables: Mapping[str, str],
    timeout: float,
    **request: object,
) -> ProbeAnswer:
    conditions = Conditions(variables=variables, calls=True)
    request["module"] = module
    return environment.run_probe(script, request, timeout=timeout, conditions=conditions)


def _is_without_cuda(report: CudaReport, version: str) -> bool:
    """Whether the package says that it is built for no CUDA."""
    answers = (each for each in report.answers if version and each.question == version)
    return any(not (each.value or each.error) for each in answers)


def read_step(name: str, result: ProbeAnswer, environment: Environment) -> Step:
    """Turn the end of a probe's process, and what it wrote before, into a step."""
    state = str(result.answer.get("state", ""))
    if not result.answer and result.outcome in {Ending.OK, Ending.EXITED}:
        last = result.stderr.strip().rpartition("\n")[2] or result.detail or "exit status 0"
        raise GatherError(f"the probe of {name} ended without an answer: {last}")
    outcome, detail = _STATES.get(state, Ending.EXITED), str(result.answer.get("detail", ""))
    if result.outcome is not Ending.OK and state != "raised":
        outcome, detail = result.outcome, describe_stack(result, environment)
    elif not state:
        detail = "exit status 0"
    return Step(
        name=name,
        outcome=outcome,
        detail=environment.scrub(detail),
        finished=state == "finished" and outcome is not Ending.OK,
        stderr=last_lines(environment.scrub(result.stderr)),
        libraries=place_all(environment, result.answer.get("libraries")),
    )


def describe_stack(result: ProbeAnswer, environment: Environment) -> str:
    """Say how a process ended and, of one that hung, by which calls it came there."""
    if result.outcome is not Ending.HUNG:
        return describe_end(result, environment)
    own = (place for place in map(environment.place, result.places) if not _OURS.search(place))
    places = " < ".join(islice(own, _FRAMES))
    calls = " < ".join(result.calls[:_FRAMES])
    lack = describe_lack(result.calls)
    return "".join(
        (
            result.detail,
            places and f" at {places}",
            calls and f", in native code at {calls}",
            lack and f" ({lack})",
        )
    )


def _read_answer(row: Mapping[str, Any], environment: Environment) -> Answer:
    value = row.get("value")
    if isinstance(value, list):
        value = tuple(map(str, value))
    known = value is None or isinstance(value, (bool, int, float, str, tuple))
    return Answer(
        question=str(row.get("question", "")),
        value=value if known else str(value),
        error=environment.scrub(str(row.get("error", ""))),
    )

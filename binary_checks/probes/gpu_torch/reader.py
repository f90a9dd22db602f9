"""Has an installed package work on a GPU, step by step, each in a process of its own."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binary_checks.errors import GatherError, NotApplicable, ProfileError, Unavailable
from binary_checks.model import GpuHost, GpuReport, LibraryVersions, Measurement
from binary_checks.model.requests import CudaRequest, GpuRequest
from binary_checks.places.running import Conditions, ProbeAnswer
from binary_checks.places.sandbox import Sandbox
from binary_checks.places.venv import Environment
from binary_checks.probes.ask_module.reader import read_step
from binary_checks.probes.gpu_host.reader import (
    choose_variables,
    describe_host,
    find_old_driver,
)
from binary_checks.probes.nvidia_libraries.reader import read_versions

_SCRIPTS = {"torch": "gpu_torch"}


def demand_work(request: GpuRequest) -> None:
    """Raise NotApplicable where the profile names no module to work."""
    if not request.module:
        raise NotApplicable("the profile has nothing done on a GPU ([probes.gpu] module)")


def demand_gpu(python: Path, *, sandbox: Sandbox | None = None) -> GpuHost:
    """Describe the host. Raises Unavailable, with the reason, where no GPU can be used."""
    variables, conditions = choose_variables(os.environ), Conditions(gpu=True)
    host = describe_host(python, variables, sandbox=sandbox, conditions=conditions)
    if host.problem:
        raise Unavailable(host.problem)
    return host


def use_gpu(
    environment: Environment, work: GpuRequest, build: CudaRequest, *, timeout: float
) -> GpuReport:
    """Do all of the work, each step with ``timeout`` seconds, and ask of the build.

    Raises Unavailable when the package could not be installed, no GPU can be used, or the driver
    is too old for the package, and NotApplicable when it says that it is not built for CUDA.
    """
    demand_work(work)
    environment.require_installed()
    host = demand_gpu(environment.python, sandbox=environment.sandbox)
    bench = _Bench(environment=environment, variables=choose_variables(os.environ), timeout=timeout)
    answers = bench.ask(work.module, (build.version, work.architectures))
    if build.version in answers and not answers[build.version]:
        value = answers[build.version]
        raise NotApplicable(f"{build.version} is {value!r}: the build is not for CUDA")
    libraries = bench.run("nvidia_libraries", {"module": work.module, "compiled": build.compiled})
    versions = tuple(read_versions(libraries.answer))
    runtime = str(answers.get(build.version) or _find_runtime(versions))
    if problem := find_old_driver(host, runtime):
        raise Unavailable(problem)
    results = dict(bench.run_all(work))
    rows = [(name, result.answer) for name, result in results.items()]
    steps = [read_step(name, result, environment) for name, result in results.items()]
    return GpuReport(
        python=environment.target.name,
        host=host,
        runtime=runtime,
        steps=(*steps, read_step("versions", libraries, environment)),
        untried=tuple(
            (name, str(answer["unavailable"])) for name, answer in rows if answer.get("unavailable")
        ),
        measurements=tuple(_read_measurements(rows)),
        versions=versions,
        architectures=_read_architectures(answers.get(work.architectures)),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Bench:
    """Where the steps are run."""

    environment: Environment
    variables: Mapping[str, str]
    timeout: float

    def run(self, script: str, request: Mapping[str, object]) -> ProbeAnswer:
        # What a driver maps for its devices is as large as they are: no bound on a process's own.
        conditions = Conditions(variables=self.variables, memory=0, calls=True, gpu=True)
        return self.environment.run_probe(
            script, request, timeout=self.timeout, conditions=conditions
        )

    def ask(self, module: str, questions: tuple[str, ...]) -> dict[str, Any]:
        """Give the value of each expression that has one."""
        asked = tuple(filter(None, questions))
        request = {"module": module, "questions": asked}
        rows = self.run("ask_module", request).answer.get("answers") if asked else None
        return {
            str(row["question"]): row["value"]
            for row in (rows if isinstance(rows, list) else ())
            if isinstance(row, dict) and "question" in row and "value" in row
        }

    def run_all(self, work: GpuRequest) -> Iterator[tuple[str, ProbeAnswer]]:
        for name in self.list_steps(work):
            yield name, self.run(_SCRIPTS[work.steps], {"step": name})
        for name, code in work.snippets.items():
            yield name, self.run("ask_module", {"module": work.module, "snippet": code})

    def list_steps(self, work: GpuRequest) -> tuple[str, ...]:
        if not work.steps:
            return ()
        result = self.run(_SCRIPTS[work.steps], {"list": True})
        names = result.answer.get("steps")
        if not isinstance(names, list):
            raise GatherError(f"the steps for {work.steps} cannot be listed: {result.detail}")
        if unknown := sorted(set(work.leave_out).difference(names)):
            raise ProfileError(f"probes.gpu.leave_out: no step {unknown[0]!r}")
        return tuple(name for name in names if name not in work.leave_out)


def _read_measurements(rows: list[tuple[str, Mapping[str, Any]]]) -> Iterator[Measurement]:
    for step, answer in rows:
        measured = answer.get("measured")
        for name, value in measured.items() if isinstance(measured, dict) else ():
            figure = float(value) if isinstance(value, (int, float)) else math.nan
            yield Measurement(step=step, name=str(name), value=figure)


def _find_runtime(versions: tuple[LibraryVersions, ...]) -> str:
    return next((each.loaded for each in versions if each.name == "cudart"), "")


def _read_architectures(value: object) -> tuple[str, ...]:
    names = value.split() if isinstance(value, str) else value
    return tuple(map(str, names)) if isinstance(names, list) else ()

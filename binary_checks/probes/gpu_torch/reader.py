"""Has an installed package work on a GPU, step by step, each in a process of its own."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from binary_checks.declaring import gathers
from binary_checks.errors import GatherError, NotApplicable, ProfileError, Unavailable
from binary_checks.knowledge.cuda_builds import demand_gpu_build, demand_trace_of_gpu
from binary_checks.model import GpuHost, GpuReport, LibraryVersions, Measurement, Package
from binary_checks.model.places import Conditions, Place, ProbeAnswer
from binary_checks.model.requests import CudaRequest, GpuRequest
from binary_checks.probes.ask_module.reader import read_step
from binary_checks.probes.gpu_host.reader import (
    choose_devices,
    choose_variables,
    describe_host,
    find_old_driver,
    find_services,
)
from binary_checks.probes.nvidia_libraries.reader import ask_versions

_SCRIPTS = {"torch": "gpu_torch"}


def demand_gpu(place: Place) -> tuple[Conditions, GpuHost]:
    """Describe the host, and under what its GPUs are used.

    Raises Unavailable, with the reason, where none can be used.
    """
    variables = choose_variables(os.environ, place)
    conditions = Conditions(
        variables=variables,
        memory=0,  # what a driver maps for its devices is as large as they are
        calls=True,
        gpu=True,
        services=find_services(os.environ),
    )
    host = describe_host(place, conditions)
    if host.problem:
        raise Unavailable(host.problem)
    return replace(conditions, variables=choose_devices(variables, host)), host


@gathers(GpuReport)
def use_gpu(place: Place, package: Package, work: GpuRequest, build: CudaRequest) -> GpuReport:
    """Do all of the work, each step in a process of its own, and ask of the build.

    Raises Unavailable when no GPU can be used, the package could not be installed, or the driver
    is too old for it, and NotApplicable where the profile names no module or the package is for
    the CPU, by its name, its bytes or what it says itself.
    """
    if not work.module:
        raise NotApplicable("the profile has nothing done on a GPU ([probes.gpu] module)")
    demand_gpu_build(package)
    try:
        conditions, host = demand_gpu(place)  # before anything is installed for nothing
    except Unavailable:
        demand_trace_of_gpu(package)  # where there is a GPU the package itself is asked
        raise
    place.demand(package)
    bench = _Bench(place=place, conditions=conditions)
    answers = bench.ask(work.module, (build.version, work.architectures))
    if build.version in answers and not answers[build.version]:
        value = answers[build.version]
        raise NotApplicable(f"{build.version} is {value!r}: the build is not for CUDA")
    versions, libraries = ask_versions(place, work.module, build.compiled, conditions)
    runtime = str(answers.get(build.version) or _find_runtime(versions))
    if problem := find_old_driver(host, runtime):
        raise Unavailable(problem)
    results = dict(bench.run_all(work))
    rows = [(name, result.answer) for name, result in results.items()]
    steps = [read_step(name, result, place) for name, result in results.items()]
    return GpuReport(
        python=place.target.name,
        host=host,
        runtime=runtime,
        steps=(*steps, read_step("versions", libraries, place)),
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

    place: Place
    conditions: Conditions

    def run(self, script: str, request: Mapping[str, object]) -> ProbeAnswer:
        return self.place.run(script, request, conditions=self.conditions)

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

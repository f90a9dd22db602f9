"""Perform GPU work with an installed package, step by step, and read the results."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from binary_checks.declaring import gathers
from binary_checks.errors import GatherError, HostUnfit, NotApplicable, ProfileError, Unavailable
from binary_checks.knowledge.cuda import (
    find_platform,
    list_promised,
    require_gpu_build,
    require_trace_of_gpu,
)
from binary_checks.knowledge.device_code import BUILD, VERSIONS
from binary_checks.model import (
    Conditions,
    CudaRequest,
    Ending,
    GpuHost,
    GpuReport,
    GpuRequest,
    LibraryVersions,
    Measurement,
    Package,
    Place,
    ProbeAnswer,
)
from binary_checks.probes.answers import list_rows, read_step
from binary_checks.probes.ask_module.reader import ask_versions
from binary_checks.probes.gpu_host.reader import (
    choose_devices,
    choose_variables,
    describe_host,
    find_blame,
    find_old_driver,
    find_services,
)

_SCRIPTS = {"torch": "gpu_torch"}


def require_gpu(place: Place, platform: str = "cuda") -> tuple[Conditions, GpuHost]:
    """Return the conditions for using a platform's GPUs, and the host's facts.

    A process without code of any package asks the driver. Raises HostUnfit with the reason if no
    device can be used.
    """
    variables = choose_variables(os.environ, place)
    conditions = Conditions(
        variables=variables,
        memory=0,  # a driver reserves address space as large as the memory of its devices
        calls=True,
        gpu=True,
        services=find_services(os.environ),
    )
    host = describe_host(place, replace(conditions, site=False), platform)
    if host.problem:
        raise HostUnfit(host.problem)
    return replace(conditions, variables=choose_devices(variables, host)), host


@gathers(GpuReport)
def use_gpu(place: Place, package: Package, work: GpuRequest, build: CudaRequest) -> GpuReport:
    """Perform all steps on the GPUs of the build's platform, and ask the package about its build.

    Raises HostUnfit if no GPU can be used, if the driver is too old for the package, or if work
    failed and the host is the cause; Unavailable if the package could not be installed;
    NotApplicable if the profile names no module, or if the package is for the CPU by its name, its
    bytes or its own answer.

    A thorough run with additional requirements uses a separate place. If this place is not
    available, the steps that do not need the requirements are still performed.
    """
    if not work.module:
        raise NotApplicable("the profile requests no work on a GPU ([probes.gpu] module)")
    require_gpu_build(package)
    platform = find_platform(package)
    try:
        conditions, host = require_gpu(place, platform)  # before anything is installed
    except HostUnfit:
        require_trace_of_gpu(package)  # if there is a GPU, the package itself is asked
        raise
    place.require_installed(package)
    bench = _Bench(place=place, conditions=conditions, platform=platform)
    if not (work.thorough and work.requires):
        return _use(bench, host, package, work, build)
    with place.with_requirements(work.requires) as own:
        try:
            own.require_installed(package)
        except Unavailable as error:
            report = _use(bench, host, package, work, build)
            lacking = (
                ", ".join(work.requires),
                f"it cannot be installed alongside the package: {error}",
            )
            return replace(report, untried=(*report.untried, lacking))
        return _use(replace(bench, place=own), host, package, work, build)


def require_driver(host: GpuHost, runtime: str, promised: Sequence[str]) -> None:
    """Raise HostUnfit if the driver is too old for the package's CUDA.

    ``runtime`` is the CUDA that the package uses, "" if unknown; ``promised`` are the CUDA versions
    that its name or bytes state. If the package uses a newer CUDA than it promises, the package is
    the cause: raise Unavailable.
    """
    served = [each for each in promised if not find_old_driver(host, each)]
    problem = find_old_driver(host, runtime or next(iter(promised), ""))
    if problem and runtime and served:
        raise Unavailable(
            f"the package promises CUDA {served[0]} and runs CUDA {runtime}, which the NVIDIA "
            f"driver (CUDA {host.cuda}) does not serve"
        )
    if problem:
        raise HostUnfit(problem)


def _use(
    bench: _Bench, host: GpuHost, package: Package, work: GpuRequest, build: CudaRequest
) -> GpuReport:
    place = bench.place
    version = {"rocm": build.rocm, "xpu": build.xpu}.get(host.platform, build.version)
    asked = bench.ask(work.module, (version, work.architectures))
    answers = _read_values(asked)
    if version in answers and not answers[version]:
        other = {"rocm": "ROCm", "xpu": "XPU"}.get(host.platform, "CUDA")
        raise NotApplicable(f"{version} is {answers[version]!r}: the build is not for {other}")
    versions: tuple[LibraryVersions, ...] = ()
    begun = (BUILD, asked)
    if asked.outcome is not Ending.HUNG and host.platform == "cuda":
        versions, libraries = ask_versions(place, work.module, build.compiled, bench.conditions)
        begun = (VERSIONS, libraries)
    loaded = (each.loaded for each in versions if each.name == "cudart")
    runtime = str(answers.get(version) or next(loaded, ""))
    if host.platform == "cuda":
        require_driver(host, runtime, list_promised(package))
    hangs = begun[1].outcome is Ending.HUNG
    ends = dict(bench.run_all(work, f"it was not tried: {begun[0]} hangs" if hangs else ""))
    results = {name: end for name, end in ends.items() if not isinstance(end, str)}
    rows = [(name, result.answer) for name, result in results.items()]
    ended = (*results.items(), begun)
    steps = [read_step(name, result, place, calls=True) for name, result in ended]
    if failed := [each.name for each in steps if each.outcome is not Ending.OK]:
        alone = replace(bench.conditions, site=False)
        if problem := find_blame(host, describe_host(place, alone, host.platform)):
            raise HostUnfit(f"{problem} ({', '.join(failed)} failed before)")
    return GpuReport(
        python=place.target.name,
        host=host,
        runtime=runtime,
        steps=tuple(steps),
        untried=(
            *_read_reasons(rows, "unavailable"),
            *((name, end) for name, end in ends.items() if isinstance(end, str)),
        ),
        inapplicable=tuple(_read_reasons(rows, "inapplicable")),
        measurements=tuple(_read_measurements(rows)),
        versions=versions,
        architectures=_read_architectures(answers.get(work.architectures)),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Bench:
    """The place and conditions in which steps are performed."""

    place: Place
    conditions: Conditions
    platform: str

    def run(self, script: str, request: Mapping[str, object]) -> ProbeAnswer:
        return self.place.run(script, request, conditions=self.conditions)

    def ask(self, module: str, questions: tuple[str, ...]) -> ProbeAnswer:
        """Evaluate the expressions in a process, which is not started if there are none."""
        asked = {"module": module, "questions": tuple(filter(None, questions))}
        return self.run("ask_module", asked) if asked["questions"] else ProbeAnswer()

    def run_all(self, work: GpuRequest, stopped: str) -> Iterator[tuple[str, ProbeAnswer | str]]:
        """Perform the shipped steps, and then each step of the profile in a separate process.

        For a step that was not tried, yield the reason. If ``stopped`` is a reason, no step is
        tried.
        """
        hung: list[str] = []
        steps = self.list_steps(work)
        yield from ((each.name, stopped) for each in steps if stopped)
        left = () if stopped else steps
        for name, end in take_steps(partial(self.take, work), left, self.place.timeout):
            hung += [name] * (not isinstance(end, str) and end.outcome is Ending.HUNG)
            stopped = end if isinstance(end, str) else ""
            yield name, end
        for name, code in work.snippets.items():
            if reason := stopped or find_stop(hung):
                yield name, reason
                continue
            result = self.run("ask_module", {"module": work.module, "snippet": code})
            hung += [name] * (result.outcome is Ending.HUNG)
            yield name, result

    def take(
        self, work: GpuRequest, request: Mapping[str, object], stages: Mapping[str, float]
    ) -> ProbeAnswer:
        """Run the script with several steps, within the sum of their time limits."""
        conditions = replace(self.conditions, stages=stages)
        request = {**request, "platform": self.platform}
        timeout = sum(stages.values())
        return self.place.run(_SCRIPTS[work.steps], request, timeout=timeout, conditions=conditions)

    def list_steps(self, work: GpuRequest) -> tuple[GpuStep, ...]:
        if not work.steps:
            return ()
        steps = read_steps(self.run(_SCRIPTS[work.steps], {"list": True}))
        return choose_steps(steps, work.leave_out, thorough=work.thorough)


def _read_values(result: ProbeAnswer) -> dict[str, Any]:
    """Return the value of each expression that was evaluated."""
    rows = list_rows(result.answer, "answers")
    return {
        str(row["question"]): row["value"] for row in rows if "question" in row and "value" in row
    }


def _read_reasons(rows: list[tuple[str, Mapping[str, Any]]], key: str) -> Iterator[tuple[str, str]]:
    return ((name, str(answer[key])) for name, answer in rows if answer.get(key))


def _read_measurements(rows: list[tuple[str, Mapping[str, Any]]]) -> Iterator[Measurement]:
    for step, answer in rows:
        measured = answer.get("measured")
        for name, value in measured.items() if isinstance(measured, dict) else ():
            yield Measurement(step=step, name=str(name), value=_read_figure(value))


def _read_figure(value: object) -> float:
    """Return a number: NaN for other values, and for an integer that is too large."""
    try:
        return float(value) if isinstance(value, (int, float)) else math.nan
    except OverflowError:
        return math.nan


def _read_architectures(value: object) -> tuple[str, ...]:
    names = value.split() if isinstance(value, str) else value
    return tuple(map(str, names)) if isinstance(names, list) else ()


# The shipped steps, in few processes, each within its time limit.
#
# An import of torch takes seconds, so one process performs many steps. A step that fails ends its
# process, and the remaining steps continue in a new one: no fault hides or causes another. If the
# GPU itself hangs, no further step is tried.

FIRST = "first_kernel"
IMPORT = "import torch"
_NO_IMPORT = "it was not tried: torch cannot be imported on this host"
END = "end"  # the stage of a process after its last step
_LEAVING = 30.0  # seconds for the interpreter to shut down and free its device memory
_LONGEST = 3600  # largest number of seconds that a step may request
_HANGS = 2  # number of hanging steps after which the GPU itself is assumed to hang

RunResult = Callable[[Mapping[str, object], Mapping[str, float]], ProbeAnswer]
"""Runs the script with a request, and with time limits in seconds by stage."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuStep:
    """A step that the script can perform."""

    name: str
    bound: float  # seconds after which the step counts as hanging
    expected: float = 0.0  # seconds on a healthy GPU
    alone: bool = False  # whether the step needs a separate process
    thorough: bool = False  # whether only thorough runs include the step


def read_steps(result: ProbeAnswer) -> tuple[GpuStep, ...]:
    """Read the steps that the script lists. Raises GatherError if it lists none."""
    try:
        steps = tuple(GpuStep(**row) for row in result.answer["steps"])
    except (KeyError, TypeError):
        steps = ()
    if not steps or not all(map(_is_sound, steps)):
        lack = result.detail or "the script's answer does not have the expected form"
        raise GatherError(f"the steps on a GPU cannot be listed: {lack}")
    return steps


def _is_sound(step: GpuStep) -> bool:
    """Return whether a step's values are plausible.

    A package's code that runs at start-up may answer instead of the script.
    """
    numbers = isinstance(step.bound, (int, float)) and isinstance(step.expected, (int, float))
    return isinstance(step.name, str) and numbers and 0 < step.bound <= _LONGEST


def choose_steps(
    steps: Sequence[GpuStep], leave_out: Iterable[str], *, thorough: bool
) -> tuple[GpuStep, ...]:
    """Choose the steps of a run. Raises ProfileError if an unknown step is to be left out."""
    if unknown := sorted(set(leave_out).difference(each.name for each in steps)):
        raise ProfileError(f"probes.gpu.leave_out: no step {unknown[0]!r}")
    left_out = frozenset(leave_out)
    return tuple(
        each for each in steps if each.name not in left_out and (thorough or not each.thorough)
    )


def take_steps(
    run: RunResult, steps: Sequence[GpuStep], patience: float
) -> Iterator[tuple[str, ProbeAnswer | str]]:
    """Perform steps, and yield a result for each as if it had run in a separate process.

    ``patience`` is the profile's time limit for a process: it applies to the import, and extends
    the steps' limits if it exceeds the default. For a step that is not tried, yield the reason.
    """
    factor = max(1.0, patience / 300.0)
    bounds = {each.name: each.bound * factor for each in steps}
    stages = {**bounds, IMPORT: patience, END: _LEAVING * factor}
    hung: list[str] = []
    left = list(steps)
    while left:
        # the steps for the next process: all others, or one that needs a separate process
        names = [each.name for each in left if not each.alone] or [left[0].name]
        result = run({"steps": names, "bounds": bounds}, stages)
        taken = dict(_split(result, names))
        left = [each for each in left if each.name not in taken]
        yield from taken.items()
        hung += [name for name, each in taken.items() if each.outcome is Ending.HUNG]
        at_import = result.answer.get("stage") == IMPORT
        if reason := find_stop(hung) or (_NO_IMPORT if at_import else ""):
            yield from ((each.name, reason) for each in left)
            return


def find_stop(hung: Sequence[str]) -> str:
    """Return why no further steps are tried after these steps hung, or ""."""
    if FIRST in hung:
        return f"it was not tried: {FIRST} hangs"
    if len(hung) >= _HANGS:
        return f"it was not tried: {' and '.join(hung)} hang"
    return ""


def _split(result: ProbeAnswer, names: Sequence[str]) -> Iterator[tuple[str, ProbeAnswer]]:
    """Split the answer of a process into an answer for each step that it started."""
    answer = result.answer
    rows = answer.get("results")
    rows = rows if isinstance(rows, dict) else {}
    done = [name for name in names if isinstance(rows.get(name), dict)]
    for name in done:
        yield name, ProbeAnswer(answer={"stage": name, **rows[name]})
    rest = [name for name in names if name not in done]
    stage = answer.get("stage")
    if stage in rest or (not done and rest):  # the process ended in a step, or before the first one
        name = stage if stage in rest else rest[0]
        row = {key: value for key, value in answer.items() if key != "results"}
        yield name, replace(result, answer=row)
    elif result.outcome is not Ending.OK and rows[done[-1]].get("state") == "finished":
        label = f"{done[0]} to {done[-1]}" if len(done) > 1 else done[0]
        yield f"the process of {label}", replace(result, answer={"state": "finished"})

"""Writes CircleCI's configuration: a job for each stage, which workflows call for each cell.

A workflow is a tier, cut where it has more cells than can be looked at. What a stage leaves lies in
the workspace, of which a job sees what the jobs that it requires have left, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from binary_checks.errors import ProfileError
from binary_checks.fleet.ci.hosted_scripts import (
    FETCH_PYTHONS,
    JOB_PYTHON,
    MAKE_PYTHON,
    OWN_PATH,
    SMOKE_PYTHONS,
    has_python,
    hide_secrets,
    identify,
    jobs_of,
    list_needed,
    list_steps,
    name_pythons,
    stages_of,
)
from binary_checks.fleet.ci.pipeline import (
    Pipeline,
    PipelineCell,
    PipelineStage,
    ShellStep,
)
from binary_checks.fleet.ci.runner_tables import RunsOn
from binary_checks.fleet.ci.yaml_text import write_yaml

MOST_CELLS = 100
"""Of one workflow; CircleCI makes 128 jobs of one matrix."""
_LARGEST = 8_000_000
"""Bytes of a configuration in which each call has its job; that of one tier, for others are left
out before."""
_FILE = ".circleci/config.yml"
_BASH = "bash -eo pipefail"
_STATUS = ".status"
_OFFICE_MINUTES = 30
_ENDED = "terminal"  # with any status, though one before it kept it from running
_PARAMETERS = {
    "night": {"type": "boolean", "default": False, "description": "run the night's cells now"},
    "only": {"type": "string", "default": "", "description": "run such cells now: variant=cu*"},
}
_NIGHTLY = {
    "or": [
        {"equal": ["scheduled_pipeline", "<< pipeline.trigger_source >>"]},
        "<< pipeline.parameters.night >>",
    ]
}
_NARROWED = {"not": {"equal": ["", "<< pipeline.parameters.only >>"]}}
"""All cells have a job then: of those of a smaller tier, none may be one that is asked for."""

Json = dict[str, Any]


def write(pipeline: Pipeline) -> Mapping[str, str]:
    """The one file that CircleCI reads."""
    document: Json = {
        "version": 2.1,
        "parameters": _PARAMETERS,
        "executors": _executors(pipeline),
        "jobs": {
            **{stage.name: _cell_job(stage, pipeline) for stage in pipeline.stages},
            **{stage.name: _night_job(stage, pipeline) for stage in pipeline.night},
        },
        "workflows": _workflows(pipeline),
    }
    _demand_size(document, pipeline)
    return {_FILE: write_yaml(document, pipeline)}


def _demand_size(document: Json, pipeline: Pipeline) -> None:
    """Raise ProfileError for a night that CircleCI would not read."""
    sizes = {name: len(str(job)) for name, job in document["jobs"].items()}
    size = sum(
        sizes[stage] + len(str(call))
        for name, workflow in document["workflows"].items()
        if name.startswith("night")
        for job in workflow["jobs"]
        for stage, call in job.items()
    )
    if size > _LARGEST:
        raise ProfileError(
            f"{pipeline.source}: ci: circleci: the night of {len(pipeline.cells):,} cells comes to "
            f"{size / 1e6:.0f} MB, and CircleCI reads {_LARGEST / 1e6:.0f}; choose another system"
        )


def _parameter(name: str) -> str:
    return f"<< parameters.{name} >>"


# -- machines


def _executors(pipeline: Pipeline) -> Json:
    found: Json = {}
    for cell in pipeline.cells if pipeline.stages else ():
        for machines in (cell.runners, cell.gpu_runners):
            if "circleci" in machines:
                found.setdefault(_name(machines["circleci"]), _executor(machines["circleci"]))
    for job in pipeline.smoke_jobs["circleci"] if pipeline.night else ():
        found.setdefault(_name(job.runner), _executor(job.runner))
    return dict(sorted(found.items()))


def _name(machine: RunsOn) -> str:
    """What its executor is called; such a name begins with a letter and has small ones only."""
    said = " ".join(filter(None, (machine.pool, machine.image, machine.size, *machine.labels)))
    return identify(f"on {said}", "-").lower()


def _executor(machine: RunsOn) -> Json:
    size = {"resource_class": machine.size} if machine.size else {}
    if machine.pool == "macos":
        return {"macos": {"xcode": machine.image}, **size}
    if machine.pool == "windows":
        return {"machine": {"image": machine.image}, **size, "shell": f"bash.exe {_BASH[5:]}"}
    if machine.pool:
        return {"machine": {"image": machine.image} if machine.image else True, **size}
    return {"docker": [{"image": machine.image}], **size}


# -- jobs


def _cell_job(stage: PipelineStage, pipeline: Pipeline) -> Json:
    """A stage of any cell, whose values are parameters, and come to the shell as variables."""
    names = [JOB_PYTHON, *pipeline.cells[0].environment]
    return _job(stage, names, [*_cell_steps(stage, pipeline)])


def _job(stage: PipelineStage, names: Sequence[str], steps: Sequence[Json | str]) -> Json:
    texts = {name.lower(): {"type": "string"} for name in names}
    return {
        "parameters": {
            "machine": {"type": "executor"},
            "prepare": {"type": "boolean"},
            "patience": {"type": "string"},
            **texts,
        },
        "executor": _parameter("machine"),
        "environment": {
            "BINARY_CHECKS_ONLY": "<< pipeline.parameters.only >>",
            **stage.environment,
            **{name: _parameter(name.lower()) for name in names},
        },
        "steps": steps,
    }


def _cell_steps(stage: PipelineStage, pipeline: Pipeline) -> Iterator[Json | str]:
    yield "checkout"
    if stage.takes:
        yield {"attach_workspace": {"at": "."}}
    yield {"when": {"condition": _parameter("prepare"), "steps": [_run(MAKE_PYTHON, pipeline)]}}
    yield from _scripts(stage, list_steps(stage, pipeline), pipeline)


def _scripts(
    stage: PipelineStage, steps: Sequence[ShellStep], pipeline: Pipeline
) -> Iterator[Json]:
    """The steps; the last one's status waits until what it leaves is kept."""
    *others, last = steps
    yield from (_run(step, pipeline) for step in others)
    if not stage.leaves:
        yield _run(last, pipeline)
        return
    yield _run(last, pipeline, keeping=[folder.path for folder in stage.leaves])
    for folder in stage.leaves:
        yield {"persist_to_workspace": {"root": ".", "paths": [folder.path]}}
        yield {"store_artifacts": {"path": folder.path}}
    yield {"run": {"name": f"{last.name}: its status", "command": f'exit "$(cat {_STATUS})"\n'}}


def _run(step: ShellStep, pipeline: Pipeline, *, keeping: Sequence[str] = ()) -> Json:
    script = f"{OWN_PATH}{hide_secrets(step, pipeline.settings)}"
    if keeping:
        script = (
            f"mkdir -p {' '.join(keeping)}\nset +e\n(\nset -e\n{script})\necho $? > {_STATUS}\n"
        )
    return {
        "run": {
            "name": step.name,
            "command": script,
            "no_output_timeout": _parameter("patience"),
        }
    }


def _night_job(stage: PipelineStage, pipeline: Pipeline) -> Json:
    jobs = jobs_of(stage, pipeline, "circleci")
    names = [JOB_PYTHON, *((SMOKE_PYTHONS, *jobs[0].environment) if jobs else ())]
    steps: list[Json | str] = ["checkout"]
    if stage.takes:
        steps.append({"attach_workspace": {"at": "."}})
    steps.append(_run(MAKE_PYTHON, pipeline))
    own = (FETCH_PYTHONS, *stage.steps) if jobs else stage.steps
    return _job(stage, names, [*steps, *_scripts(stage, own, pipeline)])


# -- workflows


def _workflows(pipeline: Pipeline) -> Json:
    found: Json = {}
    for tier, cells in pipeline.tiers.items() if pipeline.stages else ():
        parts = [cells[start : start + MOST_CELLS] for start in range(0, len(cells), MOST_CELLS)]
        for number, part in enumerate(parts, 1):
            name = f"{tier}-{number}" if len(parts) > 1 else tier
            calls = [call for cell in part for call in _calls(cell, tier, pipeline)]
            found[name] = {"when": _when(tier, pipeline), "jobs": calls}
    if pipeline.night:
        found["night"] = {"when": _NIGHTLY, "jobs": [*_night_calls(pipeline)]}
    return found


def _when(tier: str, pipeline: Pipeline) -> Json:
    """Schedules are set in the project's settings; other pipelines are of pushed branches."""
    if tier == "nightly":
        return {"or": [_NIGHTLY, _NARROWED]}
    branch = {"equal": [pipeline.settings.branch, "<< pipeline.git.branch >>"]}
    return {
        "and": [
            {"not": {"or": [_NIGHTLY, _NARROWED]}},
            branch if tier == "merge" else {"not": branch},
        ]
    }


def _calls(cell: PipelineCell, tier: str, pipeline: Pipeline) -> Iterator[Json]:
    """A call for each stage of the cell's chain."""
    there = stages_of(cell, pipeline.stages, trusted=tier != "pr")
    for stage in there:
        machine = (cell.gpu_runners if stage.gpu else cell.runners)["circleci"]
        minutes = pipeline.settings.build_timeout / 60 if stage.name == "build" else cell.minutes
        call = _call(stage, machine, cell.id, minutes, pipeline)
        call["prepare"] = not (stage.own_python and has_python(machine, cell.python))
        needed = [
            {f"{name} {cell.id}": _ENDED}
            if stage.regardless and name != "build"
            else f"{name} {cell.id}"
            for name in list_needed(stage, (each.name for each in there))
        ]
        python = cell.python if stage.own_python else pipeline.settings.python
        values = {JOB_PYTHON: python, **cell.environment}
        yield {stage.name: {**call, **({"requires": needed} if needed else {}), **_given(values)}}


def _call(
    stage: PipelineStage, machine: RunsOn, name: str, minutes: float, pipeline: Pipeline
) -> Json:
    context = pipeline.settings.deployment if stage.secrets else ""
    return {
        "name": f"{stage.name} {name}".strip(),
        **({"context": [context]} if context else {}),
        "machine": _name(machine),
        "prepare": True,
        "patience": f"{max(1, round(minutes))}m",
    }


def _given(values: Mapping[str, str]) -> Json:
    return {name.lower(): value for name, value in values.items()}


def _night_calls(pipeline: Pipeline) -> Iterator[Json]:
    """The night: each stage waits for those before it; only the first must have succeeded."""
    office = {JOB_PYTHON: pipeline.settings.python}
    machine = pipeline.smoke_jobs["circleci"][0].runner
    called: list[str] = []
    for stage in pipeline.night:
        needed = [*called[:1], *({name: _ENDED} for name in called[1:])]
        requires = {"requires": needed} if needed else {}
        jobs = jobs_of(stage, pipeline, "circleci")
        for job in jobs:
            call = _call(stage, job.runner, job.name, job.minutes, pipeline)
            values = {**job.environment, **name_pythons(job)}
            yield {stage.name: {**call, **requires, **_given(values)}}
            called.append(call["name"])
        if not jobs:
            call = _call(stage, machine, "", _OFFICE_MINUTES, pipeline)
            yield {stage.name: {**call, **requires, **_given(office)}}
            called.append(call["name"])

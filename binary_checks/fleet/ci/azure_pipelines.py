"""Writes Azure Pipelines: a stage for each cell, whose jobs wait for its own alone.

What depends on a matrix waits for all of it, so there is none. A pipeline that is too large to be
read has others beside it, each of which is a pipeline of the project.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from binary_checks.fleet.ci.hosted_scripts import (
    FETCH_PYTHONS,
    JOB_PYTHON,
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
    SharedFolder,
    SmokeJob,
)
from binary_checks.fleet.ci.runner_tables import RunsOn
from binary_checks.fleet.ci.yaml_text import write_yaml

MOST_CELLS = 50
"""Of one file: Azure reads 600 kB to 2 MB of them, and a cell comes to some 7 kB."""
_PULL = "eq(variables['Build.Reason'], 'PullRequest')"
_SCHEDULED = "in(variables['Build.Reason'], 'Schedule', 'Manual')"
_TIERS = {
    "pr": _PULL,
    "merge": f"not(or({_PULL}, {_SCHEDULED}))",
    "nightly": _SCHEDULED,
}
_ASKED: Mapping[str, Any] = {
    "parameters": [
        {
            "name": "only",
            "displayName": "only such cells: variant=cu*",
            "type": "string",
            "default": " ",  # an empty one would have to be given
        }
    ],
    "variables": {"BINARY_CHECKS_ONLY": "${{ parameters.only }}"},
}
_OFFICE_MINUTES = 30
_FREE_THREADED = """\
set -e
python -m pip install --quiet uv
uv venv --quiet --clear --seed --python "$JOB_PYTHON" .python
here=$PWD/.python/bin
if test -d .python/Scripts; then here=$(cygpath -w "$PWD/.python/Scripts"); fi
echo "##vso[task.prependpath]$here"
"""
_FOLDER = "$(System.DefaultWorkingDirectory)"

Json = dict[str, Any]


def write(pipeline: Pipeline) -> Mapping[str, str]:
    """The files, by path; each is a pipeline."""
    cells = pipeline.cells if pipeline.stages else ()
    parts = [cells[start : start + MOST_CELLS] for start in range(0, len(cells), MOST_CELLS)]
    tiers, files = pipeline.tiers_by_cell(), {}
    for number, part in enumerate(parts or [()], 1):
        stages = [_cell_stage(cell, tiers[cell.id], pipeline) for cell in part]
        if number == 1 and pipeline.night:
            stages.append(_night_stage(pipeline))
        path = "azure-pipelines.yml" if number == 1 else f"azure-pipelines-{number}.yml"
        document = {**_events(pipeline), **_ASKED, "stages": stages}
        files[path] = write_yaml(document, pipeline)
    return files


def _events(pipeline: Pipeline) -> Json:
    branches = {"branches": {"include": [pipeline.settings.branch]}}
    schedule = {"cron": pipeline.settings.schedule, "displayName": "night", **branches}
    pulls = {"pr": {"branches": {"include": ["*"]}} if pipeline.stages else "none"}
    pushes = {"trigger": branches if pipeline.stages else "none"}
    return {**pushes, **pulls, "schedules": [{**schedule, "always": "true"}]}


def _name(text: str) -> str:
    """Of letters, digits and underlines, at most 100: what Azure calls jobs and artifacts."""
    return identify(text, "_")


# -- cells


def _cell_stage(cell: PipelineCell, tiers: Sequence[str], pipeline: Pipeline) -> Json:
    """The chain of one cell, which waits for no other."""
    there = stages_of(cell, pipeline.stages)
    return {
        "stage": _name(cell.id),
        "displayName": cell.id,
        "dependsOn": [],
        **({"condition": _any_tier(tiers)} if len(tiers) < len(_TIERS) else {}),
        "variables": {JOB_PYTHON: cell.python, **cell.environment},
        "jobs": [_cell_job(stage, cell, there, pipeline) for stage in there],
    }


def _cell_job(
    stage: PipelineStage, cell: PipelineCell, there: Sequence[PipelineStage], pipeline: Pipeline
) -> Json:
    needed = list_needed(stage, (each.name for each in there))
    machine = (cell.gpu_runners if stage.gpu else cell.runners)["azure"]
    minutes = pipeline.settings.build_timeout / 60 if stage.name == "build" else cell.minutes
    steps = (*list_steps(stage, pipeline),)
    own = {} if stage.own_python else {JOB_PYTHON: pipeline.settings.python}
    python = cell.python if stage.own_python else pipeline.settings.python
    return {
        "job": stage.name,
        **({"dependsOn": needed} if needed else {}),
        **_condition(stage),
        "timeoutInMinutes": str(max(1, round(minutes))),
        "pool": _pool(machine),
        **_variables(stage, own, pipeline),
        "steps": [
            *_begin(python, pipeline),
            *_steps(replace(stage, steps=steps), there, of_cell=cell.id),
        ],
    }


def _condition(stage: PipelineStage) -> Json:
    """When a job runs; one without a condition runs if all that it depends on has succeeded."""
    said = ["not(canceled())", "eq(dependencies.build.result, 'Succeeded')"]
    said = said if stage.regardless else ["succeeded()"]
    said += [f"not({_PULL})"] if stage.trusted else []
    return {"condition": f"and({', '.join(said)})"} if len(said) > 1 else {}


def _any_tier(tiers: Sequence[str]) -> str:
    said = [_TIERS[tier] for tier in tiers]
    return said[0] if len(said) == 1 else f"or({', '.join(said)})"


def _pool(machine: RunsOn) -> Json:
    """A pool of the organisation's own, or an image of Microsoft's."""
    if not machine.pool:
        return {"vmImage": machine.image}
    demands = {"demands": [*machine.labels]} if machine.labels else {}
    return {"name": machine.pool, **demands}


def _variables(stage: PipelineStage, own: Mapping[str, str], pipeline: Pipeline) -> Json:
    """Variables, which come to scripts in their environment; with a group they are a list."""
    found = {**stage.environment, **own}
    group = pipeline.settings.deployment if stage.secrets else ""
    if not group:
        return {"variables": found} if found else {}
    listed = [{"name": name, "value": value} for name, value in found.items()]
    return {"variables": [{"group": group}, *listed]}


def _begin(python: str, pipeline: Pipeline) -> Iterator[Json]:
    """Checkout, and the Python of the job; of free-threaded ones UsePythonVersion knows nothing."""
    yield {"checkout": "self", "persistCredentials": "false"}
    threaded = python.endswith("t")
    version = pipeline.settings.python if threaded else f"$({JOB_PYTHON})"
    yield {"task": "UsePythonVersion@0", "inputs": {"versionSpec": version}}
    if threaded:
        yield {"bash": _FREE_THREADED, "displayName": "Make an environment of the job's Python"}


def _steps(
    stage: PipelineStage, there: Sequence[PipelineStage], *, of_cell: str = ""
) -> Iterator[Json]:
    """What the stages that are there left, the scripts, and what this one leaves."""
    left = {folder for each in there for folder in each.leaves}
    for folder in stage.takes:
        if folder not in left:
            continue
        yield {
            "task": "DownloadPipelineArtifact@2",
            "displayName": f"Fetch {folder.path}",
            "continueOnError": True,  # a stage that failed early has left none
            "inputs": {
                "artifactName": _artifact(folder, of_cell),
                "targetPath": f"{_FOLDER}/{folder.path}",
            },
        }
    for step in stage.steps:
        secrets = {name: f"$({name})" for name in step.secrets}
        yield {
            "bash": f"set -e\n{step.script}",
            "displayName": step.name,
            **({"env": secrets} if secrets else {}),
        }
    for folder in stage.leaves:
        yield {
            "publish": folder.path,
            "artifact": _artifact(folder, of_cell),
            "displayName": f"Keep {folder.path}",
            "condition": "succeededOrFailed()",
        }


def _artifact(folder: SharedFolder, of_cell: str) -> str:
    return _name(f"{folder.name} {of_cell}") if of_cell else folder.name


# -- the night


def _night_stage(pipeline: Pipeline) -> Json:
    """The night: each stage waits for those before it; only the first must have succeeded."""
    found: list[Json] = []
    for stage in pipeline.night:
        before = [job["job"] for job in found]
        planned = f"eq(dependencies.{before[0]}.result, 'Succeeded')" if before else ""
        ended = {"condition": f"and(not(canceled()), {planned})"} if stage.regardless else {}
        waits = {"dependsOn": before, **ended} if before else {}
        jobs = jobs_of(stage, pipeline, "azure")
        found += [
            {"job": _name(f"smoke {job.name}"), "displayName": f"smoke {job.name}", **waits}
            | _smoke_job(stage, job, pipeline)
            for job in jobs
        ] or [{"job": stage.name, **waits} | _office_job(stage, pipeline)]
    return {"stage": "night", "dependsOn": [], "condition": _SCHEDULED, "jobs": found}


def _office_job(stage: PipelineStage, pipeline: Pipeline) -> Json:
    """A job that runs no package, on the machine of the night's first one."""
    return {
        "timeoutInMinutes": str(_OFFICE_MINUTES),
        "pool": _pool(pipeline.smoke_jobs["azure"][0].runner),
        **_variables(stage, {JOB_PYTHON: pipeline.settings.python}, pipeline),
        "steps": [*_begin(pipeline.settings.python, pipeline), *_steps(stage, pipeline.night)],
    }


def _smoke_job(stage: PipelineStage, job: SmokeJob, pipeline: Pipeline) -> Json:
    with_pythons = replace(stage, steps=(FETCH_PYTHONS, *stage.steps))
    return {
        "timeoutInMinutes": str(job.minutes),
        "pool": _pool(job.runner),
        **_variables(stage, {**job.environment, **name_pythons(job)}, pipeline),
        "steps": [
            *_begin(pipeline.settings.python, pipeline),
            *_steps(with_pythons, pipeline.night),
        ],
    }

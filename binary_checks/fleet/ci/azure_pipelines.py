"""Azure Pipelines: constant stages, whose matrices are output variables of the first stage.

A stage runs all cells as one matrix, and a stage that depends on it waits for all of them. The
stages for tests, GPUs and publishing therefore run whatever the result of earlier stages: one
failed cell must not skip the other cells.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from binary_checks.fleet.cells import ONLY
from binary_checks.fleet.ci.ci_settings import RunsOn
from binary_checks.fleet.ci.job_scripts import (
    ARTIFACTS,
    JOB_PYTHON,
    LEAVES,
    SMOKE_PYTHONS,
    TAKES,
    identify,
    install_line,
    plan_line,
    secrets_of,
    stage_line,
    write_yaml,
)
from binary_checks.fleet.ci.pipeline import ChosenJobs, Pipeline, PipelineCell, require_rows
from binary_checks.fleet.ci.running_stages import NIGHT_DATE

_MAIN = "azure-pipelines.yml"
_TESTS = ".azure/binary-checks-tests.yml"
_NIGHT = ".azure/binary-checks-night.yml"
_PULL = "eq(variables['Build.Reason'], 'PullRequest')"
_OFFICE_MINUTES = 30
_LONGEST = 360  # minutes; `ci stage` itself ends a command at the cell's time limit
_HOSTED = "Azure Pipelines"  # the pool of Microsoft's machines
_ANY_AGENT = "Agent.Version"  # a demand that every agent meets
_FREE_THREADED = "FREE_THREADED"
_MAKE_PYTHON = f"""\
python -m pip install --quiet uv
uv venv --quiet --clear --seed --python "${_FREE_THREADED}" .python
cd .python/Scripts 2> /dev/null || cd .python/bin
echo "##vso[task.prependpath]$(pwd -W 2> /dev/null || pwd)"
"""
_FOLDER = "$(System.DefaultWorkingDirectory)"
_SHARD = "${BINARY_CHECKS_SHARD:-1/1}"

Json = dict[str, Any]


def write(pipeline: Pipeline) -> Mapping[str, str]:
    """Return path -> text; the first file includes the others. They do not depend on the cells."""
    stages: list[Json] = [_plan_stage(pipeline)]
    files: dict[str, Json] = {}
    if pipeline.stages:
        first, *others = (_chain_stage(name, pipeline) for name in pipeline.stages)
        stages += [first, {"template": _TESTS}]
        files[_TESTS] = {"stages": others}
    if pipeline.settings.store:
        stages.append({"template": _NIGHT})
        files[_NIGHT] = {"stages": [*_night_stages(pipeline)]}
    files[_MAIN] = {**_events(pipeline), "stages": stages}
    return {path: write_yaml(document, pipeline) for path, document in files.items()}


def _events(pipeline: Pipeline) -> Json:
    branches = {"branches": {"include": [pipeline.settings.branch]}}
    schedule = {"cron": pipeline.settings.schedule, "displayName": "night", **branches}
    only = {
        "name": "only",
        "displayName": "run only the cells that match: variant=cu*",
        "type": "string",
        "default": " ",  # an empty default would make the parameter required
    }
    return {
        "trigger": branches if pipeline.stages else "none",
        "pr": {"branches": {"include": ["*"]}} if pipeline.stages else "none",
        "schedules": [{**schedule, "always": "true"}],
        "parameters": [only],
        "variables": {**pipeline.settings.environment, ONLY: "${{ parameters.only }}"},
    }


def _plan_stage(pipeline: Pipeline) -> Json:
    plan = f'{plan_line(pipeline, "azure").strip()} --shard "{_SHARD}"\n'
    job = {
        "job": "plan",
        "timeoutInMinutes": str(_OFFICE_MINUTES),
        "pool": _pool(pipeline, pipeline.find_office("azure")),
        "steps": [
            *_begin(pipeline),
            {"bash": install_line(pipeline).strip()},
            {"bash": plan.strip(), "name": "list"},
        ],
    }
    return {"stage": "plan", "jobs": [job]}


def _output(name: str) -> str:
    """Return a variable set by the planning stage, as a stage's condition reads it."""
    return f"dependencies.plan.outputs['plan.list.{name}']"


def _matrix(name: str) -> Json:
    """Return a variable set by the planning stage, as a job's matrix reads it."""
    return {"matrix": f"$[ stageDependencies.plan.plan.outputs['list.{name}'] ]"}


def _condition(output: str, *also: str) -> str:
    """Return a condition to run a stage with cells, even if any stage but planning failed."""
    conditions = ("not(canceled())", "eq(dependencies.plan.result, 'Succeeded')")
    return f"and({', '.join((*conditions, f'''ne({_output(output)}, '')''', *also))})"


# -- cells


def _chain_stage(stage: str, pipeline: Pipeline) -> Json:
    """Return the part of the pipeline that runs one stage for all cells."""
    before = [*pipeline.stages[: pipeline.stages.index(stage)]]
    output = "gpu" if stage == "gpu" else "cells"
    office = stage == "publish"
    trusted = [f"not({_PULL})"] if office else []
    minutes = max(1, round(pipeline.settings.build_timeout / 60)) if stage == "build" else _LONGEST
    job: Json = {
        "job": stage,
        "strategy": _matrix(output),
        "timeoutInMinutes": str(_OFFICE_MINUTES if office else minutes),
        "pool": _pool(pipeline, pipeline.find_office("azure") if office else None),
    }
    job |= _list_variables(pipeline, stage, {})
    return {
        "stage": stage,
        "dependsOn": ["plan", *before],
        "condition": _condition(output, *trusted),
        "jobs": [{**job, "steps": [*_steps(stage, pipeline, own_python=not office)]}],
    }


def _pool(pipeline: Pipeline, machine: RunsOn | None) -> Json:
    """Return the pool of a machine; without one, the pool that the matrix's variables name."""
    if machine is None:
        demands = [f"$(DEMAND_{number})" for number in range(_count_demands(pipeline))]
        return {
            "name": "$(POOL)",
            "vmImage": "$(IMAGE)",
            **({"demands": demands} if demands else {}),
        }
    if not machine.pool:
        return {"vmImage": machine.image}
    return {"name": machine.pool, **({"demands": [*machine.labels]} if machine.labels else {})}


def _count_demands(pipeline: Pipeline) -> int:
    """Return the greatest number of demands in any entry of [[runners]]."""
    machines = (rule.machines.get("azure") for rule in pipeline.settings.runners)
    return max(len(machine.labels) for machine in machines if machine is not None)


def _list_variables(pipeline: Pipeline, stage: str, values: Mapping[str, str]) -> Json:
    """Return the variables of a stage; with a variable group, they must be a list."""
    group = pipeline.settings.deployment if secrets_of(pipeline, stage) else ""
    listed = [{"name": name, "value": value} for name, value in values.items()]
    if group:
        return {"variables": [{"group": group}, *listed]}
    return {"variables": dict(values)} if values else {}


def _begin(pipeline: Pipeline, *, own_python: bool = False) -> Iterator[Json]:
    """Yield the steps that check out the repository and install the job's Python.

    The task UsePythonVersion cannot install a free-threaded Python.
    """
    version = f"$({JOB_PYTHON})" if own_python else pipeline.settings.python
    # Self-hosted agents keep their folder: files of another cell must not be judged.
    yield {"checkout": "self", "clean": "true", "persistCredentials": "false"}
    yield {"task": "UsePythonVersion@0", "inputs": {"versionSpec": version}}
    if own_python:
        threaded = f"and(succeeded(), ne(variables['{_FREE_THREADED}'], ''))"
        yield {"bash": _MAKE_PYTHON, "condition": threaded}


def _steps(
    stage: str, pipeline: Pipeline, *, own_python: bool, smoke: bool = False
) -> Iterator[Json]:
    """Yield the steps: fetch files of earlier stages, run the stage, keep its own files."""
    cells = stage not in ("plan", "collect")
    suffix = "-$(CELL)" if cells else ""
    yield from _begin(pipeline, own_python=own_python)
    for folder in TAKES.get(stage, ()):
        taken: Json = {
            "task": "DownloadPipelineArtifact@2",
            "inputs": {
                "artifactName": f"{ARTIFACTS[folder]}{suffix}",
                "targetPath": f"{_FOLDER}/{folder}",
            },
        }
        # An earlier stage that failed left nothing; this stage then reports that it is blocked.
        yield taken if folder == "dist" else {**taken, "continueOnError": True}
    install = install_line(pipeline).strip()
    fetch = f"{install} uv\nuv python install --quiet ${SMOKE_PYTHONS}\n"
    yield {"bash": fetch if smoke else install}
    secrets = {name: f"$({name})" for name in secrets_of(pipeline, stage)}
    run = {"bash": stage_line(pipeline, stage).strip()}
    yield {**run, "env": secrets} if secrets else run
    if stage in LEAVES:
        ended = "succeeded()" if stage == "build" else "succeededOrFailed()"
        folder = LEAVES[stage]
        kept = {"publish": folder, "artifact": f"{ARTIFACTS[folder]}{suffix}"}
        yield {**kept, "condition": ended}


# -- the night


def _night_stages(pipeline: Pipeline) -> Iterator[Json]:
    """Return the night's stages; each waits for the one before, but only planning must succeed."""
    date = {NIGHT_DATE: "$[ stageDependencies.plan.plan.outputs['list.date'] ]"}
    before: list[str] = []
    for stage in ("plan", "smoke", "smoke-gpu", "collect"):
        name = f"night_{stage}".replace("-", "_")
        grouped = stage in ("smoke", "smoke-gpu")
        output = stage.replace("-", "_") if grouped else "smoke"
        job: Json = {"job": name}
        if grouped:
            job["strategy"] = _matrix(output)
        job |= {
            "timeoutInMinutes": str(_LONGEST if grouped else _OFFICE_MINUTES),
            "pool": _pool(pipeline, None if grouped else pipeline.find_office("azure")),
            **_list_variables(pipeline, stage, {} if grouped else date),
            "steps": [*_steps(stage, pipeline, own_python=False, smoke=grouped)],
        }
        planned = [f"eq(dependencies.{before[0]}.result, 'Succeeded')"] if before else []
        yield {
            "stage": name,
            "dependsOn": ["plan", *before],
            "condition": _condition(output, *planned),
            "jobs": [job],
        }
        before.append(name)


# -- at run time


def format_jobs(jobs: ChosenJobs) -> str:
    """Return the commands that set the planning job's output variables. Raises ProfileError."""
    pipeline = jobs.pipeline
    groups = pipeline.group_smoke("azure") if jobs.is_night else []
    gpu = [each for each in jobs.cells if each.gpu_runners]
    matrices: dict[str, list[tuple[str, Json]]] = {
        "cells": [_cell_row(each, each.runners["azure"], jobs) for each in jobs.cells],
        "gpu": [_cell_row(each, each.gpu_runners["azure"], jobs) for each in gpu],
    }
    for output, machines in (
        ("smoke", [(each, each.runner) for each in groups]),
        ("smoke_gpu", [(each, each.gpu_runner) for each in groups]),
    ):
        matrices[output] = [
            (
                f"{output}_{group.name}",
                {
                    "CELL": group.ids,
                    NIGHT_DATE: jobs.date,
                    SMOKE_PYTHONS: " ".join(group.pythons),
                    **_name_machine(pipeline, machine),
                },
            )
            for group, machine in machines
            if machine is not None
        ]
    lines = [_set_variable("date", jobs.date)]
    for output, rows in matrices.items():
        require_rows(rows, "azure", output)
        lines.append(_set_variable(output, json.dumps(dict(rows)) if rows else ""))
    return "".join(lines)


def _set_variable(name: str, value: str) -> str:
    return f"##vso[task.setvariable variable={name};isOutput=true]{value}\n"


def _cell_row(cell: PipelineCell, machine: RunsOn, jobs: ChosenJobs) -> tuple[str, Json]:
    threaded = cell.python.endswith("t")
    return identify(cell.id, "_"), {
        "CELL": cell.id,
        JOB_PYTHON: jobs.pipeline.settings.python if threaded else cell.python,
        _FREE_THREADED: cell.python if threaded else "",
        **_name_machine(jobs.pipeline, machine),
    }


def _name_machine(pipeline: Pipeline, machine: RunsOn) -> Json:
    """Return the variables that a matrix's pool reads."""
    labels: Sequence[str] = machine.labels
    demands = {
        f"DEMAND_{number}": labels[number] if number < len(labels) else _ANY_AGENT
        for number in range(_count_demands(pipeline))
    }
    return {"POOL": machine.pool or _HOSTED, "IMAGE": machine.image, **demands}

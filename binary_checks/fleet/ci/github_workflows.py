"""Writes GitHub Actions: one workflow that runs a cell, and one for each tier that calls it.

The chain of a cell is a workflow of its own, which a matrix calls: so the GPU stage of a cell waits
for the CPU stage of that cell alone. In a chain written as four matrices it would wait for all.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from binary_checks.errors import ProfileError
from binary_checks.fleet.cell import Cell
from binary_checks.fleet.cells.choosing import ALSO, LABELS, ONLY
from binary_checks.fleet.ci.github_jobs import write_workflow
from binary_checks.fleet.ci.github_words import (
    ALWAYS,
    BASH,
    FOLDER,
    MOST_JOBS,
    OFFICE,
    READ,
    Json,
    check_out,
    download,
    say,
    set_up_python,
    upload,
)
from binary_checks.fleet.ci.pipeline import (
    Pipeline,
    PipelineCell,
    PipelineStage,
    SharedFolder,
    SmokeJob,
)
from binary_checks.fleet.ci.runner_tables import RunsOn
from binary_checks.fleet.ci.yaml_text import OneLine, write_yaml

_CELL = f"{FOLDER}/binary-checks-cell.yml"
_EVENTS: Mapping[str, str] = {"pr": "pull request", "merge": "merge", "nightly": "night"}
_IDS, _FURTHER = "ids", "further"
"""Outputs: ids that were chosen, and rows of those that the tier's own matrix lacks, as JSON."""


def write(pipeline: Pipeline) -> Mapping[str, str]:
    """The files, by path."""
    files: dict[str, Json] = {}
    if pipeline.stages:
        files[_CELL] = _cell_workflow(pipeline)
        for tier in ("pr", "merge"):
            files[f"{FOLDER}/binary-checks-{tier}.yml"] = _tier_workflow(pipeline, tier)
    if pipeline.stages or pipeline.night:
        files[f"{FOLDER}/binary-checks-nightly.yml"] = _tier_workflow(pipeline, "nightly")
    for workflow in pipeline.settings.workflows.values():
        files[f"{FOLDER}/{workflow.name}.yml"] = write_workflow(workflow, pipeline)
    return {path: write_yaml(document, pipeline) for path, document in files.items()}


# -- the workflow of one cell


def _cell_workflow(pipeline: Pipeline) -> Json:
    call: Json = {
        "inputs": {name: {"type": kind, "required": True} for name, kind in _inputs(pipeline)}
    }
    if secrets := _list_secrets(pipeline.stages):
        call["secrets"] = {name: {"required": False} for name in secrets}
    return {
        "name": "binary-checks cell",
        "on": {"workflow_call": call},
        "permissions": {},
        "jobs": {stage.name: _stage_job(stage, pipeline) for stage in pipeline.stages},
    }


def _inputs(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """What a cell's workflow is given, with its type; runners are JSON, for a list is no type."""
    for variable in pipeline.cells[0].environment:
        yield variable.lower(), "string"
    yield "python", "string"
    yield "minutes", "number"
    yield "runner", "string"
    if any(each.gpu_runners for each in pipeline.cells):
        yield "gpu_runner", "string"
    if _has_containers(pipeline):
        yield "container", "string"
        yield "gpu_container", "string"
    yield "chosen", "boolean"


def _has_containers(pipeline: Pipeline) -> bool:
    """Whether any cell runs in one; "" runs on the machine itself."""
    return any(
        machines["github"].image
        for each in pipeline.cells
        for machines in (each.runners, each.gpu_runners)
        if machines
    )


def _list_secrets(stages: Sequence[PipelineStage]) -> list[str]:
    return list(dict.fromkeys(name for stage in stages for name in stage.secrets))


def _stage_job(stage: PipelineStage, pipeline: Pipeline) -> Json:
    """One job of the chain."""
    settings = pipeline.settings
    own = {name: say(f"inputs.{name.lower()}") for name in pipeline.cells[0].environment}
    machine = "gpu_runner" if stage.gpu else "runner"
    job: Json = {"if": say(_condition(stage))}
    if stage.needs:
        job["needs"] = [name for name in stage.needs if name in {s.name for s in pipeline.stages}]
    job["runs-on"] = say(f"fromJSON(inputs.{machine})") if stage.own_python else OFFICE
    minutes = say("inputs.minutes") if stage.own_python else 30
    job["timeout-minutes"] = minutes if stage.name != "build" else _minutes(settings.build_timeout)
    if stage.own_python and _has_containers(pipeline):
        job["container"] = say(f"inputs.{'gpu_' if stage.gpu else ''}container")
    job["permissions"] = READ
    python = say("inputs.python") if stage.own_python else settings.python
    return {**job, **_surround(stage, pipeline, own, python, of_cell="inputs.cell")}


def _minutes(seconds: float) -> int:
    return max(1, round(seconds / 60))


def _condition(stage: PipelineStage) -> str:
    """When a stage of a cell runs; without a word of its own it waits for those that it needs."""
    if not stage.needs:
        return "inputs.chosen"
    if stage.gpu:
        return "inputs.gpu_runner != 'null'"
    said = [ALWAYS, "needs.build.result == 'success'"] if stage.regardless else ["success()"]
    said += ["github.event_name != 'pull_request'"] if stage.trusted else []
    return " && ".join(said)


def _steps(
    stage: PipelineStage, pipeline: Pipeline, python: str, *, of_cell: str = ""
) -> Iterator[Json]:
    """Checkout, Python, what earlier stages left, the scripts, and what this one leaves."""
    yield check_out(pipeline)
    yield set_up_python(pipeline, python)
    for folder in stage.takes:
        yield download(pipeline, _name(folder, of_cell), folder.path)
    for step in stage.steps:
        said: Json = {"name": step.name}
        if step.secrets:
            said["env"] = {name: say(f"secrets.{name}") for name in step.secrets}
        yield {**said, "run": step.script}
    for folder in stage.leaves:
        yield upload(pipeline, _name(folder, of_cell), folder.path)


def _name(folder: SharedFolder, of_cell: str) -> str:
    return f"{folder.name}-{say(of_cell)}" if of_cell else folder.name


# -- the workflows that call it


def _tier_workflow(pipeline: Pipeline, tier: str) -> Json:
    jobs: Json = {}
    if pipeline.stages:
        jobs["choose"] = _choose_job(pipeline, tier)
        contained = _has_containers(pipeline)
        rows = [OneLine(_row(cell, contained=contained)) for cell in pipeline.tiers[tier]]
        parts = [_call_job({"include": part}, pipeline) for part in _split(rows)]
        jobs |= _number("cells", parts)
        further = say(f"fromJSON(needs.choose.outputs.{_FURTHER})")
        called = _call_job({"include": further}, pipeline)
        jobs["further"] = {"if": say(f"needs.choose.outputs.{_FURTHER} != '[]'"), **called}
    if tier == "nightly" and pipeline.night:
        jobs |= _night_jobs(pipeline, [name for name in jobs if name != "choose"])
    return {
        "name": f"binary-checks {_EVENTS[tier]}",
        "on": _events(pipeline, tier),
        "permissions": {},
        "concurrency": {
            "group": f"{say('github.workflow')}-{say('github.ref')}",
            "cancel-in-progress": tier == "pr",
        },
        "jobs": jobs,
    }


def _events(pipeline: Pipeline, tier: str) -> Json:
    if tier == "pr":
        # Not when it is labelled: jobs that such a run skips would hide the red ones before.
        return {"pull_request": None}
    if tier == "merge":
        return {"push": {"branches": [pipeline.settings.branch]}}
    asked = {
        "only": "only such cells: variant=cu* python=3.13",
        "also": "such cells too, though they are left out",
    }
    inputs = {
        name: {"description": said, "type": "string", "default": ""} for name, said in asked.items()
    }
    return {
        "schedule": [{"cron": pipeline.settings.schedule}],
        "workflow_dispatch": {"inputs": inputs} if pipeline.stages else None,
    }


def _split(rows: Sequence[Any]) -> list[Sequence[Any]]:
    """At the limit of one matrix."""
    return [rows[start : start + MOST_JOBS] for start in range(0, len(rows), MOST_JOBS)]


def _number(name: str, jobs: Sequence[Json]) -> Json:
    """By name; several have numbers."""
    if len(jobs) == 1:
        return {name: jobs[0]}
    return {f"{name}-{number}": job for number, job in enumerate(jobs, 1)}


_CHOOSE = 'binary-checks ci choose @CELLS@ --tier "$TIER" >> "$GITHUB_OUTPUT"\n'


def _choose_job(pipeline: Pipeline, tier: str) -> Json:
    """Which cells of the tier run this time: labels and inputs narrow it, for this run alone."""
    environment = {"TIER": tier}
    if tier == "pr":
        labels = "join(github.event.pull_request.labels.*.name, ';')"
        environment[LABELS] = say(labels)
    if tier == "nightly":
        environment[ONLY], environment[ALSO] = say("inputs.only"), say("inputs.also")
    install = pipeline.stages[1].steps[0]
    return {
        "runs-on": OFFICE,
        "timeout-minutes": 10,
        "permissions": READ,
        "outputs": {name: say(f"steps.choose.outputs.{name}") for name in (_IDS, _FURTHER)},
        "defaults": BASH,
        "steps": [
            check_out(pipeline),
            set_up_python(pipeline, pipeline.settings.python),
            {"name": install.name, "run": install.script},
            {
                "name": "Choose the cells",
                "id": "choose",
                "env": environment,
                "run": _CHOOSE.replace("@CELLS@", shlex.quote(pipeline.source)),
            },
        ],
    }


def _call_job(matrix: Json, pipeline: Pipeline) -> Json:
    """The matrix that calls the workflow of one cell."""
    given = {name: say(f"matrix.{name}") for name, _ in _inputs(pipeline)}
    for name in ("runner", "gpu_runner"):
        if name in given:
            given[name] = say(f"toJSON(matrix.{name})")
    given["chosen"] = say(f"contains(fromJSON(needs.choose.outputs.{_IDS}), matrix.cell)")
    job: Json = {
        "name": say("matrix.cell"),
        "needs": "choose",
        "strategy": {"fail-fast": False, "matrix": matrix},
        "permissions": READ,
        "uses": f"$/{_CELL}",
        "with": given,
    }
    if secrets := _list_secrets(pipeline.stages):
        job["secrets"] = {name: say(f"secrets.{name}") for name in secrets}
    return job


def _row(cell: PipelineCell, *, contained: bool) -> Json:
    """The values of one cell in a matrix; those that are absent are null there."""
    row: Json = {name.lower(): value for name, value in cell.environment.items()}
    row |= {"python": cell.python, "minutes": cell.minutes, "runner": _labels(cell.runners)}
    if cell.gpu_runners:
        row["gpu_runner"] = _labels(cell.gpu_runners)
    if contained:
        row["container"] = cell.runners["github"].image
        row["gpu_container"] = cell.gpu_runners["github"].image if cell.gpu_runners else ""
    return row


def _labels(machines: Mapping[str, RunsOn]) -> list[str]:
    return list(machines["github"].labels)


def describe_choice(pipeline: Pipeline, chosen: Sequence[Cell], listed: Sequence[Cell]) -> str:
    """What the job that chooses cells writes into GITHUB_OUTPUT. Raises ProfileError.

    ``listed`` are the cells that its workflow has a line for.
    """
    lacking = {each.id for each in chosen} - {each.id for each in listed}
    contained = _has_containers(pipeline)
    further = [_row(each, contained=contained) for each in pipeline.cells if each.id in lacking]
    if len(further) > MOST_JOBS:
        raise ProfileError(
            f"ci choose: {len(further):,} cells that the workflow has no line for; GitHub makes "
            f"at most {MOST_JOBS} jobs of them: narrow it"
        )
    values = {_IDS: [each.id for each in chosen], _FURTHER: further}
    return "".join(f"{name}={json.dumps(value)}\n" for name, value in values.items())


# -- the night


def _night_jobs(pipeline: Pipeline, after: Sequence[str]) -> Json:
    """The smoke of what is published, when all cells have ended, however they have."""
    plan, *smokes, collect = pipeline.night
    jobs: Json = {"plan": _night_job(plan, pipeline, after)}
    for stage in smokes:
        found = [each for each in pipeline.smoke_jobs["github"] if each.stage == stage.name]
        contained = _has_containers(pipeline)
        rows = [OneLine(_smoke_row(each, contained=contained)) for each in found]
        parts = [_smoke_job(stage, pipeline, part, [*jobs]) for part in _split(rows)]
        jobs |= _number(stage.name, parts)
    return {**jobs, "collect": _night_job(collect, pipeline, [*jobs])}


def _night_job(stage: PipelineStage, pipeline: Pipeline, after: Sequence[str]) -> Json:
    job: Json = {"if": say(ALWAYS), "needs": [*after]} if after else {}
    job |= {"runs-on": OFFICE, "timeout-minutes": 60, "permissions": READ}
    return {**job, **_surround(stage, pipeline, {}, pipeline.settings.python)}


def _surround(
    stage: PipelineStage, pipeline: Pipeline, own: Json, python: str, *, of_cell: str = ""
) -> Json:
    """What every job of a stage has behind its machine."""
    said: Json = {}
    if stage.secrets and pipeline.settings.deployment:
        said["environment"] = pipeline.settings.deployment
    said["defaults"] = BASH
    said["env"] = {**stage.environment, **own}
    said["steps"] = [*_steps(stage, pipeline, python, of_cell=of_cell)]
    return said


def _smoke_row(job: SmokeJob, *, contained: bool) -> Json:
    return {
        "name": job.name,
        "runner": list(job.runner.labels),
        **({"container": job.runner.image} if contained else {}),
        "python": "\n".join(job.pythons),
        "minutes": job.minutes,
        **{name.lower(): value for name, value in job.environment.items()},
    }


def _smoke_job(
    stage: PipelineStage, pipeline: Pipeline, rows: Sequence[Json], after: Sequence[str]
) -> Json:
    own = {name: say(f"matrix.{name.lower()}") for name in ("SMOKE_QUEUE", "SMOKE_CELLS")}
    job: Json = {
        "name": say("matrix.name"),
        "needs": [*after],
        "if": say(f"{ALWAYS} && needs.plan.result == 'success'"),
        "strategy": {"fail-fast": False, "matrix": {"include": [*rows]}},
        "runs-on": say("matrix.runner"),
        "timeout-minutes": say("matrix.minutes"),
        "permissions": READ,
    }
    if _has_containers(pipeline):
        job["container"] = say("matrix.container")
    return {**job, **_surround(stage, pipeline, own, say("matrix.python"))}

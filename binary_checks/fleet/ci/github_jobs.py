"""Writes the workflows of a project's own jobs for GitHub, by the rules of the generated ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from binary_checks.errors import ProfileError
from binary_checks.fleet.ci.github_words import (
    BASH,
    MOST_JOBS,
    OFFICE,
    READ,
    Json,
    check_out,
    say,
    set_up_python,
    use,
)
from binary_checks.fleet.ci.own_jobs import OwnJob, OwnStep, OwnWorkflow
from binary_checks.fleet.ci.pipeline import Pipeline
from binary_checks.fleet.ci.yaml_text import OneLine


def write_workflow(workflow: OwnWorkflow, pipeline: Pipeline) -> Json:
    """The document of one workflow. Raises ProfileError."""
    jobs = [job for job in pipeline.settings.jobs if job.workflow == workflow.name]
    if not jobs:
        raise ProfileError(
            f"{pipeline.source}: ci.workflows.{workflow.name}: it has no [[ci.jobs]]"
        )
    return {
        "name": workflow.name,
        "on": _events(workflow),
        "permissions": {},
        "concurrency": {
            "group": f"{say('github.workflow')}-{say('github.ref')}",
            "cancel-in-progress": workflow.pull_requests,
        },
        "jobs": {job.name: _write_job(job, pipeline) for job in jobs},
    }


def _events(workflow: OwnWorkflow) -> Json:
    found: Json = {}
    pushed = {"branches": [*workflow.branches], "tags": [*workflow.tags]}
    if any(pushed.values()):
        found["push"] = {kind: names for kind, names in pushed.items() if names}
    if workflow.pull_requests:
        found["pull_request"] = None
    if workflow.schedule:
        found["schedule"] = [{"cron": workflow.schedule}]
        found["workflow_dispatch"] = None
    return found


def _write_job(job: OwnJob, pipeline: Pipeline) -> Json:
    rows = [*_rows(job, pipeline)]
    found: Json = {"needs": [*job.needs]} if job.needs else {}
    found["runs-on"] = say("matrix.runner") if job.condition else job.runner or OFFICE
    found["timeout-minutes"] = max(1, round(job.timeout / 60))
    if rows:
        found["strategy"] = {"fail-fast": False, "matrix": {"include": rows}}
    if job.environment:
        found["environment"] = dict(job.environment)
    found["permissions"] = dict(job.permissions) or READ
    found["defaults"] = BASH
    python = say("matrix.python") if job.condition else job.python
    variables = {"CELL_PYTHON": python} if job.condition else {}
    variables |= {f"JOB_{name.upper()}": say(f"matrix.{name}") for name in job.matrix}
    if variables:
        found["env"] = variables
    return {**found, "steps": [*_write_steps(job, pipeline, python)]}


def _rows(job: OwnJob, pipeline: Pipeline) -> Iterator[OneLine]:
    """The rows of the matrix: cells, multiplied with the axes of the job's own."""
    cells: list[Json] = [{}]
    if job.condition:
        cells = [
            {"runner": list(each.runners["github"].labels), "python": each.python}
            for each in pipeline.cells
            if job.condition.meets(each.cell)
        ]
        if not cells:
            raise ProfileError(f"{job.where}: when = {job.condition.written!r} matches no cell")
    rows = [
        OneLine({**cell, **dict(zip(job.matrix, chosen, strict=True))})
        for cell in cells
        for chosen in product(*job.matrix.values())
    ]
    if len(rows) > MOST_JOBS:
        raise ProfileError(f"{job.where}: {len(rows)} jobs, of which GitHub makes {MOST_JOBS}")
    yield from filter(None, rows)


def _write_steps(job: OwnJob, pipeline: Pipeline, python: str) -> Iterator[Json]:
    if job.checkout:
        yield check_out(pipeline)
    if python:
        yield set_up_python(pipeline, python)
    for folder in job.takes:
        yield use(pipeline, "actions/download-artifact", name=folder, path=folder)
    for step in job.steps:
        yield _write_step(step, pipeline)
    for folder in job.leaves:
        yield _leave(pipeline, folder, absent="error")
    for folder in job.keeps:
        yield {"if": "always()", **_leave(pipeline, folder, absent="ignore")}


def _leave(pipeline: Pipeline, folder: str, *, absent: str) -> Json:
    action = "actions/upload-artifact"
    return use(pipeline, action, name=folder, path=folder, if_no_files_found=absent)


def _write_step(step: OwnStep, pipeline: Pipeline) -> Json:
    said: Json = {"name": step.name} if step.name else {}
    if step.condition:
        said["if"] = step.condition
    if step.uses:
        said["uses"] = pipeline.settings.actions[step.uses].used
        return {**said, "with": dict(step.given)} if step.given else said
    if step.environment:
        said["env"] = dict(step.environment)
    return {**said, "run": step.run}

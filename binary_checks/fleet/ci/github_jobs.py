"""Writes the workflows of a project's own jobs for GitHub, by the rules of the generated ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from binary_checks.errors import ProfileError
from binary_checks.fleet.ci.chosen_jobs import MOST_ROWS
from binary_checks.fleet.ci.github_steps import (
    BASH,
    OFFICE,
    READ,
    Json,
    check_out,
    list_variables,
    say,
    set_up_python,
    use,
)
from binary_checks.fleet.ci.job_scripts import install_line, plan_line
from binary_checks.fleet.ci.own_jobs import LISTING, OwnJob, OwnStep, OwnWorkflow
from binary_checks.fleet.ci.pipeline import Pipeline


def write_workflow(workflow: OwnWorkflow, pipeline: Pipeline) -> Json:
    """The document of one workflow. Raises ProfileError."""
    jobs = [job for job in pipeline.settings.jobs if job.workflow == workflow.name]
    if not jobs:
        raise ProfileError(
            f"{pipeline.source}: ci.workflows.{workflow.name}: it has no [[ci.jobs]]"
        )
    written = {job.name: _write_job(job, pipeline) for job in jobs}
    if listed := [job for job in jobs if job.condition]:
        written = {LISTING: _listing_job(listed, pipeline), **written}
    return {
        "name": workflow.name,
        "on": _events(workflow),
        "permissions": {},
        "concurrency": {
            "group": f"{say('github.workflow')}-{say('github.ref')}",
            "cancel-in-progress": workflow.pull_requests,
        },
        "defaults": BASH,
        "jobs": written,
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


def _listing_job(jobs: list[OwnJob], pipeline: Pipeline) -> Json:
    """Computes the rows of the jobs that run for cells."""
    plan = f'{plan_line(pipeline, "github").strip()} >> "$GITHUB_OUTPUT"'
    return {
        "runs-on": OFFICE,
        "timeout-minutes": 10,
        "permissions": READ,
        **list_variables(pipeline),
        "outputs": {_output(job): say(f"steps.plan.outputs.{_output(job)}") for job in jobs},
        "steps": [
            check_out(pipeline),
            set_up_python(pipeline, pipeline.settings.python),
            {"run": install_line(pipeline).strip()},
            {"id": "plan", "run": plan},
        ],
    }


def _output(job: OwnJob) -> str:
    """What the rows of a job are called among the outputs of a step, whose other names are ours."""
    return f"rows_{job.workflow}_{job.name}"


def list_rows_of_jobs(pipeline: Pipeline) -> dict[str, list[Json]]:
    """The rows of all jobs that run for cells, by the name of their output."""
    jobs = (job for job in pipeline.settings.jobs if job.condition)
    return {_output(job): [*_rows(job, pipeline)] for job in jobs}


def _write_job(job: OwnJob, pipeline: Pipeline) -> Json:
    rows: Any = [*_rows(job, pipeline)]
    needs = [*([LISTING] if job.condition else []), *job.needs]
    found: Json = {"needs": needs} if needs else {}
    if job.condition:
        rows = say(f"fromJSON(needs.{LISTING}.outputs.{_output(job)})")
    found["runs-on"] = say("matrix.runner") if job.condition else job.runner or OFFICE
    found["timeout-minutes"] = max(1, round(job.timeout / 60))
    if rows:
        found["strategy"] = {"fail-fast": False, "matrix": {"include": rows}}
    if job.environment:
        found["environment"] = dict(job.environment)
    found["permissions"] = dict(job.permissions) or READ
    python = say("matrix.python") if job.condition else job.python
    variables = {"CELL_PYTHON": python} if job.condition else {}
    variables |= {f"JOB_{name.upper()}": say(f"matrix.{name}") for name in job.matrix}
    if variables:
        found["env"] = variables
    return {**found, "steps": [*_write_steps(job, pipeline, python)]}


def _rows(job: OwnJob, pipeline: Pipeline) -> Iterator[Json]:
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
        {**cell, **dict(zip(job.matrix, chosen, strict=True))}
        for cell in cells
        for chosen in product(*job.matrix.values())
    ]
    if len(rows) > MOST_ROWS:
        raise ProfileError(f"{job.where}: {len(rows)} jobs, of which GitHub makes {MOST_ROWS}")
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

"""GitHub Actions: constant workflows, whose matrices a first job computes at run time.

`binary-checks.yml` plans a run. It calls a second workflow for each group of at most 256 cells,
which is the largest matrix that GitHub allows. The second workflow calls a third one for each cell,
so that the GPU stage of a cell waits only for the CPU stage of that cell. In addition,
`binary-checks-night.yml` judges published packages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from binary_checks.fleet.cells import ALSO, LABELS, ONLY
from binary_checks.fleet.ci.actions import require_pin
from binary_checks.fleet.ci.ci_settings import RunsOn
from binary_checks.fleet.ci.job_scripts import (
    ARTIFACTS,
    LEAVES,
    TAKES,
    install_line,
    plan_line,
    secrets_of,
    stage_line,
    write_yaml,
)
from binary_checks.fleet.ci.pipeline import (
    MOST_ROWS,
    ChosenJobs,
    Pipeline,
    PipelineCell,
    SmokeGroup,
    require_rows,
)
from binary_checks.fleet.ci.running_stages import NIGHT_DATE

# What all workflows have in common: limits and usual steps.

Json = dict[str, Any]
FOLDER = ".github/workflows"
OFFICE = "ubuntu-24.04"
"""The machine of jobs that run no package."""
READ = {"contents": "read"}
ALWAYS = "!cancelled()"


def format_expression(expression: str) -> str:
    """Return an expression in GitHub's syntax."""
    return f"${{{{ {expression} }}}}"


def list_variables(pipeline: Pipeline, **values: str) -> Json:
    """Return the variables of every job and the given ones; installing may need them, too."""
    found = {**pipeline.settings.environment, **values}
    return {"env": found} if found else {}


def use(pipeline: Pipeline, action: str, **given: Any) -> Json:
    """Return a step with a pinned action; underscores in the names of inputs become dashes."""
    step: Json = {"uses": require_pin(pipeline.settings.actions, action).used}
    return {**step, "with": {key.replace("_", "-"): value for key, value in given.items()}}


def check_out(pipeline: Pipeline) -> Json:
    """Return a step that checks out the repository without credentials for later steps."""
    return use(pipeline, "actions/checkout", persist_credentials=False)


def set_up_python(pipeline: Pipeline, version: str) -> Json:
    """Return a step that installs one or several Pythons; the last one becomes `python`."""
    given: Json = {"python_version": version, "allow_prereleases": True}
    return use(pipeline, "actions/setup-python", **given)


# Workflows of the cells and of the night.

_MAIN = f"{FOLDER}/binary-checks.yml"
_CHUNK = f"{FOLDER}/binary-checks-chunk.yml"
_CELL = f"{FOLDER}/binary-checks-cell.yml"
_NIGHT = f"{FOLDER}/binary-checks-night.yml"
_DAYS = 7  # for which artifacts between jobs are kept
_ASKED: Mapping[str, str] = {
    "only": "run only the cells that match: variant=cu* python=3.13",
    "also": "also run the cells that match, even if cells.toml leaves them out",
}


def write(pipeline: Pipeline) -> Mapping[str, str]:
    """Return path -> text. The files do not depend on the cells."""
    files: dict[str, Json] = {}
    if pipeline.stages:
        files = {
            _MAIN: _write_main(pipeline),
            _CHUNK: _write_chunk(pipeline),
            _CELL: _write_cell(pipeline),
        }
    if pipeline.settings.store:
        files[_NIGHT] = _write_night(pipeline)
    return {path: write_yaml(document, pipeline) for path, document in files.items()}


def _write_main(pipeline: Pipeline) -> Json:
    settings = pipeline.settings
    inputs = {
        name: {"description": description, "type": "string", "default": ""}
        for name, description in _ASKED.items()
    }
    called: Json = {
        "needs": "plan",
        "name": f"cells {format_expression('strategy.job-index')}",
        "strategy": {
            "fail-fast": False,
            "matrix": {"chunk": format_expression("fromJSON(needs.plan.outputs.chunks)")},
        },
        "uses": f"$/{_CHUNK}",
        "with": {"cells": format_expression("matrix.chunk")},
    }
    jobs: Json = {"plan": _plan_job(pipeline), "cells": {**called, **_hand_on(pipeline)}}
    if settings.store:
        night = f"{ALWAYS} && needs.plan.outputs.night == 'true'"
        jobs["night"] = {
            "needs": ["plan", "cells"],
            "if": format_expression(night),
            "uses": f"$/{_NIGHT}",
            **_hand_on(pipeline, settings.secrets),
        }
    return {
        "name": "binary-checks",
        "on": {
            # Not `labeled`: the jobs that a run for a label skips would hide earlier failures.
            "pull_request": None,
            "push": {"branches": [settings.branch]},
            "schedule": [{"cron": settings.schedule}],
            "workflow_dispatch": {"inputs": inputs},
        },
        "permissions": READ,
        **list_variables(pipeline),
        "concurrency": {
            "group": "-".join(
                map(format_expression, ("github.workflow", "github.event_name", "github.ref"))
            ),
            "cancel-in-progress": format_expression("github.event_name == 'pull_request'"),
        },
        "jobs": jobs,
    }


def _plan_job(pipeline: Pipeline) -> Json:
    """Return the job that chooses the cells, by the run's event, labels and inputs."""
    labels = "join(github.event.pull_request.labels.*.name, ';')"
    plan = {
        "id": "plan",
        "env": {
            LABELS: format_expression(labels),
            ONLY: format_expression("inputs.only"),
            ALSO: format_expression("inputs.also"),
        },
        "run": f'{plan_line(pipeline, "github").strip()} >> "$GITHUB_OUTPUT"',
    }
    outputs = ("night", "chunks")
    return {
        **_begin_office(minutes=10),
        "outputs": {name: format_expression(f"steps.plan.outputs.{name}") for name in outputs},
        "steps": [*_begin(pipeline, pipeline.settings.python), plan],
    }


def _write_chunk(pipeline: Pipeline) -> Json:
    called = {"cells": {"type": "string", "required": True}}
    return {
        "name": "binary-checks chunk",
        "on": {"workflow_call": {"inputs": called, **_take_secrets(pipeline)}},
        "permissions": READ,
        "jobs": {
            "cell": {
                "name": format_expression("matrix.row.cell"),
                "strategy": {
                    "fail-fast": False,
                    "matrix": {"row": format_expression("fromJSON(inputs.cells)")},
                },
                "uses": f"$/{_CELL}",
                "with": {"row": format_expression("toJSON(matrix.row)")},
                **_hand_on(pipeline),
            }
        },
    }


# -- the workflow of one cell


def _write_cell(pipeline: Pipeline) -> Json:
    called = {"row": {"type": "string", "required": True}}
    return {
        "name": "binary-checks cell",
        "on": {"workflow_call": {"inputs": called, **_take_secrets(pipeline)}},
        "permissions": READ,
        **list_variables(pipeline, CELL=format_expression(_row("cell"))),
        "jobs": {stage: _stage_job(stage, pipeline) for stage in pipeline.stages},
    }


def _has_images(pipeline: Pipeline) -> bool:
    """Return whether [[runners]] name a container for any cell."""
    machines = (rule.machines.get("github") for rule in pipeline.settings.runners)
    return any(machine.image for machine in machines if machine is not None)


def _row(name: str) -> str:
    """Return an expression for a value of the cell's row."""
    return f"fromJSON(inputs.row).{name}"


def _stage_job(stage: str, pipeline: Pipeline) -> Json:
    settings = pipeline.settings
    publishes = stage == "publish"
    job: Json = {}
    if stage == "test":
        job["needs"] = "build"
    elif stage == "gpu":
        job |= {"needs": ["build", "test"], "if": format_expression(_row("gpu"))}
    elif publishes:
        built = "needs.build.result == 'success'"
        trusted = "github.event_name != 'pull_request'"
        job |= {
            "needs": ["build", "test", "gpu"],
            "if": format_expression(f"{ALWAYS} && {built} && {trusted}"),
        }
    python = settings.python if publishes else format_expression(_row("python"))
    if publishes:
        job |= _begin_office(minutes=30)
        job |= {"environment": settings.deployment} if settings.deployment else {}
    else:
        kind = "gpu_" if stage == "gpu" else ""
        minutes = max(1, round(settings.build_timeout / 60))
        job["runs-on"] = format_expression(_row(f"{kind}runner"))
        job["timeout-minutes"] = minutes if stage == "build" else format_expression(_row("minutes"))
        if _has_images(pipeline):
            job["container"] = format_expression(_row(f"{kind}container"))
    return {**job, "steps": [*_steps(stage, pipeline, python, _row("cell"))]}


def _steps(stage: str, pipeline: Pipeline, python: str, cell: str = "") -> Iterator[Json]:
    """Yield the steps of a stage: get files of earlier stages, run it, and keep its own files."""
    yield from _begin(pipeline, python, TAKES.get(stage, ()), cell)
    script: Json = {"run": stage_line(pipeline, stage).strip()}
    if secrets := secrets_of(pipeline, stage):
        script = {"env": {name: format_expression(f"secrets.{name}") for name in secrets}, **script}
    yield script
    if stage in LEAVES:
        folder = LEAVES[stage]
        kept = use(
            pipeline,
            "actions/upload-artifact",
            name=_name(folder, cell),
            path=folder,
            if_no_files_found="ignore",
            overwrite=True,  # files of an earlier attempt
            retention_days=_DAYS,
        )
        yield kept if stage == "build" else {"if": format_expression(ALWAYS), **kept}


def _begin(
    pipeline: Pipeline, python: str, takes: tuple[str, ...] = (), cell: str = ""
) -> Iterator[Json]:
    """Yield the steps before a job's own step."""
    yield check_out(pipeline)
    yield set_up_python(pipeline, python)
    for folder in takes:  # by pattern, because naming a missing artifact is an error
        given = {"pattern": _name(folder, cell), "path": folder, "merge_multiple": True}
        yield use(pipeline, "actions/download-artifact", **given)
    yield {"run": install_line(pipeline).strip()}


def _name(folder: str, cell: str) -> str:
    name = ARTIFACTS[folder]
    return f"{name}-{format_expression(cell)}" if cell else name


def _begin_office(*, minutes: int) -> Json:
    """Return the usual keys of a job that runs no package."""
    return {"runs-on": OFFICE, "timeout-minutes": minutes}


def _take_secrets(pipeline: Pipeline, names: tuple[str, ...] | None = None) -> Json:
    taken = pipeline.settings.publish_secrets if names is None else names
    return {"secrets": {name: {"required": False} for name in taken}} if taken else {}


def _hand_on(pipeline: Pipeline, names: tuple[str, ...] | None = None) -> Json:
    given = pipeline.settings.publish_secrets if names is None else names
    return (
        {"secrets": {name: format_expression(f"secrets.{name}") for name in given}} if given else {}
    )


# -- the night


def _write_night(pipeline: Pipeline) -> Json:
    """Return the workflow that judges published packages, after all builds if there are any."""
    settings = pipeline.settings
    events: Json = {"schedule": [{"cron": settings.schedule}], "workflow_dispatch": None}
    if pipeline.stages:
        events = {"workflow_call": _take_secrets(pipeline, settings.secrets) or None}
    planned = f"{ALWAYS} && needs.plan.result == 'success'"
    outputs = ("date", "smoke", "smoke_gpu")
    plan: Json = {
        **_night_job("plan", pipeline, settings.python),
        "outputs": {name: format_expression(f"steps.plan.outputs.{name}") for name in outputs},
    }
    plan["steps"].insert(
        -1, {"id": "plan", "run": f'{plan_line(pipeline, "github").strip()} >> "$GITHUB_OUTPUT"'}
    )
    smoke = {"needs": "plan", **_smoke_job("smoke", pipeline)}
    some = "needs.plan.outputs.smoke_gpu != '[]'"
    smoke_gpu = {
        "needs": ["plan", "smoke"],
        "if": format_expression(f"{planned} && {some}"),
        **_smoke_job("smoke-gpu", pipeline),
    }
    collect = {
        "needs": ["plan", "smoke", "smoke-gpu"],
        "if": format_expression(planned),
        **_night_job("collect", pipeline, settings.python),
    }
    jobs = {"plan": plan, "smoke": smoke, "smoke-gpu": smoke_gpu, "collect": collect}
    return {
        "name": "binary-checks night",
        "on": events,
        "permissions": READ,
        **list_variables(pipeline),
        "jobs": jobs,
    }


def _night_job(stage: str, pipeline: Pipeline, python: str, cell: str = "") -> Json:
    date = "steps.plan.outputs.date" if stage == "plan" else "needs.plan.outputs.date"
    steps = [*_steps(stage, pipeline, python, cell)]
    job = _begin_office(minutes=60)
    if pipeline.settings.secrets and pipeline.settings.deployment:
        job["environment"] = pipeline.settings.deployment
    for step in steps:
        if f"ci stage {stage}" in step.get("run", ""):
            step["env"] = {NIGHT_DATE: format_expression(date), **step.get("env", {})}
    return {**job, "steps": steps}


def _smoke_job(stage: str, pipeline: Pipeline) -> Json:
    rows = f"needs.plan.outputs.{stage.replace('-', '_')}"
    job = _night_job(stage, pipeline, format_expression("matrix.row.pythons"), "matrix.row.cell")
    container = (
        {"container": format_expression("matrix.row.container")} if _has_images(pipeline) else {}
    )
    return {
        "name": f"{stage} {format_expression('matrix.row.name')}",
        "strategy": {"fail-fast": False, "matrix": {"row": format_expression(f"fromJSON({rows})")}},
        **job,
        "runs-on": format_expression("matrix.row.runner"),
        "timeout-minutes": format_expression("matrix.row.minutes"),
        **container,
        "env": {"CELL": format_expression("matrix.row.cell")},
    }


# -- at run time


def format_jobs(jobs: ChosenJobs) -> str:
    """Return the text that the planning job writes to GITHUB_OUTPUT. Raises ProfileError."""
    pipeline = jobs.pipeline
    rows = [_cell_row(each) for each in jobs.cells]
    chunks = [
        json.dumps(rows[start : start + MOST_ROWS]) for start in range(0, len(rows), MOST_ROWS)
    ]
    groups = pipeline.group_smoke("github") if jobs.is_night else []
    smoke = [_smoke_row(each, each.runner) for each in groups]
    gpu = [_smoke_row(each, each.gpu_runner) for each in groups if each.gpu_runner]
    require_rows(smoke, "github", "a night")
    values = {
        "night": jobs.is_night,
        "chunks": chunks,
        "smoke": smoke,
        "smoke_gpu": gpu,
    }
    lines = [f"{name}={json.dumps(value)}\n" for name, value in values.items()]
    return "".join([f"date={jobs.date}\n", *lines])


def _cell_row(cell: PipelineCell) -> Json:
    machine, gpu = cell.runners["github"], cell.gpu_runners.get("github")
    return {
        "cell": cell.id,
        "python": cell.python,
        "minutes": cell.minutes,
        "runner": [*machine.labels],
        "container": machine.image,
        "gpu": gpu is not None,
        "gpu_runner": [*gpu.labels] if gpu else [],
        "gpu_container": gpu.image if gpu else "",
    }


def _smoke_row(group: SmokeGroup, machine: RunsOn) -> dict[str, Any]:
    return {
        "name": group.name,
        "cell": group.ids,
        "pythons": "\n".join(group.pythons),
        "minutes": group.minutes,
        "runner": [*machine.labels],
        "container": machine.image,
    }

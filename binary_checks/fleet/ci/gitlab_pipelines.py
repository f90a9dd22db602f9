"""GitLab: a constant file, whose first job writes a child pipeline at run time.

In the child, every stage of every cell is a job that needs only jobs of its own cell. A matrix
would be shorter, but before GitLab 18.6 a job needs either all jobs of a matrix or none.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from binary_checks.fleet.cells import LABELS
from binary_checks.fleet.ci.ci_settings import RunsOn
from binary_checks.fleet.ci.job_scripts import (
    FETCH_PYTHONS,
    JOB_PYTHON,
    LEAVES,
    MAKE_PYTHON,
    OWN_PATH,
    SMOKE_PYTHONS,
    TAKES,
    dump_yaml,
    find_family,
    has_python,
    hide_secrets,
    install_line,
    plan_line,
    secrets_of,
    stage_line,
    write_yaml,
)
from binary_checks.fleet.ci.pipeline import (
    EVENT,
    GITLAB_LABELS,
    WHOLE,
    ChosenJobs,
    Pipeline,
    PipelineCell,
    SmokeGroup,
)
from binary_checks.fleet.ci.running_stages import CHAIN, NIGHT, NIGHT_DATE

MOST_JOBS = 500
"""Limit of a pipeline on GitLab.com's free tier; more jobs go to grandchildren."""
_FILE = ".gitlab/binary-checks.yml"
_CHILD = ".binary-checks-cells.yml"
_PLAN = "plan cells"
_KEPT = "1 week"
_OFFICE_MINUTES = 30
_IN_CHILD = '$CI_PIPELINE_SOURCE == "parent_pipeline"'

Json = dict[str, Any]


def write(pipeline: Pipeline) -> Mapping[str, str]:
    """Return path -> text of the file that `.gitlab-ci.yml` includes.

    The text does not depend on the cells.
    """
    source = "$CI_PIPELINE_SOURCE =="
    events = [f'{source} "schedule" || {source} "web"']
    if pipeline.stages:
        branch = f'$CI_COMMIT_BRANCH == "{pipeline.settings.branch}"'
        pushed = f'{source} "push" && {branch}'
        events = [f'{source} "merge_request_event"', pushed, *events]
    rules = [{"if": event} for event in events]
    return {_FILE: write_yaml(_plan_jobs(pipeline, "", "", rules), pipeline)}


def _plan_jobs(pipeline: Pipeline, name: str, options: str, rules: Sequence[Json]) -> Json:
    """Return a job that writes the chosen cells' pipeline, and a job that runs it as a child."""
    machine = pipeline.find_office("gitlab")
    kind = "" if has_python(machine, pipeline.settings.python) else "-machine"
    line = plan_line(pipeline, "gitlab").strip()
    plan = f'{LABELS}="${{{GITLAB_LABELS}-}}" {line}{options} > {_CHILD}\n'
    steps = [install_line(pipeline), plan]
    planned = f"{_PLAN}{name}"
    return {
        planned: {
            "stage": "build",
            "inherit": {"default": False},
            **_machine(machine),
            "timeout": f"{_OFFICE_MINUTES} minutes",
            "variables": {**_list_variables(pipeline), JOB_PYTHON: pipeline.settings.python},
            "script": [*_scripts(steps, kind, pipeline)],
            "artifacts": {"paths": [_CHILD], "expire_in": _KEPT},
            "rules": rules,
        },
        f"cells{name}": {
            "stage": "build",
            "inherit": {"default": False},
            "needs": [planned],
            "trigger": {
                "include": [{"artifact": _CHILD, "job": planned}],
                "strategy": "depend",
                "forward": {"pipeline_variables": True},
            },
            "rules": rules,
        },
    }


def _list_variables(pipeline: Pipeline) -> Json:
    """Return the variables of every job, without expansion of "$" in their values."""
    return {
        name: {"value": value, "expand": False} if "$" in value else value
        for name, value in pipeline.settings.environment.items()
    }


def _machine(machine: RunsOn) -> Json:
    image = {"image": machine.image} if machine.image else {}
    return {**image, **({"tags": [*machine.labels]} if machine.labels else {})}


# -- at run time


def format_jobs(jobs: ChosenJobs) -> str:
    """Return the child pipeline of the chosen cells, and of the night."""
    pipeline = jobs.pipeline
    document: Json = {"stages": [*CHAIN, *NIGHT]}
    most = MOST_JOBS // max(1, len(pipeline.stages))  # cells
    parts = -(-len(jobs.cells) // most)
    if parts > 1 and jobs.shard == WHOLE:
        always = [{"if": _IN_CHILD}]
        for number in range(1, parts + 1):
            options = f" --tier {shlex.quote(jobs.run.tier)} --shard {number}/{parts}"
            planned = _plan_jobs(pipeline, f" {number}", options, always)
            planned[f"{_PLAN} {number}"]["variables"][EVENT] = jobs.run.event
            document |= planned
        return dump_yaml(document)
    if variables := _list_variables(pipeline):
        document["variables"] = variables
    document |= _write_cells(jobs)
    if jobs.is_night:
        document |= _write_night(jobs)
    return dump_yaml(document)


def _stages_of(cell: PipelineCell, jobs: ChosenJobs) -> list[str]:
    """Return the stages of a cell."""
    return [stage for stage in jobs.stages if stage != "gpu" or cell.gpu_runners]


def _write_cells(jobs: ChosenJobs) -> Json:
    """Return the jobs of these cells, after the templates that they share."""
    pipeline = jobs.pipeline
    shared: Json = {}
    found: Json = {}
    for cell in jobs.cells:
        there = _stages_of(cell, jobs)
        for stage in there:
            job = _cell_job(stage, cell, there, pipeline)
            kind = job.pop("kind")
            base = f".{stage}{kind}"
            shared.setdefault(base, _base_job(stage, kind, pipeline))
            found[f"{stage} {cell.id}"] = {"extends": base, **job}
    return {**dict(sorted(shared.items())), **found}


def _cell_job(stage: str, cell: PipelineCell, there: Sequence[str], pipeline: Pipeline) -> Json:
    office = stage == "publish"
    machine = cell.gpu_runners["gitlab"] if stage == "gpu" else cell.runners["gitlab"]
    minutes, python, family = cell.minutes, cell.python, find_family(cell.cell)
    if office:
        machine = pipeline.find_office("gitlab")
        minutes, python, family = _OFFICE_MINUTES, pipeline.settings.python, "linux"
    if stage == "build":
        minutes = max(1, round(pipeline.settings.build_timeout / 60))
    before = there[: there.index(stage)]
    return {
        "kind": _kind(python, family, machine),
        **_machine(machine),
        "timeout": f"{minutes} minutes",
        "variables": {JOB_PYTHON: python, "CELL": cell.id},
        "needs": [
            {"job": f"{name} {cell.id}", "artifacts": LEAVES[name] in TAKES[stage]}
            for name in before
        ],
    }


def _kind(python: str, family: str, machine: RunsOn) -> str:
    """Return the suffix of the name of a job's template, which states how the job gets its Python.

    The job's container has the Python, or the job makes an environment with it.
    """
    if family == "windows":
        return "-windows"
    return "" if family == "linux" and has_python(machine, python) else "-machine"


def _base_job(stage: str, kind: str, pipeline: Pipeline) -> Json:
    """Return a stage's template for all cells; it inherits nothing from the project's defaults."""
    when = {"when": "always"} if stage == "publish" else {}
    job: Json = {
        "stage": stage,
        "inherit": {"default": False},
        "script": [*_scripts(_steps(stage, pipeline), kind, pipeline, stage)],
        "rules": [{"if": _IN_CHILD, **when}],
    }
    if secrets_of(pipeline, stage) and pipeline.settings.deployment:
        job["environment"] = {"name": pipeline.settings.deployment, "action": "access"}
    if stage in LEAVES:
        # Files of a failed build must not be published, but "always" would publish them.
        kept = "on_success" if stage == "build" else "always"
        job["artifacts"] = {"paths": [f"{LEAVES[stage]}/"], "when": kept, "expire_in": _KEPT}
    return job


def _steps(stage: str, pipeline: Pipeline) -> list[str]:
    """Return the scripts of a stage, its own script last."""
    return [install_line(pipeline), stage_line(pipeline, stage)]


def _scripts(steps: Sequence[str], kind: str, pipeline: Pipeline, stage: str = "") -> Iterator[str]:
    """Yield the steps, each in a shell of its own, so that none changes another's variables.

    GitLab passes secrets to all jobs. Only the last step keeps any: the secrets of its stage.
    """
    before = [*([MAKE_PYTHON] if kind else []), *steps[:-1]]
    scripts = [hide_secrets(each, pipeline) for each in before]
    for step in (*scripts, hide_secrets(steps[-1], pipeline, stage)):
        path = OWN_PATH if kind else ""
        script = f"set -e\n{path}{step}"
        yield _in_powershell(script) if kind == "-windows" else f"(\n{script})\n"


def _in_powershell(script: str) -> str:
    """Return commands for PowerShell that write the script to a file and run it with Git's bash.

    PowerShell would change the quotes in the script if it passed the script as an argument.
    """
    return (
        f"$script = @'\n{script}'@\n"
        '[IO.File]::WriteAllText("$PWD/.step.sh", $script.Replace("`r", "") + "`n")\n'
        '& "$env:ProgramFiles/Git/bin/bash.exe" .step.sh\n'
        "if ($LASTEXITCODE) { exit $LASTEXITCODE }\n"
    )


# -- the night


def _write_night(jobs: ChosenJobs) -> Json:
    """Return the night's jobs: a group on a GPU waits only for the same group on the CPU."""
    groups = jobs.pipeline.group_smoke("gitlab")
    plan, collect = _office_job("plan", jobs), _office_job("collect", jobs)
    document: Json = {"plan the night": {**plan, "needs": []}}
    for group in groups:
        first = f"smoke {group.name}"
        document[first] = {
            **_smoke_job("smoke", group, group.runner, jobs),
            "needs": ["plan the night"],
        }
        if group.gpu_runner:
            document[f"smoke-gpu {group.name}"] = {
                **_smoke_job("smoke-gpu", group, group.gpu_runner, jobs),
                "needs": [first],
                "rules": [{"if": _IN_CHILD, "when": "always"}],
            }
    rules = [{"if": _IN_CHILD, "when": "always"}]
    return {**document, "collect the night": {**collect, "rules": rules}}


def _office_job(stage: str, jobs: ChosenJobs) -> Json:
    """Return the usual keys of a job that runs no package."""
    machine = jobs.pipeline.find_office("gitlab")
    python = jobs.pipeline.settings.python
    return {
        **_base_job(stage, _kind(python, "linux", machine), jobs.pipeline),
        **_machine(machine),
        "timeout": f"{_OFFICE_MINUTES} minutes",
        "variables": {JOB_PYTHON: python, NIGHT_DATE: jobs.date},
    }


def _smoke_job(stage: str, group: SmokeGroup, machine: RunsOn, jobs: ChosenJobs) -> Json:
    python = group.pythons[-1]
    kind = _kind(python, find_family(group.cells[0].cell), machine)
    steps = [FETCH_PYTHONS, *_steps(stage, jobs.pipeline)]
    variables = {
        JOB_PYTHON: python,
        SMOKE_PYTHONS: " ".join(group.pythons),
        "CELL": group.ids,
        NIGHT_DATE: jobs.date,
    }
    return {
        **_base_job(stage, kind, jobs.pipeline),
        **_machine(machine),
        "timeout": f"{group.minutes} minutes",
        "variables": variables,
        "script": [*_scripts(steps, kind, jobs.pipeline, stage)],
    }

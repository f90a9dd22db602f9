"""Writes GitLab's pipelines: a job for each stage of each cell, which waits for that cell alone.

A matrix would be shorter. But before GitLab 18.6 a job needs all of a matrix or nothing of it, and
at most 50 jobs: one red cell would hold up every other one.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from binary_checks.errors import ProfileError
from binary_checks.fleet.cell import Cell
from binary_checks.fleet.cells.choosing import ALSO, LABELS, ONLY
from binary_checks.fleet.ci.hosted_scripts import (
    FETCH_PYTHONS,
    JOB_PYTHON,
    MAKE_PYTHON,
    OWN_PATH,
    find_family,
    has_python,
    hide_secrets,
    jobs_of,
    list_needed,
    name_pythons,
    stages_of,
)
from binary_checks.fleet.ci.pipeline import (
    Pipeline,
    PipelineCell,
    PipelineStage,
    ShellStep,
    SmokeJob,
)
from binary_checks.fleet.ci.runner_tables import RunsOn
from binary_checks.fleet.ci.stage_scripts import install_step
from binary_checks.fleet.ci.yaml_text import write_yaml

MOST_JOBS = 500
"""Of a pipeline: as many as GitLab.com's free tier lets be active; more are in child pipelines."""
_FOLDER = ".gitlab"
_MAIN = f"{_FOLDER}/binary-checks.yml"
_NIGHT = f"{_FOLDER}/binary-checks-night.yml"
_HIDDEN = ".binary-checks"
_TIER = "BINARY_CHECKS_TIER"
_STAGES = {"build": "build", "publish": "deploy"}  # of those that every project has; else test
_KEPT = "1 week"
_OFFICE_MINUTES = 30
_CHOSEN = ".binary-checks-chosen.yml"
_CHOOSE = f"""\
export {LABELS}="${{CI_MERGE_REQUEST_LABELS-}}"
binary-checks ci choose @CELLS@ --system gitlab --tier "${_TIER}" > {_CHOSEN}
"""
_NARROWED = f"${ONLY} || ${ALSO} || $CI_MERGE_REQUEST_LABELS =~ /cells[ -](only|also|tier):/"
"""Whether labels or variables ask for other cells this time; what is not set meets nothing."""
_NOT_NARROWED: Mapping[str, str] = {"if": _NARROWED, "when": "never"}
_IN_CHILD = '$CI_PIPELINE_SOURCE == "parent_pipeline"'

Json = dict[str, Any]


def write(pipeline: Pipeline) -> Mapping[str, str]:
    """The files, by path; `.gitlab-ci.yml` includes the first."""
    files: dict[str, Json] = {}
    events = _list_events(pipeline)
    main: Json = {}
    parts = _split(pipeline)
    if parts:
        main |= _choosing_jobs(pipeline, events)
    if len(parts) == 1:
        main |= _write_cells(parts[0], pipeline, events, unless=[_NOT_NARROWED])
    for number, part in enumerate(parts, 1) if len(parts) > 1 else ():
        path = f"{_FOLDER}/binary-checks-cells-{number}.yml"
        files[path] = _write_cells(part, pipeline, {t: f'${_TIER} == "{t}"' for t in events})
        called = _call({"local": path}, _list_tiers(part, pipeline), events)
        main[f"cells {number}"] = {**called, "rules": [_NOT_NARROWED, *called["rules"]]}
    if pipeline.night:
        main["night"] = _call({"local": _NIGHT}, ["nightly"], events)
        files[_NIGHT] = _write_night(pipeline)
    return {path: write_yaml(text, pipeline) for path, text in {_MAIN: main, **files}.items()}


def _list_events(pipeline: Pipeline) -> dict[str, str]:
    """When each tier runs, as rules say it."""
    source = "$CI_PIPELINE_SOURCE =="
    return {
        "pr": f'{source} "merge_request_event"',
        "merge": f'{source} "push" && $CI_COMMIT_BRANCH == "{pipeline.settings.branch}"',
        "nightly": f'{source} "schedule" || {source} "web"',
    }


def _split(pipeline: Pipeline) -> list[Sequence[PipelineCell]]:
    """The cells of each pipeline; all of them in one, if that has no more jobs than it may."""
    if not pipeline.stages:
        return []
    size = MOST_JOBS // len(pipeline.stages)
    cells = pipeline.cells
    return [cells[start : start + size] for start in range(0, len(cells), size)]


def _list_tiers(cells: Sequence[PipelineCell], pipeline: Pipeline) -> list[str]:
    by_cell = pipeline.tiers_by_cell()
    found = {tier for cell in cells for tier in by_cell[cell.id]}
    return [tier for tier in pipeline.tiers if tier in found]


def _call(file: Json, tiers: Sequence[str], events: Mapping[str, str]) -> Json:
    """A job that runs a child pipeline; an empty one would be an error, so each names its tiers."""
    return {
        "stage": "build",
        "inherit": {"default": False},
        "trigger": {
            "include": [file],
            "strategy": "depend",
            "forward": {"pipeline_variables": True},
        },
        "rules": [{"if": events[tier], "variables": {_TIER: tier}} for tier in tiers],
    }


# -- cells that labels or variables ask for, this time


def _choosing_jobs(pipeline: Pipeline, events: Mapping[str, str]) -> Json:
    """A job that writes the pipeline of the chosen cells, and one that runs it as a child.

    A label may ask for cells that the tier lacks, or that are left out: no rule of a job that is
    there already could add them, and where it asks for no job that is there, none would run.
    """
    first = pipeline.smoke_jobs["gitlab"][0]
    kind = _kind("", find_family(first.cells[0].cell), first.runner)
    script = _CHOOSE.replace("@CELLS@", shlex.quote(pipeline.source))
    steps = (install_step(pipeline.settings), ShellStep(name="Choose the cells", script=script))
    asked = {tier: f"({event}) && ({_NARROWED})" for tier, event in events.items()}
    called = _call({"artifact": _CHOSEN, "job": "choose cells"}, [*events], asked)
    choose = {
        "stage": "build",
        "inherit": {"default": False},
        **_machine(first.runner),
        "timeout": f"{_OFFICE_MINUTES} minutes",
        "variables": {JOB_PYTHON: pipeline.settings.python},
        "script": [*_scripts(steps, kind, pipeline)],
        "artifacts": {"paths": [_CHOSEN], "expire_in": _KEPT},
        "rules": called["rules"],
    }
    return {"choose cells": choose, "chosen cells": {**called, "needs": ["choose cells"]}}


def describe_choice(pipeline: Pipeline, chosen: Sequence[Cell], tier: str) -> str:
    """The child pipeline of the chosen cells, which run as those of the tier do.

    Raises ProfileError for more than a pipeline has room for.
    """
    ids = {cell.id for cell in chosen}
    cells = tuple(cell for cell in pipeline.cells if cell.id in ids)
    if len(cells) * len(pipeline.stages) > MOST_JOBS:
        raise ProfileError(
            f"ci choose: {len(cells):,} cells have more than the {MOST_JOBS} jobs that a pipeline "
            "may have: narrow it"
        )
    narrowed = replace(pipeline, tiers={tier: cells})
    return write_yaml(_write_cells(cells, narrowed, {tier: _IN_CHILD}), narrowed)


# -- cells


def _write_cells(
    cells: Sequence[PipelineCell],
    pipeline: Pipeline,
    events: Mapping[str, str],
    *,
    unless: Sequence[Mapping[str, str]] = (),
) -> Json:
    """The jobs of these cells, below what they have in common."""
    shared: Json = {}
    jobs: Json = {}
    by_cell = pipeline.tiers_by_cell()
    for cell in cells:
        tiers = by_cell[cell.id]
        there = stages_of(cell, pipeline.stages)
        for stage in there:
            machine = (cell.gpu_runners if stage.gpu else cell.runners)["gitlab"]
            family = find_family(cell.cell)
            kind = _kind(cell.python if stage.own_python else "", family, machine)
            base = f"{_HIDDEN}-{stage.name}{kind}"
            shared.setdefault(base, _base_job(stage, kind, pipeline))
            when = [tier for tier in tiers if tier != "pr" or not stage.trusted]
            rules = f"{_HIDDEN}-on-{'-'.join(when)}{'-always' * stage.regardless}"
            said = _rules(when, events, always=stage.regardless)
            shared.setdefault(rules, {"rules": [*unless, *said]})
            if when:
                jobs[f"{stage.name} {cell.id}"] = {
                    "extends": [base, rules],
                    **_cell_job(stage, cell, there, pipeline, machine),
                }
    return {**dict(sorted(shared.items())), **jobs}


def _kind(python: str, system: str, machine: RunsOn) -> str:
    """How a job gets its Python: a container has the cell's; others make an environment of one."""
    if system == "windows":
        return "-windows"
    return "" if system == "linux" and python and has_python(machine, python) else "-machine"


def _rules(tiers: Sequence[str], events: Mapping[str, str], *, always: bool) -> list[Json]:
    when = {"when": "always"} if always else {}
    return [{"if": events[tier], **when} for tier in tiers]


def _base_job(stage: PipelineStage, kind: str, pipeline: Pipeline) -> Json:
    """What a stage is for all cells; nothing of the project's own defaults holds for it."""
    job: Json = {
        "stage": _STAGES.get(stage.name, "test"),
        "inherit": {"default": False},
        **({"variables": _variables(stage.environment)} if stage.environment else {}),
        "script": [*_scripts(stage.steps, kind, pipeline)],
    }
    if stage.secrets and pipeline.settings.deployment:
        job["environment"] = {"name": pipeline.settings.deployment, "action": "access"}
    if stage.leaves:
        paths = [f"{folder.path}/" for folder in stage.leaves]
        # What a build left that failed must not be published: a job that runs "always" would.
        when = "always" if stage.needs else "on_success"
        job["artifacts"] = {"paths": paths, "when": when, "expire_in": _KEPT}
    return job


def _scripts(steps: Sequence[ShellStep], kind: str, pipeline: Pipeline) -> Iterator[str]:
    """The steps, each in a shell of its own, so that none changes another's variables."""
    for step in (*((MAKE_PYTHON,) if kind else ()), *steps):
        path = OWN_PATH if kind else ""
        script = f"set -e\n{path}{hide_secrets(step, pipeline.settings)}"
        yield _in_powershell(script) if kind == "-windows" else f"(\n{script})\n"


def _in_powershell(script: str) -> str:
    """The script for Git's bash, from a file: PowerShell quotes arguments in ways of its own."""
    return (
        f"$script = @'\n{script}'@\n"
        '[IO.File]::WriteAllText("$PWD/.step.sh", $script.Replace("`r", "") + "`n")\n'
        '& "$env:ProgramFiles/Git/bin/bash.exe" .step.sh\n'
        "if ($LASTEXITCODE) { exit $LASTEXITCODE }\n"
    )


def _cell_job(
    stage: PipelineStage,
    cell: PipelineCell,
    there: Sequence[PipelineStage],
    pipeline: Pipeline,
    machine: RunsOn,
) -> Json:
    job = _machine(machine)
    minutes = cell.minutes if stage.own_python else _OFFICE_MINUTES
    if stage.name == "build":
        minutes = max(1, round(pipeline.settings.build_timeout / 60))
    job["timeout"] = f"{minutes} minutes"
    python = cell.python if stage.own_python else pipeline.settings.python
    job["variables"] = _variables({JOB_PYTHON: python, **cell.environment})
    left = {each.name: each.leaves for each in there}
    job["needs"] = [
        {"job": f"{name} {cell.id}", "artifacts": bool({*left[name]} & {*stage.takes})}
        for name in list_needed(stage, left)
    ]
    return job


def _machine(machine: RunsOn) -> Json:
    image = {"image": machine.image} if machine.image else {}
    return {**image, **({"tags": [*machine.labels]} if machine.labels else {})}


def _variables(values: Mapping[str, str]) -> Json:
    """Variables as they are: GitLab would replace what looks like another one in a value."""
    return {
        name: {"value": value, "expand": False} if "$" in value else value
        for name, value in values.items()
    }


# -- the night


def _write_night(pipeline: Pipeline) -> Json:
    """A pipeline of its own: in the order of its stages, for which no limit of needs holds."""
    document: Json = {"stages": [stage.name for stage in pipeline.night]}
    for stage in pipeline.night:
        jobs = jobs_of(stage, pipeline, "gitlab")
        if not jobs:
            document[f"{stage.name} the night"] = _office_job(stage, pipeline)
        for job in jobs:
            document[f"smoke {job.name}"] = _smoke_job(stage, job, pipeline)
    return document


def _night_job(
    stage: PipelineStage, job: SmokeJob, steps: Sequence[ShellStep], pipeline: Pipeline
) -> Json:
    family = find_family(job.cells[0].cell)
    kind = _kind("", family, job.runner)  # it runs on the settings' Python, whatever is there
    base = {**_base_job(stage, kind, pipeline), **_machine(job.runner)}
    when = {"when": "always"} if stage.regardless else {}
    return {**base, **when, "stage": stage.name, "script": [*_scripts(steps, kind, pipeline)]}


def _office_job(stage: PipelineStage, pipeline: Pipeline) -> Json:
    """One that runs no package, on the machine of the night's first job."""
    job = pipeline.smoke_jobs["gitlab"][0]
    variables = {**stage.environment, JOB_PYTHON: pipeline.settings.python}
    return {
        **_night_job(stage, job, stage.steps, pipeline),
        "variables": _variables(variables),
        "timeout": f"{_OFFICE_MINUTES} minutes",
    }


def _smoke_job(stage: PipelineStage, job: SmokeJob, pipeline: Pipeline) -> Json:
    variables = {**stage.environment, **job.environment, **name_pythons(job)}
    return {
        **_night_job(stage, job, (FETCH_PYTHONS, *stage.steps), pipeline),
        "variables": _variables(variables),
        "timeout": f"{job.minutes} minutes",
    }

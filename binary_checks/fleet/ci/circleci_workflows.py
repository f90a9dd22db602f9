"""CircleCI: a constant setup workflow, which continues with a configuration for the cells.

That configuration is computed at run time and has a job for each stage of each cell. Files of a
stage are kept in the workspace, where the jobs that require the stage find them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from binary_checks.errors import ProfileError
from binary_checks.fleet.cells import ONLY, TIERS
from binary_checks.fleet.ci.ci_settings import RunsOn
from binary_checks.fleet.ci.job_scripts import (
    FETCH_PYTHONS,
    JOB_PYTHON,
    LEAVES,
    MAKE_PYTHON,
    OWN_PATH,
    SMOKE_PYTHONS,
    dump_yaml,
    has_python,
    hide_secrets,
    identify,
    install_line,
    plan_line,
    secrets_of,
    stage_line,
    write_yaml,
)
from binary_checks.fleet.ci.pipeline import (
    TIER,
    TRIGGER,
    ChosenJobs,
    Pipeline,
    PipelineCell,
    SmokeGroup,
)
from binary_checks.fleet.ci.running_stages import NIGHT_DATE

_LARGEST = 3_000_000
"""Size limit of a continued configuration, in bytes."""
_FILE = ".circleci/config.yml"
_CONTINUED = ".binary-checks-cells.yml"
_ORB = "circleci/continuation@1.0.0"
_BASH = "bash -eo pipefail"
_STATUS = ".status"
_OFFICE_MINUTES = 30
_ENDED = "terminal"  # the required job ended with any status, or was not run
_PARAMETERS = {
    "tier": {"type": "enum", "enum": ["", *TIERS], "default": ""},
    "only": {"type": "string", "default": ""},
}
"""Parameters for runs by hand: `tier` = nightly starts a night, `only` = variant=cu* selects
cells.
"""

Json = dict[str, Any]


def write(pipeline: Pipeline) -> Mapping[str, str]:
    """Return path -> text of the only file. It does not depend on the cells."""
    machine, python = pipeline.find_office("circleci"), pipeline.settings.python
    plan = f"{plan_line(pipeline, 'circleci').strip()} > {_CONTINUED}\n"
    steps = _prefix([*_begin(machine, python), install_line(pipeline), plan])
    asked = {
        **pipeline.settings.environment,
        JOB_PYTHON: python,
        TIER: "<< pipeline.parameters.tier >>",
        ONLY: "<< pipeline.parameters.only >>",
        TRIGGER: "<< pipeline.trigger_source >>",
    }
    job = {
        **_executor(machine),
        "environment": asked,
        "steps": [
            "checkout",
            *({"run": hide_secrets(each, pipeline)} for each in steps),
            {"continuation/continue": {"configuration_path": _CONTINUED}},
        ],
    }
    document: Json = {
        "version": 2.1,
        "setup": True,
        "parameters": _PARAMETERS,
        "orbs": {"continuation": _ORB},
        "jobs": {"plan": job},
        "workflows": {"plan": {"jobs": ["plan"]}},
    }
    return {_FILE: write_yaml(document, pipeline)}


def _begin(machine: RunsOn, python: str) -> list[str]:
    return [] if has_python(machine, python) else [MAKE_PYTHON]


def _prefix(scripts: Sequence[str]) -> Iterator[str]:
    """Yield the scripts, each in the environment that the first one makes."""
    made = MAKE_PYTHON in scripts
    yield from (f"{OWN_PATH}{each}" if made and each != MAKE_PYTHON else each for each in scripts)


def _executor(machine: RunsOn) -> Json:
    size = {"resource_class": machine.size} if machine.size else {}
    if machine.pool == "macos":
        return {"macos": {"xcode": machine.image}, **size}
    if machine.pool == "windows":
        return {"machine": {"image": machine.image}, **size, "shell": f"bash.exe {_BASH[5:]}"}
    if machine.pool:
        return {"machine": {"image": machine.image} if machine.image else True, **size}
    return {"docker": [{"image": machine.image}], **size}


# -- at run time


class _Place(NamedTuple):
    """A job's executor, its time limit, and the commands that make its Python."""

    machine: RunsOn
    minutes: float
    scripts: Sequence[str]


def format_jobs(jobs: ChosenJobs) -> str:
    """Return the configuration to continue with. Raises ProfileError if it is too large."""
    found: Json = {}
    workflows: Json = {}
    calls = [call for cell in jobs.cells for call in _call_chain(cell, jobs, found)]
    if calls:
        workflows[jobs.run.tier] = {"jobs": calls}
    if jobs.is_night:
        workflows["night"] = {"jobs": [*_call_night(jobs, found)]}
    if not workflows:
        raise ProfileError(f"{jobs.pipeline.source}: ci: the tier {jobs.run.tier} has no jobs")
    document: Json = {
        "version": 2.1,
        "parameters": _PARAMETERS,
        "jobs": found,
        "workflows": workflows,
    }
    text = dump_yaml(document)
    if len(text.encode()) > _LARGEST:
        raise ProfileError(
            f"{jobs.pipeline.source}: ci: circleci: {len(jobs.cells):,} cells come to "
            f"{len(text) / 1e6:.1f} MB, but CircleCI accepts {_LARGEST / 1e6:.0f}; choose fewer "
            "cells"
        )
    return text


def _call_chain(cell: PipelineCell, jobs: ChosenJobs, found: Json) -> Iterator[Json]:
    """Yield a call for each stage of a cell, and add the called jobs to ``found``."""
    pipeline = jobs.pipeline
    before: list[Any] = []
    for stage in jobs.stages:
        if stage == "gpu" and not cell.gpu_runners:
            continue
        machine, python = cell.runners["circleci"], cell.python
        minutes: float = cell.minutes
        if stage == "build":
            minutes = pipeline.settings.build_timeout / 60
        elif stage == "gpu":
            machine = cell.gpu_runners["circleci"]
        elif stage == "publish":
            machine, python = pipeline.find_office("circleci"), pipeline.settings.python
            minutes = _OFFICE_MINUTES
            before = [before[0], *({name: _ENDED} for name in before[1:])]
        values = {JOB_PYTHON: python, "CELL": cell.id}
        place = _Place(machine, minutes, _begin(machine, python))
        key = identify(f"{stage} {cell.id}", "-").lower()
        found[key] = _job(stage, place, values, pipeline)
        yield _call(key, f"{stage} {cell.id}", stage, before, pipeline)
        before = [*before, f"{stage} {cell.id}"]


def _call(key: str, name: str, stage: str, requires: Sequence[Any], pipeline: Pipeline) -> Json:
    context = pipeline.settings.deployment if secrets_of(pipeline, stage) else ""
    return {
        key: {
            "name": name,
            **({"context": [context]} if context else {}),
            **({"requires": [*requires]} if requires else {}),
        }
    }


def _job(stage: str, place: _Place, values: Mapping[str, str], pipeline: Pipeline) -> Json:
    """Return a job that keeps the files of its stage, and then ends with the stage's status."""
    folder = LEAVES.get(stage, "")
    own = stage_line(pipeline, stage)
    if folder:
        kept = f"{own.strip()} || echo $? > {_STATUS}"
        own = f"echo 0 > {_STATUS}\n{kept}\nmkdir -p {folder}\n"
    *before, own = _prefix([*place.scripts, install_line(pipeline), own])
    scripts = [hide_secrets(each, pipeline) for each in before]
    patience = f"{max(1, round(place.minutes))}m"
    runs = [
        {"run": {"command": each, "no_output_timeout": patience}}
        for each in (*scripts, hide_secrets(own, pipeline, stage))
    ]
    steps: list[Any] = ["checkout", {"attach_workspace": {"at": "."}}, *runs]
    if stage in ("build", "plan"):
        steps.pop(1)
    if folder:
        steps += [
            {"persist_to_workspace": {"root": ".", "paths": [folder]}},
            {"store_artifacts": {"path": folder}},
            {"run": f'exit "$(cat {_STATUS})"'},
        ]
    variables = {**pipeline.settings.environment, **values}
    return {**_executor(place.machine), "environment": variables, "steps": steps}


def _call_night(jobs: ChosenJobs, found: Json) -> Iterator[Json]:
    """Yield the night's calls: a group on a GPU waits only for the same group on the CPU."""
    pipeline = jobs.pipeline
    machine, python = pipeline.find_office("circleci"), pipeline.settings.python
    office = {JOB_PYTHON: python, NIGHT_DATE: jobs.date}
    place = _Place(machine, _OFFICE_MINUTES, _begin(machine, python))
    found["plan"] = _job("plan", place, office, pipeline)
    yield _call("plan", "plan", "plan", [], pipeline)
    called: list[str] = []
    for group in pipeline.group_smoke("circleci"):
        for stage, runner in (("smoke", group.runner), ("smoke-gpu", group.gpu_runner)):
            if runner is None:
                continue
            name = f"{stage}-{group.name}"
            needed: list[Any] = ["plan"] if stage == "smoke" else [{called[-1]: _ENDED}]
            found[name] = _smoke_job(stage, group, runner, jobs)
            yield _call(name, name, stage, needed, pipeline)
            called.append(name)
    found["collect"] = _job("collect", place, office, pipeline)
    ended = ["plan", *({name: _ENDED} for name in called)]
    yield _call("collect", "collect", "collect", ended, pipeline)


def _smoke_job(stage: str, group: SmokeGroup, machine: RunsOn, jobs: ChosenJobs) -> Json:
    python = group.pythons[-1]
    values = {
        JOB_PYTHON: python,
        SMOKE_PYTHONS: " ".join(group.pythons),
        "CELL": group.ids,
        NIGHT_DATE: jobs.date,
    }
    place = _Place(machine, group.minutes, [*_begin(machine, python), FETCH_PYTHONS])
    return _job(stage, place, values, jobs.pipeline)

"""CircleCI: a constant setup workflow, which continues with a configuration for the cells.

That configuration is computed at run time and has a job for each stage of each cell. Files of a
stage are kept in the workspace, where the jobs that require the stage find them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from binary_checks.errors import ProfileError
from binary_checks.fleet.ci.ci_settings import NOWHERE, RunsOn
from binary_checks.fleet.ci.pipeline import ChosenJobs, Pipeline, PlacedCell
from binary_checks.fleet.ci.templating import identify, render

_LARGEST = 3_000_000
"""Size limit of a continued configuration, in bytes."""
_OFFICE_MINUTES = 30
_ENDED = "terminal"  # the required job ended with any status, or was not run
_SUCCESS = "success"


def write(pipeline: Pipeline) -> Mapping[str, str]:
    """Return path -> text of the only file. It does not depend on the cells."""
    pipeline.place_cells("circleci")
    machine = pipeline.find_office("circleci")
    makes_python = not _has_python(machine, pipeline.settings.python)
    text = render("circleci.yml", pipeline, machine=machine, makes_python=makes_python)
    return {".circleci/config.yml": text}


def format_jobs(jobs: ChosenJobs) -> str:
    """Return the configuration to continue with. Raises ProfileError if it is too large."""
    source, tier = jobs.pipeline.source, jobs.run.tier
    found = {
        tier: [job for cell in jobs.cells for job in _list_chain(cell, jobs)],
        "night": [*_list_night(jobs)] if jobs.is_night else [],
    }
    workflows = {name: own for name, own in found.items() if own}
    if not workflows:
        raise ProfileError(f"{source}: ci: the tier {tier} has no jobs")
    text = render("circleci_cells.yml", jobs.pipeline, workflows=workflows)
    if len(text.encode()) > _LARGEST:
        raise ProfileError(
            f"{source}: ci: circleci: {len(jobs.cells):,} cells come to "
            f"{len(text) / 1e6:.1f} MB, but CircleCI accepts {_LARGEST / 1e6:.0f}; choose fewer "
            "cells"
        )
    return text


def _list_chain(cell: PlacedCell, jobs: ChosenJobs) -> Iterator[Mapping[str, Any]]:
    """Yield a job for each stage of a cell, which requires the stages before it."""
    settings = jobs.pipeline.settings
    requires: dict[str, str] = {}
    for stage in jobs.stages:
        machine, python, minutes = cell.machine, cell.python, float(cell.minutes)
        if stage == "build":
            minutes = settings.build_timeout / 60
        elif stage == "gpu":
            machine = cell.gpu_machine
        elif stage == "publish":
            machine, python = jobs.pipeline.find_office("circleci"), settings.python
            minutes = _OFFICE_MINUTES
            requires = dict.fromkeys(requires, _ENDED) | {f"build {cell.cell.id}": _SUCCESS}
        if machine == NOWHERE:
            continue
        name = f"{stage} {cell.cell.id}"
        yield {
            "key": identify(name, "-").lower(),
            "name": name,
            "stage": stage,
            "requires": dict(requires),
            **_describe(machine, python, minutes, CELL=cell.cell.id),
        }
        requires[name] = _SUCCESS


def _list_night(jobs: ChosenJobs) -> Iterator[Mapping[str, Any]]:
    """Yield the night's jobs: a group on a GPU waits only for the same group on the CPU."""
    office = jobs.pipeline.find_office("circleci")
    usual = _describe(
        office, jobs.pipeline.settings.python, _OFFICE_MINUTES, BINARY_CHECKS_NIGHT=jobs.date
    )
    requires = {"plan": _SUCCESS}
    yield {"key": "plan", "name": "plan", "stage": "plan", "requires": {}, **usual}
    for group in jobs.pipeline.group_smoke("circleci"):
        before = {"plan": _SUCCESS}
        for stage, machine in (("smoke", group.machine), ("smoke-gpu", group.gpu_machine)):
            if machine == NOWHERE:
                continue
            name = f"{stage}-{group.name}"
            yield {
                "key": name,
                "name": name,
                "stage": stage,
                "requires": before,
                **_describe(
                    machine,
                    group.pythons[-1],
                    group.minutes,
                    SMOKE_PYTHONS=" ".join(group.pythons),
                    CELL=group.ids,
                    BINARY_CHECKS_NIGHT=jobs.date,
                ),
            }
            requires[name] = _ENDED
            before = {name: _ENDED}
    yield {"key": "collect", "name": "collect", "stage": "collect", "requires": requires, **usual}


def _describe(machine: RunsOn, python: str, minutes: float, **variables: str) -> dict[str, Any]:
    return {
        "machine": machine,
        "makes_python": not _has_python(machine, python),
        "minutes": max(1, round(minutes)),
        "variables": {"JOB_PYTHON": python, **variables},
    }


def _has_python(machine: RunsOn, python: str) -> bool:
    """Return whether a machine is a container with the cell's Python.

    An image whose name contains "python" has a free-threaded Python only if its name says so.
    """
    named = python if python.endswith("t") else "python"
    return not machine.pool and named in machine.image

"""GitHub Actions: constant workflows, whose matrices a first job computes at run time.

`binary-checks.yml` plans a run. It calls a second workflow for each group of at most 256 cells,
which is the largest matrix that GitHub allows. The second workflow calls a third one for each cell,
so that the GPU stage of a cell waits only for the CPU stage of that cell. In addition,
`binary-checks-night.yml` judges published packages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from binary_checks.errors import ProfileError
from binary_checks.fleet.ci.ci_settings import NOWHERE, RunsOn
from binary_checks.fleet.ci.pipeline import ChosenJobs, Pipeline, PlacedCell, SmokeGroup
from binary_checks.fleet.ci.templating import render

_MOST_ROWS = 256  # jobs that GitHub allows in one matrix


def write(pipeline: Pipeline) -> Mapping[str, str]:
    """Return path -> text. The files do not depend on the cells."""
    pipeline.place_cells("github")
    names = (
        ["binary-checks", "binary-checks-chunk", "binary-checks-cell"] if pipeline.stages else []
    )
    if pipeline.settings.store:
        names.append("binary-checks-night")
    machines = [rule.machines.get("github", NOWHERE) for rule in pipeline.settings.runners]
    has_images = any(machine.image for machine in machines)
    return {
        f".github/workflows/{name}.yml": render(f"{name}.yml", pipeline, has_images=has_images)
        for name in names
    }


def format_jobs(jobs: ChosenJobs) -> str:
    """Return the text that the planning job writes to GITHUB_OUTPUT. Raises ProfileError."""
    rows = [_cell_row(each) for each in jobs.cells]
    starts = range(0, len(rows), _MOST_ROWS)
    groups = jobs.pipeline.group_smoke("github") if jobs.is_night else []
    if len(groups) > _MOST_ROWS:
        raise ProfileError(
            f"cells --ci github: {len(groups):,} jobs of a night, but github allows {_MOST_ROWS}; "
            "choose fewer cells"
        )
    with_gpu = [each for each in groups if each.gpu_machine != NOWHERE]
    values = {
        "night": jobs.is_night,
        "chunks": [json.dumps(rows[start : start + _MOST_ROWS]) for start in starts],
        "smoke": [_smoke_row(each, each.machine) for each in groups],
        "smoke_gpu": [_smoke_row(each, each.gpu_machine) for each in with_gpu],
    }
    lines = [f"{name}={json.dumps(value)}\n" for name, value in values.items()]
    return "".join([f"date={jobs.date}\n", *lines])


def _cell_row(cell: PlacedCell) -> dict[str, Any]:
    return {
        "cell": cell.cell.id,
        "python": cell.python,
        "minutes": cell.minutes,
        "runner": cell.machine.labels,
        "container": cell.machine.image,
        "gpu": cell.gpu_machine != NOWHERE,
        "gpu_runner": cell.gpu_machine.labels,
        "gpu_container": cell.gpu_machine.image,
    }


def _smoke_row(group: SmokeGroup, machine: RunsOn) -> dict[str, Any]:
    return {
        "name": group.name,
        "cell": group.ids,
        "pythons": "\n".join(group.pythons),
        "minutes": group.minutes,
        "runner": machine.labels,
        "container": machine.image,
    }

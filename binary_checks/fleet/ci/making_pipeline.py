"""Makes the pipeline of a matrix: each cell with its options, machines and time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from binary_checks.errors import ProfileError
from binary_checks.fleet.cell import AXES, Cell
from binary_checks.fleet.cells.matrix import Matrix
from binary_checks.fleet.cells.tiers import TIERS, choose_tier
from binary_checks.fleet.ci.ci_settings import CiSettings, demand_install, demand_text, read_ci
from binary_checks.fleet.ci.pipeline import Pipeline, PipelineCell, SmokeJob
from binary_checks.fleet.ci.runner_tables import CPU, GPU, HOSTED, RunsOn, choose_machine
from binary_checks.fleet.ci.stage_scripts import chain_stages, night_stages
from binary_checks.fleet.nights.cell_commands import options_of, options_of_gpu
from binary_checks.fleet.nights.frozen_inputs import is_shipped
from binary_checks.sources.known_problem_lists import is_url

_OLDEST = (3, 10)  # of the Pythons that the tool itself runs on
_SPARE = 10  # minutes: installing, and artifacts
_LONGEST = 360  # minutes that hosted runners give a job


def make_pipeline(matrix: Matrix, folder: Path, systems: Sequence[str] = ()) -> Pipeline:
    """What the files are written from that lie below the folder. Raises ProfileError.

    ``systems`` replaces those that the matrix names.
    """
    settings = read_ci(matrix)
    if systems:
        settings = replace(settings, systems=tuple(systems))
    demand_install(settings, matrix.source)
    source = _find_source(matrix, folder)
    demand_text(source, matrix.source)
    gpu = any(cell.gpu for cell in matrix.cells)
    cells = tuple(
        _make_cell(cell, matrix, settings, Path(source), gpu=gpu) for cell in matrix.cells
    )
    _demand_machines(cells, settings, matrix.source)
    chosen = {each.id: each for each in cells}
    return Pipeline(
        source=source,
        settings=settings,
        matrix=matrix,
        cells=cells,
        tiers={
            tier: tuple(chosen[cell.id] for cell in choose_tier(matrix.cells, tier))
            for tier in TIERS
        },
        stages=chain_stages(settings, source, gpu=gpu),
        night=night_stages(settings, source, gpu=gpu),
        smoke_jobs={
            system: tuple(_share_smoke(cells, settings, system))
            for system in settings.systems
            if system in HOSTED
        },
        warnings=(*matrix.warnings, *_list_idle(matrix, settings), *_list_lost(settings, source)),
    )


def _list_idle(matrix: Matrix, settings: CiSettings) -> Iterator[str]:
    """The entries of [[runners]] that are about no cell, but for those that are shipped."""
    for rule in settings.runners:
        own = rule.where.startswith(f"{matrix.source}:")
        cells = (cell for cell in matrix.product if cell.gpu or rule.stage == CPU)
        if own and not any(map(rule.condition.meets, cells)):
            stage = " with a GPU stage" if rule.stage == GPU else ""
            said = f"matches no cell{stage}; remove it"
            yield f"{rule.where}: when = {rule.condition.written!r} {said}"


def _list_lost(settings: CiSettings, source: str) -> Iterator[str]:
    """What is built and kept nowhere, though there is a store, as if a channel was forgotten."""
    if settings.build and settings.store and not settings.built:
        yield (
            f"{source}: ci: build and store without built: what is built is tested, and kept "
            "nowhere; built = CHANNEL keeps it"
        )


def _find_source(matrix: Matrix, folder: Path) -> str:
    """The matrix's file as jobs find it, which begin in the folder."""
    path = matrix.folder / Path(matrix.source).name
    try:
        return path.relative_to(folder.absolute()).as_posix()
    except ValueError:
        raise ProfileError(
            f"{matrix.source}: not below {folder}, where its jobs would begin; see --folder"
        ) from None


def _make_cell(
    cell: Cell, matrix: Matrix, settings: CiSettings, source: Path, *, gpu: bool
) -> PipelineCell:
    python = _choose_python(cell, settings)
    options = options_of(
        cell,
        python=() if python == (cell.python or python) else ("--binary-static",),
        profile=_place(cell.profile, source) if not is_shipped(cell.profile) else cell.profile,
        known=matrix.known if is_url(matrix.known) else _place(matrix.known, source),
    )
    for option in options:
        demand_text(option, f"{matrix.source}: run: {cell.id}")
    gpu_options = "\n".join(options_of_gpu(options)) if cell.gpu else ""
    of_gpu = {"CELL_GPU_OPTIONS": gpu_options} if gpu else {}
    values = {f"CELL_{axis.upper()}": getattr(cell, axis) for axis in AXES if axis in matrix.axes}
    return PipelineCell(
        cell=cell,
        python=python,
        options=options,
        environment={"CELL": cell.id, **values, "CELL_OPTIONS": "\n".join(options), **of_gpu},
        minutes=_minutes(cell.timeout),
        runners=_find_machines(cell, CPU, settings),
        gpu_runners=_find_machines(cell, GPU, settings) if cell.gpu else {},
    )


def _place(path: str, source: Path) -> str:
    """A path that is relative to the matrix's file, as jobs find it."""
    return (source.parent / path).as_posix() if path else ""


def _choose_python(cell: Cell, settings: CiSettings) -> str:
    """That of the cell, if the tool runs on it."""
    if not cell.python:
        return settings.python
    major, minor = map(int, cell.python.rstrip("t").split("."))
    return cell.python if (major, minor) >= _OLDEST else settings.python


def _minutes(seconds: float) -> int:
    return min(math.ceil(seconds / 60) + _SPARE, _LONGEST)


def _find_machines(cell: Cell, stage: str, settings: CiSettings) -> dict[str, RunsOn]:
    """By system."""
    python = _choose_python(cell, settings)
    chosen = {
        system: choose_machine(settings.runners, cell, stage=stage, system=system, python=python)
        for system in HOSTED
    }
    return {system: machine for system, machine in chosen.items() if machine is not None}


def _demand_machines(cells: Sequence[PipelineCell], settings: CiSettings, source: str) -> None:
    """Raise ProfileError where a system that is generated has no machine for a stage of a cell."""
    for system in (each for each in HOSTED if each in settings.systems):
        for stage in (CPU, GPU):
            lacking = [
                each.id
                for each in cells
                if system not in (each.runners if stage == CPU else each.gpu_runners)
                and (stage == CPU or each.cell.gpu)
            ]
            if lacking:
                also = ', stage = "gpu"' if stage == GPU else ""
                more = f" and {len(lacking) - 1:,} more" if len(lacking) > 1 else ""
                raise ProfileError(
                    f"{source}: runners: {system} has no machine for {lacking[0]}{more}; "
                    f'write [[runners]] with when = "id={lacking[0]}"{also} and {system} = …'
                )


def list_missing(pipeline: Pipeline, folder: Path) -> Iterator[str]:
    """The files that jobs would look for, and that are not below the folder."""
    source = Path(pipeline.source)
    named = {"ci: policy": pipeline.settings.policy}
    for cell in pipeline.matrix.cells:
        if cell.profile and not is_shipped(cell.profile):
            named[f"run: profile of {cell.id}"] = _place(cell.profile, source)
    if not is_url(pipeline.matrix.known):
        named["night: known_problems"] = _place(pipeline.matrix.known, source)
    said: set[str] = set()
    for where, path in named.items():
        if path and path not in said and not (folder / path).is_file():
            said.add(path)
            yield f"{pipeline.source}: {where}: there is no file {path}"


def _share_smoke(
    cells: Sequence[PipelineCell], settings: CiSettings, system: str
) -> Iterator[SmokeJob]:
    """The jobs of the smoke on one CI system: alike machines together, at most so many in one."""
    for queue in (CPU, GPU):
        groups: dict[RunsOn, list[PipelineCell]] = {}
        for each in cells:
            machines = each.runners if queue == CPU else each.gpu_runners
            if system in machines:
                groups.setdefault(machines[system], []).append(each)
        number = 0
        for machine, alike in groups.items():
            for start in range(0, len(alike), settings.smoke_cells):
                number += 1
                part = tuple(alike[start : start + settings.smoke_cells])
                yield _make_smoke(f"{queue}-{number}", queue, part, machine, settings)


def _make_smoke(
    name: str, queue: str, cells: tuple[PipelineCell, ...], machine: RunsOn, settings: CiSettings
) -> SmokeJob:
    named = dict.fromkeys(each.cell.python for each in cells if each.cell.python)
    environment: Mapping[str, str] = {
        "SMOKE_QUEUE": queue,
        "SMOKE_CELLS": "\n".join(each.id for each in cells),
    }
    return SmokeJob(
        name=name,
        stage="smoke" if queue == CPU else "smoke-gpu",
        cells=cells,
        environment=environment,
        pythons=(*(each for each in named if each != settings.python), settings.python),
        minutes=min(_minutes(sum(each.cell.timeout for each in cells)), _LONGEST),
        runner=machine,
    )

"""The pipeline of a matrix: cells with machines, groups of cells, and the cells of one run.

A cell has a chain of stages: build, test, GPU, publish. The night of a store has a chain, too:
plan, judge groups of cells on the CPU and on the GPU, collect.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from binary_checks.errors import ProfileError
from binary_checks.fleet.cells import NIGHTLY, ONLY, TIERS, Matrix, is_shipped
from binary_checks.fleet.ci.ci_settings import (
    CPU,
    GPU,
    NOWHERE,
    SYSTEMS,
    CiSettings,
    RunsOn,
    System,
    read_ci,
    require_install,
    require_text,
)
from binary_checks.fleet.night import AXES, Cell
from binary_checks.fleet.nights import options_of
from binary_checks.fleet.stored_nights import tonight
from binary_checks.sources.known_problem_lists import is_url

_OLDEST = (3, 10)  # oldest Python that runs the tool
_SPARE = 10  # additional minutes for installing and artifacts
_LONGEST = 360  # minutes; the limit of hosted runners for a job
_OFFICE = Cell(id="office", project="", system="linux", architecture="x86_64")
"""A cell whose machine also serves jobs that run no package."""


class MachineError(ProfileError):
    """Raised if a CI system has no machine for a job; other systems are not affected."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacedCell:
    """A cell with the settings of its jobs on one CI system."""

    cell: Cell
    python: str  # for its jobs: the cell's own Python, if the tool runs on it
    machine: RunsOn
    gpu_machine: RunsOn  # of its GPU stage; NOWHERE if it has none
    minutes: int  # the time limit of its test job


@dataclass(frozen=True, kw_only=True, slots=True)
class SmokeGroup:
    """Published cells that one machine judges at night, one after another."""

    name: str  # 1, 2, …
    ids: str  # of its cells, as arguments of `ci stage`
    pythons: tuple[str, ...]  # Pythons of its cells; the last one runs the tool
    minutes: int
    machine: RunsOn
    gpu_machine: RunsOn  # of its second stage; NOWHERE if it has none


@dataclass(frozen=True, kw_only=True, slots=True)
class Pipeline:
    """The input from which files are made, and jobs at run time."""

    source: str  # path of the matrix's file in the repository: cells.toml
    settings: CiSettings
    matrix: Matrix

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages of a cell, in order; () if nothing is built."""
        if not self.settings.build:
            return ()
        return ("build", "test", "gpu", *(("publish",) if self.settings.built else ()))

    def place_cells(self, system: str) -> list[PlacedCell]:
        """Return all cells with their machines. Raises MachineError if one has none."""
        cells = [self._place(cell, system) for cell in self.matrix.cells]
        for stage, lacking in (
            (CPU, [each.cell.id for each in cells if each.machine == NOWHERE]),
            (GPU, [e.cell.id for e in cells if e.cell.gpu and e.gpu_machine == NOWHERE]),
        ):
            if lacking:
                also = ', stage = "gpu"' if stage == GPU else ""
                more = f" and {len(lacking) - 1:,} more" if len(lacking) > 1 else ""
                raise MachineError(
                    f"{self.source}: runners: {system} has no machine for {lacking[0]}{more}; "
                    f'write [[runners]] with when = "id={lacking[0]}"{also} and {system} = …'
                )
        return cells

    def _place(self, cell: Cell, system: str) -> PlacedCell:
        python = choose_job_python(cell, self.settings)
        choose = self.settings.choose_machine
        machine = choose(cell, stage=CPU, system=system, python=python)
        gpu = choose(cell, stage=GPU, system=system, python=python) if cell.gpu else NOWHERE
        return PlacedCell(
            cell=cell,
            python=python,
            machine=machine,
            gpu_machine=gpu,
            minutes=_count_minutes(cell.timeout),
        )

    def find_office(self, system: str) -> RunsOn:
        """Return the machine for jobs that run no package. Raises MachineError if there is none."""
        found = self.settings.choose_machine(
            _OFFICE, stage=CPU, system=system, python=self.settings.python
        )
        if found == NOWHERE:
            raise MachineError(
                f'{self.source}: runners: {system} has no machine for "system=linux '
                'architecture=x86_64", which plans, publishes and collects'
            )
        return found

    def group_smoke(self, system: str) -> list[SmokeGroup]:
        """Return the night's groups: at most ``smoke_cells`` cells each, on the same machines."""
        alike: dict[tuple[RunsOn, RunsOn], list[Cell]] = {}
        for each in self.place_cells(system):
            alike.setdefault((each.machine, each.gpu_machine), []).append(each.cell)
        size = self.settings.smoke_cells
        parts = [
            (machines, cells[start : start + size])
            for machines, cells in alike.items()
            for start in range(0, len(cells), size)
        ]
        own = self.settings.python
        return [
            SmokeGroup(
                name=str(number),
                ids=" ".join(cell.id for cell in cells),
                pythons=(*dict.fromkeys(c.python for c in cells if c.python not in ("", own)), own),
                minutes=_count_minutes(sum(cell.timeout for cell in cells)),
                machine=machine,
                gpu_machine=gpu_machine,
            )
            for number, ((machine, gpu_machine), cells) in enumerate(parts, 1)
        ]


def _count_minutes(seconds: float) -> int:
    return min(math.ceil(seconds / 60) + _SPARE, _LONGEST)


def make_pipeline(matrix: Matrix, folder: Path, systems: Sequence[System] = ()) -> Pipeline:
    """Return the pipeline of a matrix whose file lies below the folder. Raises ProfileError.

    ``systems`` replaces those that the matrix names.
    """
    settings = read_ci(matrix)
    if systems:
        settings = replace(settings, systems=tuple(systems))
    if not settings.systems:
        known = ", ".join(SYSTEMS)
        raise ProfileError(f"{matrix.source}: ci: 'systems' is missing; name some of: {known}")
    require_install(settings, matrix.source)
    path = matrix.folder / Path(matrix.source).name
    try:
        source = path.relative_to(folder.absolute()).as_posix()
    except ValueError:
        root = folder.absolute()
        raise ProfileError(f"{matrix.source}: not below {root}, the folder of the jobs") from None
    require_text(source, matrix.source)
    return Pipeline(source=source, settings=settings, matrix=matrix)


def list_warnings(pipeline: Pipeline, folder: Path) -> Iterator[str]:
    """Yield what is idle or missing in the matrix, in its [ci], and below the folder."""
    matrix, settings, source = pipeline.matrix, pipeline.settings, pipeline.source
    yield from matrix.warnings
    for rule in settings.runners:
        own = rule.where.startswith(f"{matrix.source}:")
        cells = (cell for cell in matrix.product if cell.gpu or rule.stage == CPU)
        if own and not any(map(rule.condition.meets, cells)):
            stage = " with a GPU stage" if rule.stage == GPU else ""
            message = f"matches no cell{stage}; remove it"
            yield f"{rule.where}: when = {rule.condition.written!r} {message}"
    if settings.build and settings.store and not settings.built:
        yield (
            f"{source}: ci: 'built' is missing: builds are tested, but not stored; built = CHANNEL "
            "stores them"
        )
    needed = {settings.policy: "ci: policy"}
    for cell in matrix.cells:
        if not is_shipped(cell.profile):
            path = _place(cell.profile, Path(source))
            needed.setdefault(path, f"run: profile of {cell.id}")
    if not is_url(matrix.known):
        needed.setdefault(_place(matrix.known, Path(source)), "night: known_problems")
    for path, where in needed.items():
        if path and not (folder / path).is_file():
            yield f"{source}: {where}: there is no file {path}"


def _place(path: str, source: Path) -> str:
    """Convert a path in the matrix's file to a path relative to the folder of the jobs."""
    return (source.parent / path).as_posix() if path else ""


# What the jobs of a cell get from the matrix.


def choose_job_python(cell: Cell, settings: CiSettings) -> str:
    """Return the Python of a cell if the tool runs on it, else the settings' Python."""
    if not cell.python:
        return settings.python
    major, minor = map(int, cell.python.rstrip("t").split("."))
    return cell.python if (major, minor) >= _OLDEST else settings.python


def make_options(
    cell: Cell, matrix: Matrix, source: Path, *, python: Sequence[str]
) -> tuple[str, ...]:
    """Return the options of `binary-checks` for a cell, with paths relative to a job's folder."""
    return options_of(
        cell,
        python=python,
        profile=cell.profile if is_shipped(cell.profile) else _place(cell.profile, source),
        known=matrix.known if is_url(matrix.known) else _place(matrix.known, source),
    )


def name_values(cell: Cell, used: Sequence[str]) -> dict[str, str]:
    """Return the variables that state the values of a cell: CELL, CELL_PYTHON, …."""
    values = {f"CELL_{axis.upper()}": str(getattr(cell, axis)) for axis in AXES if axis in used}
    return {"CELL": cell.id, **values}


# Choosing the cells of a run, by the event that started the run and by the run's request.

PR, MERGE = "pr", "merge"
TIER, TRIGGER = "BINARY_CHECKS_TIER", "BINARY_CHECKS_TRIGGER"
"""Variables: the requested tier, and what started a pipeline of CircleCI."""
_GITHUB_EVENTS: Mapping[str, str] = {"pull_request": PR, "push": MERGE}


@dataclass(frozen=True, kw_only=True, slots=True)
class CiRun:
    """The event that started a run, and the requested tier; labels change only the tier."""

    event: str  # pr, merge or nightly; decides what is allowed, such as publishing
    tier: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenJobs:
    """The cells of one run, and whether it is a night."""

    pipeline: Pipeline
    system: str  # the CI system
    cells: tuple[PlacedCell, ...]  # cells to build and test
    run: CiRun
    date: str  # of the night, in UTC

    @property
    def is_night(self) -> bool:
        """Whether published packages are judged, too."""
        nightly = self.run == CiRun(event=NIGHTLY, tier=NIGHTLY)
        return bool(nightly and self.pipeline.settings.store)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages of a cell; pull requests never publish, whatever their labels say."""
        stages = self.pipeline.stages
        return tuple(each for each in stages if each != "publish" or self.run.event != PR)


def choose_jobs(pipeline: Pipeline, system: str, chosen: Container[str], run: CiRun) -> ChosenJobs:
    """Return a run's jobs for the cells with these ids.

    Raises ProfileError if the CI system has no machine for a job.
    """
    cells = pipeline.place_cells(system)
    return ChosenJobs(
        pipeline=pipeline,
        system=system,
        cells=tuple(each for each in cells if each.cell.id in chosen and pipeline.stages),
        run=run,
        date=tonight(),
    )


def find_run(system: str, environment: Mapping[str, str], branch: str) -> CiRun:
    """Return the event that started a run, from its CI system's variables. Raises ProfileError."""
    asked = environment.get(TIER, "")
    if asked and asked not in TIERS:
        raise ProfileError(f"{TIER}: {asked!r:.40} is not one of: {', '.join(TIERS)}")
    if system == "github":
        event = _GITHUB_EVENTS.get(environment.get("GITHUB_EVENT_NAME", ""), NIGHTLY)
        return CiRun(event=event, tier=asked or event)
    if asked:  # by hand
        return CiRun(event=asked, tier=asked)
    if environment.get(TRIGGER) == "scheduled_pipeline":
        return CiRun(event=NIGHTLY, tier=NIGHTLY)
    if environment.get(ONLY):  # by hand, too
        return CiRun(event=MERGE, tier=NIGHTLY)
    event = MERGE if environment.get("CIRCLE_BRANCH") == branch else PR
    return CiRun(event=event, tier=event)

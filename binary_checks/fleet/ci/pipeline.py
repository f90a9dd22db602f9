"""The pipeline of a matrix, independent of CI systems: cells with machines, and groups of cells.

A cell has a chain of stages: build, test, GPU, publish. The night of a store has a chain, too:
plan, judge groups of cells on the CPU and on the GPU, collect.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from binary_checks.errors import ProfileError
from binary_checks.fleet.cells import NIGHTLY, ONLY, TIERS, Matrix, is_shipped
from binary_checks.fleet.ci.ci_settings import (
    CPU,
    GPU,
    HOSTED,
    SYSTEMS,
    CiSettings,
    RunsOn,
    choose_machine,
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
class PipelineCell:
    """A cell with the settings of its jobs."""

    cell: Cell
    python: str  # for its jobs: the cell's own Python, if the tool runs on it
    options: tuple[str, ...]  # for `binary-checks` on that Python
    minutes: int  # time limit of its test job
    runners: Mapping[str, RunsOn]  # CI system -> machine
    # CI system -> machine of its GPU stage
    gpu_runners: Mapping[str, RunsOn] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The cell's id."""
        return self.cell.id


@dataclass(frozen=True, kw_only=True, slots=True)
class SmokeGroup:
    """Published cells that one machine judges at night, one after another."""

    name: str  # 1, 2, …
    cells: tuple[PipelineCell, ...]
    pythons: tuple[str, ...]  # Pythons of its cells; the last one runs the tool
    minutes: int
    runner: RunsOn
    gpu_runner: RunsOn | None  # of its second stage; None if it has none

    @property
    def ids(self) -> str:
        """The ids of its cells, as arguments of `ci stage`."""
        return " ".join(each.id for each in self.cells)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pipeline:
    """The input from which a generator makes files, and jobs at run time."""

    source: str  # path of the matrix's file in the repository: cells.toml
    settings: CiSettings
    matrix: Matrix
    cells: tuple[PipelineCell, ...]  # of the whole matrix, in its order
    warnings: tuple[str, ...] = ()  # about the matrix and [[runners]]

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages of a cell, in order; () if nothing is built."""
        if not self.settings.build:
            return ()
        return ("build", "test", "gpu", *(("publish",) if self.settings.built else ()))

    def require_machines(self, system: str) -> None:
        """Raise MachineError if a CI system has no machine for a stage of a cell."""
        for stage in (CPU, GPU):
            lacking = [
                each.id
                for each in self.cells
                if system not in (each.runners if stage == CPU else each.gpu_runners)
                and (stage == CPU or each.cell.gpu)
            ]
            if lacking:
                also = ', stage = "gpu"' if stage == GPU else ""
                more = f" and {len(lacking) - 1:,} more" if len(lacking) > 1 else ""
                raise MachineError(
                    f"{self.source}: runners: {system} has no machine for {lacking[0]}{more}; "
                    f'write [[runners]] with when = "id={lacking[0]}"{also} and {system} = …'
                )

    def find_office(self, system: str) -> RunsOn:
        """Return the machine for jobs that run no package. Raises MachineError if there is none."""
        rules, python = self.settings.runners, self.settings.python
        found = choose_machine(rules, _OFFICE, stage=CPU, system=system, python=python)
        if found is None:
            raise MachineError(
                f'{self.source}: runners: {system} has no machine for "system=linux '
                'architecture=x86_64", which plans, publishes and collects'
            )
        return found

    def group_smoke(self, system: str) -> list[SmokeGroup]:
        """Return the night's groups: at most ``smoke_cells`` cells each, on the same machines."""
        alike: dict[tuple[RunsOn, RunsOn | None], list[PipelineCell]] = {}
        for each in self.cells:
            machines = each.runners[system], each.gpu_runners.get(system)
            alike.setdefault(machines, []).append(each)
        size = self.settings.smoke_cells
        parts = [
            (machines, cells[start : start + size])
            for machines, cells in alike.items()
            for start in range(0, len(cells), size)
        ]
        return [
            self._make_group(str(number), cells, *machines)
            for number, (machines, cells) in enumerate(parts, 1)
        ]

    def _make_group(
        self, name: str, cells: Sequence[PipelineCell], runner: RunsOn, gpu_runner: RunsOn | None
    ) -> SmokeGroup:
        own = self.settings.python
        named = dict.fromkeys(each.cell.python for each in cells if each.cell.python)
        return SmokeGroup(
            name=name,
            cells=tuple(cells),
            pythons=(*(each for each in named if each != own), own),
            minutes=_minutes(sum(each.cell.timeout for each in cells)),
            runner=runner,
            gpu_runner=gpu_runner,
        )


def make_pipeline(matrix: Matrix, folder: Path, systems: Sequence[str] = ()) -> Pipeline:
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
    source = _find_source(matrix, folder)
    require_text(source, matrix.source)
    return Pipeline(
        source=source,
        settings=settings,
        matrix=matrix,
        cells=tuple(_make_cell(cell, matrix, settings, Path(source)) for cell in matrix.cells),
        warnings=(
            *matrix.warnings,
            *_list_idle(matrix, settings),
            *_warn_of_unstored_builds(settings, source),
        ),
    )


def _list_idle(matrix: Matrix, settings: CiSettings) -> Iterator[str]:
    """Yield a warning for each of the project's [[runners]] that matches no cell."""
    for rule in settings.runners:
        own = rule.where.startswith(f"{matrix.source}:")
        cells = (cell for cell in matrix.product if cell.gpu or rule.stage == CPU)
        if own and not any(map(rule.condition.meets, cells)):
            stage = " with a GPU stage" if rule.stage == GPU else ""
            message = f"matches no cell{stage}; remove it"
            yield f"{rule.where}: when = {rule.condition.written!r} {message}"


def _warn_of_unstored_builds(settings: CiSettings, source: str) -> Iterator[str]:
    """Yield a warning if builds are not stored although there is a store."""
    if settings.build and settings.store and not settings.built:
        yield (
            f"{source}: ci: 'built' is missing: builds are tested, but not stored; built = CHANNEL "
            "stores them"
        )


def _find_source(matrix: Matrix, folder: Path) -> str:
    """Return the path of the matrix's file relative to the folder in which jobs begin."""
    path = matrix.folder / Path(matrix.source).name
    try:
        return path.relative_to(folder.absolute()).as_posix()
    except ValueError:
        raise ProfileError(
            f"{matrix.source}: not below {folder}, the folder in which jobs begin; see --folder"
        ) from None


def _make_cell(cell: Cell, matrix: Matrix, settings: CiSettings, source: Path) -> PipelineCell:
    python = choose_job_python(cell, settings)
    static = () if python == (cell.python or python) else ("--static",)
    options = make_options(cell, matrix, source, python=static)
    for option in options:
        require_text(option, f"{matrix.source}: run: {cell.id}")
    return PipelineCell(
        cell=cell,
        python=python,
        options=options,
        minutes=_minutes(cell.timeout),
        runners=_find_machines(cell, CPU, settings),
        gpu_runners=_find_machines(cell, GPU, settings) if cell.gpu else {},
    )


def make_options(
    cell: Cell, matrix: Matrix, source: Path, *, python: Sequence[str]
) -> tuple[str, ...]:
    """Return the options of `binary-checks` for a cell, with paths relative to a job's folder."""
    own = cell.profile and not is_shipped(cell.profile)
    return options_of(
        cell,
        python=python,
        profile=_place(cell.profile, source) if own else cell.profile,
        known=matrix.known if is_url(matrix.known) else _place(matrix.known, source),
    )


def name_values(cell: Cell, used: Sequence[str]) -> dict[str, str]:
    """Return the variables that state the values of a cell: CELL, CELL_PYTHON, …."""
    values = {f"CELL_{axis.upper()}": str(getattr(cell, axis)) for axis in AXES if axis in used}
    return {"CELL": cell.id, **values}


def _place(path: str, source: Path) -> str:
    """Convert a path in the matrix's file to a path relative to the folder of the jobs."""
    return (source.parent / path).as_posix() if path else ""


def choose_job_python(cell: Cell, settings: CiSettings) -> str:
    """Return the Python of a cell if the tool runs on it, else the settings' Python."""
    if not cell.python:
        return settings.python
    major, minor = map(int, cell.python.rstrip("t").split("."))
    return cell.python if (major, minor) >= _OLDEST else settings.python


def _minutes(seconds: float) -> int:
    return min(math.ceil(seconds / 60) + _SPARE, _LONGEST)


def _find_machines(cell: Cell, stage: str, settings: CiSettings) -> dict[str, RunsOn]:
    """Return CI system -> machine, for all systems that have a machine for the stage."""
    python = choose_job_python(cell, settings)
    chosen = {
        system: choose_machine(settings.runners, cell, stage=stage, system=system, python=python)
        for system in HOSTED
    }
    return {system: machine for system, machine in chosen.items() if machine is not None}


def list_missing(pipeline: Pipeline, folder: Path) -> Iterator[str]:
    """Yield a line for each file that jobs need and that is not below the folder."""
    source = Path(pipeline.source)
    named = {"ci: policy": pipeline.settings.policy}
    for cell in pipeline.matrix.cells:
        if cell.profile and not is_shipped(cell.profile):
            named[f"run: profile of {cell.id}"] = _place(cell.profile, source)
    if not is_url(pipeline.matrix.known):
        named["night: known_problems"] = _place(pipeline.matrix.known, source)
    seen: set[str] = set()
    for where, path in named.items():
        if path and path not in seen and not (folder / path).is_file():
            seen.add(path)
            yield f"{pipeline.source}: {where}: there is no file {path}"


# Choosing the cells of a run, by the event that started the run and by the run's request.

PR, MERGE = "pr", "merge"
TIER, TRIGGER = "BINARY_CHECKS_TIER", "BINARY_CHECKS_TRIGGER"
"""Variables: the requested tier, and what started a pipeline of CircleCI."""
MOST_ROWS = 256  # jobs that GitHub allows in one matrix


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
    cells: tuple[PipelineCell, ...]  # cells to build and test
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


def choose_jobs(pipeline: Pipeline, system: str, chosen: Sequence[str], run: CiRun) -> ChosenJobs:
    """Return a run's jobs for the cells with these ids.

    Raises ProfileError if the CI system has no machine for a job.
    """
    pipeline.require_machines(system)
    ids = set(chosen)
    cells = pipeline.cells if pipeline.settings.build else ()
    return ChosenJobs(
        pipeline=pipeline,
        cells=tuple(each for each in cells if each.id in ids),
        run=run,
        date=tonight(),
    )


def require_rows(rows: Sequence[object], system: str, what: str) -> None:
    """Raise ProfileError if there are more jobs than a matrix may have."""
    if len(rows) > MOST_ROWS:
        raise ProfileError(
            f"cells --ci {system}: {len(rows):,} jobs of {what}, but {system} allows "
            f"{MOST_ROWS}; choose fewer cells"
        )


def find_run(system: str, environment: Mapping[str, str], branch: str) -> CiRun:
    """Return the event that started a run, from its CI system's variables. Raises ProfileError."""
    asked = environment.get(TIER, "")
    if asked and asked not in TIERS:
        raise ProfileError(f"{TIER}: {asked!r:.40} is not one of: {', '.join(TIERS)}")
    if system == "circleci":
        return _find_circleci(environment, branch, asked)
    event = _GITHUB_EVENTS.get(environment.get("GITHUB_EVENT_NAME", ""), NIGHTLY)
    return CiRun(event=event, tier=asked or event)


def _find_circleci(environment: Mapping[str, str], branch: str, asked: str) -> CiRun:
    """Return the event of a run on CircleCI; a run started by hand has a tier or names cells."""
    if asked:
        return CiRun(event=asked, tier=asked)
    if environment.get(TRIGGER) == "scheduled_pipeline":
        return CiRun(event=NIGHTLY, tier=NIGHTLY)
    if environment.get(ONLY):
        return CiRun(event=MERGE, tier=NIGHTLY)
    event = MERGE if environment.get("CIRCLE_BRANCH") == branch else PR
    return CiRun(event=event, tier=event)

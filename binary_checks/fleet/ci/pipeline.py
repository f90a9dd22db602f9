"""What CI does with a matrix, in the words of no CI system: stages, their shell, what they share.

A cell is a chain of its own: build, test, GPU, publish. Nothing waits for all cells, for one that
is red would then hold up every other one. The night ends with the smoke of what is published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from binary_checks.fleet.cell import Cell
from binary_checks.fleet.cells.matrix import Matrix
from binary_checks.fleet.ci.ci_settings import CiSettings
from binary_checks.fleet.ci.runner_tables import RunsOn


@dataclass(frozen=True, kw_only=True, slots=True)
class ShellStep:
    """A script of POSIX's shell, the same for all cells: their values come as variables."""

    name: str
    script: str
    secrets: tuple[str, ...] = ()  # variables that it reads; what installs others' code has none


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedFolder:
    """A folder that one stage leaves to those after it, by the artifacts of the CI system."""

    name: str  # dist, cpu, gpu, night, site; of a cell's own with the cell's id behind it
    path: str  # relative to the folder of the job: results/cpu


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelineStage:
    """A job: of one cell, or of the night."""

    name: str  # build, test, gpu, publish; plan, smoke, smoke-gpu, collect
    steps: tuple[ShellStep, ...]
    needs: tuple[str, ...] = ()  # stages of the same cell, or of the night
    takes: tuple[SharedFolder, ...] = ()  # where one is absent, there is none
    leaves: tuple[SharedFolder, ...] = ()  # though the stage has failed, too
    environment: Mapping[str, str] = field(default_factory=dict)  # constants
    secrets: tuple[str, ...] = ()  # of all its steps: the CI system has the values
    gpu: bool = False  # for cells with a GPU stage alone, on their GPU machine
    regardless: bool = False  # runs though one that it needs has failed; the first must not have
    trusted: bool = False  # never for a pull request: it has secrets, or writes into a store
    own_python: bool = True  # on the cell's Python, where the tool runs on it; else on settings'


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelineCell:
    """One cell as its jobs see it."""

    cell: Cell
    python: str  # of its jobs: its own, if the tool runs on it
    options: tuple[str, ...]  # of `binary-checks`, for systems that need no shell
    environment: Mapping[str, str]  # CELL, CELL_PYTHON, …; CELL_OPTIONS: an option a line
    minutes: int  # after which a job of its tests is ended
    runners: Mapping[str, RunsOn]  # by CI system
    gpu_runners: Mapping[str, RunsOn] = field(default_factory=dict)  # the same of its GPU stage

    @property
    def id(self) -> str:
        """Of the cell."""
        return self.cell.id


@dataclass(frozen=True, kw_only=True, slots=True)
class SmokeJob:
    """Cells of a night that one machine of a CI system judges."""

    name: str  # cpu-1, gpu-1
    stage: str  # smoke, smoke-gpu
    cells: tuple[PipelineCell, ...]
    environment: Mapping[str, str]  # SMOKE_CELLS: an id a line; SMOKE_QUEUE: cpu, gpu
    pythons: tuple[str, ...]  # that its cells name; the last one runs the tool
    minutes: int
    runner: RunsOn


@dataclass(frozen=True, kw_only=True, slots=True)
class Pipeline:
    """Everything that a generator writes a CI system's files from."""

    source: str  # the matrix's file, relative to the folder of the repository: cells.toml
    settings: CiSettings
    matrix: Matrix
    cells: tuple[PipelineCell, ...]  # of the whole matrix, in its order
    tiers: Mapping[str, tuple[PipelineCell, ...]]  # pr, merge, nightly
    stages: tuple[PipelineStage, ...] = ()  # of one cell, in order; () where nothing is built
    night: tuple[PipelineStage, ...] = ()  # plan, smoke, smoke-gpu, collect; () without a store
    smoke_jobs: Mapping[str, tuple[SmokeJob, ...]] = field(default_factory=dict)  # by CI system
    warnings: tuple[str, ...] = ()  # of the matrix, and of [[runners]]

    def tiers_by_cell(self) -> dict[str, list[str]]:
        """The tiers that run each cell, by its id, in the order of the tiers."""
        found: dict[str, list[str]] = {cell.id: [] for cell in self.cells}
        for tier, cells in self.tiers.items():
            for cell in cells:
                found[cell.id].append(tier)
        return found

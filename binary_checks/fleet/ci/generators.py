"""The generators: a module for each CI system, loaded when its files are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from binary_checks.errors import ProfileError
from binary_checks.fleet.ci.pipeline import MachineError, Pipeline
from binary_checks.fleet.ci.runner_tables import HOSTED

GENERATORS: Mapping[str, str] = {
    "github": "binary_checks.fleet.ci.github_workflows",
    "gitlab": "binary_checks.fleet.ci.gitlab_pipelines",
    "circleci": "binary_checks.fleet.ci.circleci_workflows",
    "azure": "binary_checks.fleet.ci.azure_pipelines",
    "tox": "binary_checks.fleet.ci.tox_environments",
    "docs": "binary_checks.fleet.ci.matrix_page",
}
"""The modules, in which ``write(pipeline)`` returns the texts of files by path."""
PLACES: Mapping[str, tuple[str, ...]] = {
    "github": (".github/workflows/*.yml",),
    "gitlab": (".gitlab-ci.yml", ".gitlab/*.yml"),
    "circleci": (".circleci/*.yml",),
    "azure": ("azure-pipelines*.yml", ".azure/*.yml"),
    "tox": ("tox*.toml", "tox*.ini"),
    "docs": ("docs/matrix.md",),
}
"""Where files of each may lie; one there that says it is generated, and is not, is left over."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderedFiles:
    """The texts of all files, and the systems that cannot run the matrix."""

    files: Mapping[str, str]  # by path
    refused: Mapping[str, str]  # by system, why: its runners have no machine for a cell


def load_generator(system: str) -> Any:
    """The module of a system. Raises ProfileError where it needs PyYAML, which is not there."""
    if system in HOSTED and find_spec("yaml") is None:
        raise ProfileError("ci: PyYAML is not installed: `pip install 'binary-checks[fleet]'`")
    return import_module(GENERATORS[system])


def write_files(pipeline: Pipeline) -> RenderedFiles:
    """The files of the systems that are asked for. Raises ProfileError for what concerns all."""
    files: dict[str, str] = {}
    refused: dict[str, str] = {}
    for system in pipeline.settings.systems:
        write: Callable[[Pipeline], Mapping[str, str]]
        write = load_generator(system).write
        try:
            if system in HOSTED:
                pipeline.demand_machines(system)
            files.update(write(pipeline))
        except MachineError as error:
            refused[system] = str(error)
    return RenderedFiles(files=files, refused=refused)

"""The generators: a module for each CI system, loaded when its files are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from binary_checks.errors import ProfileError
from binary_checks.fleet.ci.pipeline import Pipeline

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


def write_files(pipeline: Pipeline) -> dict[str, str]:
    """All files of the systems that are asked for, by path. Raises ProfileError."""
    files: dict[str, str] = {}
    for system in pipeline.settings.systems:
        if system not in GENERATORS:
            raise ProfileError(f"{pipeline.source}: ci: systems: {system} cannot be generated yet")
        write: Callable[[Pipeline], Mapping[str, str]]
        write = import_module(GENERATORS[system]).write
        files.update(write(pipeline))
    return files

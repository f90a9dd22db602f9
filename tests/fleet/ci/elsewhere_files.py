"""The files of GitLab, CircleCI and Azure that tests write, and read as documents."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from binary_checks.fleet.cells.cells_file import parse_cells
from binary_checks.fleet.ci.generators import GENERATORS
from binary_checks.fleet.ci.making_pipeline import make_pipeline
from binary_checks.fleet.ci.pipeline import Pipeline
from tests.fleet.ci.ci_files import PROJECT

yaml = pytest.importorskip("yaml")

Json = dict[str, Any]
SYSTEMS = '["gitlab", "circleci", "azure"]'


def make(text: str = PROJECT) -> Pipeline:
    text = text.replace('systems = ["github"]', f"systems = {SYSTEMS}")
    return make_pipeline(parse_cells(text.encode(), Path.cwd() / "cells.toml"), Path.cwd())


def write(system: str, pipeline: Pipeline) -> Mapping[str, str]:
    texts: Mapping[str, str] = import_module(GENERATORS[system]).write(pipeline)
    return texts


def load(text: str) -> Json:
    document: Json = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return document

"""Reads the committed data files."""

from __future__ import annotations

import gzip
import json
from importlib import resources
from typing import Any


def read_committed(*path: str) -> Any:
    """Read a JSON file below ``data``; one whose name ends in ``.gz`` is inflated."""
    content = resources.files(__package__).joinpath("data", *path).read_bytes()
    return json.loads(gzip.decompress(content) if path[-1].endswith(".gz") else content)


def list_committed(*path: str) -> frozenset[str]:
    """List the file names in a folder below ``data``."""
    folder = resources.files(__package__).joinpath("data", *path)
    return frozenset(entry.name for entry in folder.iterdir())

"""Reads the committed data files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from importlib import resources
from typing import Any

Version = tuple[int, int]


def read_committed(*path: str) -> Any:
    """Read a JSON file below ``data``; one whose name ends in ``.gz`` is inflated."""
    content = resources.files(__package__).joinpath("data", *path).read_bytes()
    return json.loads(gzip.decompress(content) if path[-1].endswith(".gz") else content)


def list_committed(*path: str) -> frozenset[str]:
    """List the file names in a folder below ``data``."""
    folder = resources.files(__package__).joinpath("data", *path)
    return frozenset(entry.name for entry in folder.iterdir())


def parse_version(text: str) -> Version:
    """The two numbers of ``3.12``."""
    major, minor = text.split(".")
    return int(major), int(minor)


def names_of(version: Version, groups: Iterable[tuple[str, str]]) -> frozenset[str]:
    """The names of those groups that a version has, each a line of versions and one of names."""
    spelled = "{}.{}".format(*version)
    having = (names.split() for versions, names in groups if spelled in versions.split())
    return frozenset().union(*having)

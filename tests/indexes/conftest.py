"""An empty index on loopback, and what we choose from it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.tags import sys_tags

from binary_checks.errors import ProfileError
from binary_checks.indexes.choice import WheelRequest, choose
from binary_checks.indexes.index_places import IndexPlaces, list_files
from binary_checks.places.foreign_tags import read_target_name
from binary_checks.web.client import Client
from binary_checks.web.web_settings import WebSettings
from fixtures.build_wheel import build_wheel
from fixtures.package_index import PackageIndex, serve_index


@pytest.fixture
def index() -> Iterator[PackageIndex]:
    with serve_index() as index:
        yield index


def ask_us(
    requirement: str, places: IndexPlaces, target: str = "", client: Client | None = None
) -> str:
    """The file that we choose; "" where we find none."""
    wanted = Requirement(requirement)
    tags = read_target_name(target).tags if target else tuple(sys_tags())
    python = (
        target[2] + "." + target[3:5] + ".0" if target else "3.{}.{}".format(*sys.version_info[1:3])
    )
    wish = WheelRequest(
        asked=requirement,
        project=wanted.name,
        specifier=wanted.specifier,
        tags=tags,
        python=python,
        label="",
        prereleases=places.prereleases,
    )
    try:
        files = list_files(client or Client(WebSettings(retries=0)), places, wanted.name)
        return choose(files, wish, "").file_name
    except ProfileError:
        return ""


def offer(index: PackageIndex, folder: Path, version: str, *tags: str, **said: object) -> None:
    build = str(said.pop("build", ""))
    wheel = build_wheel(folder, version=version, tags=tags or ("py3-none-any",), build=build)
    index.offer(wheel, "demo", **said)  # type: ignore[arg-type]

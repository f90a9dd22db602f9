"""pip chooses the same wheels, of indexes on loopback and of the one that this machine reaches."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote

import pytest
from packaging.tags import sys_tags
from packaging.version import Version

from binary_checks.indexes.index_places import IndexPlaces, read_index_places
from binary_checks.places.foreign_tags import read_target_name
from binary_checks.places.index_settings import PIP, has_pip, read_pip_settings
from binary_checks.web.client import Client
from binary_checks.web.web_settings import read_web_settings
from fixtures.build_wheel import build_wheel
from fixtures.package_index import PackageIndex
from tests.indexes.conftest import ask_us, offer


def ask_pip(arguments: Sequence[str], **variables: str) -> str:
    """The file that pip would install with these settings alone; "" where it finds none."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")}
    own = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1", "PIP_RETRIES": "0"}
    return ask_pip_here(arguments, {**kept, **own, **variables})


def ask_pip_here(arguments: Sequence[str], environ: Mapping[str, str] | None = None) -> str:
    """The same, with the settings of this machine unless others are given."""
    if not has_pip():
        pytest.skip("no pip here")
    options = ("--quiet", "--dry-run", "--ignore-installed", "--no-deps", "--only-binary=:all:")
    options += ("--disable-pip-version-check", "--report", "-")
    ended = subprocess.run(
        (*PIP, "install", *options, *arguments),
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        assert "No matching distribution" in ended.stderr, ended.stderr
        return ""
    report = json.loads(ended.stdout)
    return unquote(report["install"][0]["download_info"]["url"].rpartition("/")[2])


@pytest.mark.slow
@pytest.mark.parametrize("speaks_json", [True, False])
def test_pip_chooses_the_same(index: PackageIndex, tmp_path: Path, speaks_json: bool) -> None:
    index.speaks_json = speaks_json
    mine = next(sys_tags())
    own = f"{mine.interpreter}-{mine.abi}-{mine.platform}"
    offer(index, tmp_path, "1.0")
    offer(index, tmp_path, "1.0", own)
    offer(index, tmp_path, "1.0", build="3")
    offer(index, tmp_path, "1.1", "cp312-cp312-win_amd64")
    offer(index, tmp_path, "1.2", requires_python="<3")
    offer(index, tmp_path, "1.3", requires_python=">=3.8")
    offer(index, tmp_path, "1.4", yanked="why")
    offer(index, tmp_path, "1.5rc1")
    offer(index, tmp_path, "1.0+local", "py3-none-any")
    places = IndexPlaces(indexes=(index.simple,))
    wanted = ["demo", "demo==1.0", "demo==1.4", "demo>=1.4", "demo==1.1", "demo==1.2", "demo<1.3"]
    wanted += [
        "demo>=1.5rc1",
        "demo==1.*",
        "demo!=1.3",
        "demo===1.0",
        "demo~=1.0",
        "demo==1.0+local",
    ]
    for each in wanted:
        assert ask_us(each, places) == ask_pip(["--index-url", index.simple, each]), each
    for each in ("demo", "demo>1.3"):
        chosen = ask_us(each, IndexPlaces(indexes=(index.simple,), prereleases=True))
        assert chosen == ask_pip(["--index-url", index.simple, "--pre", each])


@pytest.mark.slow
def test_pip_chooses_the_same_of_several_places(index: PackageIndex, tmp_path: Path) -> None:
    offer(index, tmp_path / "a", "1.0")
    links = tmp_path / "links"
    build_wheel(links, version="1.0", tags=("py3-none-any",))
    build_wheel(links, version="0.9", tags=("py3-none-any",))
    (links / "more.html").write_text('<a href="demo-0.9-py3-none-any.whl">x</a>')
    folder = tmp_path / "simple" / "demo"
    build_wheel(folder, version="1.0", tags=("py3-none-any",))
    (folder / "index.html").write_text('<a href="demo-1.0-py3-none-any.whl">x</a>')
    local = (tmp_path / "simple").as_uri()
    for variables in (
        {"PIP_INDEX_URL": index.simple, "PIP_FIND_LINKS": str(links)},
        {"PIP_INDEX_URL": index.simple, "PIP_EXTRA_INDEX_URL": local},
        {"PIP_INDEX_URL": local, "PIP_EXTRA_INDEX_URL": index.simple},
        {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(links)},
    ):
        pip = {name[4:].lower().replace("_", "-"): value for name, value in variables.items()}
        places = read_index_places(pip, {})
        for each in ("demo", "demo<1"):
            assert ask_us(each, places) == ask_pip([each], **variables), (each, variables)


TARGETS = ("cp312-win_amd64", "cp311-macosx_14_0_arm64", "cp313-manylinux_2_28_aarch64")
TARGETS += ("cp310-manylinux2014_x86_64", "cp312-musllinux_1_2_x86_64", "cp313t-win_amd64")


def is_known(target: str) -> bool:
    """Whether this pip knows such a Python: before 24.1 it takes abi3 for free-threaded ones."""
    return "t-" not in target or Version(metadata.version("pip")) >= Version("24.1")


def pip_options(target: str) -> list[str]:
    return [*read_target_name(target).options(), "--target", "unused"]


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_pip_chooses_the_same_for_others(index: PackageIndex, tmp_path: Path, target: str) -> None:
    tags = ["cp312-cp312-win_amd64", "cp311-cp311-macosx_11_0_arm64", "cp313-cp313t-win_amd64"]
    tags += ["cp313-cp313-manylinux_2_17_aarch64", "cp313-cp313-manylinux_2_26_aarch64"]
    tags += ["cp39-abi3-manylinux_2_17_x86_64", "cp312-cp312-musllinux_1_1_x86_64"]
    tags += ["cp310-cp310-manylinux_2_12_x86_64", "cp311-cp311-macosx_10_9_universal2"]
    for tag in tags:
        offer(index, tmp_path, "1.0", tag)
    chosen = ask_us("demo", IndexPlaces(indexes=(index.simple,)), target)
    assert chosen
    assert chosen == ask_pip(["--index-url", index.simple, *pip_options(target), "demo"])


PROJECTS = ("numpy==2.2.6", "markupsafe>=3", "pyyaml==6.0.2", "cryptography<46", "lxml==6.0.2")
PROJECTS += ("pydantic-core<3", "grpcio==1.76.0", "orjson<4", "regex", "psutil", "pillow<12")
PROJECTS += ("scipy<1.16", "pandas<3", "zstandard", "aiohttp<4", "uvloop", "torch==2.8.0")


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("requirement", PROJECTS)
def test_pip_chooses_the_same_on_the_index_of_this_machine(requirement: str) -> None:
    settings = read_pip_settings()
    client = Client(read_web_settings(settings, os.environ))
    places = read_index_places(settings, os.environ)
    for target in filter(is_known, ("", *TARGETS)):
        options = pip_options(target) if target else []
        chosen = ask_us(requirement, places, target, client)
        assert chosen == ask_pip_here([*options, requirement]), target

"""What must be installed for binary_checks to run, and where that can be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PLATFORMS = ["manylinux2014_x86_64", "manylinux_2_17_s390x", "manylinux_2_17_ppc64le"]
PLATFORMS += ["manylinux_2_39_riscv64", "musllinux_1_2_armv7l", "win_arm64"]


def test_few_packages_are_required() -> None:
    required = [Requirement(text) for text in PROJECT["dependencies"]]
    everywhere = {each.name for each in required if each.marker is None}
    assert everywhere == {"packaging", "pytest", "pytest-xdist"}
    assert {each.name for each in required} - everywhere == {"tomli"}


def test_the_second_opinion_is_an_extra_that_the_tests_install() -> None:
    extras = PROJECT["optional-dependencies"]
    libraries = {Requirement(text).name for text in extras["crosscheck"]}
    assert libraries == {"lief", "macholib", "pefile", "pyelftools"}
    assert any("crosscheck" in Requirement(text).extras for text in extras["test"])


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("python", ["3.10", "3.11"])
@pytest.mark.parametrize("platform", PLATFORMS)
def test_all_that_is_required_is_pure_python(platform: str, python: str, tmp_path: Path) -> None:
    required = [
        text.partition(";")[0]
        for text in PROJECT["dependencies"]
        if (marker := Requirement(text).marker) is None
        or marker.evaluate({"python_version": python, "python_full_version": f"{python}.0"})
    ]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:"]
    command += ["--platform", platform, "--python-version", python, "--dest", str(tmp_path)]
    subprocess.run([*command, *required], check=True)
    tags = [parse_wheel_filename(path.name)[3] for path in tmp_path.iterdir()]
    assert len(tags) >= len(required)
    assert all("any" in {tag.platform for tag in each} for each in tags)

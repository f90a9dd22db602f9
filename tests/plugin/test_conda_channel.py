"""Conda packages made of a published wheel, its libraries in a package of their own, are judged.

For this host they are installed from a channel and run, for macOS and Windows judged statically.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.conda.channel import build_bases, build_python, host_subdir, index
from fixtures.conda.make import make
from tests.places.published import ON_LINUX
from tests.plugin.conftest import Run

pytest.importorskip("rattler", reason="no py-rattler, which solves and links")
pytest.importorskip("zstandard", reason="no zstandard, which reads .conda before Python 3.14")

pytestmark = list(ON_LINUX)
WHEEL = "psycopg2-binary==2.9.13"
PLATFORMS = {
    "linux-64": "manylinux2014_x86_64",
    "osx-arm64": "macosx_14_0_arm64",
    "win-64": "win_amd64",
}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("wheels")
    for subdir, platform in PLATFORMS.items():
        options = ("--no-deps", "--only-binary", ":all:", "--platform", platform)
        python = ("--python-version", "3.11", "--implementation", "cp", "--abi", "cp311")
        place = ("--dest", str(folder / subdir), WHEEL)
        command = (sys.executable, "-m", "pip", "download", "-q", *options, *python, *place)
        subprocess.run(command, check=True)
    return {subdir: next((folder / subdir).iterdir()) for subdir in PLATFORMS}


@pytest.fixture(scope="module")
def channel(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("channel")
    build_python(folder, subdir=host_subdir())
    build_bases(folder, subdir=host_subdir())
    for wheel in wheels.values():
        make(wheel, folder, split=True)
    return index(folder)


def find(channel: Path, subdir: str) -> tuple[Path, Path]:
    """The package, and that of its libraries."""
    names = ("psycopg2-binary-2.9.13-*", "libpsycopg2-binary-2.9.13-*")
    package, libraries = (next((channel / subdir).glob(name)) for name in names)
    return package, libraries


@pytest.mark.parametrize("subdir", PLATFORMS)
def test_a_package_is_fit_beside_that_of_its_libraries(
    channel: Path, subdir: str, run: Run
) -> None:
    package, libraries = find(channel, subdir)
    result = run(str(package), "-v", "--binary-with", str(libraries))
    assert result.ret == pytest.ExitCode.OK
    for check in ("missing-library", "undefined-symbol", "overlinking"):
        result.stdout.fnmatch_lines([f"*{package.name}::{check} PASSED*"])
    assert run(str(libraries)).ret == pytest.ExitCode.OK


def test_for_this_host_it_is_installed_from_the_channel_and_run(channel: Path, run: Run) -> None:
    package, libraries = find(channel, "linux-64")
    options = ("-v", "--binary-with", str(libraries), "--binary-channel", str(channel))
    result = run(str(package), *options, static=False)
    assert result.ret == pytest.ExitCode.OK
    for check in (
        *("installation-fails", "import-fails", "extension-fails-to-load"),
        *("loaded-libraries-differ", "installed-files-differ"),
    ):
        result.stdout.fnmatch_lines([f"*{package.name}::{check} PASSED*"])


def test_without_its_dependency_it_is_red_statically_and_when_it_runs(
    wheels: dict[str, Path], channel: Path, tmp_path: Path, run: Run
) -> None:
    lost = "libpsycopg2-binary"
    package = make(wheels["linux-64"], tmp_path, split=True, without=[lost])[0]
    options = ("--binary-with", str(find(channel, "linux-64")[1]))
    result = run(str(package), *options, "--binary-channel", str(channel), static=False)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    told = result.stdout.str()
    assert f"of {lost}, which is not among the dependencies" in told
    assert "import psycopg2 is refused by the loader: ImportError: libpq" in told


def test_for_another_host_only_what_runs_it_is_not_inspected(channel: Path, run: Run) -> None:
    package, libraries = find(channel, "win-64")
    options = ("-rs", "--binary-with", str(libraries), "--binary-channel", str(channel))
    result = run(str(package), *options, static=False)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*not inspected: it is for win-64, but this host is linux-64*"])

"""The simulated loaders say what the real ones say, on published packages installed for real."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.oracles import compare_loader, compare_musl
from tests.oracles.downloads import download, pip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.skipif(
        platform.libc_ver()[0] != "glibc" or platform.machine() != "x86_64",
        reason="the real loader to compare with is glibc's on x86_64",
    ),
]
PACKAGES = [
    "numpy==2.4.6",
    "scipy==1.17.1",
    "pyarrow==26.0.1",
    "opencv-python-headless==5.0.0.93",
    "torch==2.13.0+cpu",
]
MUSL_WHEELS = ["numpy==2.4.6", "lxml==6.1.3", "cryptography==50.0.2", "pydantic-core==2.50.4"]


@pytest.fixture(params=PACKAGES)
def wheel(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """One of the packages as published for this interpreter."""
    pip("download", "--no-deps", "--only-binary=:all:", "--dest", tmp_path, request.param)
    (path,) = tmp_path.glob("*.whl")
    return path


def test_every_edge_and_every_undefined_symbol_is_as_ld_so_has_it(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip("--python", python, "install", wheel)
    (site_packages,) = (tmp_path / "venv" / "lib").glob("python3.*/site-packages")
    comparison = compare_loader.compare(python, site_packages.resolve())
    with capsys.disabled():
        print(f"\n{wheel.name}: {comparison}")  # noqa: T201 - the figures asked for
    assert comparison.differences == []
    assert comparison.edges > comparison.roots > 0


def test_what_a_process_has_mapped_is_what_the_simulation_names(wheel: Path) -> None:
    profile = wheel.with_name("profile.toml")
    profile.write_text('enable = ["simulation-differs"]\n')
    command = [sys.executable, "-m", "binary_checks", "-v", "--profile", profile]
    done = subprocess.run(
        [*command, "-k", "simulation-differs", wheel],
        cwd=wheel.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"{wheel.name}::simulation-differs PASSED" in done.stdout, done.stdout


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="musl's loader comes from Debian")
def test_every_edge_is_as_musl_has_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subprocess.run(["apt-get", "download", "musl"], cwd=tmp_path, check=True, capture_output=True)
    (package,) = tmp_path.glob("musl_*.deb")
    subprocess.run(["dpkg", "-x", package, tmp_path / "musl"], check=True)
    (libc,) = (tmp_path / "musl").glob("**/libc.so")
    platforms = ("musllinux_1_2_x86_64", "musllinux_1_1_x86_64")
    wheels = download(tmp_path, platforms, MUSL_WHEELS)
    counts = {"roots": 0, "edges": 0, "undefined": 0}
    differences = [said for path in wheels for said in compare_musl.compare(libc, path, counts)]
    with capsys.disabled():
        said = f"\nmusl: {len(wheels)} wheels, {counts}, {len(differences)} differences"
        print(said)  # noqa: T201 - the figures asked for
    assert differences == []
    assert counts["edges"] > counts["roots"] > 0

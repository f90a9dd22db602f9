"""A package that an image contains is judged where it lies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from binary_checks import examine, judge
from binary_checks.errors import GatherError, ProfileError
from binary_checks.model import LoadReport, Outcome
from fixtures import fake_engine
from fixtures.build_elf import build_elf
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, demand_sandbox
from fixtures.installation import install_by_hand
from tests.plugin.conftest import TRY_AGAIN, run_command

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="containers are Linux's")
IMAGE = "image:localhost/here"
MODULE = "import os\nassert os.environ['OF_THE_IMAGE'] == 'yes'\n"


@pytest.fixture(scope="module")
def environment() -> Iterator[Path]:
    """An environment with a package; a container sees it, unlike all that is below /tmp."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        place = Path(folder) / "env"
        command = (sys.executable, "-m", "venv", "--without-pip", str(place))
        subprocess.run(command, check=True)
        members = {"demo.py": MODULE, "demo_data/lib.so": build_elf()}
        wheel = build_wheel(Path(folder), members=members, tags=PURE, version="1.0")

        install_by_hand(wheel, place, rows=())
        yield place


@pytest.fixture
def engine(pytester: pytest.Pytester, environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demand_sandbox("auto")
    variables = (f"PATH={environment}/bin:/usr/bin:/bin", "OF_THE_IMAGE=yes", "HOME=/root")
    folder = fake_engine.install(pytester.path, images=("localhost/here",), variables=variables)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def test_it_runs_as_the_image_s_users_run_it(engine: None) -> None:
    options = ("--binary-place", IMAGE, "--binary-installed", "demo")
    result = run_command(*options, "--binary-report", "json:r.json")
    assert result.ret == 0, result.outlines
    (package,) = json.loads(Path("r.json").read_text())["packages"]
    found = {each["check"]: each["outcome"] for each in package["entries"]}
    assert (found["import-fails"], found["unreadable-member"]) == ("passed", "passed")
    assert package["ran_on"].startswith("image localhost/here (")
    assert not list(Path(tempfile.gettempdir()).glob("binary_checks-image-*"))


def test_a_worker_is_given_the_copy(engine: None) -> None:
    result = run_command("--binary-place", IMAGE, "--binary-installed", "demo", "-n", "1")
    assert result.ret == 0, result.outlines


def test_its_objects_are_loaded_where_they_lie(engine: None) -> None:
    with examine("installed:demo", run=True, place=IMAGE) as examination:
        found = {verdict.check: verdict for verdict in judge(examination)}
        report = examination.get(LoadReport)
    assert found["object-does-not-load"].outcome is Outcome.PASSED
    (path,) = report.loaded
    assert path.endswith("demo_data/lib.so")


def test_a_package_that_the_image_lacks_is_a_mistake_of_the_user(engine: None) -> None:
    result = run_command("--binary-place", IMAGE, "--binary-installed", "gone")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "gone: not installed in image localhost/here (" in result.stderr.str()
    with pytest.raises(ProfileError), examine("installed:gone", run=True, place=IMAGE):
        pass


def test_a_package_of_the_distribution_is_refused_as_on_a_host(
    engine: None, environment: Path
) -> None:
    """Debian's packages have an egg-info and no RECORD, in a folder of their own."""
    (site,) = environment.glob("lib/python*/site-packages")
    folder = environment / "dist-packages"
    folder.mkdir()
    (folder / "Legacy-2.0.egg-info").write_text(
        "Metadata-Version: 2.1\nName: Legacy\nVersion: 2.0\n"
    )
    (site / "distribution.pth").write_text(f"{folder}\n")
    result = run_command("--binary-place", IMAGE, "--binary-installed", "legacy")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "legacy: installed without a RECORD (Legacy-2.0.egg-info)" in result.stderr.str()


def test_an_image_that_cannot_be_had_is_nobodys_fault(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fake_engine.install(pytester.path, refuses="pull")
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    result = run_command("--binary-place", IMAGE, "--binary-installed", "demo")
    assert result.ret == TRY_AGAIN
    assert "image:localhost/here: podman: Error: it was refused" in result.stderr.str()
    with pytest.raises(GatherError), examine("installed:demo", run=True, place=IMAGE):
        pass


@pytest.mark.parametrize("others", [("image:oldest",), (IMAGE, "image:localhost/other")])
def test_an_installed_package_is_in_one_image(
    pytester: pytest.Pytester, others: tuple[str, ...]
) -> None:
    places = [word for each in others for word in ("--binary-place", each)]
    result = run_command(*places, "--binary-installed", "demo")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "an installed package is in one place: name its image" in result.stderr.str()

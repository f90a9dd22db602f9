"""What an index answers is never charged to the package that asks it; what it lacks is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from binary_checks import objects
from binary_checks.errors import GatherError, ProfileError
from binary_checks.examination.facts import Facts
from binary_checks.examination.settings import RunSettings
from binary_checks.gather.companions import Companions
from binary_checks.model import RequiredWheels
from binary_checks.places import installers
from binary_checks.places.installers import find_fault, find_installer, find_uv, install
from binary_checks.sources import Surroundings, parse
from binary_checks.sources.file import FileSource
from fixtures.build_wheel import build_wheel
from fixtures.index_answers import CAUSES, FAULTS, PACKAGE, PURE, serve_answer
from fixtures.installer_outputs import Output, read_outputs

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and limits as POSIX has them")

OWN = {"file-half-without-hash", "without-tls"}
"""What somebody who asks for the package itself has to mend: the file on the index, a setting."""
OFTEN = {"page-503", "lacks-project"}
"""What every run of the tests tries; the others are slow together, and their words recorded."""


RETRIED = {"page-429", "page-500", "page-503", "page-stall", "file-cut", "refused"}
"""What installers ask for again, and report in other words then."""


def rows(*answers: str, retries: str = "") -> list[object]:
    often = OFTEN if retries != "1" else set()
    return [
        pytest.param(
            *filter(None, (name, retries)), marks=() if name in often else pytest.mark.slow
        )
        for name in sorted(answers)
    ]


Serve = Callable[[str], None]


@pytest.fixture
def answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Make an index that answers so the only one of the user's."""
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    settings = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_CACHE_DIR": "1",
        "PIP_RETRIES": "0",
        "PIP_TIMEOUT": "1",
        "UV_CACHE_DIR": str(tmp_path / "uv"),
        "UV_HTTP_RETRIES": "0",
        "UV_HTTP_TIMEOUT": "1",
        "UV_NO_CONFIG": "1",
        "BINARY_CHECKS_CACHE": str(tmp_path / "cache"),
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "served"
    folder.mkdir()
    with ExitStack() as served:

        def serve(name: str) -> None:
            for variable, value in served.enter_context(serve_answer(name, folder)).items():
                monkeypatch.setenv(variable, value)

        yield serve


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment in which nothing is installed."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run((sys.executable, "-m", "venv", "--without-pip", folder), check=True)
    return folder / "bin" / "python"


@pytest.fixture(params=["pip", "uv"])
def run_installer(
    request: pytest.FixtureRequest, python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], str]:
    """Install a wheel that requires ``needed``, with pip or with uv."""
    if request.param == "pip":
        pytest.importorskip("pip", reason="no pip here")
        monkeypatch.setattr(installers, "find_uv", lambda: None)
    elif find_uv() is None:
        pytest.skip("no uv here")
    demo = write_demo(tmp_path)
    (tmp_path / "empty").mkdir()

    def run() -> str:
        installer = find_installer(python, cwd=tmp_path / "empty", timeout=60)
        assert installer.name.startswith(request.param)
        target = ("--target", str(tmp_path / "installed"), str(demo))
        return install(installer, target, index=True, cwd=tmp_path / "empty", timeout=60)

    return run


def write_demo(folder: Path, tags: tuple[str, ...] = PURE) -> Path:
    members: dict[str, str | bytes] = {"demo/__init__.py": "", "demo/data": os.urandom(300_000)}
    return build_wheel(folder, tags=tags, members=members, requires=["needed>=1"])


def demand_cause(name: str, said: str) -> None:
    assert CAUSES.get(name, "the index ") in said
    assert "\n" not in said


def name_output(output: Output) -> str:
    return f"{output.answer}-{output.versions[0]}"


@pytest.mark.parametrize("output", read_outputs(), ids=name_output)
def test_the_words_of_each_version_of_pip_and_uv_are_known(output: Output) -> None:
    fault = find_fault(output.said, output.log)
    if output.answer in PACKAGE:
        assert fault == ""
    else:
        demand_cause(output.answer, fault)


@pytest.mark.parametrize(
    ("name", "retries"), [*rows(*FAULTS, retries="0"), *rows(*RETRIED, retries="1")]
)
def test_a_fault_of_the_index_is_no_fault_of_what_requires_from_it(
    name: str,
    retries: str,
    answer: Serve,
    run_installer: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PIP_RETRIES", retries)
    monkeypatch.setenv("UV_HTTP_RETRIES", retries)
    answer(name)
    with pytest.raises(GatherError, match=r"^the index ") as raised:
        run_installer()
    demand_cause(name, str(raised.value))


@pytest.mark.parametrize("name", rows(*PACKAGE))
def test_what_a_healthy_index_lacks_is_the_fault_of_what_requires_it(
    name: str, answer: Serve, run_installer: Callable[[], str]
) -> None:
    answer(name)
    assert "needed" in run_installer()


def test_an_index_that_is_well_serves(answer: Serve, run_installer: Callable[[], str]) -> None:
    answer("healthy")
    assert run_installer() == ""


def test_a_full_disk_is_no_fault_of_the_package(
    answer: Serve, run_installer: Callable[[], str]
) -> None:
    """pip reports the error, and uv is ended by the signal."""
    answer("healthy")
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(GatherError, match=r"^the disk is full: |was ended by SIGXFSZ$"):
            run_installer()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def fetch_required(folder: Path) -> RequiredWheels:
    """Download what the wheel requires, as ``--binary-with-requirements`` does."""
    shelf = Companions((), fetches=True, folder=folder / "kept")
    source = FileSource(path=write_demo(folder, ("py3-none-manylinux_2_17_x86_64",)))
    return Facts(source, RunSettings(), shelf).get(RequiredWheels)


@pytest.mark.parametrize(
    ("name", "retries"), [*rows(*FAULTS, retries="0"), *rows(*RETRIED, retries="1")]
)
def test_a_fault_of_the_index_is_no_lack_of_wheels(
    name: str, retries: str, answer: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_RETRIES", retries)
    answer(name)
    with pytest.raises(GatherError) as raised:
        fetch_required(tmp_path)
    demand_cause(name, str(raised.value))


@pytest.mark.parametrize("name", rows(*PACKAGE))
def test_what_a_healthy_index_lacks_is_a_lack_of_wheels(
    name: str, answer: Serve, tmp_path: Path
) -> None:
    answer(name)
    assert fetch_required(tmp_path).lacking.startswith("wheel of needed")


def fetch_published(folder: Path) -> None:
    """Read a package that an index has, as ``binary-checks needed==1.0`` does."""
    named = parse("needed==1.0", folder)
    assert named is not None
    named.resolve(Surroundings(python=Path(sys.executable))).read(objects)


@pytest.mark.parametrize("name", rows(*(name for name in FAULTS if name not in OWN)))
def test_a_fault_of_the_index_is_no_fault_of_the_package_on_it(
    name: str, answer: Serve, tmp_path: Path
) -> None:
    answer(name)
    with pytest.raises(GatherError):
        fetch_published(tmp_path)


@pytest.mark.parametrize("name", rows(*PACKAGE))
def test_a_package_that_a_healthy_index_lacks_was_misnamed_by_the_user(
    name: str, answer: Serve, tmp_path: Path
) -> None:
    answer(name)
    with pytest.raises(ProfileError, match=r"^needed==1\.0: "):
        fetch_published(tmp_path)

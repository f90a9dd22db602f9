"""An installed package is run where it lies, and its RECORD is its wheel's, by any installer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from binary_checks import objects
from binary_checks.checks.expected import snippet_fails
from binary_checks.documents.facts import record_sha256
from binary_checks.errors import GatherError, Unavailable
from binary_checks.model import Code, Ending, InstalledPackage, Note, SnippetRequest
from binary_checks.places import InstalledPlace, PlaceSettings, installers, list_folders
from binary_checks.probes.import_name.reader import import_each
from binary_checks.probes.run_snippet.reader import run_snippets
from binary_checks.sources.installed import find_installation
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, open_offline, read_wheel
from fixtures.slow import slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the package's wheel."""
    return tmp_path_factory.mktemp("wheel")


@pytest.fixture(scope="module", params=["uv", *slow("pip")])
def python(request: pytest.FixtureRequest, folder: Path) -> Iterator[Path]:
    """The interpreter of an environment with the package in it."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "pip":
            patch.setattr(installers, "find_uv", lambda: None)
        elif installers.find_uv() is None:
            pytest.skip("no uv here")
        points = "[console_scripts]\ndemo = demo:main\n"
        script = {"demo-1.0.data/scripts/run": "#!python\nprint()\n"}
        members = {
            "demo/__init__.py": "import sys\n",
            "demo-1.0.data/purelib/more.py": "",
            **script,
        }
        wheel = build_wheel(
            folder, members=members, tags=PURE, entry_points=points, root_is_purelib=True
        )
        with open_offline(wheel) as environment:
            yield environment.python


def read(python: Path) -> InstalledPackage:
    folders = list_folders(python, timeout=60)
    found = find_installation("demo", folders.search, folders.prefix)
    assert found is not None
    return found.read(objects).package


def open_existing(python: Path) -> InstalledPlace:
    return InstalledPlace(PlaceSettings(python=python, timeout=60))


def test_its_record_is_that_of_its_wheel(python: Path, folder: Path) -> None:
    package = read(python)
    assert [member for member in package.members if member.faults] == []
    assert record_sha256(package) == record_sha256(read_wheel(next(folder.glob("*.whl"))))


def test_it_is_imported_from_where_it_lies(python: Path) -> None:
    package = read(python)
    before = sorted(package.path.parent.rglob("*"))
    with open_existing(python) as environment:
        assert environment.install(package) is None
        (step,) = import_each(environment, ("demo",)).steps
    assert (step.outcome, step.origin) == (Ending.OK, "demo/__init__.py")
    assert sorted(package.path.parent.rglob("*")) == before


def test_what_is_installed_beside_it_is_taken(python: Path) -> None:
    requires = ("Demo>=1", "colorama; sys_platform == 'none'")
    asked = SnippetRequest(code={"own": Code("import demo")}, requires=tuple(map(Code, requires)))
    with open_existing(python) as opened:
        report = run_snippets(opened, read(python), asked)
    assert report.preinstalled == ("Demo 1.0",)
    (run,) = report.runs
    assert run.step.outcome is Ending.OK
    assert Note(sentence="the snippets run with the Demo 1.0 that is already installed") in list(
        snippet_fails(report, asked)
    )


@pytest.mark.parametrize(
    ("required", "said"),
    [
        ("numpy>=2", "numpy>=2 is not installed alongside the package; install it there"),
        ("demo>=2", "demo 1.0 is installed, demo>=2 is required"),
        *slow(("demo demo", "'demo demo' is not a requirement")),
    ],
)
def test_nothing_is_installed_beside_it(python: Path, required: str, said: str) -> None:
    with pytest.raises(Unavailable) as caught:
        open_existing(python).with_requirements((required,)).install(read(python))
    assert str(caught.value) == said


@pytest.mark.skipif(os.name != "posix", reason="there is no /bin/true")
def test_an_interpreter_that_does_not_answer_is_no_python() -> None:
    with pytest.raises(GatherError, match="not a Python that runs here"):
        list_folders(Path("/bin/true"), timeout=60)


@pytest.mark.skipif(os.name != "posix", reason="there is no sandbox")
def test_a_sandbox_shows_no_folder_that_holds_a_home_or_hides_in_one(
    python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = read(python)
    site, home = package.path.parent, tmp_path / "home"
    (source := home / "project" / "src").mkdir(parents=True)
    (hidden := home / ".ssh").mkdir()
    monkeypatch.setenv("HOME", str(home))
    lines = ("/", "/proc", "/dev", "/run", home, tmp_path, hidden, site / "../../..", source)
    (site / "a.pth").write_text("\n".join(map(str, lines)))
    with open_existing(python) as environment:
        environment.install(package)
        shown = environment.limits.visible
    (site / "a.pth").unlink()
    assert source in shown
    assert not {path.resolve() for path in map(Path, lines[:-2])} & {p.resolve() for p in shown}

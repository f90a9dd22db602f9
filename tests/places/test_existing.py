"""An installed package is run where it lies, and its RECORD is its wheel's, by any installer."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from binary_checks import objects
from binary_checks.checks.expected import snippet_fails
from binary_checks.documents.facts import record_sha256
from binary_checks.errors import GatherError, Unavailable
from binary_checks.model import (
    Code,
    Ending,
    InstalledFolders,
    InstalledPackage,
    Note,
    Package,
    SnippetRequest,
    read_place,
)
from binary_checks.places import (
    InstalledPlace,
    PlaceSettings,
    PrefixPlace,
    choose_place,
    find_python,
    installers,
    list_folders,
)
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


# A package file is run in an environment that is there only where that very package lies in it.


def name(place: str, python: Path) -> PrefixPlace:
    settings = PlaceSettings(name=read_place(place), python=python, timeout=60)
    chosen = choose_place(Package(path=Path("demo.zip")), settings)
    assert isinstance(chosen, PrefixPlace)
    return chosen


def test_it_runs_where_it_is_installed_and_nothing_is_changed_there(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, members={"demo.py": "x = 1\n"}, tags=PURE)
    (tmp_path / "other").mkdir()
    other = build_wheel(tmp_path / "other", members={"demo.py": "x = 2\n"}, tags=PURE)
    newer = build_wheel(tmp_path, version="2.0", members={"demo.py": ""}, tags=PURE)
    with open_offline(path) as environment:
        prefix = environment.python.parents[1]
        assert find_python(prefix) == environment.python
        before = sorted(prefix.rglob("*"))
        place = name(f"prefix:{prefix}", environment.python)
        assert place.installed is None
        assert place.install(read_wheel(path)) is None
        folders = InstalledFolders(site_packages=place.site_packages, prefix=prefix)
        assert place.installed == folders == environment.installed
        (step,) = import_each(place, ("demo",)).steps
        assert (step.outcome, step.origin) == (Ending.OK, "demo.py")
        place.close()
        assert sorted(prefix.rglob("*")) == before
        for wheel, said in (
            (other, "the installed demo 1.0 is not from this wheel: demo.py differs"),
            (newer, "demo 1.0 is installed there, not 2.0"),
        ):
            with pytest.raises(Unavailable) as caught:
                name("prefix:env", environment.python).install(read_wheel(wheel))
            assert str(caught.value) == f"prefix:env: {said}"


def test_what_is_not_installed_there_is_not_inspected(tmp_path: Path) -> None:
    wheel = read_wheel(build_wheel(tmp_path, members={"demo.py": ""}, tags=PURE))
    with pytest.raises(Unavailable, match="existing:py: demo is not installed there"):
        name("existing:py", Path(sys.executable)).install(wheel)


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "it contains no Python"), ("#!/bin/sh\nexit 3\n", "not a Python 3.8 or later")],
)
def test_half_an_environment_that_was_named_cannot_start(
    tmp_path: Path, content: str | None, said: str
) -> None:
    wheel = read_wheel(build_wheel(tmp_path, members={"demo.py": ""}, tags=PURE))
    python = tmp_path / "bin" / "python"
    if content is not None:
        if os.name != "posix":
            pytest.skip("a script with a shebang")
        python.parent.mkdir()
        python.write_text(content)
        python.chmod(0o755)
    with pytest.raises(GatherError, match=said):
        name("prefix:half", python).install(wheel)


@pytest.mark.parametrize(("noted", "found"), [("demo-1.0-h1_0.json", True), ("demo-1.0", False)])
def test_a_conda_package_lies_where_conda_noted_it(
    tmp_path: Path, noted: str, *, found: bool
) -> None:
    with open_offline(build_wheel(tmp_path, members={"a.py": ""}, tags=PURE)) as environment:
        notes = environment.python.parents[1] / "conda-meta"
        notes.mkdir()
        (notes / noted).touch()
        place = name("prefix:env", environment.python)
        package = Package(path=Path("demo-1.0-h1_0.conda"), name="demo", version="1.0")
        if found:
            assert place.install(package) is None
            return
        with pytest.raises(Unavailable, match="prefix:env: its conda-meta does not list demo 1"):
            place.install(package)

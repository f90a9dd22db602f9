"""A package is installed in the ways that its profile lists, and runs in each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from binary_checks.errors import GatherError, NotApplicable, NothingNamed, Unavailable
from binary_checks.model import CondaPackage, Ending, InstallWay
from binary_checks.places import PlaceSettings, choose_place, installers, venv
from binary_checks.places.installers import Installer
from binary_checks.places.venv import add_options, name_requirements
from binary_checks.probes.import_name.reader import import_each
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, PYTHON, FilledPlace, install_fresh, read_wheel
from fixtures.slow import slow


def build(folder: Path, name: str, text: str, version: str = "1.0", **fields: object) -> Path:
    members = {f"{name}.py": text}
    return build_wheel(  # type: ignore[arg-type]
        folder, name=name, version=version, tags=PURE, members=members, **fields
    )


def build_demo(folder: Path, expected: int) -> Path:
    """Build a wheel that works with one of two versions of a requirement."""
    for version in (1, 2):
        build(folder / "index", "other", f"version = {version}\n", f"{version}.0")
    text = f"import other\nassert other.version == {expected}, other.version\n"
    return build(folder, "demo", text, requires=["other"])


def install(path: Path, way: InstallWay, **settings: object) -> FilledPlace:
    links = str(path.parent / "index")
    way = InstallWay(
        **{each: getattr(way, each) for each in ("name", "tool", "requires", "command")},
        options=(*way.options, ("--find-links", links), ("--no-index", "")),
    )
    return install_fresh(read_wheel(path), way=way, **settings)


@pytest.mark.parametrize(("requirement", "expected"), [("other<2", 1), *slow(("other>=2", 2))])
def test_a_requirement_is_installed_in_the_version_of_the_way(
    tmp_path: Path, requirement: str, expected: int
) -> None:
    demo = build_demo(tmp_path, expected)
    with install(demo, InstallWay(name="way", requires=(requirement,))) as place:
        (step,) = import_each(place, ("demo",)).steps
        assert step.outcome is Ending.OK
        assert place.install_report.error == ""


@pytest.mark.skipif("UV_OFFLINE" in os.environ, reason="uv then blames the network")
def test_requirements_that_exclude_each_other_are_the_package_s_fault(tmp_path: Path) -> None:
    demo = build_demo(tmp_path, 1)
    with install(demo, InstallWay(name="way", requires=("other<2", "other>=2"))) as place:
        assert "other" in place.install_report.error


def test_a_package_is_installed_over_itself(tmp_path: Path) -> None:
    way = InstallWay(name="anew", options=(("--force-reinstall", ""),))
    with install(build_demo(tmp_path, 2), way) as place:
        report = place.install_report
    assert (report.error, report.unrecorded, report.altered, report.missing) == ("", (), (), ())


def test_the_file_stands_for_the_project_of_a_command(tmp_path: Path) -> None:
    wheel = read_wheel(build_demo(tmp_path, 1))
    command = InstallWay(name="way", command="pip install Demo other", requires=("Demo", "other"))
    assert name_requirements(command, wheel) == ("other", str(wheel.path))
    extra = InstallWay(name="way", command="pip install demo[b,a]", requires=("demo[b,a]",))
    assert name_requirements(extra, wheel) == (f"demo[a,b] @ {wheel.path.as_uri()}",)
    another = InstallWay(name="way", command="pip install other", requires=("other",))
    with pytest.raises(NotApplicable, match="does not install demo: pip install other"):
        name_requirements(another, wheel)
    pinned = InstallWay(name="way", command="pip install demo==2", requires=("demo==2",))
    with pytest.raises(NothingNamed, match=r"venv:way installs demo==2, not version 1\.0"):
        name_requirements(pinned, wheel)


@pytest.mark.parametrize(
    ("name", "command", "sources"),
    [
        (
            "uv 0.11.2",
            (
                *("--default-index", "https://a", "--index-strategy", "unsafe-best-match"),
                *("--index", "https://b", "--prerelease", "allow", "--upgrade"),
            ),
            ("--index", "https://mine"),
        ),
        (
            "pip 26.1",
            ("--index-url", "https://a", "--extra-index-url", "https://b", "--pre", "--upgrade"),
            ("--default-index", "https://pypi", "--index", "https://mine"),
        ),
    ],
)
def test_options_are_spelled_as_the_installer_does(
    name: str, command: tuple[str, ...], sources: tuple[str, ...]
) -> None:
    options = (
        ("--index-url", "https://a"),
        ("--extra-index-url", "https://b"),
        ("--pre", ""),
        ("--upgrade", ""),
        ("--force-reinstall", ""),
    )
    mine = ("--default-index", "https://pypi", "--index", "https://mine")
    plain = Installer(name=name, command=("install",), no_index=(), sources=mine)
    way = InstallWay(name="way", options=options)
    found = add_options(plain, way)
    assert (found.command, found.sources) == (("install", *command), sources)
    anew = add_options(plain, way, again=True).command
    assert anew[-1] in ("--reinstall", "--force-reinstall")


def test_the_tool_of_the_way_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demo = build_demo(tmp_path, 2)
    with install(demo, InstallWay(name="way", tool="pip")) as place:
        assert place.install_report.installer.startswith("pip ")
    monkeypatch.setattr(installers, "find_uv", lambda: None)
    with pytest.raises(Unavailable, match="there is no uv here"):
        install(demo, InstallWay(name="way", tool="uv"))


def test_a_conda_package_is_not_installed_in_these_ways(tmp_path: Path) -> None:
    package = CondaPackage(path=tmp_path / "demo-1.0-0.conda")
    settings = PlaceSettings(python=PYTHON, timeout=60, way=InstallWay(name="way"))
    with choose_place(package, settings) as place, pytest.raises(NotApplicable, match="as venv"):
        place.install(package)


# Poetry: a program that answers in its place, and poetry itself where it is installed.


@pytest.fixture
def poetry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in place of poetry, which copies the project next to itself."""
    if os.name == "nt":
        pytest.skip("the program is a shell script")
    program = tmp_path / "bin" / "poetry"
    program.parent.mkdir()
    monkeypatch.setattr(venv, "find_poetry", lambda: (str(program),))
    return program


def answer(program: Path, text: str, status: int) -> None:
    """Write the program."""
    kept = f"cp pyproject.toml {program.parent}; echo $VIRTUAL_ENV >{program.parent}/environment"
    version = "if [ $1 = --version ]; then echo 'Poetry (version 2.5.1)'; exit; fi"
    program.write_text(f"#!/bin/sh\n{version}; {kept}; echo '{text}' >&2; exit {status}\n")
    program.chmod(0o755)


POETRY = InstallWay(name="poetry", tool="poetry", requires=("other<2",))


def test_poetry_gets_a_project_that_depends_on_the_wheel(tmp_path: Path, poetry: Path) -> None:
    answer(poetry, "", 0)
    demo = build_demo(tmp_path, 1)
    with install(demo, POETRY) as place:
        assert place.install_report.installer == "poetry 2.5.1"
        assert place.install_report.missing  # the program installed nothing
        environment = (poetry.parent / "environment").read_text().strip()
        assert place.folder.resolve() / "venv" == Path(environment)
    project = (poetry.parent / "pyproject.toml").read_text()
    assert f'dependencies = ["demo @ {demo.resolve().as_uri()}", "other<2"]' in project
    assert 'requires-python = ">=3.' in project


@pytest.mark.parametrize(
    "text", ["so, version solving failed.", "Unable to find installation candidates"]
)
def test_poetry_refuses_a_package(tmp_path: Path, poetry: Path, text: str) -> None:
    answer(poetry, text, 1)
    with install(build_demo(tmp_path, 1), POETRY) as place:
        assert text in place.install_report.error


def test_poetry_fails_for_another_reason(tmp_path: Path, poetry: Path) -> None:
    answer(poetry, "All attempts to connect to pypi.org failed.", 1)
    with pytest.raises(GatherError, match=r"poetry failed: .*connect to pypi\.org"):
        install(build_demo(tmp_path, 1), POETRY)


def test_without_poetry_nothing_is_inspected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(venv, "find_poetry", lambda: None)
    with pytest.raises(Unavailable, match="there is no poetry here"):
        install(build_demo(tmp_path, 1), POETRY)


@pytest.mark.slow
def test_poetry_itself(tmp_path: Path) -> None:
    if venv.find_poetry() is None:
        pytest.skip("there is no poetry here")
    demo = build(tmp_path, "demo", "")
    way = InstallWay(name="poetry", tool="poetry")
    with install_fresh(read_wheel(demo), way=way) as place:
        report = place.install_report
    assert (report.error, report.missing, report.unrecorded) == ("", (), ())

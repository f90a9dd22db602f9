"""A fresh environment has the wheel and what it requires, or says whose fault that is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from binary_checks.errors import GatherError, Unavailable
from binary_checks.model import Ending, ImportRequest
from binary_checks.places import installers
from binary_checks.probes.import_name.reader import import_each, import_names
from fixtures.build_wheel import OMIT, Entry, build_wheel
from fixtures.environments import PURE, PYTHON, install_fresh, open_offline, read_wheel
from fixtures.slow import slow


@pytest.fixture(params=["uv", *slow("pip")])
def installer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "pip":
        monkeypatch.setattr(installers, "find_uv", lambda: None)
    elif installers.find_uv() is None:
        pytest.skip("no uv here")
    yield request.param


def build(folder: Path, name: str = "demo", **fields: object) -> Path:
    usual = {"tags": PURE, "members": {f"{name}/__init__.py": "value = 1\n"}}
    return build_wheel(folder, name=name, **{**usual, **fields})  # type: ignore[arg-type]


def test_a_healthy_wheel_is_installed_as_it_is_and_the_environment_goes_when_it_is_closed(
    tmp_path: Path, installer: str
) -> None:
    points = "[console_scripts]\ndemo = demo:main\n"
    script = {"demo-1.0.data/scripts/run": "#!python\nprint()\n", "demo/__init__.py": ""}
    wheel = build(tmp_path, members=script, entry_points=points, root_is_purelib=True)
    with open_offline(wheel) as environment:
        report, target, folder = (
            environment.install_report,
            environment.target,
            Path(environment.folder),
        )
        assert (environment.site_packages / "demo/__init__.py").is_file()
        assert environment.python != PYTHON
    assert not folder.exists()
    assert target.version.split(".")[:2] == [str(part) for part in sys.version_info[:2]]
    assert report.installer.split()[0] == installer
    assert (report.error, report.unrecorded, report.altered, report.missing) == ("", (), (), ())


@pytest.mark.parametrize("as_folder", [True, *slow(False)])
def test_requirements_come_from_what_is_given(
    tmp_path: Path, installer: str, as_folder: bool
) -> None:
    other = build(tmp_path / "more", "other")
    demo = build(tmp_path, requires=["other>=1"], members={"demo.py": "import other\n"})
    with open_offline(demo, other.parent if as_folder else other) as environment:
        (step,) = import_each(environment, ("demo",)).steps
        assert environment.install_report.unrecorded == ()
    assert step.outcome is Ending.OK


def test_a_requirement_that_was_not_given_is_nobodys_fault(tmp_path: Path, installer: str) -> None:
    with pytest.raises(Unavailable, match=r"not among the wheels given.*absent"):
        open_offline(build(tmp_path, requires=["absent"]))


@pytest.mark.parametrize("setting", ["PIP_NO_INDEX", *slow("UV_NO_INDEX", "UV_OFFLINE")])
def test_a_user_without_an_index_cannot_blame_the_package(
    tmp_path: Path, installer: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if installer == "pip" and setting != "PIP_NO_INDEX":
        pytest.skip("a setting of uv's")
    monkeypatch.setenv(setting, "1")
    demo = read_wheel(build(tmp_path, requires=["absent-binary-checks-demo"]))
    with pytest.raises(Unavailable, match="a requirement is not among the wheels given: "):
        install_fresh(demo, python=PYTHON, timeout=120)


def test_metadata_that_no_installer_reads_is_the_packages_fault(
    tmp_path: Path, installer: str
) -> None:
    wheel = build(tmp_path, requires=["@@ no requirement"])
    with open_offline(wheel) as environment:
        report = environment.install_report
        with pytest.raises(Unavailable, match="could not be installed"):
            import_names(environment, environment.wheel, ImportRequest())
    assert report.error
    assert "\n" not in report.error
    assert str(tmp_path) not in report.error


def test_a_wheel_that_is_not_there_cannot_be_given(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"gone\.whl: given alongside the package, but missing"):
        open_offline(build(tmp_path), tmp_path / "gone.whl")


OF_PYTHON_2 = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\nRequires-Python: <3\n"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"tags": ("cp27-cp27mu-manylinux1_x86_64",)},
            "^the wheel is for cp27-cp27mu-manylinux1_x86_64, the interpreter is CPython",
        ),
        ({"metadata": OF_PYTHON_2}, "requires Python <3, the interpreter is "),
        (
            {
                "filename": "demo-1.0-py3-none-any-cu128.whl",
                "members": {"demo-1.0.dist-info/variant.json": "{}"},
            },
            "no released installer takes a file name with the label",
        ),
    ],
)
def test_a_wheel_that_this_interpreter_cannot_have_is_not_installed(
    tmp_path: Path, fields: dict[str, object], said: str
) -> None:
    with pytest.raises(Unavailable, match=said):
        open_offline(build(tmp_path, **fields))


@pytest.mark.parametrize("content", [None, "#!/bin/sh\nexit 7\n", "no program"])
def test_an_interpreter_that_does_not_run_is_not_the_packages_fault(
    tmp_path: Path, content: str | None
) -> None:
    python = tmp_path / "python"
    if content is not None:
        python.write_text(content)
        python.chmod(0o755)
    wheel = read_wheel(build(tmp_path))
    with pytest.raises(GatherError, match=r"python: cannot "):
        install_fresh(wheel, python=python, timeout=60, index=False)


def test_an_installation_that_takes_too_long_is_not_the_packages_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text("import time\ntime.sleep(600)\n")
    tool = installers.Installer(name="slow", command=(sys.executable, str(slow)), no_index=())
    with pytest.raises(GatherError, match=r"longer than 0\.5 s"):
        installers.install(tool, ("demo.whl",), index=False, cwd=tmp_path, timeout=0.5)


def test_what_record_does_not_name_is_found(tmp_path: Path, installer: str) -> None:
    wheel = build(tmp_path, extra_entries=[Entry("demo/extra.txt", b"more")])
    with open_offline(wheel) as environment:
        report = environment.install_report
    # Either installs every member; pip then names it in the RECORD that it writes.
    assert (report.error, report.unrecorded) == ("", ("demo/extra.txt",))


def test_a_file_that_another_project_overwrote_is_found(tmp_path: Path) -> None:
    other = build(tmp_path / "more", "other", members={"demo/__init__.py": "value = 2\n"})
    wheel = build(tmp_path, requires=["other"])
    with open_offline(wheel, other) as environment:
        content = (environment.site_packages / "demo/__init__.py").read_text()
        report = environment.install_report
    assert report.altered == (("demo/__init__.py",) if content == "value = 2\n" else ())


def test_a_wheel_without_record_is_not_compared_row_by_row(tmp_path: Path) -> None:
    with open_offline(build(tmp_path, record=OMIT)) as environment:
        report = environment.install_report
    assert report.unrecorded == ()
    assert ".tmp" not in report.error  # uv refuses it, and names a folder of the moment

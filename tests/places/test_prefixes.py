"""A package file is run in an environment that is there only where that very package lies in it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from binary_checks.errors import GatherError, Unavailable
from binary_checks.model import Ending, InstalledFolders, Package, read_place
from binary_checks.places import PlaceSettings, PrefixPlace, choose_place, find_python
from binary_checks.probes.import_name.reader import import_each
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, open_offline, read_wheel


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

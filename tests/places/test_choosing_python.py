"""A wheel for PyPy or a free-threaded Python runs on such an interpreter, if PATH has one."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from packaging.tags import parse_tag

from binary_checks.errors import GatherError, Unavailable
from binary_checks.model import Ending, TargetPython, Wheel
from binary_checks.places import PlaceSettings, choose_place, running
from binary_checks.places.venv import choose_python
from binary_checks.probes.import_name.reader import import_each
from fixtures.build_wheel import build_wheel
from fixtures.environments import PYTHON, read_wheel

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the substitutes are scripts")

LINUX = "manylinux_2_28_x86_64"
HERE = Path("/own/python")
KNOWN = {
    "python": ("CPython", "3.11.7", f"cp311-cp311-{LINUX}"),
    "pypy3": ("PyPy", "3.9.16", f"pp39-pypy39_pp73-{LINUX}"),
    "pypy3.10": ("PyPy", "3.10.14", f"pp310-pypy310_pp73-{LINUX}"),
    "python3.13t": ("CPython", "3.13.1", f"cp313-cp313t-{LINUX}"),
    "graalpy": ("GraalPy", "3.12.8", f"graalpy312-graalpy250_312_native-{LINUX}"),
}


def identify(path: Path) -> TargetPython:
    if path.name not in KNOWN:
        raise GatherError(f"{path}: not a Python 3.8 or later that runs here")
    implementation, version, tag = KNOWN[path.name]
    return TargetPython(
        executable=path,
        implementation=implementation,
        version=version,
        platform="linux-x86_64",
        paths={},
        tags=frozenset(parse_tag(tag)),
    )


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def add(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).touch(mode=0o755)


def wheel(folder: Path, *tags: str) -> Wheel:
    return read_wheel(build_wheel(folder, members={"demo.py": ""}, tags=tags))


@pytest.mark.parametrize(
    ("tag", "program"),
    [
        (f"pp39-pypy39_pp73-{LINUX}", "pypy3"),
        (f"pp310-pypy310_pp73-{LINUX}", "pypy3.10"),
        (f"cp313-cp313t-{LINUX}", "python3.13t"),
        (f"graalpy312-graalpy250_312_native-{LINUX}", "graalpy"),
    ],
)
def test_the_interpreter_of_the_tag_is_found(
    programs: Path, tmp_path: Path, tag: str, program: str
) -> None:
    add(programs, *KNOWN)
    assert choose_python(wheel(tmp_path, tag), HERE, identify) == programs / program


@pytest.mark.parametrize(
    "tags",
    [
        (f"cp311-cp311-{LINUX}",),  # this interpreter accepts it
        (f"cp311-cp311-{LINUX}", f"pp39-pypy39_pp73-{LINUX}"),
        (f"cp312-cp312-{LINUX}",),  # an ordinary CPython is named by the user
        ("pp39-pypy39_pp73-win_amd64",),  # no interpreter of this system accepts it
    ],
)
def test_other_wheels_are_for_the_default(
    programs: Path, tmp_path: Path, tags: tuple[str, ...]
) -> None:
    add(programs, *KNOWN)
    assert choose_python(wheel(tmp_path, *tags), HERE, identify) == HERE


def test_the_message_names_what_is_missing(programs: Path, tmp_path: Path) -> None:
    threaded = wheel(tmp_path, f"cp313-cp313t-{LINUX}")
    with pytest.raises(
        Unavailable, match=r"there is no python3\.13t on PATH: name its interpreter"
    ):
        choose_python(threaded, HERE, identify)
    newer = wheel(tmp_path, f"pp311-pypy311_pp73-{LINUX}")
    with pytest.raises(Unavailable, match=r"there is no pypy3\.11 and no pypy3 on PATH"):
        choose_python(newer, HERE, identify)
    add(programs, "pypy3")
    with pytest.raises(Unavailable, match=r"pypy3: the wheel is for pp311.* is PyPy 3\.9\.16"):
        choose_python(newer, HERE, identify)


@pytest.mark.parametrize(
    ("tag", "reason"),
    [
        ("cp314-cp314-android_24_arm64_v8a", "a wheel for Android is judged statically only"),
        ("cp314-cp314-ios_13_0_arm64_iphoneos", "a wheel for iOS is judged statically only"),
        ("cp314-cp314-pyemscripten_2026_0_wasm32", "only Pyodide runs the wheel: --binary-place"),
    ],
)
def test_wheels_that_no_interpreter_of_a_host_runs_say_so(
    tmp_path: Path, tag: str, reason: str
) -> None:
    with pytest.raises(Unavailable, match=reason):
        running.require_fit(wheel(tmp_path, tag), identify(Path("python")))


@pytest.mark.slow
def test_a_real_pypy_imports_a_wheel_for_it(tmp_path: Path) -> None:
    program = shutil.which("pypy3")
    if program is None or sys.implementation.name == "pypy":
        pytest.skip("no PyPy here")
    best = running.identify(Path(program), timeout=120).ranked_tags[0]
    settings = PlaceSettings(python=PYTHON, may_choose=True, timeout=120, index=False)
    package = wheel(tmp_path, str(best))
    with choose_place(package, settings) as place:
        place.require_installed(package)
        report = import_each(place, ("demo",))
    assert report.python.startswith("PyPy 3.")
    assert [step.outcome for step in report.steps] == [Ending.OK]

"""A wheel for Windows runs under wine: a DLL that is missing is evidence, a pass is none."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from binary_checks.errors import Unavailable
from binary_checks.model.place_names import read_place
from binary_checks.model.places import ProbeAnswer, TargetPython
from binary_checks.places import PlaceSettings, Sandbox, choose_place
from binary_checks.places.wine.wine_place import RESERVATION, WinePlace, choose_python, judge_answer
from fixtures.build_wheel import build_wheel
from fixtures.environments import PYTHON
from fixtures.values import wheel
from tests.oracles.downloads import download

NEEDS = 'err:module:import_dll Library {} (which is needed by L"C:\\\\x\\\\{}") not found\n'
FAILED = "ImportError: DLL load failed while importing a: Module not found."


def settings(**fields: Any) -> PlaceSettings:
    usual = {"name": read_place("image:wine"), "python": PYTHON, "timeout": 60}
    return PlaceSettings(**{**usual, **fields})


def judged(*needs: tuple[str, str], said: str = "") -> Mapping[str, Any]:
    """What becomes of an answer, when wine said that these libraries were not found."""
    stderr = "".join(NEEDS.format(*each) for each in needs) + said
    answer = ProbeAnswer(answer={"detail": FAILED, "steps": [FAILED]}, stderr=stderr)
    return judge_answer(answer, "8.0").answer


def test_the_image_wine_is_a_place_of_its_own() -> None:
    subject = wheel("demo-1.0-cp311-cp311-win_amd64.whl")
    assert isinstance(choose_place(subject, settings()), WinePlace)
    other = choose_place(subject, settings(name=read_place("image:trixie")))
    assert not isinstance(other, WinePlace)


@pytest.mark.parametrize(
    ("tags", "version"),
    [
        ("cp311-cp311-win_amd64", "3.11"),
        ("cp38-abi3-win_amd64", "3.13"),
        ("py3-none-any", "3.13"),
        ("cp38-cp38-win_amd64", "3.8"),
    ],
)
def test_the_newest_python_that_takes_a_wheel_is_chosen(tags: str, version: str) -> None:
    assert choose_python(wheel(f"demo-1.0-{tags}.whl")) == version


@pytest.mark.parametrize("tags", ["cp314-cp314-win_amd64", "cp311-cp311-win_arm64"])
def test_a_wheel_that_no_python_there_takes_is_not_run(tags: str) -> None:
    with pytest.raises(Unavailable, match=f"it is for {tags}, wine has Pythons 3.8, "):
        choose_python(wheel(f"demo-1.0-{tags}.whl"))


def test_without_a_sandbox_nothing_runs() -> None:
    place = WinePlace(settings(sandbox=Sandbox(reason="bwrap is not on PATH")))
    with pytest.raises(Unavailable, match="it runs in a sandbox alone: bwrap is not on PATH"):
        place.install(wheel("demo-1.0-cp311-cp311-win_amd64.whl"))


def test_what_was_not_found_is_named_in_the_answer() -> None:
    said = (
        "ImportError: DLL load failed while importing a: b.dll needs gone.dll, which is not there"
    )
    found = judged(("gone.dll", "b.dll"), ("b.dll", "a.pyd"))
    assert found == {"detail": said, "steps": [said]}
    both = judged(("One.dll", "a.pyd"), ("two.dll", "a.pyd"))
    assert both["detail"].endswith("a.pyd needs One.dll and two.dll, which are not there")


def test_where_more_than_one_can_be_meant_none_is_named() -> None:
    assert judged(("one.dll", "a.pyd"), ("two.dll", "b.pyd"))["detail"] == FAILED
    assert judged()["detail"] == FAILED


def test_what_windows_has_and_wine_lacks_says_nothing_of_a_package() -> None:
    with pytest.raises(Unavailable, match=r"wine 8\.0 has no bcryptprimitives\.dll, which a\.pyd"):
        judged(("bcryptprimitives.dll", "a.pyd"))
    with pytest.raises(Unavailable, match=r"wine 8\.0 does not implement u\.dll\.f"):
        judged(said="wine: Call from 7B01 to unimplemented function u.dll.f, aborting\n")


def test_requirements_are_those_of_windows() -> None:
    target = TargetPython(executable=Path(), version="3.11.9", platform="win-amd64", paths={})
    assert target.markers["sys_platform"] == "win32"
    assert target.markers["platform_system"] == "Windows"


needs_wine = [
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.skipif(
        sys.platform != "linux"
        or not (shutil.which("wine64") or shutil.which("/usr/lib/wine/wine64"))
        or not shutil.which("bwrap"),
        reason="there is no wine or no bwrap here; install wine64 and bubblewrap",
    ),
]


def judge(path: Path, *, place: str = "image:wine") -> str:
    words = (sys.executable, "-m", "binary_checks", path, "--binary-place", place)
    done = subprocess.run(
        [*map(str, words), "-m", "runtime", "-v"],
        cwd=path.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


def fetch(folder: Path, requirement: str) -> Path:
    download(folder, ("win_amd64",), [requirement])
    (path,) = folder.glob("*.whl")
    return path


class TestUnderWine:
    pytestmark = needs_wine

    def test_a_pure_wheel_is_imported_and_no_pass_goes_without_its_note(
        self, tmp_path: Path
    ) -> None:
        members = {"demo/__init__.py": "import sys\nassert sys.platform == 'win32'\n"}
        said = judge(build_wheel(tmp_path, tags=("py3-none-any",), members=members))
        assert "import-fails PASSED" in said
        assert f"note: demo-1.0-py3-none-any.whl: {RESERVATION}" in said

    def test_a_published_wheel_is_imported(self, tmp_path: Path) -> None:
        said = judge(fetch(tmp_path, "markupsafe==3.0.4"))
        assert "import-fails PASSED" in said
        assert "extension-fails-to-load PASSED" in said

    def test_a_wheel_that_lacks_a_dll_fails_with_its_name(self, tmp_path: Path) -> None:
        whole = fetch(tmp_path, "gmpy2==2.3.2")
        lacking = tmp_path / "lacking" / whole.name
        lacking.parent.mkdir()
        with zipfile.ZipFile(whole) as archive, zipfile.ZipFile(lacking, "w") as written:
            for info in archive.infolist():
                if not info.filename.endswith("libmpfr-6.dll"):
                    written.writestr(info, archive.read(info))
        assert "libmpc-3.dll needs libmpfr-6.dll, which is not there" in judge(lacking)

    def test_a_wine_of_an_image_does_the_same(self, tmp_path: Path) -> None:
        said = judge(fetch(tmp_path, "markupsafe==3.0.4"), place="image:wine-trixie")
        if "mmdebstrap" in said or "cannot be built" in said:
            pytest.skip(said)
        assert "import-fails PASSED" in said
        assert RESERVATION in said

    def test_what_wine_lacks_is_not_inspected(self, tmp_path: Path) -> None:
        said = judge(fetch(tmp_path, "numpy==2.2.6"))
        if "import-fails PASSED" in said:
            pytest.skip("this wine has the complex functions of the C runtime")
        assert "not inspected: wine" in said
        assert "does not implement ucrtbase.dll.c" in said
        assert "import-fails FAILED" not in said

"""Where packages run: an option means one thing, and two that contradict each other are refused."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from binary_checks import examine
from binary_checks.errors import PROBLEMS, ProfileError
from binary_checks.places import image_place
from fixtures import fake_engine
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, demand_sandbox
from tests.plugin.conftest import TRY_AGAIN, Run, run_command


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            ["--binary-place", "podman:x"],
            "--binary-place podman:x: unknown place; expected one of "
            "venv|existing:PYTHON|prefix:PATH|image:REFERENCE|pyodide",
        ),
        (
            ["--binary-place", "existing"],
            "--binary-place existing: a place of this kind is written as existing:PYTHON",
        ),
        (
            ["--binary-place", "venv:python3"],
            "--binary-place venv:python3: not in the profile default, which has no 'installs'",
        ),
        (["--binary-place", "prefix:gone"], "--binary-place prefix:gone: no such folder"),
        (["--binary-place", "existing:gone"], "no such file or folder: gone"),
        (
            ["--binary-place", "existing:python", "--binary-python", "python"],
            "--binary-python python: --binary-place existing:python has its own interpreter; "
            "give only one of these options",
        ),
        (
            ["--binary-place", "existing:python", "--binary-place", "prefix:."],
            "--binary-place prefix:.: existing:python is given already, "
            "and only one existing environment can be given",
        ),
        (
            ["--binary-place", "image:oldest", "--binary-static"],
            "--binary-place image:oldest: --binary-static runs nothing",
        ),
        (
            ["--binary-place", "pyodide", "--binary-static"],
            "--binary-place pyodide: --binary-static runs nothing",
        ),
        (["--binary-place", "pyodide:gone"], "--binary-place pyodide:gone: no such folder"),
        (
            ["--binary-place", "prefix:.", "--binary-installed", "demo"],
            "--binary-place prefix:.: it contains no Python",
        ),
        (
            ["--binary-place", "image:--privileged"],
            "--binary-place image:--privileged: not an image reference, "
            "such as debian:bookworm-slim",
        ),
        (
            ["--binary-place", "image:./root"],
            "--binary-place image:./root: not an image reference, such as debian:bookworm-slim",
        ),
        (
            ["--binary-place", "venv", "--binary-installed", "demo"],
            "--binary-place venv: an installed package runs where it is installed: "
            "give existing:PYTHON or prefix:PATH",
        ),
    ],
)
def test_places_that_mean_nothing_or_two_things_are_refused(
    pytester: pytest.Pytester, options: list[str], line: str
) -> None:
    Path("python").symlink_to(sys.executable)
    build_wheel(Path(), members={"demo.py": ""}, tags=PURE)
    result = pytester.runpytest_inprocess("demo-1.0-py3-none-any.whl", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {line.replace('[', '[[]')}"])


@pytest.mark.skipif(sys.platform != "linux", reason="containers are Linux's")
def test_an_image_that_cannot_be_started_is_no_fault_of_the_package_and_no_pass(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(pytester.path))
    wheel = build_wheel(pytester.path, members={"demo.py": ""}, tags=PURE)
    place = ("--binary-place", "image:debian:bookworm-slim")
    result = run_command(wheel.name, "-m", "runtime", *place)
    assert result.ret == TRY_AGAIN
    said = "image:debian:bookworm-slim: there is no podman and no docker here; install one of them"
    result.stdout.fnmatch_lines([f"*{said}*"])


@pytest.mark.skipif(sys.platform != "linux", reason="containers are Linux's")
@pytest.mark.parametrize(
    ("image", "tag", "reason"),
    [
        ("localhost/here", "cp38-none-any", "it cannot be imported there: "),
        ("localhost/here", "py3-none-win_amd64", "the package is for win_amd64, image "),
        ("localhost/here", "py3-none-manylinux_2_28_s390x", "the package is for manylinux_2_28"),
        ("oldest", "py3-none-win_amd64", "no image for this host "),
    ],
)
def test_an_image_that_cannot_run_the_package_leaves_it_not_judged(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, image: str, tag: str, reason: str
) -> None:
    """Whatever else was found fit: the user asked for a run there, and there was none."""
    demand_sandbox("auto")
    folder = fake_engine.install(pytester.path, images=("localhost/here",))
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    wheel = build_wheel(pytester.path, members={"demo.py": ""}, tags=(tag,))
    options = ("--binary-place", f"image:{image}", "--binary-report", "json:result.json")
    result = run_command(wheel.name, *options)
    (package,) = json.loads((pytester.path / "result.json").read_bytes())["packages"]
    assert (package["verdict"], package["unrun"][: len(reason)]) == ("not judged", reason)
    assert "passed" in {entry["outcome"] for entry in package["entries"]}
    assert result.ret == PROBLEMS


def test_an_engine_that_gives_no_gpu_is_to_blame(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    demand_sandbox("auto")
    folder = fake_engine.install(pytester.path, images=("localhost/here",), gpus=0)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setattr(image_place, "_has_nvidia", lambda: True)
    wheel = build_wheel(pytester.path, members={"demo.py": ""}, tags=PURE)
    (pytester.path / "own.toml").write_text('[probes.gpu]\nmodule = "demo"\n')
    options = ("--binary-profile", "own.toml", "-m", "gpu", "-rs")
    result = run(wheel.name, *options, "--binary-place", "image:localhost/here", static=False)
    assert "with the GPUs of this host: podman shows no GPU in the container" in result.stdout.str()
    assert result.ret == TRY_AGAIN


def test_an_environment_without_the_package_leaves_it_not_judged(
    pytester: pytest.Pytester,
) -> None:
    wheel = build_wheel(pytester.path, name="nowhere", members={"nowhere.py": ""}, tags=PURE)
    options = ("--binary-place", f"existing:{sys.executable}", "--binary-report", "json:r.json")
    result = run_command(wheel.name, *options)
    (package,) = json.loads((pytester.path / "r.json").read_bytes())["packages"]
    assert package["verdict"] == "not judged"
    assert package["unrun"] == f"existing:{sys.executable}: nowhere is not installed there"
    assert "passed" in {entry["outcome"] for entry in package["entries"]}
    assert result.ret == PROBLEMS


def test_a_place_of_the_api_is_spelled_as_the_option_is(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path, members={"demo.py": ""}, tags=PURE)
    with examine(wheel, run=True, place=f"existing:{sys.executable}") as examination:
        (place,) = examination.facts.settings.places
    assert (place.name.label, place.python) == (
        f"existing:{sys.executable}",
        Path(sys.executable),
    )
    with (
        pytest.raises(ProfileError, match="does not create an environment from python3"),
        examine(wheel, place="prefix:/usr", python="python3"),
    ):
        pass


INSTALLS = """
[[installs]]
name = "old"
requires = ["other<2"]
options = ["--no-index", "--find-links", "index"]

[[installs]]
name = "new"
requires = ["other"]
options = ["--no-index", "--find-links", "index"]
"""


def test_each_way_of_installing_is_a_place(pytester: pytest.Pytester, run: Run) -> None:
    folder = pytester.path
    for version in (1, 2):
        members = {"other.py": f"version = {version}\n"}
        build_wheel(
            folder / "index", name="other", version=f"{version}.0", tags=PURE, members=members
        )
    members = {"demo.py": "from other import version\nassert version == 1\n"}
    name = build_wheel(folder, tags=PURE, members=members).name
    (folder / "own.toml").write_text(INSTALLS)
    asked = ("--binary-profile", "own.toml", "-v", f"{name}::import-fails")
    result = run(*asked, static=False)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            f"{name}::import-fails[[]venv[]] FAILED*",
            f"{name}::import-fails[[]venv:old[]] PASSED*",
            f"{name}::import-fails[[]venv:new[]] FAILED*",
        ]
    )
    alone = run(*asked, "--binary-place", "venv:old", static=False)
    alone.assert_outcomes(passed=1)


def test_the_environment_of_a_failed_package_is_kept_for_debugging(
    pytester: pytest.Pytester, run: Run
) -> None:
    demand_sandbox("auto")
    for name, text in (("sound", "fine = True\n"), ("broken", "import nowhere_to_be_found\n")):
        build_wheel(pytester.path, name=name, tags=PURE, members={f"{name}.py": text})
    items = [f"{path.name}::import-fails" for path in pytester.path.glob("*.whl")]
    result = run("--binary-keep", "kept", *items, static=False)
    result.assert_outcomes(passed=1, failed=1)
    (kept,) = (pytester.path / "kept").iterdir()
    assert kept.name.startswith("broken-1.0-py3-none-any.whl-")
    (module,) = kept.glob("**/site-packages/broken.py")
    assert module.read_text() == "import nowhere_to_be_found\n"

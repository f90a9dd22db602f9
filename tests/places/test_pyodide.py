"""A wheel runs in Pyodide, with the probes that run everywhere; the runtime is the user's own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from binary_checks.errors import GatherError, NothingNamed, Unavailable
from binary_checks.model import Conditions, Ending, PlaceName, Step, Wheel
from binary_checks.places import Place, PlaceSettings, choose_place
from binary_checks.probes.import_name.reader import import_each
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, read_wheel
from fixtures.fake_node import install_node, unpack_runtime

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the substitute for Node is a script")

TAG = ("cp314-cp314-pyemscripten_2026_0_wasm32",)
CRASH = """
import os
os.write(2, b"Fatal Python error: RuntimeError: memory access out of bounds")
os._exit(70)
"""


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An npm package of Pyodide, and a Node that runs the probes with this Python."""
    monkeypatch.setenv("PATH", str(install_node(tmp_path)))
    return unpack_runtime(tmp_path / "runtime")


def place_in(folder: Path | str, wheel: Wheel, *given: Path, timeout: float = 60) -> Place:
    name = PlaceName(kind="pyodide", argument=str(folder))
    settings = PlaceSettings(
        name=name, python=Path("unused"), timeout=timeout, given=given, index=False
    )
    return choose_place(wheel, settings)


def write_wheel(folder: Path, text: str = "", **settings: object) -> Wheel:
    members = {"demo/__init__.py": text}
    return read_wheel(build_wheel(folder, **{"members": members, "tags": TAG, **settings}))


def import_demo(place: Place, wheel: Wheel) -> Step:
    with place:
        place.require_installed(wheel)
        (step,) = import_each(place, ("demo",)).steps
    return step


def test_a_wheel_is_imported_from_the_site_packages_of_the_runtime(
    runtime: Path, tmp_path: Path
) -> None:
    wheel = write_wheel(tmp_path, "__version__ = '1.0'")
    step = import_demo(place_in(runtime, wheel), wheel)
    assert (step.outcome, step.version) == (Ending.OK, "1.0")
    assert (step.origin, step.origin_sha256) == (
        "demo/__init__.py",
        sha256(b"__version__ = '1.0'").hexdigest(),
    )


def test_given_requirements_are_unpacked_by_the_markers_of_the_runtime(
    runtime: Path, tmp_path: Path
) -> None:
    given = (
        build_wheel(
            tmp_path, name="near", tags=PURE, members={"near.py": "import far"}, requires=["far"]
        ),
        build_wheel(tmp_path, name="far", tags=PURE, members={"far.py": ""}),
        build_wheel(tmp_path, name="far", version="2.0", members={"far.py": "no"}),  # for Linux
    )
    requires = ("near>=1; sys_platform == 'emscripten'", "gone; sys_platform == 'linux'")
    wheel = write_wheel(tmp_path, "import near", requires=requires)
    assert import_demo(place_in(runtime, wheel, *given), wheel).outcome is Ending.OK


def test_a_requirement_that_is_not_given_is_named(runtime: Path, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, requires=["gone"])
    with pytest.raises(Unavailable, match=r"its requirement gone has no wheel for Pyodide 314"):
        place_in(runtime, wheel).install(wheel)


@pytest.mark.parametrize(
    ("text", "outcome", "detail"),
    [
        (CRASH, Ending.CRASHED, "RuntimeError: memory access out of bounds"),
        ("import os; os._exit(3)", Ending.EXITED, "exit status 3"),
        ("import gone", Ending.RAISED, "ModuleNotFoundError: No module named 'gone' (demo"),
        ("raise SystemExit(2)", Ending.EXITED, "SystemExit(2)"),
    ],
)
def test_an_import_that_ends_badly_is_the_step_that_it_is_elsewhere(
    runtime: Path, tmp_path: Path, text: str, outcome: Ending, detail: str
) -> None:
    wheel = write_wheel(tmp_path, text)
    step = import_demo(place_in(runtime, wheel), wheel)
    assert step.outcome is outcome
    assert step.detail.startswith(detail)


def test_an_import_that_hangs_is_ended(runtime: Path, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "while True: pass")
    place = place_in(runtime, wheel)
    place.install(wheel)
    place.timeout = 1
    assert import_demo(place, wheel).outcome is Ending.HUNG


def test_the_nearest_npm_package_is_taken(
    runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(runtime, tmp_path / "node_modules" / "pyodide")
    below = tmp_path / "project" / "dist"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    wheel = write_wheel(tmp_path)
    place = place_in("", wheel)
    assert place.install(wheel) is None
    assert place.target.name == "Pyodide 314.0.4, CPython 3.14.2"
    place.close()


def test_a_place_without_node_or_a_runtime_of_the_abi_cannot_start(
    runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    other = unpack_runtime(tmp_path / "other", abi="2025_0")
    wheel = write_wheel(tmp_path)
    reasons = {
        "": "pyodide: there is no node_modules/pyodide in this folder or above",
        str(tmp_path): "is not an unpacked npm package of Pyodide",
        str(other): "the wheel is for pyemscripten_2026_0_wasm32, Pyodide 314.0.4 has the ABI 2025",
    }
    for folder, reason in reasons.items():
        with pytest.raises(GatherError, match=reason):
            place_in(folder, wheel).install(wheel)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GatherError, match="node is not on PATH"):
        place_in(runtime, wheel).install(wheel)


def test_a_wheel_of_another_system_does_not_run_there(runtime: Path, tmp_path: Path) -> None:
    linux = write_wheel(tmp_path, tags=("cp314-cp314-manylinux_2_28_x86_64",))
    with pytest.raises(NothingNamed, match=r"the wheel is for .*, the interpreter is Pyodide"):
        place_in(runtime, linux).install(linux)


def test_probes_that_need_a_system_are_not_run(runtime: Path, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path)
    with place_in(runtime, wheel) as place:
        place.install(wheel)
        for script, conditions, reason in (
            ("import_name", Conditions(gpu=True), "no access to GPUs"),
            ("import_name", Conditions(decoys={"libcuda.so.1": b""}), "loads no libraries"),
            ("run_commands", Conditions(), "starts no programs"),
        ):
            with pytest.raises(Unavailable, match=reason):
                place.run(script, {}, conditions=conditions)


# The real runtime.


@pytest.fixture(scope="module")
def pyodide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Pyodide 314.0.4 of npm."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("no Node here")
    folder = tmp_path_factory.mktemp("npm")
    command = ("npm", "install", "--prefix", str(folder), "--no-audit", "pyodide@314.0.4")
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    yield folder / "node_modules" / "pyodide"


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize(
    ("text", "outcome", "detail"),
    [
        ("import sys; assert sys.platform == 'emscripten'", Ending.OK, ""),
        ("import os; os.abort()", Ending.CRASHED, "RuntimeError: unreachable"),
        ("import os; os._exit(3)", Ending.EXITED, "exit status 3"),
        (
            "import ctypes; ctypes.CDLL('/gone.so')",
            Ending.RAISED,
            "OSError: could not load dynamic lib: /gone.so",
        ),
    ],
)
def test_the_real_runtime_ends_in_the_same_steps(
    pyodide: Path, tmp_path: Path, text: str, outcome: Ending, detail: str
) -> None:
    wheel = write_wheel(tmp_path, text)
    step = import_demo(place_in(pyodide, wheel, timeout=300), wheel)
    assert step.outcome is outcome
    assert step.detail.startswith(detail)

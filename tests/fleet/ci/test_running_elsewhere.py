"""Jobs of CircleCI, stages on a desk and in a loop, and tox, run here on built wheels."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from binary_checks.fleet.cells import parse_cells
from binary_checks.fleet.ci.pipeline import Pipeline, make_pipeline
from fixtures.build_wheel import build_wheel
from tests.fleet.ci.ci_files import demand_tool, format_jobs, load, write
from tests.fleet.nights.night_cells import is_running

yaml = pytest.importorskip("yaml")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the wheels are of Linux"),
]

ROOT = Path(__file__).parents[3]
WHEELS = ROOT / "fixtures" / "samples" / "wheels"
FIT = WHEELS / "demo-1.0-cp38-abi3-manylinux_2_17_x86_64.whl"
BROKEN = WHEELS / "demo_broken-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
PYTHON = ".".join(map(str, sys.version_info[:2]))
CELL = f"demo-linux-x86_64-{PYTHON}"
PROJECT = f"""\
[[cells]]
project = "demo"
system = "linux-x86_64"
python = ["{PYTHON}", "3.99"]
[[run]]
when = "id=*"
options = ["-m", "linkage or python_abi"]
[ci]
systems = ["circleci", "tox"]
build = ["mkdir dist", "cp \\"$BUILT\\" dist/"]
install = ["{{install}}"]
"""


def make(folder: Path, install: str = "pip") -> Pipeline:
    """The pipeline of a matrix in the folder; ``pip install pip`` has nothing to do."""
    text = PROJECT.replace("{install}", install)
    (folder / "cells.toml").write_text(text, encoding="utf-8")
    return make_pipeline(parse_cells(text.encode(), folder / "cells.toml"), folder)


def run(
    folder: Path, command: Sequence[str], beside: Iterable[str] = (), **variables: str
) -> tuple[int, str]:
    """The status of a program, and what it printed; programs beside this Python come first."""
    path = os.pathsep.join([str(Path(sys.executable).parent), *beside, os.environ["PATH"]])
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **variables, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=400,
    )
    return ended.returncode, ended.stdout


def run_circleci(pipeline: Pipeline, stage: str, folder: Path, built: Path) -> None:
    """Run the scripts of a job as CircleCI would; all of them end well."""
    document = load(format_jobs("circleci", pipeline))
    calls = [each for call in document["workflows"]["nightly"]["jobs"] for each in call.items()]
    (key,) = [key for key, call in calls if call["name"] == f"{stage} {CELL}"]
    job = document["jobs"][key]
    for step in [step["run"] for step in job["steps"] if "run" in step]:
        script = step if isinstance(step, str) else step["command"]
        bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        status, said = run(folder, bash, **job["environment"], BUILT=str(built))
        assert status == 0, said


def test_what_was_built_is_judged(tmp_path: Path) -> None:
    pipeline = make(tmp_path)
    run_circleci(pipeline, "build", tmp_path, FIT)
    assert [path.name for path in (tmp_path / "dist").iterdir()] == [FIT.name]
    run_circleci(pipeline, "test", tmp_path, FIT)
    result = json.loads((tmp_path / "results/cpu/result.json").read_text("utf-8"))
    (package,) = result["packages"]
    assert {entry["family"] for entry in package["entries"]} == {"linkage", "python_abi"}


def run_stage(folder: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    """`binary-checks ci stage`, as somebody at a desk runs it."""
    return run(folder, ["binary-checks", "ci", "stage", *arguments], **variables)


def test_a_stage_on_a_desk_is_that_of_a_job(tmp_path: Path) -> None:
    make(tmp_path)
    status, said = run_stage(tmp_path, "build", CELL, BUILT=str(BROKEN))
    assert status == 0, said
    (tmp_path / "dist" / ".gitignore").write_text("*", encoding="utf-8")  # as uv leaves it
    status, said = run_stage(tmp_path, "test", CELL)
    assert status == 1, said
    assert "missing-library" in said
    assert ".gitignore" not in said
    status, said = run_stage(tmp_path, "gpu", CELL)
    assert status == 6
    assert "blocked: results/cpu contains no passed result of the CPU stage" in said


def test_a_pass_of_an_earlier_build_counts_for_no_later_one(tmp_path: Path) -> None:
    make(tmp_path)
    run_stage(tmp_path, "build", CELL, BUILT=str(FIT))
    assert run_stage(tmp_path, "test", CELL)[0] == 0
    shutil.rmtree(tmp_path / "dist")
    run_stage(tmp_path, "build", CELL, BUILT=str(BROKEN))
    status, said = run_stage(tmp_path, "gpu", CELL)
    assert status == 6
    assert "blocked: results/cpu contains no passed result" in said


def test_a_build_sees_the_values_of_its_cell_and_no_secret(tmp_path: Path) -> None:
    line = 'echo "$CELL_PYTHON $CELL_SYSTEM $SIGN $AWS $REGION $(printenv | grep -c hidden)"'
    text = PROJECT.replace("{install}", "pip").replace("mkdir dist", "mkdir dist; $LINE")
    text = text.replace("[ci]\n", '[ci]\nkey = "SIGN"\nsecrets = ["AWS"]\nstore = "s3://a/b"\n')
    text += '[ci.environment]\nREGION = "here"\n'
    (tmp_path / "cells.toml").write_text(text.replace("$LINE", json.dumps(line)[1:-1]), "utf-8")
    secrets = {"SIGN": "hidden", "AWS": "hidden"}
    status, said = run_stage(tmp_path, "build", CELL, BUILT=str(FIT), **secrets)
    assert status == 0, said
    assert said == f"{PYTHON} linux   here 0\n"


def test_what_takes_too_long_is_ended_and_fails(tmp_path: Path) -> None:
    text = PROJECT.replace("{install}", "pip").replace("mkdir dist", "sleep 600")
    text = text.replace("[ci]\n", "[ci]\nbuild_timeout = 1\n")
    (tmp_path / "cells.toml").write_text(text, encoding="utf-8")
    status, said = run_stage(tmp_path, "build", CELL)
    assert status == 1
    assert "stopped after 1 s" in said


def test_a_package_is_judged_no_longer_when_its_stage_is_killed(tmp_path: Path) -> None:
    marker = tmp_path / "imported"
    code = "import os, pathlib, time\n"
    code += f"pathlib.Path({str(marker)!r}).write_text(str(os.getpid()))\ntime.sleep(600)\n"
    text = PROJECT.replace('["-m", "linkage or python_abi"]', '["--sandbox=off"]')
    (tmp_path / "cells.toml").write_text(text.replace("{install}", "pip"), encoding="utf-8")
    (tmp_path / "dist").mkdir()
    build_wheel(tmp_path / "dist", members={"demo/__init__.py": code}, tags=("py3-none-any",))
    command = [sys.executable, "-m", "binary_checks", "ci", "stage", "test", CELL]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as stage:
        await_until(lambda: marker.exists() and bool(marker.read_text("utf-8")))
        stage.kill()
    imported = int(marker.read_text("utf-8"))
    await_until(lambda: not is_running(imported))


def await_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 90
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["test", "demo"], "ci stage test: cells.toml: unknown cell 'demo'"),
        (["test"], "ci stage test: give one cell instead of 0"),
        (["publish", CELL], "cells.toml: ci: it has no 'built' channel"),
        (["plan"], "cells.toml: ci: it has no 'store'"),
    ],
)
def test_a_stage_that_cannot_be_is_one_line(
    arguments: list[str], said: str, tmp_path: Path
) -> None:
    make(tmp_path)
    assert run_stage(tmp_path, *arguments) == (4, f"binary-checks: {said}\n")


# -- any other system

ANY_SYSTEM = f"""\
[[cells]]
project = ["demo", "demo_broken"]
system = "linux-x86_64"
python = "{PYTHON}"
[[run]]
options = ["-m", "linkage"]
[ci]
build = ["mkdir dist", "cp built/$CELL_PROJECT-* dist/"]
store = "store"
built = "test"
"""


def test_the_recipe_for_any_other_system_builds_judges_and_stores_each_cell(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "ci.md").read_text("utf-8")
    (script,) = re.findall(r"```sh\n(.*?)```\n", page, re.DOTALL)
    (tmp_path / "cells.toml").write_text(ANY_SYSTEM, encoding="utf-8")
    (tmp_path / "built").mkdir()
    for wheel in (FIT, BROKEN):
        shutil.copy(wheel, tmp_path / "built")
    status, said = run(tmp_path, ["sh", "-c", script], GIT_COMMIT="ab" * 20)
    assert status == 1, said  # because one of both is broken
    assert f"{FIT.name}: fit" in said
    assert f"{BROKEN.name}: unfit" in said
    stored = {path.name for path in (tmp_path / "store").rglob("*.whl")}
    assert stored == {FIT.name, BROKEN.name}  # as untested or failing, too: the channel is a test


# -- tox


def run_tox(folder: Path, *arguments: str) -> tuple[int, str]:
    """With Pythons of this one's version found wherever it lies."""
    beside = [str(Path(sys.base_prefix) / "bin")]
    return run(folder, [demand_tool("tox"), "-c", "tox.toml", *arguments], beside, NO_COLOR="1")


@pytest.mark.network
def test_tox_judges_a_cell_that_this_host_can_run_and_skips_others(tmp_path: Path) -> None:
    tag = PYTHON.replace(".", "")
    (tmp_path / "tox.toml").write_text(
        write("tox", make(tmp_path, str(ROOT)))["tox.toml"], encoding="utf-8"
    )
    (tmp_path / "dist" / CELL).mkdir(parents=True)
    shutil.copy(FIT, tmp_path / "dist" / CELL)
    status, said = run_tox(tmp_path)
    assert f"{FIT.name}: fit" in said
    assert f"{CELL}: OK" in said
    assert "demo-linux-x86_64-3.99: SKIP" in said
    assert status == 0
    (tmp_path / "dist" / CELL / FIT.name).unlink()
    assert f"dist/{CELL}/*: no file matches" in run_tox(tmp_path, "-e", CELL)[1]
    flat = tmp_path / "dist" / f"Demo-1.0-cp{tag}-cp{tag}-manylinux_2_17_x86_64.whl"
    shutil.copy(BROKEN, flat)
    status, said = run_tox(tmp_path, "-e", CELL, "--", "--strict")
    assert f"{flat.name}: unfit" in said
    assert status == 1

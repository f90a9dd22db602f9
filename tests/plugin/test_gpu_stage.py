"""A whole GPU stage, as a GPU host runs it: what passes, what runs, and on whose facts.

The processes of the probes that need a GPU or the package are stood in for; pytest, the plugin, the
facts, the profile and all other processes are real.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fixtures.build_wheel import build_wheel
from fixtures.gpu.answers import HOST, SOUND, THOROUGH
from fixtures.installation import find_site, install_by_hand
from fixtures.slow import slow
from tests.plugin.conftest import TRY_AGAIN, Run, make_python, run_command

ROOT = Path(__file__).parents[2]
WORK = ("-m", "gpu", "-rs", "-p", "stand_in", "--binary-sandbox", "off")
WITHOUT = {"torch": 0, "cupy": 1, "onnxruntime": 3, "jax": 2, "numba-cuda": 2, "tensorflow": 1}
"""Checks of the family that a profile has no step or expression for."""
STAGE = (*WORK, "--binary-require", "gpu")
PLUGIN = """
import json, os, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from binary_checks.places import running as run
from fixtures.gpu.answers import SOUND, StandIn, change

answers = SOUND[{profile!r}]
for path, value in json.loads(os.environ.get("WRONG", "[]")):
    answers = change(answers, path, value)
real, run.run_process = run.run_process, StandIn({profile!r}, answers)
stand_in, started, over = run.run_process, [], []

def watch(event, arguments):
    if event == "subprocess.Popen" and not over:
        started.append([str(part) for part in arguments[1]])

sys.addaudithook(watch)  # for good, as Python removes no hook

def pytest_unconfigure():
    run.run_process = real
    over.append(True)
    Path("ran.json").write_text(json.dumps({{"asked": stand_in.asked, "started": started}}))
"""


@pytest.fixture(params=sorted(SOUND))
def profile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_python(tmp_path_factory.mktemp("env"))


@pytest.fixture
def given(pytester: pytest.Pytester, profile: str, python: Path) -> list[str]:
    """The options with which the package, installed by hand, is judged on the facts of its wheel.

    What is taken for an object in it is none that could be read: only facts know of it.
    """
    objects = {f"{profile}/lib/{number}.so": b"\x7fELF" for number in range(8)}
    members = {f"{profile}/__init__.py": "", **objects}
    wheel = build_wheel(pytester.path / "dist", name=profile, members=members)
    install_by_hand(wheel, python.parents[1])
    pytester.makepyfile(stand_in=PLUGIN.format(root=str(ROOT), profile=profile))
    pytester.syspathinsert()
    stated = run_command("inspect", wheel, "--json", "--no-symbols").stdout.str()
    (pytester.path / "facts.json").write_text(f"{stated}\n")
    return [
        *("--binary-installed", profile, "--binary-python", str(python)),
        *("--binary-profile", profile, "--binary-facts", "facts.json"),
    ]


def test_where_all_is_well_it_passes_and_runs_nothing_else(
    pytester: pytest.Pytester, run: Run, given: list[str], profile: str
) -> None:
    result = run(*given, *STAGE, static=False)
    assert result.ret == pytest.ExitCode.OK
    outcomes = result.parseoutcomes()
    assert outcomes["passed"] + outcomes.get("skipped", 0) == 7
    assert outcomes.get("skipped", 0) == WITHOUT[profile]
    result.stdout.fnmatch_lines(["note: installed:*: driver 580.95.05 for CUDA 13.0, runtime 1?.*"])
    ran = json.loads((pytester.path / "ran.json").read_text())
    expected = [name for name in SOUND[profile] if name != "questions"]
    asked = [name for name in ran["asked"] if name not in {"list_folders", "identify", "list"}]
    # The host comes first, before anything is done with the package.
    assert (asked[0], asked.count("gpu_host")) == ("gpu_host", 1)
    assert set(asked) - {"ask_module"} == set(expected)
    scripts = {Path(command[-1]).parent.name for command in ran["started"]}
    assert scripts <= {"list_folders", "identify", "gpu_torch"}  # the last only lists its steps


@pytest.mark.parametrize("profile", ["torch"], indirect=True)
def test_a_thorough_run_takes_the_long_steps_too(
    pytester: pytest.Pytester, run: Run, given: list[str]
) -> None:
    result = run(*given, *STAGE, "--binary-thorough", static=False)
    ran = json.loads((pytester.path / "ran.json").read_text())
    assert set(ran["asked"]) >= THOROUGH.keys()
    result.stdout.fnmatch_lines(
        [
            "gpu-work-fails: installed:torch: not inspected, but gpu is required: "
            "gds: no GPUDirect Storage here: cuFileHandleRegister failed",
            "note: installed:torch: not applicable: torchaudio: torchaudio is not installed",
        ]
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("profile", ["torch"], indirect=True)
def test_a_wrong_answer_fails_it_and_a_gap_too(
    run: Run, given: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = [
        (["matmul", "measured", "float32"], 0.5),
        (["svd"], {"state": "finished", "unavailable": "no LAPACK here"}),
    ]
    monkeypatch.setenv("WRONG", json.dumps(wrong))
    result = run(*given, *STAGE, static=False)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "gpu-result-differs: installed:torch: matmul in float32 differs from the CPU's *",
            "gpu-work-fails: installed:torch: not inspected, but gpu is required: "
            "svd: no LAPACK here",
        ]
    )


@pytest.mark.parametrize("profile", ["torch"], indirect=True)
@pytest.mark.parametrize(
    "case",
    [
        (
            "",
            [(["gpu_host", "devices"], []), (["gpu_host", "status"], 100)],
            "CUDA_VISIBLE_DEVICES='' leaves no GPU of the host visible",
            TRY_AGAIN,
        ),
        (
            "0",
            [(["gpu_host", "cuda"], 12080)],
            "the NVIDIA driver 580.95.05 serves CUDA 12.8, and the package runs CUDA 13.2: "
            "update the driver",
            TRY_AGAIN,
        ),
        (
            "0",
            [(["questions", "torch.version.cuda"], None)],
            "torch.version.cuda is None: the build is not for CUDA",
            pytest.ExitCode.TESTS_FAILED,
        ),
    ],
)
@pytest.mark.parametrize("required", [True, *slow(False)])
def test_a_host_or_a_build_that_cannot_is_never_a_pass(
    run: Run, given: list[str], case: tuple[str, list[object], str, int], required: bool
) -> None:
    visible, wrong, reason, status = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", visible)
        patch.setenv("WRONG", json.dumps(wrong))
        result = run(*given, *(STAGE if required else WORK), static=False)
    assert result.ret == status
    assert not {"passed", "failed"} & result.parseoutcomes().keys()
    word = "--binary-require gpu: nothing ran" if required else "*: nothing was verified"
    result.stdout.fnmatch_lines([f"{word} ({reason})".replace("[", "?")])


@pytest.mark.parametrize("profile", ["torch"], indirect=True)
def test_one_device_of_several_that_is_broken_is_the_hosts_fault(
    run: Run, given: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = HOST["devices"][0]
    wrong: list[object] = [(["gpu_host", "devices"], [fine, {**fine, "status": 214}])]
    monkeypatch.setenv("WRONG", json.dumps(wrong))
    result = run(*given, *STAGE, static=False)
    assert result.ret == TRY_AGAIN
    assert result.parseoutcomes()["errors"] == 1
    result.stdout.fnmatch_lines(
        ["error: device 1 (NVIDIA H200) is present but cannot be used: its context gives *(214)*"]
    )
    wrong.append((["svd"], {"state": "finished", "unavailable": "no LAPACK here"}))
    monkeypatch.setenv("WRONG", json.dumps(wrong))
    result = run(*given, *STAGE, static=False)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["gpu-work-fails: installed:torch: not inspected, but gpu is required: svd: no LAPACK here"]
    )


@pytest.mark.parametrize("profile", ["torch"], indirect=True)
def test_on_the_facts_of_other_files_nothing_is_run(
    pytester: pytest.Pytester, run: Run, given: list[str], python: Path
) -> None:
    record = next(find_site(python.parents[1]).glob("*.dist-info")) / "RECORD"
    record.write_text(record.read_text() + "torch/more.py,sha256=abc,3\n")
    result = run(*given, *STAGE, static=False)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = (line for line in result.errlines if line)
    said = "--binary-facts: torch-1.0-cp311-cp311-manylinux_2_17_x86_64.whl (sha256 "
    assert line.startswith(f"ERROR: {said}")
    assert json.loads((pytester.path / "ran.json").read_text())["asked"] == ["list_folders"]

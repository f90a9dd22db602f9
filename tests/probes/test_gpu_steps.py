"""Each step for torch, on tensors of the CPU: sound, with a wrong result, and with a hang.

``BINARY_CHECKS_TORCH`` names an interpreter that has torch; else torch for the CPU is downloaded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from binary_checks.checks.gpu import gpu_result_differs
from binary_checks.model import Conditions, Ending, GpuReport, Measurement, Note, ProbeAnswer, Step
from binary_checks.places.running import run_probe
from binary_checks.probes.gpu_torch.reader import GpuStep, choose_steps, read_steps, take_steps
from fixtures.gpu.spoiling import VARIABLE, make_environment
from tests.oracles.downloads import pip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.skipif(sys.platform != "linux", reason="the environment is made as on Linux"),
]
WRONG = {
    "first_kernel": {"ones": "wrong"},
    "every_device": {"ones": "wrong"},
    "late_choice": {"cuda.device_count": "starting"},
    "element_kernels": {"atan2": "wrong"},
    "library_exception": {"linalg.inv": "silent"},
    "device_assertion": {"_assert_async": "silent"},
    "matmul": {"Tensor.__matmul__": "wrong"},
    "magma": {"linalg.lu_factor": "wrong"},
    "svd": {"linalg.svd": "wrong"},
    "convolution": {"nn.functional.conv2d": "wrong"},
    "autocast": {"nn.functional.conv2d": "wrong"},
    "cnn": {"nn.functional.conv2d": "wrong"},
    "rnn": {"nn.LSTM.forward": "wrong"},
    "attention": {"nn.functional.scaled_dot_product_attention": "wrong"},
    "nccl": {"distributed.all_gather": "silent"},
    "compilation": {"compile": "miscompile"},
    "max_autotune": {"compile": "miscompile"},
}
"""What of torch is spoiled, and how."""
RAISING = {"first_kernel", "every_device", "late_choice"} | {
    "library_exception", "device_assertion",
}  # fmt: skip
WITH_GRADIENTS = ("matmul", "convolution", "autocast", "cnn", "rnn", "attention", "compilation")
ONLY_ON_A_GPU = {"memory", "absent_device", "cudnn", "gds"}
IN_OTHER_LIBRARIES = {"torchvision", "torchaudio"}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("torch")
    named = os.environ.get("BINARY_CHECKS_TORCH")
    if not named and not find_spec("torch"):
        pip("install", "--target", folder / "site", "torch==2.13.0+cpu")
    return make_environment(folder / "spoiled", Path(named or sys.executable), folder / "site")


@pytest.fixture(scope="module")
def steps(python: Path) -> Mapping[str, GpuStep]:
    listed = read_steps(run_probe(python, "gpu_torch", {"list": True}, timeout=60))
    return {each.name: each for each in choose_steps(listed, (), thorough=True)}


def take(
    python: Path,
    steps: list[GpuStep],
    spoiled: Mapping[str, str] | None = None,
    device: str = "cpu",
    platform: str = "cuda",
) -> dict[str, ProbeAnswer | str]:
    def run(request: Mapping[str, object], stages: Mapping[str, float]) -> ProbeAnswer:
        variables = {VARIABLE: json.dumps(dict(spoiled or {}))}
        asked = {
            **request,
            "device": device,
            "platform": platform,
            "site_packages": str(python.parents[1]),
        }
        conditions = Conditions(variables=variables, stages=stages, memory=0)
        return run_probe(python, "gpu_torch", asked, timeout=600, conditions=conditions)

    return dict(take_steps(run, steps, 300))


def judge(taken: Mapping[str, ProbeAnswer | str]) -> list[Any]:
    """What gpu-result-differs says, but for its notes."""
    figures = [
        Measurement(step=name, name=key, value=value)
        for name, end in taken.items()
        for key, value in answer_of(end)["measured"].items()
    ]
    report = GpuReport(
        python="", steps=tuple(Step(name=name) for name in taken), measurements=tuple(figures)
    )
    return [each for each in gpu_result_differs(report) if not isinstance(each, Note)]


def answer_of(end: ProbeAnswer | str) -> Mapping[str, Any]:
    assert isinstance(end, ProbeAnswer), end
    assert end.outcome is Ending.OK, (end.detail, end.stderr)
    return end.answer


def test_every_step_can_be_spoiled(steps: Mapping[str, GpuStep]) -> None:
    assert steps.keys() == WRONG.keys() | ONLY_ON_A_GPU | IN_OTHER_LIBRARIES


def test_sound_steps_come_to_results_within_the_bounds(
    python: Path, steps: Mapping[str, GpuStep]
) -> None:
    taken = take(python, [each for each in steps.values() if not each.thorough])
    answers = {name: answer_of(end) for name, end in taken.items()}
    assert {each["state"] for each in answers.values()} == {"finished"}, answers
    assert judge(taken) == []
    on_gpu = {name for name, each in answers.items() if set(each["measured"]) == {"seconds"}}
    assert on_gpu == {"first_kernel", "library_exception", "device_assertion", "memory"} | {
        "absent_device", "cudnn", "late_choice",
    }  # fmt: skip
    for name in WITH_GRADIENTS:
        assert any("gradients" in key for key in answers[name]["measured"]), name
    assert {"float32", "float16", "float64"} <= answers["compilation"]["measured"].keys()


@pytest.mark.parametrize("platform", ["rocm", "xpu"])
def test_the_same_steps_serve_builds_for_other_vendors(
    python: Path, steps: Mapping[str, GpuStep], platform: str
) -> None:
    usual = [each for each in steps.values() if not each.thorough and each.name != "compilation"]
    taken = take(python, usual, platform=platform)
    assert {answer_of(end)["state"] for end in taken.values()} == {"finished"}
    assert judge(taken) == []
    lacking = {name for name, end in taken.items() if "inapplicable" in answer_of(end)}
    of_nvidia = {"device_assertion"} | ({"magma"} if platform == "xpu" else set())
    assert lacking == {"memory", "absent_device", "cudnn", "attention"} | of_nvidia


@pytest.mark.gpu
def test_a_healthy_gpu_comes_to_results_within_the_bounds(
    python: Path, steps: Mapping[str, GpuStep]
) -> None:
    """``BINARY_CHECKS_TORCH`` must have a torch for the GPU."""
    taken = take(python, [each for each in steps.values() if not each.thorough], device="cuda")
    states = {name: answer_of(end).get("state") for name, end in taken.items()}
    assert set(states.values()) == {"finished"}, states
    assert judge(taken) == []


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_result_is_found(python: Path, steps: Mapping[str, GpuStep], name: str) -> None:
    taken = take(python, [steps[name]], WRONG[name])
    answer = answer_of(taken[name])
    if name in RAISING:
        assert answer["state"] == "raised"
        expected = "RuntimeError" if name == "late_choice" else "AssertionError"
        assert answer["detail"].startswith(expected)
    else:
        assert answer["state"] == "finished", answer
        assert [line for line in judge(taken) if f"{name} in " in str(line)]


@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_a_wrong_gradient_is_found(python: Path, steps: Mapping[str, GpuStep], name: str) -> None:
    found = judge(take(python, [steps[name]], {"autograd.grad": "wrong"}))
    assert found
    assert all(" gradients differs from the CPU's result" in str(line) for line in found), found


def test_attention_that_gives_nan_is_found(python: Path, steps: Mapping[str, GpuStep]) -> None:
    spoiled = {"nn.functional.scaled_dot_product_attention": "no_number"}
    answer = answer_of(take(python, [steps["attention"]], spoiled)["attention"])
    assert answer["detail"] == "AssertionError: float16 odd attention gives NaN"


KERNELS = {
    "all": "Tensor.all",
    "index_reduce": "Tensor.index_reduce",
    "bitwise_and": "Tensor.__and__",
    "clamp": "clamp",
    "nextafter": "nextafter",
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_each_kernel_with_known_illegal_accesses_is_held_to_its_result(
    python: Path, steps: Mapping[str, GpuStep], kernel: str
) -> None:
    spoiled = {KERNELS[kernel]: "off_on_the_device"}
    taken = take(python, [steps["element_kernels"]], spoiled)
    answer = answer_of(taken["element_kernels"])
    assert answer["detail"].startswith(f"AssertionError: {kernel} of 1 elements differs"), answer


def test_an_illegal_access_names_its_kernel(python: Path, steps: Mapping[str, GpuStep]) -> None:
    taken = take(python, [steps["element_kernels"]], {"nextafter": "illegal"})
    detail = answer_of(taken["element_kernels"])["detail"]
    assert detail.startswith("RuntimeError: nextafter of 1 elements: CUDA error: an illegal memory")


LIKE_A_GPU = {"cuda.synchronize": "silent"}
"""With it the CPU under its full name, ``cpu:0``, is taken for a GPU by the steps."""
ON_A_GPU: list[tuple[str, dict[str, str], str, object]] = [
    ("magma", {"cuda.has_magma": "yes", "linalg.lu_factor": "pivoting"}, "float64", 0.0),
    ("cudnn", {"backends.cudnn.is_acceptable": "silent"}, "state", "raised"),
    (
        "cudnn",
        {"backends.cudnn.is_available": "yes", "backends.cudnn.is_acceptable": "yes"},
        "state",
        "finished",
    ),
    ("gds", {"cuda.gds.GdsFile": "keeping"}, "float64", 0.0),
    ("gds", {"cuda.gds.GdsFile": "losing"}, "float64", 1.0),
    ("gds", {"cuda.gds.GdsFile": "breaking"}, "state", "raised"),
    (
        "gds",
        {"cuda.gds.GdsFile": "refusing"},
        "unavailable",
        "no GPUDirect Storage here: cuFileHandleRegister failed: the driver is not there",
    ),
]


@pytest.mark.parametrize(("name", "spoiled", "key", "value"), ON_A_GPU)
def test_what_a_step_does_on_a_gpu_alone(  # noqa: PLR0917 - a row of the table
    python: Path,
    steps: Mapping[str, GpuStep],
    name: str,
    spoiled: dict[str, str],
    key: str,
    value: object,
) -> None:
    there = {"_C._has_gds": "yes", "backends.cuda.preferred_linalg_library": "silent"}
    taken = take(python, [steps[name]], {**there, **LIKE_A_GPU, **spoiled}, "cpu:0")
    answer = answer_of(taken[name])
    assert {**answer, **answer.get("measured", {})}.get(key) == value, answer


def test_intels_gpus_are_used_by_the_functions_of_torch_xpu(
    python: Path, steps: Mapping[str, GpuStep]
) -> None:
    there = {"xpu.synchronize": "silent"}
    names = ("first_kernel", "every_device", "late_choice", "matmul", "svd", "rnn")
    chosen = [steps[name] for name in names]
    taken = take(python, chosen, there, "cpu:0", "xpu")
    assert {answer_of(end)["state"] for end in taken.values()} == {"finished"}, taken
    assert judge(taken) == []
    unlike = take(python, [steps["matmul"]], {}, "cpu:0", "xpu")
    assert answer_of(unlike["matmul"])["state"] == "raised"  # no torch.xpu to wait for


LIBRARIES = {
    "torchvision": """
import os, types
factor = float(os.environ.get("FACTOR", 1))
def nms(boxes, scores, share):
    return scores.argsort()[:9]
def roi_align(x, regions, size, sampling_ratio):
    return x.flip(3) * (factor if x.element_size() == 4 else 1)
ops = types.SimpleNamespace(nms=nms, roi_align=roi_align)
""",
    "torchaudio": """
import os, types
factor = float(os.environ.get("FACTOR", 1))
def resample(x, before, after):
    return x * (factor if x.element_size() == 4 else 1)
functional = types.SimpleNamespace(lfilter=lambda x, a, b: x * 2, resample=resample)
""",
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_beside_torch_is_held_to_its_results(
    python: Path, steps: Mapping[str, GpuStep], name: str, tmp_path: Path
) -> None:
    own = make_environment(tmp_path / "own", python)
    (site,) = (tmp_path / "own").glob("lib/python*/site-packages")
    found = subprocess.run((own, "-c", f"import {name}"), capture_output=True, check=False)
    if b"ModuleNotFoundError" in found.stderr:
        lacking = answer_of(take(own, [steps[name]])[name])
        assert lacking["inapplicable"] == f"{name} is not installed ([probes.gpu] requires)"
    (site / f"{name}.py").write_text(LIBRARIES[name])
    assert judge(take(own, [steps[name]])) == []
    (site / f"{name}.py").write_text(LIBRARIES[name].replace('"FACTOR", 1', '"FACTOR", 1.25'))
    assert len(judge(take(own, [steps[name]]))) == 2  # the result, and the gradient

"""Triton compiles on the CPU where a package requires it, and what it raises is told."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Answer,
    Claims,
    Code,
    Compilation,
    CudaReport,
    CudaRequest,
    Ending,
    TritonReport,
    Wheel,
)
from binary_checks.probes.gpu_compilers.reader import compile_with_triton
from fixtures.values import wheel
from tests.probes.gpu_answers import Answering
from tests.probes.test_nvrtc_kernels import head
from tests.probes.test_ptx_links import answer
from tests.probes.test_scripts import load

UNKNOWN = "ptxas fatal   : Value 'sm_50' is not defined for option 'gpu-name'"


class Recorder:
    """Keeps what a probe tells."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.stages: list[str] = []
        self.answer: dict[str, Any] = {}

    def enter(self, stage: str, told: dict[str, Any]) -> None:
        told["stage"] = stage
        self.answer = told
        self.stages.append(stage)

    def finish(self, told: dict[str, Any]) -> None:
        self.answer = told


def put_triton(monkeypatch: pytest.MonkeyPatch, **errors: Exception) -> None:
    """A Triton that compiles for all but these targets."""

    def compile_source(source: Any, target: tuple[str, int, int]) -> Any:
        if (error := errors.get(f"sm_{target[1]}")) is not None:
            raise error
        return SimpleNamespace(asm={"cubin": head(target[1]) + b"more"})

    triton = ModuleType("triton")
    triton.__dict__.update(__version__="3.9.0", __file__="/site/triton/__init__.py")
    triton.__dict__.update(jit=lambda function: function, compile=compile_source)
    language, compiler = ModuleType("triton.language"), ModuleType("triton.compiler")
    backends, backend = ModuleType("triton.backends"), ModuleType("triton.backends.compiler")
    triton.__dict__.update(language=language)
    compiler.__dict__.update(ASTSource=lambda fn, signature: (fn, signature))
    backend.__dict__.update(GPUTarget=lambda *target: target)
    for module in (triton, language, compiler, backends, backend):
        monkeypatch.setitem(sys.modules, module.__name__, module)


def run(monkeypatch: pytest.MonkeyPatch, *targets: str) -> Recorder:
    recorder = Recorder({"compiler": "Triton", "site_packages": "/site", "targets": targets})
    process = load(monkeypatch, "process")
    describe = lambda error, below: f"{type(error).__name__}: {error}"  # noqa: E731
    monkeypatch.setattr(process, "describe_exception", describe)
    process.answer_request(load(monkeypatch, "gpu_compilers").probe, recorder)
    return recorder


def test_a_kernel_is_compiled_for_each_target(monkeypatch: pytest.MonkeyPatch) -> None:
    put_triton(monkeypatch)
    found = run(monkeypatch, "sm_80", "sm_90a")
    assert found.stages == [
        "import triton",
        "Triton's compilation for sm_80",
        "Triton's compilation for sm_90a",
    ]
    assert found.answer["version"] == "3.9.0"
    assert found.answer["compilations"] == [
        {"target": "sm_80", "head": head(80).hex()},
        {"target": "sm_90a", "head": head(90).hex()},
    ]


def test_an_error_for_one_target_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = RuntimeError("Cannot find ptxas\nRepro command: /tmp/x")
    put_triton(monkeypatch, sm_80=lost, sm_50=RuntimeError(UNKNOWN))
    found = run(monkeypatch, "sm_50", "sm_80", "sm_90").answer
    assert found["unknown"] == ["sm_50"]
    assert found["compilations"] == [
        {"target": "sm_80", "error": "RuntimeError: Cannot find ptxas\n"},
        {"target": "sm_90", "head": head(90).hex()},
    ]


def test_a_triton_that_cannot_be_imported_ends_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    found = run(monkeypatch, "sm_80")
    assert (found.answer["state"], found.answer["stage"]) == ("raised", "import triton")


REQUEST = CudaRequest(
    module=Code("demo"), version=Code("demo.version"), architectures=Code("demo.flags")
)


def requiring(*requirements: str) -> Wheel:
    return wheel("demo-1.0-py3-none-any.whl", claims=Claims(requirements=requirements))


def ask(package: Wheel, *said: Any, version: str | None = "13.2") -> tuple[TritonReport, Answering]:
    answers = CudaReport(
        python="",
        answers=(
            Answer(question="demo.version", value=version),
            Answer(question="demo.flags", value="sm_75 compute_120"),
        ),
    )
    place = Answering(answer(), *said)
    return compile_with_triton(place, package, REQUEST, answers), place


def test_the_targets_are_those_that_the_package_reports() -> None:
    rows = [{"target": "sm_75", "head": head(75).hex()}, {"target": "sm_120", "error": "no"}]
    told = answer(version="3.9.0", library="triton/__init__.py", compilations=rows, unknown=[])
    found, place = ask(requiring("triton==3.9.0"), told)
    assert place.asked[1]["targets"] == found.reported == ("sm_75", "sm_120")
    assert (found.version, found.step.outcome) == ("3.9.0", Ending.OK)
    assert found.compilations == (
        Compilation(target="sm_75", made="sm_75"),
        Compilation(target="sm_120", error="no"),
    )


@pytest.mark.parametrize(
    "requirements", [(), ("numpy",), ("triton; platform_system == 'Plan 9'",), ("triton-x",)]
)
def test_a_package_that_does_not_require_triton_is_not_asked(requirements: tuple[str]) -> None:
    with pytest.raises(NotApplicable, match="does not require Triton"):
        ask(requiring(*requirements))


def test_a_build_without_cuda_is_not_asked() -> None:
    with pytest.raises(NotApplicable, match="the build is not for CUDA"):
        ask(requiring("triton"), version=None)

"""What a CUDA build says where there is no GPU is judged; the reports are those of its probe."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binary_checks.checks.cuda.drivers import (
    cuda_architectures_misreported,
    cuda_version_misreported,
    gpu_claimed_without_one,
    missing_gpu_misreported,
    rocm_version_misreported,
    unusable_without_gpu,
)
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.toolkit_claims import claim_by_package
from binary_checks.model import (
    Answer,
    Code,
    CudaReport,
    CudaRequest,
    Dependency,
    DeviceCode,
    DeviceContainers,
    DeviceKind,
    DeviceTarget,
    Ending,
    GpuDevice,
    GpuHost,
    LibraryVersions,
    NotInspected,
    StatedToolkits,
    Step,
    ToolkitClaim,
    Wheel,
)
from fixtures.linking import target
from fixtures.values import elf_file, say, wheel

AVAILABLE, DEVICES = "demo.is_available()", "demo.device_count()"
VERSION, FLAGS, USE = "demo.cuda_version", "demo.arch_flags()", "demo.zeros(1)"
ASK_AVAILABLE = CudaRequest(available=Code(AVAILABLE))
ASK_DEVICES = CudaRequest(devices=Code(DEVICES))
BOTH = CudaRequest(available=Code(AVAILABLE), devices=Code(DEVICES))
ASK_VERSION = CudaRequest(version=Code(VERSION))
ASK_FLAGS = CudaRequest(architectures=Code(FLAGS))
ASK_USE = CudaRequest(use=Code(USE))
NO_DRIVER = "RuntimeError: Found no NVIDIA driver on your system."
CUDA = wheel("demo-1.0+cu126-cp311-cp311-manylinux_2_17_x86_64.whl")
CPU = wheel("demo-1.0+cpu-cp311-cp311-manylinux_2_17_x86_64.whl")


def report(*answers: Answer, stage: str = "", host: Any = None, **step: Any) -> CudaReport:
    return CudaReport(
        python="CPython 3.11.7",
        step=Step(name="demo", **step),
        stage=stage,
        answers=answers,
        host=host or GpuHost(problem="no NVIDIA driver on this host"),
    )


def said(question: str, value: Any = None, error: str = "") -> CudaReport:
    return report(Answer(question=question, value=value, error=error))


NO_LIBRARY = "ImportError: libcuda.so.1: cannot open shared object file"
SLOW = "300 s at demo/cuda.py:7 in init < demo/__init__.py:1 in <module>"


@pytest.mark.parametrize(
    ("outcome", "detail", "stage", "told"),
    [
        (Ending.RAISED, NO_LIBRARY, "import demo", f"import demo raises {NO_LIBRARY}"),
        (Ending.HUNG, SLOW, "import demo", f"import demo hangs: {SLOW}"),
        (Ending.CRASHED, "SIGSEGV", AVAILABLE, f"{AVAILABLE} crashes: SIGSEGV"),
        (Ending.EXITED, "exit status 1", "", "the process ends the process: exit status 1"),
    ],
)
def test_unusable_without_gpu_fires_however_it_ends(
    outcome: Ending, detail: str, stage: str, told: str
) -> None:
    found = unusable_without_gpu(report(outcome=outcome, detail=detail, stage=stage))
    assert say(found) == [f"without a GPU, {told}"]


def test_unusable_without_gpu_fires_on_a_bad_end_after_all_was_answered_alone() -> None:
    ended = report(outcome=Ending.CRASHED, detail="SIGABRT", finished=True)
    expected = "without a GPU, import demo succeeds, and the process crashes: SIGABRT"
    assert say(unusable_without_gpu(ended)) == [expected]
    fine = report(libraries=("nvidia/cuda_runtime/lib/libcudart.so.12", "/usr/lib/libc.so.6"))
    assert list(unusable_without_gpu(fine)) == []


def test_a_driver_a_gpu_or_a_toolkit_that_cannot_be_hidden_leaves_a_gap() -> None:
    host = GpuHost(library="/usr/lib/libcuda.so.1", devices=(GpuDevice(name="H200"),))
    seen = report(host=host, libraries=("/usr/local/cuda/lib64/libcudart.so.12",))
    gaps = list(unusable_without_gpu(seen))
    assert [type(gap) for gap in gaps] == [NotInspected] * 3
    assert "/usr/lib/libcuda.so.1 cannot be hidden" in repr(gaps[0])
    assert "hides none of 1 GPUs" in repr(gaps[1])
    assert "/usr/local/cuda/lib64/libcudart.so.12 belongs to this host" in repr(gaps[2])


@pytest.mark.parametrize(
    ("asked", "answer", "sentence"),
    [
        (ASK_AVAILABLE, said(AVAILABLE, True), f"{AVAILABLE} is True"),
        (ASK_AVAILABLE, said(AVAILABLE, None), f"{AVAILABLE} is None"),
        (ASK_AVAILABLE, said(AVAILABLE, error=NO_DRIVER), f"{AVAILABLE} raises {NO_DRIVER}"),
        (ASK_DEVICES, said(DEVICES, 1), f"{DEVICES} is 1"),
    ],
)
def test_gpu_claimed_without_one_fires(
    asked: CudaRequest, answer: CudaReport, sentence: str
) -> None:
    assert say(gpu_claimed_without_one(answer, asked)) == [f"without a GPU, {sentence}"]
    honest = report(Answer(question=AVAILABLE, value=False), Answer(question=DEVICES, value=0))
    assert list(gpu_claimed_without_one(honest, BOTH)) == []


def test_missing_gpu_misreported_fires_on_silence_and_on_another_error() -> None:
    silent = said(USE, "tensor([0.])")
    other = said(USE, error="KeyError: 0")
    assert say(missing_gpu_misreported(silent, ASK_USE)) == [
        "without a GPU, demo.zeros(1) raises nothing and returns 'tensor([0.])'"
    ]
    assert say(missing_gpu_misreported(other, ASK_USE, expected=("RuntimeError: Found no",))) == [
        "without a GPU, demo.zeros(1) raises KeyError: 0, which is none of the expected errors"
    ]
    expected = ("AssertionError: not compiled", "RuntimeError: Found no NVIDIA driver")
    documented = said(USE, error=NO_DRIVER)
    assert list(missing_gpu_misreported(documented, ASK_USE, expected=expected)) == []


def judge_version(
    answered: CudaReport, package: Wheel, *files: ToolkitClaim, **options: Any
) -> list[Any]:
    stated = StatedToolkits(claims=(*claim_by_package(package, target()), *files))
    return list(cuda_version_misreported(answered, package, ASK_VERSION, stated, **options))


NAMED = wheel("demo_cuda12x-1.0-cp311-cp311-manylinux_2_17_x86_64.whl")


@pytest.mark.parametrize(
    ("package", "answer", "expected", "sentence"),
    [
        (CUDA, {"value": "12.8"}, "", "is '12.8', but the version label +cu126 says CUDA 12.6"),
        (CPU, {"value": "12.8"}, "", "is '12.8', but the version label +cpu says no CUDA"),
        (CUDA, {}, "", "is None, but the version label +cu126 says CUDA 12.6"),
        (wheel(), {"value": "12.8"}, "13.0", "is '12.8', expected 13.0"),
        (wheel(), {"error": "A: b"}, "", "raises A: b"),
        (NAMED, {"value": "13.0"}, "", f"is '13.0', but the name {NAMED.name} says CUDA 12"),
    ],
)
def test_cuda_version_misreported_fires_on_another_cuda_than_label_name_or_profile_say(
    package: Wheel, answer: dict[str, Any], expected: str, sentence: str
) -> None:
    options = {"expected": expected} if expected else {}
    found = judge_version(said(VERSION, **answer), package, **options)
    assert say(found) == [f"{VERSION} {sentence}"]


def test_cuda_version_misreported_fires_on_all_else_that_states_one() -> None:
    """As where torch.version.cuda was patched, and RECORD with it."""
    needing = wheel(
        objects=[elf_file(needed=(Dependency(name="libcudart.so.13"),))],
        metadata=(("Requires-Dist", "cuda-toolkit[cudart]==13.2.2"),),
    )
    runtime = LibraryVersions(name="cudart", compiled="13.2", loaded="13.5", installed="13.5.37")
    answered = replace(said(VERSION, "12.6"), versions=(runtime,))
    assert say(judge_version(answered, needing)) == [
        "demo.cuda_version is '12.6', but the runtime that it was compiled with says CUDA 13.2 "
        "(so do 3 more)"
    ]
    other_minor = replace(said(VERSION, "13.0"), versions=(runtime,))
    assert say(judge_version(other_minor, wheel())) == [
        "demo.cuda_version is '13.0', but the runtime that it was compiled with says CUDA 13.2"
    ]
    libraries = (
        LibraryVersions(name="cublas", loaded="13.4.1", installed="13.4.1.3"),
        LibraryVersions(name="cufft", loaded="12.2.0"),  # counts by itself
    )
    answered = replace(said(VERSION, "12.6"), versions=libraries)
    assert say(judge_version(answered, wheel())) == [
        "demo.cuda_version is '12.6', but cuBLAS 13.4.1 that it loads says CUDA 13"
    ]


def test_cuda_version_misreported_is_quiet_when_they_agree() -> None:
    """A newer runtime of the same major version serves a build."""
    assert judge_version(said(VERSION, "12.6"), CUDA) == []
    assert judge_version(said(VERSION, None), CPU) == []
    assert judge_version(said(VERSION, "12.9"), NAMED) == []
    assert judge_version(said(VERSION, "13.0"), wheel(), expected="13") == []
    runtime = LibraryVersions(name="cudart", compiled="12.6", loaded="12.9", installed="12.9.79")
    assert judge_version(replace(said(VERSION, "12.6"), versions=(runtime,)), CUDA) == []


@pytest.mark.parametrize(
    ("answer", "label", "sentences"),
    [
        ("6.4.43484-123eb5128", "rocm6.4.1", []),
        ("6.2.41133", "rocm6.4", ["demo.hip is '6.2.41133', but the version label +rocm6.4 says"]),
        (None, "rocm6.4", ["demo.hip is None, but the version label +rocm6.4 says ROCm 6.4"]),
        ("6.4.1", "cu126", []),
        ("6.4.1", "cpu", ["demo.hip is '6.4.1', but the version label +cpu says no ROCm"]),
    ],
)
def test_the_same_for_rocm(answer: str | None, label: str, sentences: list[str]) -> None:
    package = wheel(f"demo-1.0+{label}-cp311-cp311-manylinux_2_17_x86_64.whl")
    stated = StatedToolkits(claims=tuple(claim_by_package(package, target())))
    asked = CudaRequest(rocm=Code("demo.hip"))
    found = list(rocm_version_misreported(said("demo.hip", answer), package, asked, stated))
    assert [str(each)[: len(start)] for each, start in zip(say(found), sentences, strict=True)] == [
        *sentences
    ]
    nothing = (CUDA, asked, StatedToolkits())
    with pytest.raises(NotApplicable, match="not for ROCm"):
        list(rocm_version_misreported(said("demo.hip"), *nothing))
    failed = rocm_version_misreported(said("demo.hip", error="E"), *nothing)
    assert say(failed) == ["demo.hip raises E"]
    unlike = rocm_version_misreported(said("demo.hip"), *nothing, expected="6.4")
    assert say(unlike) == ["demo.hip is None, expected 6.4"]


def code(kind: DeviceKind, architecture: str) -> DeviceCode:
    return DeviceCode(kind=kind, architecture=architecture, count=1, bytes=8, compressed=0)


BUILT = wheel(
    objects=[
        elf_file(
            device_code=(code(DeviceKind.SASS, "sm_90?"), code(DeviceKind.PTX, "sm_120")),
        )
    ]
)


def test_cuda_architectures_misreported_fires_on_what_no_object_has() -> None:
    flags = said(FLAGS, "sm_80 sm_90a compute_120 compute_90")
    assert say(cuda_architectures_misreported(flags, BUILT, ASK_FLAGS)) == [
        "demo.arch_flags() names compute_90, for which no object of the package has code",
        "demo.arch_flags() names sm_80, for which no object of the package has code",
    ]
    for broken, how in (({"value": None}, "is None, not a list"), ({"error": "E"}, "raises")):
        (line,) = cuda_architectures_misreported(said(FLAGS, **broken), BUILT, ASK_FLAGS)
        assert how in str(line)


def test_cuda_architectures_misreported_fires_on_what_it_leaves_out_alone() -> None:
    common = (
        DeviceTarget(kind=DeviceKind.SASS, architecture="sm_90"),
        DeviceTarget(kind=DeviceKind.PTX, architecture="sm_120"),
    )
    rare = DeviceTarget(kind=DeviceKind.SASS, architecture="sm_100a")
    containers = (
        DeviceContainers(targets=common, count=3),
        DeviceContainers(targets=(*common, rare), count=1),
        DeviceContainers(targets=(rare,), count=2),  # it is in half of them, not in most
        DeviceContainers(reason="not read", count=7),
    )
    codes = (code(DeviceKind.SASS, "sm_90"), code(DeviceKind.PTX, "sm_120"))
    built = wheel(objects=[elf_file(device_code=codes, device_containers=containers)])
    silent = cuda_architectures_misreported(said(FLAGS, "sm_90"), built, ASK_FLAGS)
    assert say(silent) == [
        "demo.arch_flags() lacks compute_120, which 4 of 6 containers have code for"
    ]
    whole = said(FLAGS, "sm_90 compute_120")
    assert list(cuda_architectures_misreported(whole, built, ASK_FLAGS)) == []
    for flags in ("sm_90a compute_120", ("sm_90a", "compute_120")):
        assert list(cuda_architectures_misreported(said(FLAGS, flags), BUILT, ASK_FLAGS)) == []
    assert list(cuda_architectures_misreported(said(FLAGS, ""), CPU, ASK_FLAGS)) == []


def test_what_was_not_reached_is_a_gap_and_what_the_profile_does_not_name_is_not_asked() -> None:
    dead = report(outcome=Ending.CRASHED, stage="import demo")
    gap = "was not evaluated: the process ended after import demo"
    for found, question in (
        (gpu_claimed_without_one(dead, ASK_AVAILABLE), AVAILABLE),
        (missing_gpu_misreported(dead, ASK_USE), USE),
        (cuda_version_misreported(dead, CUDA, ASK_VERSION, StatedToolkits()), VERSION),
        (cuda_architectures_misreported(dead, CUDA, ASK_FLAGS), FLAGS),
    ):
        assert list(found) == [NotInspected(sentence=f"{question} {gap}")]
    for judged in (
        gpu_claimed_without_one(report(), CudaRequest()),
        missing_gpu_misreported(report(), CudaRequest()),
        cuda_version_misreported(report(), CUDA, CudaRequest(), StatedToolkits()),
        cuda_architectures_misreported(report(), CUDA, CudaRequest()),
    ):
        with pytest.raises(NotApplicable, match="has no expression for it"):
            list(judged)

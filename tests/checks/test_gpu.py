"""What a package does on a GPU is judged; the reports are those that its probes would give."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binary_checks.checks.gpu import (
    first_kernel_late,
    gpu_left_out,
    gpu_libraries_disagree,
    gpu_memory_kept,
    gpu_result_differs,
    gpu_without_code,
    gpu_work_fails,
)
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Code,
    CudaRequest,
    Ending,
    GpuDevice,
    GpuHost,
    GpuReport,
    GpuRequest,
    LibraryVersions,
    Measurement,
    Note,
    NotInspected,
    Step,
)
from fixtures.values import only, say, wheel

H200 = GpuDevice(name="NVIDIA H200", capability="9.0", memory=139 << 30)
HOST = GpuHost(library="libcuda.so.1", driver="580.95.05", cuda="13.0", devices=(H200,))
SEEN = Note(sentence="driver 580.95.05 for CUDA 13.0: NVIDIA H200 (9.0, 139 GiB)")
NOTHING = CudaRequest()
COMPILED = CudaRequest(compiled={"nccl": Code("demo.nccl()")})
ARCHITECTURES = GpuRequest(architectures=Code("demo.archs()"))
GIB = float(1 << 30)


def report(*steps: Step, **fields: Any) -> GpuReport:
    return GpuReport(python="CPython 3.11.7", **{"host": HOST, "steps": steps, **fields})


def measured(step: str, **figures: float) -> GpuReport:
    rows = (
        Measurement(step=step, name=name.replace("_", " "), value=value)
        for name, value in figures.items()
    )
    return report(Step(name=step), measurements=tuple(rows))


@pytest.mark.parametrize(
    ("outcome", "fields", "sentence"),
    [
        (Ending.RAISED, {"detail": "RuntimeError: NO"}, "svd on the GPU raises RuntimeError: NO"),
        (Ending.HUNG, {"detail": "300 s"}, "svd on the GPU hangs: 300 s"),
        (Ending.CRASHED, {"detail": "SIGSEGV"}, "svd on the GPU crashes: SIGSEGV"),
        (
            Ending.CRASHED,
            {"detail": "SIGABRT", "finished": True},
            "svd succeeds on the GPU, but the process then crashes: SIGABRT",
        ),
    ],
)
def test_gpu_work_fails_fires_however_a_step_fails(
    outcome: Ending, fields: dict[str, Any], sentence: str
) -> None:
    healthy, step = Step(name="matmul"), Step(name="svd", outcome=outcome, **fields)
    assert say(gpu_work_fails(report(healthy, step))) == [SEEN, sentence]
    assert list(gpu_work_fails(report(healthy, Step(name="rnn")))) == [SEEN]


def test_a_step_that_the_host_cannot_take_is_a_gap() -> None:
    lacking = report(Step(name="compilation"), untried=(("compilation", "no C compiler"),))
    gap = NotInspected(sentence="compilation: no C compiler")
    assert list(gpu_work_fails(lacking)) == [SEEN, gap]
    assert NotInspected(sentence="the profile names no step: [probes.gpu] steps, snippets") in list(
        gpu_work_fails(report())
    )


def test_first_kernel_late_fires_after_its_time_limit_alone() -> None:
    late = measured("first_kernel", seconds=61.0)
    assert list(first_kernel_late(late)) == [
        "the first kernel took more than 20 s after the import"
    ]
    assert only(Note, first_kernel_late(late, seconds=61))
    assert list(first_kernel_late(measured("first_kernel", seconds=1.5))) == [
        Note(sentence="the first kernel took 1.5 s after the import")
    ]


def test_a_device_that_cannot_be_used_is_a_gap_and_expected_of_no_package() -> None:
    busy = replace(H200, problem="its context gives CUDA_ERROR_DEVICE_UNAVAILABLE (46)")
    host = replace(HOST, devices=(H200, busy))
    assert list(gpu_left_out(replace(measured("every_device", devices=1), host=host))) == []
    (line,) = (each for each in gpu_work_fails(report(host=host)) if "device 1" in str(each))
    assert line == NotInspected(
        sentence="device 1 (NVIDIA H200) is present but cannot be used: "
        "its context gives CUDA_ERROR_DEVICE_UNAVAILABLE (46)",
        by_host=True,
    )


def test_gpu_left_out_fires_on_devices_that_are_announced_and_not_there() -> None:
    for working, fault in ((0, ["it works on 0 of 1 GPUs"]), (1, [])):
        assert list(gpu_left_out(measured("every_device", devices=working))) == fault
    found = measured("every_device", devices=1, devices_announced=2)
    said = "it announces 2 GPUs, but CUDA gives it 1"
    assert list(gpu_left_out(found)) == [said]
    part = replace(H200, name="NVIDIA H200 MIG 1g.18gb")
    divided = replace(found, host=replace(HOST, devices=(part,)))
    note = Note(sentence=f"{said}: parts of GPUs (MIG) are counted differently")
    assert list(gpu_left_out(divided)) == [note]


@pytest.mark.parametrize("name", ["sm_80", "sm_90", "sm_90a", "compute_80", "compute_90"])
def test_gpu_without_code_is_quiet_when_the_device_can_run_it(name: str) -> None:
    device = GpuDevice(name="X", capability="8.6" if name == "sm_80" else "9.0")
    there = report(host=GpuHost(devices=(device,)), architectures=("sm_50", name))
    assert list(gpu_without_code(there, ARCHITECTURES)) == []


@pytest.mark.parametrize(
    "name",
    ["sm_80", "sm_100", "compute_100", "compute_80a", "sm_120f", "x", "sm_", "sm_" + "9" * 5000],
)
def test_gpu_without_code_fires_when_no_code_is_for_the_device(name: str) -> None:
    found = gpu_without_code(report(architectures=(name,)), ARCHITECTURES)
    assert say(found) == [f"device 0 (NVIDIA H200) is 9.0, the code is for {name}"]


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("gfx942", True),
        ("gfx942:sramecc+:xnack-", True),
        ("gfx9-4-generic", True),
        ("gfx90a", False),
        ("gfx9-generic", False),
        ("sm_90", False),
    ],
)
def test_code_for_amd_runs_on_its_own_architecture_and_in_its_family(name: str, runs: bool) -> None:
    host = GpuHost(platform="rocm", devices=(GpuDevice(name="MI300X", capability="gfx942"),))
    found = say(gpu_without_code(report(host=host, architectures=(name,)), ARCHITECTURES))
    assert found == ([] if runs else [f"device 0 (MI300X) is gfx942, the code is for {name}"])


def test_architectures_that_were_not_told_are_a_gap() -> None:
    assert list(gpu_without_code(report(), ARCHITECTURES)) == [
        NotInspected(sentence="demo.archs() returned no list")
    ]
    dumb = report(host=GpuHost(devices=(GpuDevice(name="X"),)), architectures=("sm_90",))
    assert list(gpu_without_code(dumb, ARCHITECTURES)) == [
        NotInspected(sentence="device 0: the driver does not report its capability")
    ]
    intel = report(host=GpuHost(platform="xpu", devices=(GpuDevice(name="Max 1550"),)))
    with pytest.raises(NotApplicable, match="Intel's driver compiles"):
        list(gpu_without_code(intel, ARCHITECTURES))
    with pytest.raises(NotApplicable):
        list(gpu_without_code(report(), GpuRequest()))


def test_gpu_memory_kept_fires() -> None:
    kept = measured("memory", bytes_kept=512, bytes_returned=GIB)
    lost = measured("memory", bytes_kept=0, bytes_returned=-1.0)
    assert list(gpu_memory_kept(kept)) == [
        "keeps 512 bytes after the last tensor is gone and the cache is emptied"
    ]
    assert list(gpu_memory_kept(lost)) == ["returns only 0 bytes of 1 GiB to the driver"]
    for returned, count in ((GIB, 0), (0.9 * GIB, 0), (0.9 * GIB - 1, 1)):
        found = gpu_memory_kept(measured("memory", bytes_kept=0, bytes_returned=returned))
        assert len(list(found)) == count


def test_memory_that_others_share_is_a_gap_unless_the_package_itself_keeps_some() -> None:
    busy = measured("memory", bytes_kept=0, bytes_returned=0, bytes_drifted=GIB)
    unified = measured("memory", bytes_kept=0, bytes_returned=0, integrated=1)
    lost = "it returns only 0 bytes of 1 GiB to the driver, but"
    others = f"other processes use the device: {GIB:.0f} bytes were taken or returned meanwhile"
    assert list(gpu_memory_kept(busy)) == [NotInspected(sentence=f"{lost} {others}")]
    assert list(gpu_memory_kept(unified)) == [
        NotInspected(sentence=f"{lost} the GPU shares its memory with all programs of the host")
    ]
    kept = measured("memory", bytes_kept=512, bytes_returned=GIB, integrated=1)
    assert only(str, gpu_memory_kept(kept))
    for drifted, kind in ((1 << 20, str), ((1 << 20) + 1, NotInspected)):
        lost_some = measured("memory", bytes_kept=0, bytes_returned=0, bytes_drifted=drifted)
        assert only(kind, gpu_memory_kept(lost_some))


def test_gpu_result_differs_fires_beyond_the_bound_of_its_dtype() -> None:
    wrong = measured("matmul", float32=2e-3, float16=2e-3, float64=float("nan"))
    assert say(gpu_result_differs(wrong)) == [
        Note(sentence="float16: 2e-03 in matmul, where 0.005 is allowed"),
        "matmul in float32 differs from the CPU's result by a relative error above 0.0001",
        "matmul in float64 gives infinity or NaN, unlike the CPU",
    ]
    wrong = measured("svd", float32_gradients=2e-3, float32_full=1e-6, float16=float("inf"))
    assert say(gpu_result_differs(wrong)) == [
        Note(sentence="float32: 1e-06 in svd, where 0.0001 is allowed"),
        "svd in float32 gradients differs from the CPU's result by a relative error above 0.0001",
        "svd in float16 gives infinity or NaN, unlike the CPU",
    ]


def test_steps_that_were_not_tried_are_gaps_of_results_and_of_work() -> None:
    reason = "it was not tried: first_kernel hangs"
    stopped = report(
        Step(name="first_kernel", outcome=Ending.HUNG, detail="90 s"),
        untried=(("svd", reason), ("memory", reason)),
    )
    gap = NotInspected(sentence=f"svd, memory: {reason}")
    assert gap in list(gpu_work_fails(stopped))
    assert gap in list(gpu_result_differs(stopped))
    assert list(gpu_memory_kept(stopped)) == [NotInspected(sentence=f"memory: {reason}")]


def test_a_step_that_is_not_for_the_package_is_a_note() -> None:
    reason = "torch.compile for a GPU needs triton, which is not installed"
    windows = report(Step(name="compilation"), inapplicable=(("compilation", reason),))
    assert list(gpu_work_fails(windows)) == [
        SEEN,
        Note(sentence=f"not applicable: compilation: {reason}"),
    ]
    unified = report(Step(name="memory"), inapplicable=(("memory", "no memory of its own"),))
    with pytest.raises(NotApplicable, match="memory: no memory of its own"):
        list(gpu_memory_kept(unified))


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ({"cudnn": "9.26"}, []),
        ({"cudnn": "9.26.0"}, []),
        ({"cudnn": "9.2"}, ["cudnn 9.26.0 is loaded, but the profile expects 9.2"]),
        ({"nccl": "2.30"}, [NotInspected(sentence="nccl: it is neither loaded nor installed")]),
    ],
)
def test_a_library_is_held_against_the_version_that_a_profile_expects(
    expected: dict[str, str], found: list[object]
) -> None:
    versions = (LibraryVersions(name="cudnn", loaded="9.26.0", installed="9.26.0.51"),)
    there = report(versions=versions)
    assert say(gpu_libraries_disagree(there, wheel(), NOTHING, expected=expected)) == found


def test_gpu_result_differs_is_quiet_within_the_bounds() -> None:
    others = {"seconds": 9.0, "float16_full": 1e-4}  # no error, and one that is not the largest
    right = measured("matmul", float32=2e-6, float16=2e-4, float64=1e-15, bfloat16=0.04, **others)
    assert list(gpu_result_differs(right)) == [
        Note(sentence="float64: 1e-15 in matmul, where 1e-10 is allowed"),
        Note(sentence="float32: 2e-06 in matmul, where 0.0001 is allowed"),
        Note(sentence="float16: 2e-04 in matmul, where 0.005 is allowed"),
        Note(sentence="bfloat16: 4e-02 in matmul, where 0.04 is allowed"),
    ]
    assert list(gpu_result_differs(measured("matmul", float32=2e-3), float32=1e-2)) == [
        Note(sentence="float32: 2e-03 in matmul, where 0.01 is allowed")
    ]


def test_results_that_nobody_came_to_are_gaps() -> None:
    failed = Step(name="svd", outcome=Ending.RAISED)
    assert list(gpu_result_differs(report(failed))) == [
        NotInspected(sentence="no step produced a result"),
        NotInspected(sentence="svd did not succeed (see gpu-work-fails)"),
    ]
    finished = replace(failed, outcome=Ending.CRASHED, finished=True)
    assert only(NotInspected, gpu_result_differs(report(finished)))
    with pytest.raises(NotApplicable, match="names no step"):
        list(gpu_result_differs(report()))
    assert list(gpu_result_differs(measured("fft", complex64=0.0))) == [
        NotInspected(sentence="fft: no bound for complex64")
    ]
    for check in (first_kernel_late, gpu_left_out, gpu_memory_kept):
        step = {"first_kernel_late": "first_kernel", "gpu_left_out": "every_device"}
        dead = report(Step(name=step.get(check.__name__, "memory"), outcome=Ending.RAISED))
        assert only(NotInspected, check(dead))
        with pytest.raises(NotApplicable, match="leaves out the step"):
            list(check(report()))


def loading(**fields: str) -> GpuReport:
    return report(versions=(LibraryVersions(name="cudnn", **fields),))


def test_gpu_libraries_disagree_fires_on_another_than_built_installed_or_required() -> None:
    pinned = wheel(metadata=[("Requires-Dist", "nvidia-cudnn-cu12==9.10.2.21 ; sys_platform")])
    older = loading(compiled="9.10.2", loaded="9.1.0", installed="9.10.2.21")
    assert say(gpu_libraries_disagree(older, pinned, NOTHING)) == [
        "cudnn 9.1.0 is loaded, but the package was built with 9.10.2",
        "cudnn 9.1.0 is loaded, but 9.10.2.21 is installed",
    ]
    pinned = wheel(metadata=[("Requires-Dist", "nvidia-cudnn-cu12==9.10.2.21")])
    assert say(gpu_libraries_disagree(loading(loaded="9.1.0"), pinned, NOTHING)) == [
        "cudnn 9.1.0 is loaded, but the package requires 9.10.2.21"
    ]
    by_another = loading(loaded="9.1.0", pinned="9.10.2.21")  # an installed distribution's pin
    assert say(gpu_libraries_disagree(by_another, wheel(), NOTHING)) == [
        "cudnn 9.1.0 is loaded, but the package requires 9.10.2.21"
    ]
    newer = loading(compiled="9.1.0", loaded="9.10.2")
    assert say(gpu_libraries_disagree(newer, wheel(), NOTHING, newer=False)) == [
        "cudnn 9.10.2 is loaded, but the package was built with 9.1.0"
    ]


def test_gpu_libraries_disagree_is_quiet_when_they_agree_or_the_build_has_none() -> None:
    pinned = wheel(metadata=[("Requires-Dist", "nvidia-cudnn-cu12==9.10.2.21"), ("x", "y")])
    same = loading(compiled="9.10.2", loaded="9.10.2", installed="9.10.2.21")
    assert list(gpu_libraries_disagree(same, pinned, NOTHING)) == []
    newer = loading(compiled="9.1.0", loaded="9.10.2")
    assert list(gpu_libraries_disagree(newer, wheel(), NOTHING)) == []
    none = report(versions=(LibraryVersions(name="nccl"), LibraryVersions(name="cudnn")))
    assert list(gpu_libraries_disagree(none, wheel(), COMPILED)) == []


@pytest.mark.parametrize("name", ["versions", "the question for its build"])
def test_versions_that_a_process_died_of_are_a_gap(name: str) -> None:
    dead = report(Step(name=name, outcome=Ending.HUNG, detail="300 s"))
    gap = NotInspected(sentence="the process that reports them failed")
    assert list(gpu_libraries_disagree(dead, wheel(), NOTHING)) == [gap]


def test_a_version_that_nobody_tells_is_a_gap() -> None:
    silent = loading(compiled="9.1.0")
    assert list(gpu_libraries_disagree(silent, wheel(), NOTHING)) == [
        NotInspected(sentence="cudnn: it is not loaded, or does not report its version")
    ]
    assert list(gpu_libraries_disagree(loading(loaded="9.1.0"), wheel(), COMPILED)) == [
        NotInspected(sentence="nccl: the package does not report the version it was built with")
    ]
    with pytest.raises(NotApplicable):
        list(gpu_libraries_disagree(report(), wheel(), NOTHING))

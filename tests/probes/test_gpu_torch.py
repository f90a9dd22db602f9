"""Steps on a GPU: what their probes would answer, put in at the JSON border, becomes a report."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binary_checks.errors import (
    GatherError,
    HostUnfit,
    NotApplicable,
    Unavailable,
)
from binary_checks.model import (
    Code,
    CudaRequest,
    Ending,
    GpuReport,
    GpuRequest,
    LibraryVersions,
    Measurement,
    ProbeAnswer,
    Wheel,
)
from binary_checks.places import host_place
from binary_checks.probes.gpu_host.reader import read_host
from binary_checks.probes.gpu_torch import reader as gpu_steps
from binary_checks.probes.gpu_torch.reader import use_gpu
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, FilledPlace, open_offline
from fixtures.values import pe_file, wheel
from tests.probes.gpu_answers import HOST, StandIn, listed

MODULE = "value = 6\ndef work(): return value * 7\n"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledPlace]:
    folder = tmp_path_factory.mktemp("gpu")
    with open_offline(
        build_wheel(folder, name="fake", tags=PURE, members={"fake.py": MODULE})
    ) as opened:
        yield opened


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Any:
    def put_in(**answers: str | ProbeAnswer) -> StandIn:
        made = StandIn(**answers)
        monkeypatch.setattr(host_place, "run_probe", made.run)
        return made

    return put_in


BUILD = CudaRequest(compiled={"cudnn": Code("torch.cudnn()")}, version=Code("torch.cuda()"))


def torch_work(leave_out: tuple[str, ...] = ()) -> GpuRequest:
    return GpuRequest(
        module=Code("torch"),
        steps="torch",
        leave_out=leave_out,
        architectures=Code("torch.archs()"),
    )


@pytest.fixture
def use(environment: FilledPlace) -> Any:
    """Take the steps for torch, of a package that is not one."""

    def use(
        work: GpuRequest | None = None, package: Wheel | None = None, build: CudaRequest = BUILD
    ) -> GpuReport:
        return use_gpu(environment, package or environment.wheel, work or torch_work(), build)

    return use


def test_one_process_takes_the_steps_after_the_host_was_asked(stand_in: Any, use: Any) -> None:
    probes = stand_in(
        list=listed("first_kernel", "magma", "matmul"),
        first_kernel='{"stage": "first_kernel", "state": "finished", "measured": {"seconds": 1.5}}',
        matmul='{"stage": "matmul", "state": "finished", "measured": {"float32": 2e-7}}',
        ask_module='{"stage": "", "state": "finished", "answers": '
        '[{"question": "torch.cuda()", "value": "13.0"}, '
        '{"question": "torch.archs()", "value": "sm_90 compute_90"}]}',
    )
    report = use(torch_work(leave_out=("magma",)))
    assert [step.name for step in report.steps] == ["first_kernel", "matmul", "versions"]
    assert {step.outcome for step in report.steps} == {Ending.OK}
    assert report.measurements == (
        Measurement(step="first_kernel", name="seconds", value=1.5),
        Measurement(step="matmul", name="float32", value=2e-7),
    )
    assert report.versions == (
        LibraryVersions(name="cudnn", compiled="9.10.2", loaded="9.10.2", installed="9.10.2.21"),
    )
    assert report.architectures == ("sm_90", "compute_90")
    assert report.host.driver == "580.95.05"
    assert probes.asked == [
        "gpu_host", "ask_module", "nvidia_libraries", "list", "first_kernel+matmul",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("script", "step", "asked"),
    [
        (
            "ask_module",
            "the question for its build",
            ["gpu_host", "ask_module", "list", "gpu_host"],
        ),
        (
            "nvidia_libraries",
            "versions",
            ["gpu_host", "ask_module", "nvidia_libraries", "list", "gpu_host"],
        ),
    ],
)
def test_where_the_package_hangs_before_its_work_no_step_waits_for_it_again(
    stand_in: Any, use: Any, script: str, step: str, asked: list[str]
) -> None:
    hangs = ProbeAnswer(answer={"stage": "import torch"}, outcome=Ending.HUNG, detail="300 s")
    probes = stand_in(**{script: hangs, "list": listed("first_kernel", "rnn")})
    work = replace(torch_work(), snippets={"own": Code("1")})
    report = use(work)
    assert [(each.name, each.outcome) for each in report.steps] == [(step, Ending.HUNG)]
    reason = f"it was not tried: {step} hangs"
    assert report.untried == (("first_kernel", reason), ("rnn", reason), ("own", reason))
    assert probes.asked == asked


@pytest.mark.parametrize(
    ("label", "platform", "question"),
    [("rocm6.4", "rocm", "torch.hip()"), ("xpu", "xpu", "torch.xpu()")],
)
def test_a_build_for_another_vendor_asks_its_driver_and_none_of_nvidias_libraries(
    stand_in: Any, use: Any, label: str, platform: str, question: str
) -> None:
    host = '{"stage": "", "library": "x", "status": 0, "devices": [{"name": "X"}]}'
    probes = stand_in(
        gpu_host=host,
        list=listed("first_kernel"),
        ask_module='{"stage": "", "state": "finished", "answers": '
        f'[{{"question": "{question}", "value": "6.4"}}]}}',
    )
    asked = replace(BUILD, rocm=Code("torch.hip()"), xpu=Code("torch.xpu()"))
    named = wheel(f"fake-1.0+{label}-py3-none-any.whl")
    report = use(package=named, build=asked)
    assert (report.host.platform, report.runtime) == (platform, "6.4")
    assert probes.asked == ["gpu_host", "ask_module", "list", "first_kernel"]
    assert probes.platforms == [platform, platform]


def test_a_build_for_the_cpu_is_not_tried(stand_in: Any, use: Any) -> None:
    probes = stand_in(ask_module='{"answers": [{"question": "torch.cuda()", "value": null}]}')
    with pytest.raises(NotApplicable, match=r"torch.cuda\(\) is None: the build is not for CUDA"):
        use()
    assert probes.asked == ["gpu_host", "ask_module"]


def test_one_whose_label_says_so_is_not_even_a_reason_to_ask_the_host(
    stand_in: Any, use: Any
) -> None:
    probes = stand_in()
    package = wheel("torch-2.15.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl")
    with pytest.raises(NotApplicable, match=r"for the CPU: the version label \+cpu says so"):
        use(package=package)
    assert probes.asked == []
    stand_in(gpu_host='{"stage": ""}')  # nor does a host without a GPU say anything of this one
    package = wheel("torch-2.15.0-cp311-cp311-win_amd64.whl", objects=[pe_file()])
    with pytest.raises(NotApplicable, match="for the CPU: no object contains device code"):
        use(package=package)


def test_a_step_that_fails_reaches_no_other(stand_in: Any, use: Any) -> None:
    probes = stand_in(
        list=listed("rnn", "svd", "compilation", "memory"),
        rnn='{"stage": "rnn", "state": "raised", "detail": "RuntimeError: CUDNN_STATUS"}',
        svd=ProbeAnswer(answer={"stage": "svd"}, outcome=Ending.HUNG, detail="60 s"),
        compilation='{"state": "finished", "unavailable": "no C compiler"}',
    )
    report = use()
    rnn, svd, *others, _ = report.steps
    assert (rnn.outcome, rnn.detail) == (Ending.RAISED, "RuntimeError: CUDNN_STATUS")
    assert svd.outcome is Ending.HUNG
    assert svd.detail.startswith("60 s")
    assert [step.outcome for step in others] == [Ending.OK, Ending.OK]
    assert report.untried == (("compilation", "no C compiler"),)
    assert probes.asked[-4:] == [
        "rnn+svd+compilation+memory", "svd+compilation+memory", "compilation+memory", "gpu_host",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "first_kernel",
    [
        '{"state": "raised", "detail": "RuntimeError: CUDA error: unknown error"}',
        ProbeAnswer(outcome=Ending.HUNG, detail="90 s"),
        ProbeAnswer(answer={"stage": "x"}, outcome=Ending.CRASHED, detail="SIGABRT"),
    ],
)
def test_after_a_failure_the_driver_is_asked_again_without_the_package(
    stand_in: Any, use: Any, first_kernel: str | ProbeAnswer
) -> None:
    answers = {"list": listed("first_kernel"), "first_kernel": first_kernel}
    probes = stand_in(**answers)
    report = use()
    assert report.steps[0].outcome is not Ending.OK  # the device is well: it is the package
    assert probes.sites == [False, False]
    lost = '{"stage": "", "library": "/usr/lib/libcuda.so.1", "status": 999}'
    probes = stand_in(**answers, then="lost", lost=lost)
    said = r"cuInit gives error 999 \(999\) \(first_kernel failed before\)"
    with pytest.raises(HostUnfit, match=said):
        use()
    assert probes.sites == [False, False]


def test_a_driver_that_does_not_start_has_nothing_done(stand_in: Any, use: Any) -> None:
    probes = stand_in(gpu_host='{"stage": "", "library": "libcuda.so.1", "status": 803}')
    with pytest.raises(Unavailable, match=r"does not start: cuInit gives error 803 \(803\)"):
        use()
    assert probes.asked == ["gpu_host"]


OLD = (
    "the NVIDIA driver 580.95.05 serves CUDA 13.0, and the package runs CUDA 14.1: "
    "update the driver"
)


@pytest.mark.parametrize("from_package", [True, False])
def test_a_driver_older_than_the_runtime_has_nothing_done(
    stand_in: Any, use: Any, from_package: bool
) -> None:
    told = '{"answers": [{"question": "torch.cuda()", "value": "14.1"}]}' if from_package else "{}"
    probes = stand_in(
        ask_module=told,
        nvidia_libraries='{"state": "finished", "versions": {"cudart": {"loaded": "14.1"}}}',
    )
    with pytest.raises(Unavailable, match=re.escape(OLD)):
        use()
    assert probes.asked == ["gpu_host", "ask_module", "nvidia_libraries"]


def test_a_figure_that_is_no_number_is_no_result(stand_in: Any, use: Any) -> None:
    stand_in(
        list=listed("svd"),
        svd='{"state": "finished", "measured": {"float32": "0", "float64": NaN, "float16": null, '
        f'"bfloat16": {"9" * 400}}}}}',
    )
    measured = use().measurements
    assert len(measured) == 4
    assert all(math.isnan(each.value) for each in measured)


def test_a_step_without_any_answer_is_our_own_fault(
    stand_in: Any, use: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes = stand_in(list=listed("rnn"))
    monkeypatch.setattr(probes, "take", lambda steps: ProbeAnswer())
    with pytest.raises(GatherError, match="the probe of rnn ended without an answer"):
        use()


def test_snippets_are_run_by_the_real_probe(
    environment: FilledPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = read_host(ProbeAnswer(answer=json.loads(HOST)), {})
    monkeypatch.setattr(gpu_steps, "describe_host", lambda *asked: host)
    snippets = {
        "matmul": Code("measured = {'float32': fake.work() * 2.0**-30}"),
        "fft": Code("unavailable = 'no FFT here'"),
        "svd": Code("raise RuntimeError('an illegal memory access was encountered')"),
    }
    work = GpuRequest(module=Code("fake"), snippets=snippets)
    report = use_gpu(environment, environment.wheel, work, CudaRequest())
    assert [(step.name, step.outcome) for step in report.steps] == [
        ("matmul", Ending.OK),
        ("fft", Ending.OK),
        ("svd", Ending.RAISED),
        ("versions", Ending.OK),
    ]
    assert "an illegal memory access" in report.steps[2].detail
    assert report.measurements == (Measurement(step="matmul", name="float32", value=42 * 2.0**-30),)
    assert report.untried == (("fft", "no FFT here"),)


def test_a_thorough_run_has_what_it_requires_beside_or_takes_the_other_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = read_host(ProbeAnswer(answer=json.loads(HOST)), {})
    monkeypatch.setattr(gpu_steps, "describe_host", lambda *asked: host)
    beside = build_wheel(tmp_path, name="vision", tags=PURE, members={"vision.py": ""})
    wheel = build_wheel(tmp_path, name="fake", tags=PURE, members={"fake.py": MODULE})
    snippets = {"own": Code("import vision")}
    usual = GpuRequest(module=Code("fake"), snippets=snippets, requires=(Code("vision"),))
    thorough = replace(usual, thorough=True)
    lacking = replace(thorough, requires=(Code("no-such-library"),))
    made: list[object] = []
    with open_offline(wheel, beside) as place:
        again = place.with_requirements
        monkeypatch.setattr(
            place, "with_requirements", lambda names: made.append(names) or again(names)
        )
        use_gpu(place, place.wheel, usual, CudaRequest())
        assert made == []
        report = use_gpu(place, place.wheel, thorough, CudaRequest())
        assert (made, report.untried) == ([("vision",)], ())
        assert report.steps[0].outcome is Ending.OK
        report = use_gpu(place, place.wheel, lacking, CudaRequest())
    assert [step.outcome for step in report.steps] == [Ending.OK, Ending.OK]
    ((name, reason),) = report.untried
    assert name == "no-such-library"
    assert reason.startswith("it cannot be installed alongside the package: ")


ODD = ("x", 3, ["x"], {"a": 1}, {"svd": 3}, {"svd": {"measured": ["x"], "unavailable": [1]}})


@pytest.mark.parametrize("odd", ODD, ids=str)
@pytest.mark.parametrize("key", ["results", "stage", "state", "detail"])
def test_an_odd_answer_is_no_traceback(
    stand_in: Any, use: Any, monkeypatch: pytest.MonkeyPatch, key: str, odd: object
) -> None:
    probes = stand_in(list=listed("svd", "rnn"))
    answer = {"stage": "svd", "results": {}, key: odd}
    monkeypatch.setattr(probes, "take", lambda steps: ProbeAnswer(answer=answer))
    report = use()
    assert {step.name for step in report.steps} == {"svd", "rnn", "versions"}
    assert not all(step.outcome is Ending.OK for step in report.steps)


def test_after_the_first_kernel_hangs_nothing_more_is_tried(stand_in: Any, use: Any) -> None:
    hangs = ProbeAnswer(outcome=Ending.HUNG, detail="90 s")
    probes = stand_in(list=listed("first_kernel", "svd", "rnn"), first_kernel=hangs)
    work = replace(torch_work(), snippets={"own": Code("1")})
    report = use(work)
    assert [(step.name, step.outcome) for step in report.steps] == [
        ("first_kernel", Ending.HUNG),
        ("versions", Ending.OK),
    ]
    reason = "it was not tried: first_kernel hangs"
    assert report.untried == (("svd", reason), ("rnn", reason), ("own", reason))
    assert probes.asked[-2:] == ["first_kernel+svd+rnn", "gpu_host"]


def test_after_two_steps_hang_nothing_more_is_tried(stand_in: Any, use: Any) -> None:
    hangs = ProbeAnswer(outcome=Ending.HUNG, detail="30 s")
    stand_in(list=listed("matmul", "svd", "rnn", "cnn"), svd=hangs, rnn=hangs)
    report = use()
    assert [step.outcome for step in report.steps[:3]] == [Ending.OK, Ending.HUNG, Ending.HUNG]
    assert report.untried == (("cnn", "it was not tried: svd and rnn hang"),)


def test_a_step_that_is_alone_has_a_process_of_its_own(stand_in: Any, use: Any) -> None:
    probes = stand_in(
        list=listed("svd", "device_assertion", "rnn", alone=("device_assertion",)),
        svd='{"state": "raised", "detail": "RuntimeError: x"}',
    )
    use()
    assert probes.asked[-4:] == ["svd+rnn", "rnn", "device_assertion", "gpu_host"]

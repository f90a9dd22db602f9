"""AMD's and Intel's drivers: missing, refusing, busy or sound, as stand-ins for them answer."""

from __future__ import annotations

import ctypes
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from binary_checks.knowledge.device_code import format_host
from binary_checks.model import Conditions, GpuDevice, GpuHost, ProbeAnswer
from binary_checks.places import FreshPlace, PlaceSettings
from binary_checks.probes.gpu_host import reader
from binary_checks.probes.gpu_host.reader import choose_devices, find_blame, read_host
from fixtures.environments import PYTHON
from fixtures.gpu.driver import make_amdsmi, make_kfd, make_level_zero
from tests.probes.gpu_answers import Record
from tests.probes.test_scripts import load

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drivers as on Linux")
compiled = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
MI300 = GpuDevice(name="AMD Instinct MI300X", capability="gfx942", memory=192 << 30)
MAX = GpuDevice(name="Intel(R) Data Center GPU Max 1550", memory=64 << 30)


def ask_amd(root: Path, variables: dict[str, str] | None = None, library: Any = None) -> GpuHost:
    """What the script finds in a tree of the kernel's files, with these variables."""
    record = Record({})
    with pytest.MonkeyPatch.context() as patch:
        script = load(patch, "gpu_host")
        patch.setattr(script, "load_library", lambda name, answer: library)
        for name in script.VARIABLES:
            patch.delenv(name, raising=False)
        for name, value in (variables or {}).items():
            patch.setenv(name, value)
        record.finish({**script.ask_amd(record, f"{root}/"), "stage": ""})
    return read_host(ProbeAnswer(answer=record.answer), variables or {}, platform="rocm")


def ask(platform: str, variables: dict[str, str], timeout: float = 60) -> GpuHost:
    """Ask in a process, as the family does."""
    with FreshPlace(PlaceSettings(python=PYTHON, timeout=timeout)) as place:
        return reader.describe_host(place, Conditions(variables=variables), platform)


def test_amds_devices_are_described_by_the_kernel(tmp_path: Path) -> None:
    host = ask_amd(make_kfd(tmp_path))
    assert (host.problem, host.driver, host.devices) == ("", "6.12.12", (MI300, MI300))
    assert format_host(host, "6.4") == (
        "driver 6.12.12, runtime 6.4: AMD Instinct MI300X (gfx942, 192 GiB), "
        "AMD Instinct MI300X (gfx942, 192 GiB)"
    )


@pytest.mark.parametrize(
    ("number", "name"), [(90402, "gfx942"), (90010, "gfx90a"), (110501, "gfx1151")]
)
def test_kfd_packs_the_architecture_in_a_number(
    monkeypatch: pytest.MonkeyPatch, number: int, name: str
) -> None:
    assert load(monkeypatch, "gpu_host").name_architecture(number) == name


@pytest.mark.parametrize(
    ("variables", "count"),
    [
        ({"HIP_VISIBLE_DEVICES": "1"}, 1),
        ({"ROCR_VISIBLE_DEVICES": "GPU-abc1"}, 1),
        ({"ROCR_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "0,1"}, 1),
        ({"CUDA_VISIBLE_DEVICES": "1,0"}, 2),
        ({"CUDA_VISIBLE_DEVICES": ""}, 0),
    ],
)
def test_the_variables_of_rocm_choose_devices(
    tmp_path: Path, variables: dict[str, str], count: int
) -> None:
    host = ask_amd(make_kfd(tmp_path), variables)
    assert len(host.devices) == count
    hidden = "CUDA_VISIBLE_DEVICES='' leaves no GPU of the host visible"
    assert host.problem == ("" if count else hidden)


def test_a_host_without_amds_driver_says_so(tmp_path: Path) -> None:
    (tmp_path / "sys/module/amdgpu").mkdir(parents=True)
    assert ask_amd(tmp_path).problem == (
        "no AMD driver on this host, though the host shows /sys/module/amdgpu"
    )
    assert ask_amd(tmp_path / "nothing").problem == "no AMD driver on this host"
    assert ask_amd(make_kfd(tmp_path / "cpus", devices=0)).problem == "the AMD driver finds no GPU"


def test_a_device_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    root = make_kfd(tmp_path)
    (root / "dev/dri/renderD129").unlink()
    host = ask_amd(root)
    assert host.devices[1].problem == "its render node gives No such file or directory (2)"
    assert choose_devices({}, host) == {"ROCR_VISIBLE_DEVICES": "0"}
    assert choose_devices({"HIP_VISIBLE_DEVICES": "3,4"}, host) == {"HIP_VISIBLE_DEVICES": "3"}
    (root / "dev/kfd").unlink()
    (root / "dev/kfd").mkdir()
    assert ask_amd(root).problem == (
        "the AMD driver's device file cannot be opened: Is a directory"
    )


def test_a_busy_amd_gpu_is_left_out(tmp_path: Path) -> None:
    host = ask_amd(make_kfd(tmp_path, used=190 << 30))
    assert host.devices[0].problem == "other processes hold 190.0 of its 192.0 GiB"
    assert not host.usable


@compiled
def test_amdsmi_counts_errors_of_the_memory(tmp_path: Path) -> None:
    root = make_kfd(tmp_path / "root")
    library = ctypes.CDLL(str(make_amdsmi(tmp_path, errors="3")))
    after = ask_amd(root, library=library)
    assert after.memory_errors == 6
    assert find_blame(ask_amd(root), after) == "the AMD driver counts 6 uncorrectable ECC errors"


@pytest.mark.skipif(Path("/dev/kfd").exists(), reason="this host has AMD's driver")
def test_amds_driver_is_looked_for_in_a_process() -> None:
    assert ask("rocm", {}).problem.startswith("no AMD driver on this host")


@pytest.mark.skipif(Path("/dev/dri").exists(), reason="this host has a GPU")
def test_a_host_without_intels_driver_says_so() -> None:
    assert ask("xpu", {}).problem == "no Intel driver on this host"


@compiled
def test_intels_devices_are_described_by_level_zero(tmp_path: Path) -> None:
    host = ask("xpu", make_level_zero(tmp_path))
    assert (host.problem, host.driver, host.devices) == ("", "1.6.33578", (MAX, MAX))
    assert format_host(host).startswith("driver 1.6.33578: Intel(R) Data Center GPU Max 1550 (64")


@compiled
@pytest.mark.parametrize(
    ("bodies", "variables", "problem"),
    [
        ({"init": "0x78000001"}, {}, "the Intel driver finds no GPU"),
        (
            {"init": "0x70010000"},
            {},
            "the Intel driver does not start: zeInit gives "
            "ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS (0x70010000)",
        ),
        (
            {"init": "(abort(), 0)"},
            {},
            "the Intel driver crashes with SIGABRT at its start (zeInit)",
        ),
        ({"type": "2"}, {}, "the Intel driver finds no GPU"),
        (
            {"devices": "0"},
            {"ZE_AFFINITY_MASK": "7"},
            "ZE_AFFINITY_MASK='7' leaves no GPU of the host visible",
        ),
    ],
)
def test_a_level_zero_that_gives_no_device_is_named(
    tmp_path: Path, bodies: dict[str, str], variables: dict[str, str], problem: str
) -> None:
    host = ask("xpu", {**make_level_zero(tmp_path, **bodies), **variables})
    assert (host.problem, host.usable) == (problem, ())


@compiled
@pytest.mark.parametrize(
    ("allocate", "problem"),
    [
        (
            "return device ? 0x70000003 : 0;",
            "its memory gives ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY (0x70000003)",
        ),
        ("if (device) abort(); return 0;", "its context crashes with SIGABRT"),
    ],
)
def test_an_intel_gpu_that_refuses_work_is_left_out(
    tmp_path: Path, allocate: str, problem: str
) -> None:
    host = ask("xpu", make_level_zero(tmp_path, allocate=allocate))
    assert [each.problem for each in host.devices] == ["", problem]
    assert choose_devices({}, host) == {"ZE_AFFINITY_MASK": "0"}

"""Whether a GPU host is to blame is decided by its driver, asked without the package."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binary_checks.errors import HostUnfit, Unavailable
from binary_checks.knowledge.cuda import list_promised
from binary_checks.model import GpuDevice, GpuHost, ProbeAnswer
from binary_checks.probes.gpu_host.reader import find_blame, read_host
from binary_checks.probes.gpu_torch.reader import require_driver
from fixtures.gpu.driver import make_driver, make_management
from fixtures.values import wheel
from tests.probes.gpu_answers import HOST
from tests.probes.test_gpu_host import compiled, describe_host


@compiled
@pytest.mark.parametrize(
    ("bodies", "problem"),
    [
        ({"allocate": "return 2 * device;"}, "its memory gives CUDA_ERROR_OF_TEST (2)"),
        ({"work": "return 214 * device;"}, "its work gives CUDA_ERROR_OF_TEST (214)"),
        ({"copied": "*(char *)to ^= current;"}, "its memory returns other bytes than were written"),
        (
            {"free": "(device ? 3L : 5L) << 30"},
            "other processes hold 136.0 of its 139.0 GiB",
        ),
        ({"memory": False}, ""),
        ({"free": "1L << 30", "integrated": "1"}, ""),
    ],
)
def test_a_device_does_a_piece_of_work_of_ours(
    tmp_path: Path, bodies: dict[str, Any], problem: str
) -> None:
    host = describe_host(make_driver(tmp_path, **bodies))
    assert (host.problem, [each.problem for each in host.devices]) == ("", ["", problem])


@compiled
def test_the_management_library_counts_errors_and_tells_a_driver_that_is_half_updated(
    tmp_path: Path,
) -> None:
    make_management(tmp_path, errors="type == 1 && counter == 0 ? 3 : 0")
    host = describe_host(make_driver(tmp_path))
    assert (host.driver, host.memory_errors, host.doubt) == ("580.95.05", 6, "")
    make_management(tmp_path, init="18")
    host = describe_host(make_driver(tmp_path))
    assert host.problem == ""
    assert host.doubt.startswith("the NVIDIA driver's libraries and its kernel module are of")


FREE = GpuDevice(name="H200")
FINE = GpuHost(library="libcuda.so.1", devices=(FREE, FREE), memory_errors=1)
LOST = replace(FINE, problem="cuInit gives 999", devices=())


@pytest.mark.parametrize(
    ("after", "blame"),
    [
        (FINE, ""),
        (replace(FINE, memory_errors=0), ""),  # the driver was loaded again
        (LOST, "cuInit gives 999"),
        (replace(LOST, library=""), "cuInit gives 999"),
        (replace(LOST, library="site-packages/demo/libcuda.so.1"), ""),  # the package's own
        (
            replace(FINE, devices=(FREE, replace(FREE, problem="it is busy"))),
            "device 1 (H200) is present but cannot be used: it is busy",
        ),
        (replace(FINE, devices=(FREE,)), "the NVIDIA driver finds 1 of 2 GPUs"),
        (
            replace(FINE, memory_errors=3),
            "the NVIDIA driver counts 2 uncorrectable ECC errors",
        ),
        (replace(FINE, doubt="it is half updated"), "it is half updated"),
    ],
)
def test_what_a_second_look_finds_decides_who_is_to_blame(after: GpuHost, blame: str) -> None:
    assert find_blame(FINE, after) == blame


def test_a_device_that_was_broken_before_says_nothing_of_what_came_after() -> None:
    before = replace(FINE, devices=(FREE, replace(FREE, problem="it is busy")))
    assert find_blame(before, replace(FINE, devices=(FREE,))) == ""


@pytest.mark.parametrize(
    ("label", "runtime", "kind"),
    [
        ("+cu141", "14.1", HostUnfit),
        ("", "14.1", HostUnfit),
        ("+cu141", "", HostUnfit),
        ("+cu126", "14.1", Unavailable),  # it is not what it promises
    ],
)
def test_a_driver_that_is_too_old_for_what_a_package_promises_is_the_hosts_fault(
    label: str, runtime: str, kind: type[Unavailable]
) -> None:
    host = read_host(ProbeAnswer(answer=json.loads(HOST)), {})
    package = wheel(f"torch-2.15.0{label}-cp311-cp311-manylinux_2_28_x86_64.whl")
    with pytest.raises(Unavailable) as raised:
        require_driver(host, runtime, list_promised(package))
    assert type(raised.value) is kind

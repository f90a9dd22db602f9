"""A driver that is not there, does not start, hangs or sees nothing is told in one clear line."""

from __future__ import annotations

import ctypes
import json
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping
from ctypes.util import find_library
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binary_checks.errors import HostUnfit, Unavailable
from binary_checks.knowledge.cuda import list_promised
from binary_checks.knowledge.device_code import format_host
from binary_checks.model import (
    Code,
    Conditions,
    CudaRequest,
    Ending,
    GpuDevice,
    GpuHost,
    GpuRequest,
    ProbeAnswer,
)
from binary_checks.places import FreshPlace, PlaceSettings
from binary_checks.probes.ask_module.reader import hide_driver
from binary_checks.probes.gpu_host import reader
from binary_checks.probes.gpu_host.reader import (
    ABSENT,
    HIDDEN,
    choose_devices,
    choose_variables,
    find_blame,
    find_old_driver,
    find_services,
    read_host,
)
from binary_checks.probes.gpu_torch.reader import require_driver, use_gpu
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, PYTHON, demand_sandbox, open_offline
from fixtures.gpu.driver import (
    make_amdsmi,
    make_driver,
    make_kfd,
    make_level_zero,
    make_management,
)
from fixtures.slow import slow
from fixtures.values import wheel
from tests.probes.gpu_answers import HOST, Record
from tests.probes.test_scripts import load

LINUX = sys.platform == "linux"
compiled = pytest.mark.skipif(
    not (LINUX and shutil.which("cc")), reason="needs a C compiler and ELF"
)
linux = pytest.mark.skipif(not LINUX, reason="drivers as on Linux")
bare = pytest.mark.skipif(bool(find_library("cuda")) or not LINUX, reason="this host has a driver")


def empty_place(timeout: float = 60) -> FreshPlace:
    return FreshPlace(PlaceSettings(python=PYTHON, timeout=timeout))


def describe_host(
    variables: Mapping[str, str], timeout: float = 60, platform: str = "cuda"
) -> GpuHost:
    """Ask in a place in which nothing was installed."""
    with empty_place(timeout) as place:
        return reader.describe_host(place, Conditions(variables=variables), platform)


@bare
def test_a_host_without_a_driver_says_so_and_nothing_is_put_in_its_way() -> None:
    with empty_place() as place:
        conditions, host = hide_driver(place)
    assert (conditions.variables, conditions.decoys) == (HIDDEN, {})
    assert (host.library, host.devices, host.problem) == ("", (), ABSENT)


@compiled
def test_a_driver_that_starts_tells_its_version_and_devices(tmp_path: Path) -> None:
    host = describe_host(make_driver(tmp_path))
    device = GpuDevice(name="NVIDIA H200", capability="9.0", memory=139 << 30)
    assert (host.cuda, host.devices, host.problem) == ("13.0", (device, device), "")
    assert host.library == str(tmp_path / "libcuda.so.1")


@compiled
@pytest.mark.parametrize(
    ("start", "problem"),
    [
        (
            "return 803;",
            "the NVIDIA driver does not start: cuInit gives CUDA_ERROR_OF_TEST (803)",
        ),
        ("return 100;", "the NVIDIA driver finds no GPU"),
        ("abort();", "the NVIDIA driver crashes with SIGABRT at its start (cuInit)"),
        ("_exit(0);", "the NVIDIA driver ends the process: exit status 0 at its start (cuInit)"),
        *slow(
            (
                "for (;;) sleep(1);",
                "the NVIDIA driver does not end within 2 s at its start (cuInit)",
            )
        ),
    ],
)
def test_a_driver_that_does_not_start_is_no_driver(
    tmp_path: Path, start: str, problem: str
) -> None:
    host = describe_host(make_driver(tmp_path, init=start), timeout=2 if "for" in start else 60)
    assert (host.problem, host.devices) == (problem, ())


def test_after_two_devices_that_hang_no_other_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[list[int]] = []

    def hang(self: FreshPlace, script: str, request: Any, **_: Any) -> ProbeAnswer:
        asked.append(request["skip"])
        tried = [index for index in range(8) if index not in request["skip"]]
        stage = f"the context of device {tried[0]}" if tried else ""
        answer = {"stage": stage, "status": 0, "library": "l", "devices": [{"name": "X"}] * 8}
        return ProbeAnswer(
            answer=answer, outcome=Ending.HUNG if tried else Ending.OK, detail="60 s"
        )

    monkeypatch.setattr(FreshPlace, "run", hang)
    host = reader.describe_host(empty_place(), Conditions())
    assert asked == [[], [0], list(range(8))]
    assert [each.problem for each in host.devices] == [
        *["its context does not end within 60 s"] * 2,
        *["2 other devices hung before it, and it was not tried"] * 6,
    ]


@compiled
def test_a_host_whose_devices_all_give_no_context_is_told_with_each(tmp_path: Path) -> None:
    host = describe_host(make_driver(tmp_path, context="return device ? 214 : 46;"))
    assert host.problem == (
        "device 0 (NVIDIA H200) is present but cannot be used: "
        "its context gives CUDA_ERROR_OF_TEST (46); "
        "device 1 (NVIDIA H200) is present but cannot be used: "
        "its context gives CUDA_ERROR_OF_TEST (214)"
    )


@pytest.mark.parametrize(
    ("variables", "chosen"),
    [
        ({}, "0,2"),
        ({"CUDA_VISIBLE_DEVICES": "5,4,7,-1"}, "5,7"),
        ({"CUDA_VISIBLE_DEVICES": "MIG-a,MIG-b,GPU-c"}, "MIG-a,GPU-c"),
    ],
)
def test_work_is_given_the_devices_that_can_be_used(variables: dict[str, str], chosen: str) -> None:
    fine, busy = GpuDevice(name="A"), GpuDevice(name="B", problem="it is busy")
    host = GpuHost(devices=(fine, busy, fine))
    assert choose_devices(variables, host) == {"CUDA_VISIBLE_DEVICES": chosen}
    assert choose_devices(variables, GpuHost(devices=(fine, fine, fine))) == variables


@pytest.mark.parametrize(
    ("served", "runtime", "said"),
    [
        (
            "12.8",
            "13.2",
            "the NVIDIA driver 1.2 serves CUDA 12.8, and the package runs CUDA 13.2",
        ),
        ("9.2", "12.0", "the NVIDIA driver 1.2 serves CUDA 9.2, and the package runs CUDA 12.0"),
        ("13.0", "13.2", ""),
        ("13.0", "12.8", ""),
        ("", "13.2", ""),
        ("13.0", "", ""),
        ("13.0", "9" * 5000, ""),  # a package may report anything
    ],
)
def test_a_driver_of_an_older_major_version_is_too_old(
    served: str, runtime: str, said: str
) -> None:
    found = find_old_driver(GpuHost(driver="1.2", cuda=served), runtime)
    assert found == (said and f"{said}: update the driver")


@compiled
@bare
def test_hidden_gpus_are_told_from_none(tmp_path: Path) -> None:
    variables = {**make_driver(tmp_path, init="return 100;"), "CUDA_VISIBLE_DEVICES": ""}
    problem = "CUDA_VISIBLE_DEVICES='' leaves no GPU of the host visible"
    assert describe_host(variables).problem == problem


@linux
def test_a_driver_library_that_is_cut_off_is_told_from_none(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_bytes(b"\x7fELF")
    host = describe_host({"LD_LIBRARY_PATH": str(tmp_path)})
    assert host.problem.startswith("the NVIDIA driver's library cannot be loaded: ")
    assert "file too short" in host.problem


def read(**answer: Any) -> str:
    return read_host(ProbeAnswer(answer={"stage": "", **answer}), {}).problem


def test_a_gpu_that_is_there_and_cannot_be_used_is_told_from_none() -> None:
    assert read(nodes=["/dev/nvidia0"]) == f"{ABSENT}, though the host shows /dev/nvidia0"
    assert read(library="libcuda.so.1", status=100, status_name="NO_DEVICE", present=8) == (
        "8 GPUs are present, but CUDA cannot use any: cuInit gives NO_DEVICE (100)"
    )
    assert read(library="libcuda.so.1", status=34) == (
        "the NVIDIA driver does not start: cuInit gives error 34 (34)"
    )


@linux
def test_the_folder_of_mps_is_shared_where_its_daemon_has_made_one(tmp_path: Path) -> None:
    there = {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}
    assert find_services(there) == (tmp_path, Path("/dev/shm"))
    for name in ("relative", str(tmp_path / "absent")):
        assert find_services({"CUDA_MPS_PIPE_DIRECTORY": name}) == ()
    assert choose_variables(there, empty_place()) == there


# Its cuInit connects to the daemon of MPS, as the real one does, and shares memory with it.
MPS_CLIENT = """
    struct sockaddr_un a = {AF_UNIX};
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    strcpy(a.sun_path, getenv("CUDA_MPS_PIPE_DIRECTORY"));
    strcat(a.sun_path, "/control");
    return connect(s, (struct sockaddr *)&a, sizeof a) || access("%s", R_OK) ? 805 : 0;
"""


@pytest.mark.slow
@compiled
@pytest.mark.parametrize("mode", ["auto", "off"])
def test_a_confined_process_reaches_the_daemon_of_mps(tmp_path: Path, mode: str) -> None:
    sandbox = demand_sandbox(mode)
    with (
        tempfile.TemporaryDirectory() as pipes,  # the path of a socket has 107 bytes at most
        tempfile.NamedTemporaryFile(dir="/dev/shm") as memory,
        socket.socket(socket.AF_UNIX) as daemon,
        FreshPlace(PlaceSettings(python=PYTHON, timeout=60, sandbox=sandbox)) as place,
    ):
        daemon.bind(f"{pipes}/control")
        daemon.listen()
        environ = {"CUDA_MPS_PIPE_DIRECTORY": pipes}
        driver = make_driver(tmp_path, init=MPS_CLIENT % memory.name)
        conditions = Conditions(variables={**driver, **environ}, gpu=True)
        shared = replace(conditions, services=find_services(environ))
        assert reader.describe_host(place, shared).problem == ""
        if sandbox.holds:
            assert "(805)" in reader.describe_host(place, conditions).problem


@pytest.mark.slow
@compiled
def test_a_driver_that_maps_as_much_as_its_devices_have_is_not_bounded(tmp_path: Path) -> None:
    maps = (
        "return mmap(0, 64L << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS "
        "| MAP_NORESERVE, -1, 0) == MAP_FAILED ? 2 : 0;"
    )
    assert describe_host(make_driver(tmp_path, init=maps)).problem == ""


def test_an_answer_without_sense_is_no_driver_either() -> None:
    silent = ProbeAnswer(outcome=Ending.EXITED, detail="exit status 1")
    assert "ends the process: exit status 1" in read_host(silent, {}).problem
    assert read(library=5, devices="many", cuda="x") == ABSENT
    assert read(library="libcuda.so.1", status=0, devices="many") != ""


def test_of_the_users_environment_only_what_leads_to_devices_is_kept(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").touch()
    environ = {
        "CUDA_VISIBLE_DEVICES": "1",
        "CUDA_HOME": "/usr/local/cuda",
        "LD_LIBRARY_PATH": f"/usr/local/cuda/lib64:{tmp_path}:",
    }
    place = FreshPlace(PlaceSettings(python=PYTHON, timeout=60))
    kept = choose_variables(environ, place)
    assert kept["CUDA_VISIBLE_DEVICES"] == "1"
    assert "CUDA_HOME" not in kept
    if LINUX:
        assert kept["LD_LIBRARY_PATH"] == str(tmp_path)
    assert choose_variables({"LD_LIBRARY_PATH": "/usr/local/cuda/lib64"}, place) == {}


@compiled
def test_a_driver_is_hidden_from_all_that_opens_it_by_its_name(tmp_path: Path) -> None:
    driver = tmp_path / "driver"
    driver.mkdir()
    there = make_driver(driver)
    assert len(describe_host(there).devices) == 2
    opens = "import ctypes\nctypes.CDLL('libcuda.so.1')"
    with empty_place() as place:
        conditions, host = hide_driver(place, there)
        asked = {"module": "ctypes", "snippet": opens}
        found = place.run("ask_module", asked, conditions=conditions)
        assert (host.library, host.devices) == ("", ())
        assert found.answer["stage"] == "the snippet"
        assert found.answer["detail"].startswith("OSError: ")


@pytest.mark.slow
@compiled
@bare
def test_work_is_done_on_the_devices_that_are_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = build_wheel(tmp_path, name="fake", tags=PURE, members={"fake.py": ""})
    # As long as both are visible, the first one is busy.
    both = "strchr(getenv(\"CUDA_VISIBLE_DEVICES\"), ',')"
    driver = make_driver(tmp_path, context=f"return {both} && device == 0 ? 46 : 0;")
    monkeypatch.setenv("LD_LIBRARY_PATH", driver["LD_LIBRARY_PATH"])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-busy,MIG-free")
    told = Code("import os\nraise ValueError(os.environ['CUDA_VISIBLE_DEVICES'])")
    with open_offline(fake) as place:
        work = GpuRequest(module=Code("fake"), snippets={"asks": told})
        found = use_gpu(place, place.wheel, work, CudaRequest())
    assert found.steps[0].detail.startswith("ValueError: MIG-free")
    assert [each.problem for each in found.host.devices] == [
        "its context gives CUDA_ERROR_OF_TEST (46)",
        "",
    ]


# Whether the host is to blame: its driver is asked without the package.


@compiled
@pytest.mark.parametrize(
    ("bodies", "problem"),
    [
        ({"context": "return 46 * device;"}, "its context gives CUDA_ERROR_OF_TEST (46)"),
        ({"context": "if (device) abort(); return 0;"}, "its context crashes with SIGABRT"),
        (
            {"context": "if (device) _exit(0); return 0;"},
            "its context ends the process: exit status 0",
        ),
        *slow(
            (
                {"context": "while (device) sleep(1); return 0;"},
                "its context does not end within 2 s",
            )
        ),
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
def test_a_device_that_fails_at_a_piece_of_work_of_ours_leaves_the_others(
    tmp_path: Path, bodies: dict[str, Any], problem: str
) -> None:
    timeout = 2 if "sleep" in str(bodies) else 60
    host = describe_host(make_driver(tmp_path, **bodies), timeout)
    assert (host.problem, len(host.usable)) == ("", 1 if problem else 2)
    assert [each.problem for each in host.devices] == ["", problem]


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
    broken_before = replace(FINE, devices=(FREE, replace(FREE, problem="it is busy")))
    assert find_blame(broken_before, replace(FINE, devices=(FREE,))) == ""


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


# AMD's and Intel's drivers: missing, refusing, busy or sound, as stand-ins for them answer.

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


@linux
def test_amds_devices_are_described_by_the_kernel(tmp_path: Path) -> None:
    host = ask_amd(make_kfd(tmp_path))
    assert (host.problem, host.driver, host.devices) == ("", "6.12.12", (MI300, MI300))
    assert format_host(host, "6.4") == (
        "driver 6.12.12, runtime 6.4: AMD Instinct MI300X (gfx942, 192 GiB), "
        "AMD Instinct MI300X (gfx942, 192 GiB)"
    )


@linux
@pytest.mark.parametrize(
    ("number", "name"), [(90402, "gfx942"), (90010, "gfx90a"), (110501, "gfx1151")]
)
def test_kfd_packs_the_architecture_in_a_number(
    monkeypatch: pytest.MonkeyPatch, number: int, name: str
) -> None:
    assert load(monkeypatch, "gpu_host").name_architecture(number) == name


@linux
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


@linux
def test_a_host_without_amds_driver_says_so(tmp_path: Path) -> None:
    (tmp_path / "sys/module/amdgpu").mkdir(parents=True)
    assert ask_amd(tmp_path).problem == (
        "no AMD driver on this host, though the host shows /sys/module/amdgpu"
    )
    assert ask_amd(tmp_path / "nothing").problem == "no AMD driver on this host"
    assert ask_amd(make_kfd(tmp_path / "cpus", devices=0)).problem == "the AMD driver finds no GPU"


@linux
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


@linux
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


@linux
@pytest.mark.skipif(Path("/dev/kfd").exists(), reason="this host has AMD's driver")
def test_amds_driver_is_looked_for_in_a_process() -> None:
    assert describe_host({}, platform="rocm").problem.startswith("no AMD driver on this host")


@linux
@pytest.mark.skipif(Path("/dev/dri").exists(), reason="this host has a GPU")
def test_a_host_without_intels_driver_says_so() -> None:
    assert describe_host({}, platform="xpu").problem == "no Intel driver on this host"


@compiled
def test_intels_devices_are_described_by_level_zero(tmp_path: Path) -> None:
    host = describe_host(make_level_zero(tmp_path), platform="xpu")
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
    host = describe_host({**make_level_zero(tmp_path, **bodies), **variables}, platform="xpu")
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
    host = describe_host(make_level_zero(tmp_path, allocate=allocate), platform="xpu")
    assert [each.problem for each in host.devices] == ["", problem]
    assert choose_devices({}, host) == {"ZE_AFFINITY_MASK": "0"}

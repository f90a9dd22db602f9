"""Steps that try the device itself: kernels, memory, and errors that must become exceptions."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from typing import Any

TRIES = 3  # attempts, since other processes allocate and free memory of the device, too
LOOKS = 5  # number of times that the free memory is read while this process is idle
BLOCK = 1 << 30  # bytes that are allocated and freed


def first_kernel(bench: Any) -> dict[str, Any]:
    """Run the first kernel, which starts CUDA: minutes, if code is compiled for the device."""
    assert float((bench.torch.ones(8, device=bench.device) + 1).sum()) == 16.0
    return {}


def memory(bench: Any) -> dict[str, Any]:
    """Check that freed tensors and an emptied cache return memory to the device."""
    if bench.on_cpu:
        return {"inapplicable": "torch does not count the memory of the CPU"}
    cuda = bench.api
    before = cuda.memory_allocated()
    returned = max(return_block(bench) for _ in range(TRIES))
    measured = {
        "bytes kept": max(cuda.memory_allocated() - before, cuda.memory_reserved() - before),
        "bytes returned": returned,
        "bytes drifted": watch_memory(cuda),
        "bytes total": cuda.mem_get_info()[1],
        "integrated": int(bool(getattr(cuda.get_device_properties(0), "is_integrated", 0))),
    }
    return {"measured": measured}


def return_block(bench: Any) -> int:
    """Allocate and free a block; return the number of bytes by which the free memory changed."""
    torch = bench.torch
    block = torch.ones(BLOCK // 4, dtype=torch.float32, device=bench.device)
    assert float(block[-1]) == 1.0
    during: int = bench.api.mem_get_info()[0]
    del block
    bench.api.empty_cache()
    returned: int = bench.api.mem_get_info()[0] - during
    return returned


def watch_memory(cuda: Any) -> int:
    """Return the number of bytes by which other processes change the free memory in a moment."""
    free = []
    for _ in range(LOOKS):
        free.append(cuda.mem_get_info()[0])
        time.sleep(0.06)
    return int(max(free) - min(free))


def every_device(bench: Any) -> dict[str, Any]:
    """Run a kernel on each device, and copy its result to the next device."""
    torch = bench.torch
    # NVML counts the devices, and counts parts of MIG differently
    announced = bench.api.device_count()
    count = 0 if bench.on_cpu else count_devices(bench)
    places = ["%s:%d" % (bench.device, index) for index in range(count)] or [bench.device]
    for place, other in zip(places, places[1:] + places[:1]):
        assert float((torch.ones(64, device=place) + 1).to(other).sum()) == 128.0, place
    return {"measured": {"devices": count, "devices announced": announced}}


def count_devices(bench: Any) -> int:
    """Return the number of devices that the driver gives to torch."""
    count = getattr(bench.torch._C, "_cuda_getDeviceCount", None)
    return int(bench.api.device_count() if bench.platform == "xpu" or count is None else count())


def late_choice(bench: Any) -> dict[str, Any]:
    """Count the devices, choose one by CUDA_VISIBLE_DEVICES, and use it (pytorch issue 128819).

    Programs import torch and count its devices before they choose. Counting must not start CUDA,
    which reads the variable only once.
    """
    variable = "ZE_AFFINITY_MASK" if bench.platform == "xpu" else "CUDA_VISIBLE_DEVICES"
    bench.api.device_count()
    visible = os.environ.get(variable) or "0"
    os.environ[variable] = visible.split(",")[0]
    return first_kernel(bench)


def absent_device(bench: Any) -> dict[str, Any]:
    """Check that using a device beyond the last one raises a Python exception."""
    torch = bench.torch
    if bench.on_cpu:
        return {"inapplicable": "the CPU has no device number"}
    absent = "%s:%d" % (bench.device, count_devices(bench))
    text = "device" if bench.platform == "xpu" else "invalid device ordinal"
    bench.expect(RuntimeError, text, lambda: torch.eye(7, device=absent))
    return first_kernel(bench)


def library_exception(bench: Any) -> dict[str, Any]:
    """Check that an exception from one library is caught with its own type in another library."""
    torch = bench.torch
    singular = torch.zeros(3, 3, device=bench.device)
    bench.expect(torch.linalg.LinAlgError, "singular", lambda: torch.linalg.inv(singular))
    if not bench.on_cpu:
        bench.expect(
            torch.OutOfMemoryError if bench.platform == "xpu" else torch.cuda.OutOfMemoryError,
            "out of memory",
            # no device has that much
            lambda: torch.empty(1 << 55, dtype=torch.int8, device=bench.device),
        )
    return first_kernel(bench)


def device_assertion(bench: Any) -> dict[str, Any]:
    """Check that an assertion which fails on the device is later raised as an exception."""
    if bench.platform != "cuda":
        return {"inapplicable": "torch's builds for this platform have no assertions in kernels"}

    def fail() -> None:
        bench.torch._assert_async(bench.torch.zeros(1, device=bench.device))
        bench.wait()

    bench.expect(RuntimeError, "" if bench.on_cpu else "assert", fail)
    return {}


STEPS = (
    # seconds on a healthy GPU, and seconds after which it hangs
    # a driver may compile PTX for minutes; the check first-kernel-late reports that before
    (first_kernel, 3, 90),
    (memory, 1, 20),
    (every_device, 1, 60),
    (late_choice, 3, 60, "alone"),  # a fresh process, in which CUDA has not started
    (absent_device, 0.5, 20),
    (library_exception, 1, 30),
    (device_assertion, 2, 30, "alone"),  # the device's context is lost
)

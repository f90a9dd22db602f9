"""Steps that try the device itself: kernels, memory, and errors that must come back as such."""

from __future__ import annotations

import time

TYPE_CHECKING = False  # not typing's: no probe imports what only a type checker reads
if TYPE_CHECKING:
    from typing import Any

TRIES = 3  # other processes take memory of the device, too, and give it back
LOOKS = 5  # at its free memory, while nothing is done here
BLOCK = 1 << 30  # bytes


def first_kernel(bench: Any) -> dict[str, Any]:
    """The first kernel, with the start of CUDA in it: minutes where code is compiled for it."""
    assert float((bench.torch.ones(8, device=bench.device) + 1).sum()) == 16.0
    return {}


def memory(bench: Any) -> dict[str, Any]:
    """What a tensor took is the device's again when it is gone and the cache is emptied."""
    if bench.on_cpu:
        return {"inapplicable": "torch counts no memory of the CPU"}
    cuda = bench.torch.cuda
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
    """Take a block and give it back: how much more memory is free after than before that."""
    torch = bench.torch
    block = torch.ones(BLOCK // 4, dtype=torch.float32, device=bench.device)
    assert float(block[-1]) == 1.0
    during: int = torch.cuda.mem_get_info()[0]
    del block
    torch.cuda.empty_cache()
    returned: int = torch.cuda.mem_get_info()[0] - during
    return returned


def watch_memory(cuda: Any) -> int:
    """Tell by how many bytes the free memory changes for a moment, which others must have done."""
    free = []
    for _ in range(LOOKS):
        free.append(cuda.mem_get_info()[0])
        time.sleep(0.06)
    return int(max(free) - min(free))


def every_device(bench: Any) -> dict[str, Any]:
    """A kernel on each device, and its result copied to the next."""
    torch = bench.torch
    announced = torch.cuda.device_count()  # by NVML, which counts the parts of MIG otherwise
    count = 0 if bench.on_cpu else torch._C._cuda_getDeviceCount()
    places = ["cuda:%d" % index for index in range(count)] or [bench.device]
    for place, other in zip(places, places[1:] + places[:1]):
        assert float((torch.ones(64, device=place) + 1).to(other).sum()) == 128.0, place
    return {"measured": {"devices": count, "devices announced": announced}}


def absent_device(bench: Any) -> dict[str, Any]:
    """Asking for a device behind the last one is an error in Python, and nothing worse."""
    torch = bench.torch
    if bench.on_cpu:
        return {"inapplicable": "the CPU has no number"}
    absent = "cuda:%d" % torch._C._cuda_getDeviceCount()
    bench.expect(RuntimeError, "invalid device ordinal", lambda: torch.eye(7, device=absent))
    return first_kernel(bench)


def library_exception(bench: Any) -> dict[str, Any]:
    """An exception thrown in one library is caught as what it is in another."""
    torch = bench.torch
    singular = torch.zeros(3, 3, device=bench.device)
    bench.expect(torch.linalg.LinAlgError, "singular", lambda: torch.linalg.inv(singular))
    if not bench.on_cpu:
        bench.expect(
            torch.cuda.OutOfMemoryError,
            "out of memory",
            lambda: torch.empty(1 << 55, dtype=torch.int8, device=bench.device),  # none has it
        )
    return first_kernel(bench)


def device_assertion(bench: Any) -> dict[str, Any]:
    """An assertion that fails on the device reaches Python as an exception, later."""

    def fail() -> None:
        bench.torch._assert_async(bench.torch.zeros(1, device=bench.device))
        bench.wait()

    bench.expect(RuntimeError, "" if bench.on_cpu else "assert", fail)
    return {}


STEPS = (
    # seconds on a healthy GPU, and those after which it hangs
    (first_kernel, 3, 90),  # a driver compiles PTX for minutes: first-kernel-late says so before
    (memory, 1, 20),
    (every_device, 1, 60),
    (absent_device, 0.5, 20),
    (library_exception, 1, 30),
    (device_assertion, 2, 30, "alone"),  # the device's context is lost
)

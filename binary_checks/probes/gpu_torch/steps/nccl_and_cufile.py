"""Steps that connect a device: NCCL within one process, and cuFile's direct access to files."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from typing import Any


def nccl(bench: Any) -> dict[str, Any]:
    """Reduce over a group of one process: NCCL starts, finds its device, and ends.

    It is RCCL in a build for ROCm, and oneCCL in one for Intel's GPUs.
    """
    torch = bench.torch
    distributed = torch.distributed
    if not distributed.is_available():
        return {"inapplicable": "torch is built without torch.distributed here"}
    own = "xccl" if bench.platform == "xpu" else "nccl"
    if not bench.on_cpu and not getattr(distributed, "is_%s_available" % own, bool)():
        return {"inapplicable": "torch is built without %s here" % own.upper()}
    # One process needs no network; a sandbox has only the loopback interface.
    os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    where = "file://" + os.path.abspath("group")
    backend = "gloo" if bench.on_cpu else own
    distributed.init_process_group(backend, init_method=where, rank=0, world_size=1)
    try:
        a = torch.randn(1000, dtype=torch.float64)
        there = a.to(bench.device)
        found = bench.torch.zeros_like(there)
        distributed.all_reduce(there)  # a group of one must leave it unchanged
        distributed.all_gather([found], there)
        bench.wait()
        return {"measured": {"float64": bench.compare(found, a)}}
    finally:
        distributed.destroy_process_group()


def gds(bench: Any) -> dict[str, Any]:
    """Write to a file from the device with cuFile, and read the data back."""
    torch = bench.torch
    if not getattr(torch._C, "_has_gds", False):
        return {"inapplicable": "torch is built without cuFile here"}
    if bench.on_cpu:
        return {"inapplicable": "cuFile accepts no tensor of the CPU"}
    written = torch.arange(1 << 16, dtype=torch.float64, device=bench.device)
    read = torch.zeros_like(written)
    try:
        file = torch.cuda.gds.GdsFile(os.path.abspath("direct"), os.O_CREAT | os.O_RDWR)
    except (OSError, RuntimeError) as error:  # a file system without O_DIRECT, or a missing driver
        if isinstance(error, RuntimeError) and "cuFile" not in str(error):
            raise  # the error names no function, so libcufile.so itself is broken
        return {"unavailable": "no GPUDirect Storage here: " + " ".join(str(error).split())[:200]}
    file.save_storage(written.untyped_storage())
    file.load_storage(read.untyped_storage())
    bench.wait()
    return {"measured": {"float64": bench.compare(read, written)}}


STEPS = (
    # seconds on a healthy GPU, and seconds after which it hangs
    (nccl, 4, 60),
    (gds, 4, 60, "alone", "thorough"),
)

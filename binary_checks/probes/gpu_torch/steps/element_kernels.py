"""A step with kernels that read or wrote illegal addresses in builds by some versions of nvcc.

PyTorch's release validation runs tests of these six kernels. An illegal access ends all further
work of the process with an exception, which may be raised later; so the step waits after each
kernel, and the exception names the kernel.
"""

from __future__ import annotations

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# A kernel has other code for whole vectors, for the rest of a vector, and for views that begin
# within a vector or skip elements.
LENGTHS = (1, 5, 33, 1027, 65539)


def element_kernels(bench: Any) -> dict[str, Any]:
    """Run each kernel on contiguous tensors, on views and on broadcast operands."""
    worst = 0.0
    for name, run in KERNELS:
        for length in LENGTHS:
            worst = max(worst, run_kernel(bench, name, run, length))
    return {"measured": {"float32": worst}}


def run_kernel(bench: Any, name: str, run: Callable[..., Any], length: int) -> float:
    """Run a kernel on the device and on the CPU; return the relative error.

    All results but those of ``atan2`` must be equal.
    """
    torch = bench.torch
    worst = 0.0
    for inputs in make_inputs(torch, name, length):
        try:
            found = run(torch, *(move(each, bench.device) for each in inputs))
            bench.wait()
        except RuntimeError as error:
            raise RuntimeError("%s of %d elements: %s" % (name, length, error)) from error
        expected = run(torch, *inputs)
        if name == "atan2":
            worst = max(worst, bench.compare(found, run(torch, *(x.double() for x in inputs))))
        elif not torch.equal(found.cpu(), expected):
            raise AssertionError("%s of %d elements differs from the CPU's result" % (name, length))
    return worst


def move(tensor: Any, device: str) -> Any:
    """Return a copy on the device with the same strides and the same offset in its storage."""
    whole = tensor.as_strided(
        (tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0
    )
    return whole.to(device).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def make_inputs(torch: Any, name: str, length: int) -> list[tuple[Any, ...]]:
    """Return operands of one kernel: contiguous, with an offset, with gaps, and broadcast."""
    if name in ("atan2", "nextafter"):
        whole = torch.randn(2 * length + 1) * 5
        other = torch.randn(2 * length + 1) * 5
    else:
        dtype = torch.int8 if name == "clamp" else torch.int32
        whole = torch.randint(-100, 100, (2 * length + 1,), dtype=dtype)
        other = torch.randint(-100, 100, (2 * length + 1,), dtype=dtype)
    single = other[0].clone()
    rows = [
        (whole[:length], other[:length]),
        (whole[1 : length + 1], other[:length]),
        (whole[: 2 * length : 2], other[:length]),
        (whole[:length].view(length, 1, 1), single),
    ]
    if name in ("all", "index_reduce"):  # they have no second operand of the same shape
        return [(first,) for first, _ in rows]
    return rows


def reduce_by_index(torch: Any, x: Any) -> Any:
    """Multiply the elements in three groups; each factor is 1 or -1."""
    target = torch.ones((3, *x.shape[1:]), dtype=x.dtype, device=x.device)
    index = torch.arange(x.shape[0], device=x.device) % 3
    return target.index_reduce(0, index, x.remainder(2) * 2 - 1, "prod")


KERNELS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("all", lambda torch, x: torch.stack([x.all(), x.bool().all(), (x | 1).all()])),
    ("index_reduce", reduce_by_index),
    ("bitwise_and", lambda _, x, y: x & y),
    ("clamp", lambda torch, x, y: torch.clamp(torch.maximum(x, y), torch.minimum(x, y) // 2, y)),
    ("nextafter", lambda torch, x, y: torch.nextafter(x, y)),
    ("atan2", lambda torch, x, y: torch.atan2(x, y)),
)

STEPS = (
    # seconds on a healthy GPU, and seconds after which it hangs
    (element_kernels, 1, 30),
)

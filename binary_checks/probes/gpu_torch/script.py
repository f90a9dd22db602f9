"""Has torch do one named step of work on a GPU, and tells the figures that it came to.

Results are compared with the same work on the CPU in float64: the figure of a dtype is the norm of
the difference by the norm of the CPU's result. ``device`` may be "cpu", to try the steps.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sysconfig
import time

TYPE_CHECKING = False  # not typing's: no probe imports what only a type checker reads
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def load_process() -> dict[str, Any]:
    """Execute ``process.py``, which lies in the folder above."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "process.py")
    functions: dict[str, Any] = {"__name__": "process"}
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), functions)
    return functions


def expect(kind: Any, text: str, action: Callable[[], Any]) -> None:
    """Run the action, which must raise that kind of exception with that text."""
    try:
        action()
    except kind as error:
        if text.lower() not in str(error).lower():
            raise AssertionError("an error without %r: %s" % (text, error))
        return
    raise AssertionError("no %s with %r, which was due" % (kind.__name__, text))


def compare(found: Any, expected: Any) -> float:
    """Compute the relative error of a result against the CPU's in float64."""
    found, expected = found.detach().cpu().double(), expected.detach().double()
    return float((found - expected).norm() / expected.norm())


def prepare(torch: Any) -> None:
    """Make results repeatable, and exact: no TF32 in the place of float32."""
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def wait(torch: Any, device: str) -> None:
    """Wait until the device has done all that was asked, and raise what went wrong there."""
    if device != "cpu":
        torch.cuda.synchronize()


def first_kernel(torch: Any, device: str) -> dict[str, Any]:
    """The first kernel, with the start of CUDA in it: minutes where code is compiled for it."""
    start = time.monotonic()
    assert float((torch.ones(8, device=device) + 1).sum()) == 16.0
    return {"measured": {"seconds": time.monotonic() - start}}


def every_device(torch: Any, device: str) -> dict[str, Any]:
    """A kernel on each device, and its result copied to the next."""
    count = torch.cuda.device_count()
    places = ["cuda:%d" % index for index in range(count)] or [device]
    for place, other in zip(places, places[1:] + places[:1]):
        assert float((torch.ones(64, device=place) + 1).to(other).sum()) == 128.0, place
    return {"measured": {"devices": count}}


def magma(torch: Any, device: str) -> dict[str, Any]:
    """MAGMA, which solves what cuSOLVER is not asked to."""
    assert torch.cuda.has_magma, "torch.cuda.has_magma is False"
    torch.backends.cuda.preferred_linalg_library("magma")
    a, b = torch.randn(64, 64, dtype=torch.float64), torch.randn(64, 4, dtype=torch.float64)
    found = torch.linalg.solve(a.to(device), b.to(device))
    return {"measured": {"float64": compare(found, torch.linalg.solve(a, b))}}


def cudnn(torch: Any, device: str) -> dict[str, Any]:
    """CuDNN is there, is new enough, and takes a convolution."""
    assert torch.backends.cudnn.is_available(), "torch.backends.cudnn.is_available() is False"
    taken = torch.backends.cudnn.is_acceptable(torch.ones(2, 3, 16, 16, device=device))
    assert taken, "cuDNN does not take a tensor of the device"
    return convolution(torch, device)


def absent_device(torch: Any, device: str) -> dict[str, Any]:
    """Asking for a device behind the last one is an error in Python, and nothing worse."""
    count = torch.cuda.device_count()
    expect(RuntimeError, "invalid device ordinal", lambda: torch.eye(7, device="cuda:%d" % count))
    return first_kernel(torch, device)


def library_exception(torch: Any, device: str) -> dict[str, Any]:
    """An exception thrown in one library is caught as what it is in another."""
    singular = torch.zeros(3, 3, device=device)
    expect(torch.linalg.LinAlgError, "singular", lambda: torch.linalg.inv(singular))
    if device != "cpu":
        expect(
            torch.cuda.OutOfMemoryError,
            "out of memory",
            lambda: torch.empty(1 << 55, dtype=torch.int8, device=device),  # no device has it
        )
    return first_kernel(torch, device)


def try_module(torch: Any, device: str, module: Any, x: Any, dtypes: Any) -> dict[str, Any]:
    """Run a module there in each dtype, forwards and backwards, and compare with the CPU."""
    measured = {}
    for name in dtypes:
        dtype = getattr(torch, name)
        expected = pick(module.to(dtype).double()(x.to(dtype).double()))
        there = module.to(device=device, dtype=dtype)
        found = pick(there(x.to(device=device, dtype=dtype)))
        found.float().sum().backward()
        wait(torch, device)
        measured[name] = compare(found, expected)
        module.to(device="cpu", dtype=torch.float64)
    return {"measured": measured}


def pick(result: Any) -> Any:
    """Pick the output of a module that gives its state beside."""
    return result[0] if isinstance(result, tuple) else result


def rnn(torch: Any, device: str) -> dict[str, Any]:
    """An LSTM of two layers."""
    module, x = torch.nn.LSTM(16, 32, num_layers=2).double(), torch.randn(5, 3, 16)
    return try_module(torch, device, module, x, ("float64", "float32"))


def cnn(torch: Any, device: str) -> dict[str, Any]:
    """A small network of convolutions, with normalisation, pooling and a linear layer."""
    nn = torch.nn
    module = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.BatchNorm2d(8), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(8 * 13 * 13, 10),
    ).double().eval()  # fmt: skip
    return try_module(torch, device, module, torch.randn(4, 1, 28, 28), ("float64", "float32"))


def convolution(torch: Any, device: str) -> dict[str, Any]:
    """A convolution in three precisions."""
    module, x = torch.nn.Conv2d(3, 16, 3).double(), torch.randn(2, 3, 32, 32)
    return try_module(torch, device, module, x, ("float64", "float32", "float16"))


def svd(torch: Any, device: str) -> dict[str, Any]:
    """A singular value decomposition: its values and its product against what they should be."""
    measured = {}
    for name in ("float64", "float32"):
        a = torch.randn(96, 64, dtype=getattr(torch, name))
        u, s, v = torch.linalg.svd(a.to(device), full_matrices=False)
        values = torch.linalg.svdvals(a.double())
        measured[name] = max(compare(u @ s.diag() @ v, a), compare(s, values))
    return {"measured": measured}


def matmul(torch: Any, device: str) -> dict[str, Any]:
    """A matrix product in four precisions."""
    measured = {}
    for name in ("float64", "float32", "float16", "bfloat16"):
        dtype = getattr(torch, name)
        a, b = torch.randn(256, 512).to(dtype), torch.randn(512, 128).to(dtype)
        measured[name] = compare(a.to(device) @ b.to(device), a.double() @ b.double())
    return {"measured": measured}


def device_assertion(torch: Any, device: str) -> dict[str, Any]:
    """An assertion that fails on the device reaches Python as an exception, later."""

    def fail() -> None:
        torch._assert_async(torch.zeros(1, device=device))
        wait(torch, device)

    expect(RuntimeError, "assert" if device != "cpu" else "", fail)
    return {}


def compilation(torch: Any, device: str) -> dict[str, Any]:
    """A function compiled by torch.compile, where a compiler and this Python allow it."""
    if not any(map(shutil.which, (os.environ.get("CC", "cc"), "gcc", "clang", "cl"))):
        return {"unavailable": "torch.compile needs a C compiler, and the host has none"}
    if not os.path.exists(sysconfig.get_path("include") + "/Python.h"):
        return {"unavailable": "torch.compile needs Python.h, and this interpreter has none"}
    a = torch.randn(64, 64)
    try:
        found = torch.compile(lambda x: (x.sin() + x @ x).relu())(a.to(device))
    except RuntimeError as error:
        if "not supported on Python" in str(error):
            return {"unavailable": str(error)}
        raise
    a = a.double()
    return {"measured": {"float32": compare(found, (a.sin() + a @ a).relu())}}


def memory(torch: Any, device: str) -> dict[str, Any]:
    """What a tensor took is the device's again when it is gone and the cache is emptied."""
    block = torch.ones(1 << 28, device=device)  # 1 GiB of float32
    assert float(block[-1]) == 1.0
    during = torch.cuda.mem_get_info()[0]
    del block
    torch.cuda.empty_cache()
    returned = torch.cuda.mem_get_info()[0] - during
    kept = max(torch.cuda.memory_allocated(), torch.cuda.memory_reserved())
    return {"measured": {"bytes kept": kept, "bytes returned": returned}}


STEPS = (
    first_kernel, every_device, magma, cudnn, absent_device, library_exception, rnn, cnn,
    convolution, svd, matmul, device_assertion, compilation, memory,
)  # fmt: skip


def take_step(request: dict[str, Any], process: dict[str, Any], record: Any) -> None:
    """Import torch, take the step that is asked for, and record how it ended."""
    name, device = request["step"], request.get("device", "cuda")
    answer: dict[str, Any] = {"stage": "import torch"}
    record(answer)
    try:
        torch = importlib.import_module("torch")
        answer["stage"] = name
        record(answer)
        prepare(torch)
        answer.update({each.__name__: each for each in STEPS}[name](torch, device))
        wait(torch, device if name != "device_assertion" else "cpu")
    except BaseException as error:
        described = process["describe_exception"](error, request["site_packages"])
        record.finish(dict(answer, state="raised", detail=described))
    else:
        record.finish(dict(answer, state="finished"))


if __name__ == "__main__":
    functions = load_process()
    recorder = functions["open_recorder"]()
    asked = recorder.request
    if asked.get("list"):
        recorder.finish({"steps": [each.__name__ for each in STEPS]})
    else:
        take_step(asked, functions, recorder)

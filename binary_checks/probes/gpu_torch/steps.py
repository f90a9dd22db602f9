"""Steps of work on a GPU with torch: functions that get the bench of the probe's script."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import sysconfig
import time

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# The device itself: kernels, memory, and errors that must become exceptions.

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


# Kernels that read or wrote illegal addresses in builds by some versions of nvcc.
#
# PyTorch's release validation runs tests of these six kernels. An illegal access ends all further
# work of the process with an exception, which may be raised later; so the step waits after each
# kernel, and the exception names the kernel.

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


# Linear algebra: cuBLAS, cuSOLVER and MAGMA, compared with the CPU.


def matmul(bench: Any) -> dict[str, Any]:
    """Compute a matrix product in four precisions, and its gradients."""
    torch = bench.torch
    measured: dict[str, float] = {}
    for name in ("float64", "float32", "float16", "bfloat16"):
        dtype = getattr(torch, name)
        a, b = torch.randn(256, 512).to(dtype), torch.randn(512, 128).to(dtype)
        there = b.to(bench.device)
        found = bench.differentiate(lambda x, b=there: x @ b, a.to(bench.device))
        expected = bench.differentiate(lambda x, b=b.double(): x @ b, a.double())
        measured[name], measured[name + " gradients"] = map(bench.compare, found, expected)
    return {"measured": measured}


def magma(bench: Any) -> dict[str, Any]:
    """Run MAGMA, which torch 2.15 uses only for LU without pivoting and complex LDL.

    All other functions go to cuSOLVER, whichever is preferred. A matrix with a large diagonal needs
    no pivots, so that the CPU, which always pivots, computes the same factors.
    """
    torch = bench.torch
    if bench.platform == "xpu":
        return {"inapplicable": "MAGMA has no kernels for this platform"}
    measured: dict[str, float] = {}
    assert bench.on_cpu or torch.cuda.has_magma, "torch.cuda.has_magma is False"
    torch.backends.cuda.preferred_linalg_library("default" if bench.on_cpu else "magma")
    try:
        for name in ("float64", "float32"):
            for shape in ((96, 96), (5, 24, 24)):
                a = (torch.randn(shape) + 100 * torch.eye(shape[-1])).to(getattr(torch, name))
                found = torch.linalg.lu_factor(a.to(bench.device), pivot=bench.on_cpu)[0]
                error = bench.compare(found, torch.linalg.lu_factor(a.double())[0])
                measured[name] = max(error, measured.get(name, 0.0))
    finally:
        torch.backends.cuda.preferred_linalg_library("default")
    return {"measured": measured}


def svd(bench: Any) -> dict[str, Any]:
    """Compute singular value decompositions of single and batched matrices.

    Vectors are unique except for their signs, so compare the values and the product, and check that
    the factors are orthogonal, with and without full factors.
    """
    torch = bench.torch
    measured: dict[str, float] = {}
    for name in ("float64", "float32"):
        for shape in ((96, 64), (3, 24, 16)):
            for full in (True, False):
                a = torch.randn(shape, dtype=getattr(torch, name))
                u, s, v = torch.linalg.svd(a.to(bench.device), full_matrices=full)
                key = name + " full" if full else name
                error = max(bench.compare(*pair) for pair in pair_factors(torch, a, u, s, v))
                measured[key] = max(error, measured.get(key, 0.0))
    return {"measured": measured}


def pair_factors(torch: Any, a: Any, u: Any, s: Any, v: Any) -> list[tuple[Any, Any]]:
    """Return pairs of a value computed from a matrix's factors and the expected value."""
    few = s.shape[-1]
    product = u[..., :few] * s[..., None, :] @ v[..., :few, :]
    pairs = [(product, a), (s, torch.linalg.svdvals(a.double()))]
    for square in (u.mT @ u, v @ v.mT):
        pairs.append((square, torch.eye(square.shape[-1]).expand_as(square)))
    return pairs


# Neural networks: layers of cuDNN and kernels of attention, compared with the CPU.

BACKENDS = (
    # our name, the name in SDPBackend, and the function that returns whether torch can use it; all
    # backends but flash accept a mask
    ("math", "MATH", ""),
    ("flash", "FLASH_ATTENTION", "can_use_flash_attention"),
    ("efficient", "EFFICIENT_ATTENTION", "can_use_efficient_attention"),
    ("cudnn", "CUDNN_ATTENTION", "can_use_cudnn_attention"),
)


def cudnn(bench: Any) -> dict[str, Any]:
    """Check that cuDNN, or MIOpen, is present, is new enough, and accepts a convolution."""
    torch = bench.torch
    if bench.platform == "xpu":
        return {"inapplicable": "cuDNN is for NVIDIA's GPUs, and MIOpen for AMD's"}
    if bench.on_cpu:
        return {"inapplicable": "cuDNN accepts no tensor of the CPU"}
    assert torch.backends.cudnn.is_available(), "torch.backends.cudnn.is_available() is False"
    taken = torch.backends.cudnn.is_acceptable(torch.ones(2, 3, 16, 16, device=bench.device))
    assert taken, "cuDNN does not take a tensor of the device"
    return {}


def convolution(bench: Any) -> dict[str, Any]:
    """Run a convolution in three precisions."""
    module, x = bench.torch.nn.Conv2d(3, 16, 3).double(), bench.torch.randn(2, 3, 32, 32)
    return {"measured": bench.try_module(module, x, ("float64", "float32", "float16"))}


def autocast(bench: Any) -> dict[str, Any]:
    """Run a convolution and a linear layer in float32 under autocast to half precision."""
    nn = bench.torch.nn
    module = nn.Sequential(nn.Conv2d(3, 16, 3), nn.Flatten(), nn.Linear(16 * 14 * 14, 8)).double()
    x = bench.torch.randn(2, 3, 16, 16)
    return {"measured": bench.try_module(module, x, ("float16", "bfloat16"), " autocast")}


def cnn(bench: Any) -> dict[str, Any]:
    """Run a small convolutional network with normalisation, pooling and a linear layer."""
    nn = bench.torch.nn
    module = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.BatchNorm2d(8), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(8 * 13 * 13, 10),
    ).double().eval()  # fmt: skip
    x = bench.torch.randn(4, 1, 28, 28)
    return {"measured": bench.try_module(module, x, ("float64", "float32"))}


def rnn(bench: Any) -> dict[str, Any]:
    """Run an LSTM of two layers."""
    torch = bench.torch
    module, x = torch.nn.LSTM(16, 32, num_layers=2).double(), torch.randn(5, 3, 16)
    return {"measured": bench.try_module(module, x, ("float64", "float32"))}


def attention(bench: Any) -> dict[str, Any]:
    """Compute attention in float16: as torch chooses, with a mask, and by each backend.

    Use an odd length, which is not a multiple of any kernel's block, and a length that all kernels
    accept, with gradients. cuDNN compiles the plan of its kernel with NVRTC at run time.
    """
    torch, measured = bench.torch, {}
    lengths = {}
    for length in (77, 80):
        mask = torch.rand(length, length) < 0.7
        mask.fill_diagonal_(True)  # a row without any value has no result
        lengths[length] = torch.randn(3, 2, 4, length, 64).to(torch.float16), mask
    measured.update(attend(bench, "float16 odd", *lengths[77], False))
    measured.update(attend(bench, "float16", *lengths[80], True))
    left_out = []
    for name, constant, question in BACKENDS:
        used = False
        for length, (inputs, mask) in lengths.items():
            gradients = length == 80
            for own in (mask, None):  # flash accepts no mask, and is causal without one
                if can_use(bench, question, inputs, own, gradients):
                    backend = getattr(torch.nn.attention.SDPBackend, constant)
                    with torch.nn.attention.sdpa_kernel(backend):
                        key = "float16 %s%s" % (name, "" if gradients else " odd")
                        measured.update(attend(bench, key, inputs, own, gradients))
                    used = True
                    break
        left_out += [] if used else [name]
    answer: dict[str, Any] = {"measured": measured}
    if left_out:
        answer["inapplicable"] = "torch does not use %s on this device" % ", ".join(left_out)
    return answer


def attend(bench: Any, name: str, inputs: Any, mask: Any, gradients: bool) -> dict[str, float]:
    """Compute attention on the device, and compare it; without a mask, attention is causal."""
    function = bench.torch.nn.functional.scaled_dot_product_attention

    def compute(x: Any) -> Any:
        own = mask if mask is None else mask.to(x.device)
        return function(*x.unbind(0), attn_mask=own, is_causal=mask is None)

    def run(x: Any) -> list[Any]:
        if gradients:
            result: list[Any] = bench.differentiate(compute, x)
            return result
        with bench.torch.no_grad():
            return [compute(x)]

    found = run(inputs.to(bench.device))
    if bool(found[0].isnan().any()):
        raise AssertionError("%s attention gives NaN" % name)
    with bench.torch.nn.attention.sdpa_kernel(bench.torch.nn.attention.SDPBackend.MATH):
        expected = run(inputs.double())
    return dict(zip((name, name + " gradients"), map(bench.compare, found, expected)))


def can_use(bench: Any, question: str, inputs: Any, mask: Any, gradients: bool) -> bool:
    """Return whether torch can use a backend for these inputs on the device."""
    if bench.on_cpu or not question or bench.platform == "xpu":
        return question in ("", "can_use_flash_attention")  # the backends of the CPU
    cuda = bench.torch.backends.cuda
    q, k, v = inputs.to(bench.device).requires_grad_(gradients).unbind(0)
    own = mask if mask is None else mask.to(bench.device)
    parameters = (q, k, v, own, 0.0, mask is None, False)
    try:
        asked = cuda.SDPAParams(*parameters)
    except TypeError:  # before torch 2.5 there is no argument for grouped queries
        asked = cuda.SDPAParams(*parameters[:-1])
    return question in dir(cuda) and bool(getattr(cuda, question)(asked))


# What connects a device: NCCL within one process, and cuFile's direct access to files.


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


# torch.compile, which generates code for the device at run time.


def compilation(bench: Any) -> dict[str, Any]:
    """Compile a function in three precisions, and its gradient in one."""
    return find_lack(bench) or compile_all(bench, ("float32", "float16", "float64"), "default")


def max_autotune(bench: Any) -> dict[str, Any]:
    """Compile with ``mode="max-autotune"``, which tries several kernels for each product."""
    return find_lack(bench) or compile_all(bench, ("float32", "float16"), "max-autotune")


def find_lack(bench: Any) -> dict[str, Any]:
    """Return why nothing can be compiled: Triton or a C compiler may be missing.

    Triton compiles the launchers of its kernels with a C compiler; on Windows it includes one.
    """
    if not bench.on_cpu and importlib.util.find_spec("triton") is None:
        return {"inapplicable": "torch.compile for a GPU needs triton, which is not installed"}
    names = ("g++", "clang++", "c++", "cl") if bench.on_cpu else ("gcc", "clang")
    own = os.environ.get("CXX" if bench.on_cpu else "CC", names[0])
    if (bench.on_cpu or os.name != "nt") and not any(map(shutil.which, (own,) + names)):
        lack = "torch.compile needs a C compiler (%s, or CC), and there is none"
        return {"unavailable": lack % " or ".join(names)}
    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    if os.name != "nt" and not os.path.exists(header):
        return {"unavailable": "torch.compile needs Python.h, and this interpreter has none"}
    return {}


def compute(x: Any) -> Any:
    """The function to compile: work on each element, which becomes one kernel, and a product."""
    return (x.sin() + x @ x).relu()


def compile_all(bench: Any, dtypes: tuple[str, ...], mode: str) -> dict[str, Any]:
    """Compile in each precision, and compare with the CPU's result without compilation.

    The graph must be complete: code that cannot be compiled raises an error instead of running
    uncompiled.
    """
    torch, measured = bench.torch, {}
    # no further processes, each of which would import torch
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    for name in dtypes:
        dtype = getattr(torch, name)
        a = torch.randn(64, 64).to(dtype)
        try:
            torch._dynamo.reset()
            compiled = torch.compile(compute, mode=mode, fullgraph=True)
            if name == "float32":
                found = bench.differentiate(compiled, a.to(bench.device))
            else:
                found = [compiled(a.to(bench.device))]
        except RuntimeError as error:
            if "not supported on Python" in str(error):
                return {"inapplicable": str(error)}
            raise
        bench.wait()
        expected = bench.differentiate(compute, a.double())
        for key, result, wanted in zip((name, name + " gradients"), found, expected):
            measured[key] = bench.compare(result, wanted)
    return {"measured": measured}


# Libraries that are released together with torch and built against it.


def load(name: str) -> Any:
    """Import a library, or return None if it is not installed."""
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def lack(name: str) -> dict[str, Any]:
    """Report that a library is missing, and how to get it."""
    return {"inapplicable": "%s is not installed ([probes.gpu] requires)" % name}


def torchvision(bench: Any) -> dict[str, Any]:
    """Run torchvision's own kernels: removal of overlapping boxes, and pooling of regions."""
    library, torch = load("torchvision"), bench.torch
    if library is None:
        return lack("torchvision")
    corners = torch.rand(200, 2) * 20
    boxes = torch.cat([corners, corners + 1 + torch.rand(200, 2) * 8], 1)
    scores = torch.rand(200)
    kept = library.ops.nms(boxes.to(bench.device), scores.to(bench.device), 0.5)
    assert kept.cpu().tolist() == library.ops.nms(boxes, scores, 0.5).tolist(), "other boxes kept"
    regions = torch.cat([torch.zeros(8, 1), boxes[:8] / 2], 1)
    image = torch.randn(1, 3, 16, 16)

    def pool(x: Any) -> Any:
        return library.ops.roi_align(x, regions.to(x), 4, sampling_ratio=2)

    found = bench.differentiate(pool, image.to(bench.device))
    expected = bench.differentiate(pool, image.double())
    result, gradients = map(bench.compare, found, expected)
    return {"measured": {"float32": result, "float32 gradients": gradients}}


def torchaudio(bench: Any) -> dict[str, Any]:
    """Run torchaudio's recursive filter, which has its own kernel, and resample a wave."""
    library, torch = load("torchaudio"), bench.torch
    if library is None:
        return lack("torchaudio")
    wave = torch.rand(2, 4000) * 2 - 1
    a, b = torch.tensor([1.0, -0.5, 0.25]), torch.tensor([0.5, 0.25, 0.125])

    def treat(x: Any) -> Any:
        filtered = library.functional.lfilter(x, a.to(x), b.to(x))
        return library.functional.resample(filtered, 16000, 8000)

    found = bench.differentiate(treat, wave.to(bench.device))
    result, gradients = map(bench.compare, found, bench.differentiate(treat, wave.double()))
    return {"measured": {"float32": result, "float32 gradients": gradients}}


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
    (element_kernels, 1, 30),
    (matmul, 2, 30),
    (magma, 2, 30),
    (svd, 3, 40),
    (cudnn, 1, 40),
    (convolution, 3, 60),
    (autocast, 1, 40),
    (cnn, 1, 40),
    (rnn, 2, 40),
    (attention, 4, 60),
    (nccl, 4, 60),
    (gds, 4, 60, "alone", "thorough"),
    (compilation, 20, 120),
    (max_autotune, 60, 300, "alone", "thorough"),
    (torchvision, 5, 60, "alone", "thorough"),
    (torchaudio, 5, 60, "alone", "thorough"),
)

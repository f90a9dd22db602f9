"""Steps of neural networks: layers of cuDNN and kernels of attention, compared with the CPU."""

from __future__ import annotations

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from typing import Any

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


STEPS = (
    # seconds on a healthy GPU, and seconds after which it hangs
    (cudnn, 1, 40),
    (convolution, 3, 60),
    (autocast, 1, 40),
    (cnn, 1, 40),
    (rnn, 2, 40),
    (attention, 4, 60),
)

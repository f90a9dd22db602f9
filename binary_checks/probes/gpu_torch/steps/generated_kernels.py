"""Steps with torch.compile, which generates code for the device at run time."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sysconfig

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from typing import Any


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


STEPS = (
    # seconds on a healthy GPU, and seconds after which it hangs
    (compilation, 20, 120),
    (max_autotune, 60, 300, "alone", "thorough"),
)

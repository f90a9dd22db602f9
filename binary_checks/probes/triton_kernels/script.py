"""Compile a small kernel with Triton and its assembler.

This needs neither a GPU nor a driver.
"""

from __future__ import annotations

import linecache
import re

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from typing import Any

FILE = "<kernel>"
# The kernel calls a function of libdevice, which is shipped with the assembler. It has no tl.dot:
# with halves, Triton 3.3 fails for sm_75 and sm_120, and 3.2 kills the process for sm_50.
KERNEL = """
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def kernel(x, y, n):
    i = tl.program_id(0) * 128 + tl.arange(0, 128)
    a = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(y + i, tl.erf(a) + tl.exp(a), mask=i < n)
"""
NAMES = {"x": "*fp32", "y": "*fp32", "n": "i32"}
# Errors of Triton's assembler, or of LLVM, about an unknown GPU.
UNKNOWN = re.compile(r"is not defined for option '?gpu-name|is not a recognized processor")
HEAD = 64  # bytes of a cubin that identify it


def probe(request: dict[str, Any], record: Any, process: dict[str, Any]) -> None:
    """Import Triton and compile for each target; record each target before it starts."""
    answer: dict[str, Any] = {"compilations": [], "unknown": []}
    record.enter("import triton", answer)
    names = load_kernel()
    answer["version"] = str(names["triton"].__version__)
    answer["library"] = str(names["triton"].__file__)
    for target in request["targets"]:
        record.enter("Triton's compilation for " + target, answer)
        try:
            row = {"head": compile_for(names, int(re.sub("[^0-9]", "", target)))}
        except Exception as error:
            described = process["describe_exception"](error, request["site_packages"])
            text = described.partition("Repro command:")[0]
            if UNKNOWN.search(text):
                answer["unknown"].append(target)
                continue
            row = {"error": text[:1000]}
        answer["compilations"].append(dict(row, target=target))
    record.finish(dict(answer, stage="", state="finished"))


def load_kernel() -> dict[str, Any]:
    """Import Triton, and define the kernel, whose source Triton reads."""
    names: dict[str, Any] = {"__name__": "kernel"}
    linecache.cache[FILE] = (len(KERNEL), None, KERNEL.splitlines(True), FILE)
    exec(compile(KERNEL, FILE, "exec"), names)
    return names


def compile_for(names: dict[str, Any], capability: int) -> str:
    """Compile the kernel to machine code; return its head in hexadecimal."""
    known = {"fn": names["kernel"], "signature": NAMES}
    try:
        source = names["ASTSource"](**known)
    except TypeError:  # before 3.3 the constants had to be passed, too
        source = names["ASTSource"](constants={}, **known)
    target = names["GPUTarget"]("cuda", capability, 32)
    compiled = names["triton"].compile(source, target=target)
    return bytes(compiled.asm["cubin"][:HEAD]).hex()

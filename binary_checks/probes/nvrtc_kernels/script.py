"""Import a module, find the NVRTC that it loads, and compile a small kernel with it.

This needs neither a GPU nor a driver.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import re

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from typing import Any

# Like kernels that packages compile at run time, it uses functions of libdevice and halves.
KERNEL = b"""
extern "C" __global__ void kernel(float *x, double *y, const unsigned short *h, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float half;
  asm("cvt.f32.f16 %0, %1;" : "=f"(half) : "h"(h[i]));
  x[i] = erff(half) + __expf(x[i]) * sinf(half);
  y[i] = lgamma(y[i]) + pow(y[i], 1.5);
}
"""
# A repair tool adds a suffix before the extension: libnvrtc-8b1e8d13.so.12.
FILE_NAME = re.compile(r"libnvrtc(?:[-.][0-9a-f]{8})?\.so\b.*|nvrtc64_\d+_\d+(?:-[0-9a-f]+)?\.dll")
MOST_TARGETS = 256
MOST_BYTES = 64 << 20  # bytes of a cubin; the one for this kernel has 9 kB
MOST_LOG = 1 << 16  # bytes of a log
HEAD = 64  # bytes of a cubin that identify it


def probe(request: dict[str, Any], record: Any, process: dict[str, Any]) -> None:
    """Import, load and compile; record each part before it starts."""
    answer: dict[str, Any] = {"compilations": []}
    record.enter("import " + request["module"], answer)
    importlib.import_module(request["module"])
    load(request, process, record, answer)
    path = find_loaded(process["list_mapped"]() or [])
    if path:
        answer["library"] = path
        use(path, request["targets"], record, answer)
    else:
        answer["lying"] = find_lying(request["site_packages"])
    record.finish(dict(answer, stage="", state="finished"))


def load(request: dict[str, Any], process: dict[str, Any], record: Any, answer: Any) -> None:
    """Make the package load its NVRTC if the import did not; record any exception."""
    if not request["load"]:
        return
    record.enter(request["load"], answer)
    top = request["module"].partition(".")[0]
    names = {"__name__": "nvrtc", top: importlib.import_module(top)}
    try:
        eval(compile("(%s\n)" % request["load"], "expression", "eval"), names)
    except BaseException as error:
        answer["refusal"] = process["describe_exception"](error, request["site_packages"])


def find_loaded(mapped: list[str]) -> str:
    """Return the library among the mapped files, or ""."""
    found = (path for path in mapped if FILE_NAME.fullmatch(os.path.basename(path)))
    return next(found, "")


def find_lying(below: str) -> list[str]:
    """Return the files of NVRTC that exist and were not loaded."""
    return sorted(
        os.path.join(folder, name)
        for folder, _, names in os.walk(below)
        for name in names
        if FILE_NAME.fullmatch(name)
    )[:MOST_TARGETS]


def use(path: str, targets: list[str], record: Any, answer: dict[str, Any]) -> None:
    """Ask the library for its version, and compile for the targets that it supports."""
    record.enter("NVRTC's own version", answer)
    nvrtc = ctypes.CDLL(path)
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
    major, minor = ctypes.c_int(), ctypes.c_int()
    if nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) == 0:
        answer["version"] = "%d.%d" % (major.value, minor.value)
    supported = list_supported(nvrtc)
    answer["supported"] = supported
    known = [each for each in targets if not supported or each.rstrip("af") in supported]
    for target in known if targets else supported:
        record.enter("NVRTC's compilation for " + target, answer)
        answer["compilations"].append(dict(compile_for(nvrtc, target), target=target))


def list_supported(nvrtc: Any) -> list[str]:
    """Return the architectures that NVRTC supports; before CUDA 11.2 it cannot list any."""
    count = ctypes.c_int()
    try:
        refused = nvrtc.nvrtcGetNumSupportedArchs(ctypes.byref(count))
    except AttributeError:
        return []
    if refused or not 0 < count.value <= MOST_TARGETS:
        raise ValueError("nvrtcGetNumSupportedArchs gives %d, %d" % (refused, count.value))
    numbers = (ctypes.c_int * count.value)()
    if nvrtc.nvrtcGetSupportedArchs(numbers):
        raise ValueError("nvrtcGetSupportedArchs refuses")
    return ["sm_%d" % number for number in numbers]


def compile_for(nvrtc: Any, target: str) -> dict[str, str]:
    """Compile the kernel to machine code; return the head of the cubin, or the error."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    option = ("--gpu-architecture=" + target).encode()
    status = nvrtc.nvrtcCreateProgram(ctypes.byref(program), KERNEL, b"kernel.cu", 0, None, None)
    if status:
        return {"error": name_error(nvrtc, status)}
    status = nvrtc.nvrtcCompileProgram(program, 1, (ctypes.c_char_p * 1)(option))
    if status:
        return {"error": "%s: %s" % (name_error(nvrtc, status), read_log(nvrtc, program))}
    status = nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    if status or not HEAD <= size.value <= MOST_BYTES:
        return {"error": "%s: a cubin of %d bytes" % (name_error(nvrtc, status), size.value)}
    cubin = ctypes.create_string_buffer(size.value)
    status = nvrtc.nvrtcGetCUBIN(program, cubin)
    if status:
        return {"error": name_error(nvrtc, status)}
    return {"head": cubin.raw[:HEAD].hex()}


def name_error(nvrtc: Any, status: int) -> str:
    """Return NVRTC's name for a status: "NVRTC_ERROR_COMPILATION"."""
    name = nvrtc.nvrtcGetErrorString(status) or b"error %d" % status
    return str(name[:100].decode("utf-8", "replace"))


def read_log(nvrtc: Any, program: Any) -> str:
    """Return the compiler's log in one line."""
    size = ctypes.c_size_t()
    if nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)) or not 0 < size.value <= MOST_LOG:
        return "no log"
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    return " ".join(log.value.decode("utf-8", "replace").split())[:1000]

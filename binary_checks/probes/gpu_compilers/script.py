"""Compile machine code for GPUs with NVRTC, nvJitLink or Triton, as the request names one.

This needs neither a GPU nor a driver.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import sys

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

HEAD = 64  # bytes of a cubin that identify it


def probe(request: dict[str, Any], record: Any, process: dict[str, Any]) -> None:
    """Compile; record each part before it starts."""
    use = {"NVRTC": use_nvrtc, "nvJitLink": use_nvjitlink, "Triton": use_triton}
    answer: dict[str, Any] = {}
    use[request["compiler"]](request, answer, record, process)
    record.finish(dict(answer, stage="", state="finished"))


def copy_output(measure: Any, copy: Any, handle: Any) -> tuple[int, int, bytes]:
    """Call two functions of a compiler: for the size of an output, then for its content.

    Return the status of the last call, the size, and the content, which is empty after an error.
    """
    size = ctypes.c_size_t()
    status = measure(handle, ctypes.byref(size))
    if status or not size.value:
        return status, size.value, b""
    output = ctypes.create_string_buffer(size.value)
    status = copy(handle, output)
    return status, size.value, b"" if status else output.raw


def read_log(content: bytes) -> str:
    """Return the text of a log, which ends with a NUL."""
    return content.partition(b"\0")[0].decode("utf-8", "replace")


# NVRTC, as an import of the package loads it, compiles a small kernel.

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
NVRTC = re.compile(r"libnvrtc(?:[-.][0-9a-f]{8})?\.so\b.*|nvrtc64_\d+_\d+(?:-[0-9a-f]+)?\.dll")
MOST_TARGETS = 256


def use_nvrtc(
    request: dict[str, Any], answer: dict[str, Any], record: Any, process: dict[str, Any]
) -> None:
    """Import the package, find the NVRTC that it loads, and compile for each target."""
    answer["compilations"] = []
    record.enter("import " + request["module"], answer)
    importlib.import_module(request["module"])
    if request["load"]:
        load_nvrtc(request, answer, record, process)
    path = find_loaded(process["list_mapped"]() or [])
    if path:
        answer["library"] = path
        compile_kernels(path, request["targets"], record, answer)
        return
    answer["lying"] = sorted(
        os.path.join(folder, name)
        for folder, _, names in os.walk(request["site_packages"])
        for name in names
        if NVRTC.fullmatch(name)
    )[:MOST_TARGETS]


def load_nvrtc(
    request: dict[str, Any], answer: dict[str, Any], record: Any, process: dict[str, Any]
) -> None:
    """Make the package load its NVRTC if the import did not; record any exception."""
    record.enter(request["load"], answer)
    top = request["module"].partition(".")[0]
    names = {"__name__": "nvrtc", top: importlib.import_module(top)}
    try:
        eval(compile("(%s\n)" % request["load"], "expression", "eval"), names)
    except BaseException as error:
        answer["refusal"] = process["describe_exception"](error, request["site_packages"])


def find_loaded(mapped: list[str]) -> str:
    """Return the library among the mapped files, or ""."""
    found = (path for path in mapped if NVRTC.fullmatch(os.path.basename(path)))
    return next(found, "")


def compile_kernels(path: str, targets: list[str], record: Any, answer: dict[str, Any]) -> None:
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
        answer["compilations"].append(dict(compile_kernel(nvrtc, target), target=target))


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


def compile_kernel(nvrtc: Any, target: str) -> dict[str, str]:
    """Compile the kernel to machine code; return the head of the cubin, or the error."""
    program = ctypes.c_void_p()
    option = ("--gpu-architecture=" + target).encode()
    status = nvrtc.nvrtcCreateProgram(ctypes.byref(program), KERNEL, b"kernel.cu", 0, None, None)
    if status:
        return {"error": name_error(nvrtc, status)}
    status = nvrtc.nvrtcCompileProgram(program, 1, (ctypes.c_char_p * 1)(option))
    if status:
        measure, copy = nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog
        log = " ".join(read_log(copy_output(measure, copy, program)[2]).split())
        return {"error": "%s: %s" % (name_error(nvrtc, status), log[:1000] or "no log")}
    measure, copy = nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN
    status, size, cubin = copy_output(measure, copy, program)
    if len(cubin) < HEAD:
        return {"error": "%s: a cubin of %d bytes" % (name_error(nvrtc, status), size)}
    return {"head": cubin[:HEAD].hex()}


def name_error(nvrtc: Any, status: int) -> str:
    """Return NVRTC's name for a status: "NVRTC_ERROR_COMPILATION"."""
    name = nvrtc.nvrtcGetErrorString(status) or b"error %d" % status
    return str(name[:100].decode("utf-8", "replace"))


# nvJitLink, as it is installed next to the package, links PTX. Nothing of the package is imported.

NVJITLINK = re.compile(
    r"libnvJitLink(?:[-.][0-9a-f]{8})?\.so\.(\d+)\b.*|nvJitLink_(\d+)_\d+(?:-[0-9a-f]+)?\.dll",
    re.IGNORECASE,
)
# A text that is compiled to determine whether nvJitLink supports a target.
TRIAL = ".version 6.4\n.target sm_%d\n.address_size 64\n.visible .entry kernel()\n{\nret;\n}\n\0"
OLDEST = 30, 75  # oldest targets of CUDA 12 and of CUDA 13
TARGETS = range(50, 200)
PTX = 2  # NVJITLINK_INPUT_PTX
SHOWN = 4000  # characters of a log


def use_nvjitlink(
    request: dict[str, Any], answer: dict[str, Any], record: Any, _process: dict[str, Any]
) -> None:
    """Find the newest library, its version, and its targets; or link the texts of the request."""
    answer["library"] = request.get("library", "")
    record.enter("nvJitLink's start", answer)
    if answer["library"]:
        link_all(Linker(answer["library"]), request["texts"], record, answer)
        return
    found = sorted(list_libraries(request["site_packages"]), key=lambda each: each[0])
    if not found:
        return
    answer["library"] = found[-1][1]
    record(answer)
    linker = Linker(answer["library"])
    answer["version"] = "%d.%d" % linker.version
    record(answer)
    answer["known"] = [target for target in map("sm_%d".__mod__, TARGETS) if linker.knows(target)]


def list_libraries(below: str) -> Iterator[tuple[int, str]]:
    """Yield nvJitLink's files in site-packages and, for conda, in its folder of libraries."""
    of_prefix = [os.path.join(sys.prefix, name) for name in ("lib", os.path.join("Library", "bin"))]
    for root in (below, *of_prefix):
        for folder, folders, names in os.walk(root):
            if root != below:
                folders[:] = []
            for name in names:
                if NVJITLINK.fullmatch(name):
                    yield read_major(name), os.path.join(folder, name)


def read_major(name: str) -> int:
    """Return the number in the name of an nvJitLink's file."""
    match = NVJITLINK.fullmatch(name)
    return int(match.group(1) or match.group(2)) if match else 0


class Linker:
    """A loaded nvJitLink; the names of its functions contain the version."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        self.version = self.find_version(os.path.basename(path))

    def find_version(self, name: str) -> tuple[int, int]:
        """Return the newest version of nvJitLink's functions.

        The file's name states the major version.
        """
        major = int(str(read_major(name))[:2])
        for minor in range(99, -1, -1):
            if hasattr(self.library, "__nvJitLinkCreate_%d_%d" % (major, minor)):
                return major, minor
        raise OSError("%s has no nvJitLinkCreate of version %d" % (name, major))

    def find(self, name: str) -> Any:
        """Return one of nvJitLink's functions."""
        return self.library["__nvJitLink%s_%d_%d" % ((name,) + self.version)]

    def knows(self, target: str) -> bool:
        """Return whether nvJitLink can generate machine code for a target."""
        oldest = OLDEST[int(target[3:]) >= OLDEST[1]]
        return "head" in self.link((TRIAL % oldest).encode(), target)

    def link(self, text: bytes, target: str) -> dict[str, Any]:
        """Compile PTX, which ends with a NUL; return the head of the cubin, or status and log."""
        handle, option = ctypes.c_void_p(), ("-arch=" + target).encode()
        options = (ctypes.c_char_p * 1)(option)
        status = self.find("Create")(ctypes.byref(handle), 1, options)
        if status:
            return {"stage": "create", "status": status, "log": ""}
        try:
            stage, size = "assemble", ctypes.c_size_t(len(text))
            status = self.find("AddData")(handle, PTX, text, size, b"ptx")
            if not status:
                stage, status = "link", self.find("Complete")(handle)
            if status:
                asked = self.find("GetErrorLogSize"), self.find("GetErrorLog")
                log = read_log(copy_output(*asked, handle)[2])
                return {"stage": stage, "status": status, "log": log[:SHOWN]}
            asked = self.find("GetLinkedCubinSize"), self.find("GetLinkedCubin")
            status, length, cubin = copy_output(*asked, handle)
            if len(cubin) < HEAD:
                return {"stage": "cubin", "status": status, "log": "%d bytes" % length}
            return {"head": cubin[:HEAD].hex()}
        finally:
            self.find("Destroy")(ctypes.byref(handle))


def link_all(linker: Linker, texts: list[Any], record: Any, answer: dict[str, Any]) -> None:
    """Link each text for each of its targets; record each link before it starts."""
    import base64
    import zlib

    answer["links"] = []
    for index, row in enumerate(texts):
        packed, size = base64.b64decode(row["packed"]), row["size"]
        text = zlib.decompressobj().decompress(packed, size) + b"\0"
        for target in row["targets"]:
            answer["current"] = [index, target]
            record(answer)
            answer["links"].append(dict(linker.link(text, target), text=index, target=target))


# Triton compiles a small kernel with its own assembler.

FILE = "<kernel>"
# The kernel calls a function of libdevice, which is shipped with the assembler. It has no tl.dot:
# with halves, Triton 3.3 fails for sm_75 and sm_120, and 3.2 kills the process for sm_50.
SOURCE = """
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


def use_triton(
    request: dict[str, Any], answer: dict[str, Any], record: Any, process: dict[str, Any]
) -> None:
    """Import Triton, define the kernel, whose source Triton reads, and compile for each target."""
    import linecache

    answer.update(compilations=[], unknown=[])
    record.enter("import triton", answer)
    names: dict[str, Any] = {"__name__": "kernel"}
    linecache.cache[FILE] = (len(SOURCE), None, SOURCE.splitlines(True), FILE)
    exec(compile(SOURCE, FILE, "exec"), names)
    answer["version"] = str(names["triton"].__version__)
    answer["library"] = str(names["triton"].__file__)
    for target in request["targets"]:
        record.enter("Triton's compilation for " + target, answer)
        try:
            row = {"head": compile_with_triton(names, int(re.sub("[^0-9]", "", target)))}
        except Exception as error:
            described = process["describe_exception"](error, request["site_packages"])
            text = described.partition("Repro command:")[0]
            if UNKNOWN.search(text):
                answer["unknown"].append(target)
                continue
            row = {"error": text[:1000]}
        answer["compilations"].append(dict(row, target=target))


def compile_with_triton(names: dict[str, Any], capability: int) -> str:
    """Compile the kernel to machine code; return its head in hexadecimal."""
    known = {"fn": names["kernel"], "signature": NAMES}
    try:
        source = names["ASTSource"](**known)
    except TypeError:  # before 3.3 the constants had to be passed, too
        source = names["ASTSource"](constants={}, **known)
    target = names["GPUTarget"]("cuda", capability, 32)
    compiled = names["triton"].compile(source, target=target)
    return bytes(compiled.asm["cubin"][:HEAD]).hex()

"""Query a driver of GPUs for its version and devices: NVIDIA's, AMD's or Intel's.

NVIDIA's is queried here, through ctypes; the others in the files beside this one.
"""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from typing import Any

INTEGRATED, CAPABILITY_MAJOR, CAPABILITY_MINOR = 18, 75, 76  # CUdevice_attribute
# nvmlMemoryErrorType_t, nvmlEccCounterType_t (since the driver was loaded)
UNCORRECTED, VOLATILE = 1, 0
BLOCK = 1 << 20  # bytes of the block that is filled and copied
WRITTEN = 0x5A
ABSENT = (
    "cannot open shared object file: No such file",
    "Could not find module",
    "image not found",
)


def load_file(*parts: str) -> dict[str, Any]:
    """Execute a file, given relative to this folder, and return its names."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), *parts)
    functions: dict[str, Any] = {"__name__": os.path.basename(path)[: -len(".py")]}
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), functions)
    return functions


def describe_host(process: dict[str, Any], record: Any) -> None:
    """Record the facts found so far before each call that may hang in a broken driver."""
    answer: dict[str, Any] = {"nodes": list_nodes(), "stage": "load"}
    record(answer)
    windows = os.name == "nt"
    cuda = load_library("nvcuda.dll" if windows else "libcuda.so.1", answer)
    if cuda is not None:
        answer["library"] = find_mapped(process, "nvcuda" if windows else "libcuda.so")
        answer["stage"] = "cuInit"
        record(answer)
        ask_cuda(cuda, answer)
        for index, device in enumerate(answer.get("devices", ())):
            if index in record.request.get("skip", ()):
                continue
            answer["stage"] = "the context of device %d" % index
            record(answer)
            device.update(try_context(cuda, index))
        answer["stage"] = "nvmlInit"
        record(answer)
        ask_management("nvml.dll" if windows else "libnvidia-ml.so.1", answer)
    record.finish(dict(answer, stage=""))


def list_nodes() -> list[str]:
    """Return signs of an NVIDIA GPU or kernel module in the file system."""
    folder = "/dev"
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        names = []
    found = [folder + "/" + name for name in names if name[:6] == "nvidia" and name[6:].isdigit()]
    module = "/proc/driver/nvidia/version"
    return found + ([module] if os.path.exists(module) else [])


def load_library(name: str, answer: dict[str, Any]) -> Any:
    """Load the driver's library; return None, and store the reason unless it is merely missing."""
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        text = " ".join(str(error).split())
        absent = text.startswith(name) and any(each in text for each in ABSENT)
        if not (absent or isinstance(error, FileNotFoundError)):
            answer["refused"] = text
        return None


def find_mapped(process: dict[str, Any], part: str) -> str:
    """Return the path of a library that was loaded by its file name only."""
    paths = process["list_mapped"]() or ()
    return next((path for path in paths if part in os.path.basename(path).lower()), part)


def ask_cuda(cuda: Any, answer: dict[str, Any]) -> None:
    """Initialise the driver and list its devices."""
    answer["status"] = cuda.cuInit(0)
    answer["status_name"] = name_status(cuda, answer["status"])
    version = ctypes.c_int()
    if cuda.cuDriverGetVersion(ctypes.byref(version)) == 0:
        answer["cuda"] = version.value
    count = ctypes.c_int()
    if answer["status"] == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0:
        answer["devices"] = [describe_device(cuda, index) for index in range(count.value)]


def name_status(cuda: Any, status: int) -> str:
    """Return the driver's name for a CUresult, or "" if it has none."""
    text = ctypes.c_char_p()
    try:
        if cuda.cuGetErrorName(status, ctypes.byref(text)) == 0 and text.value:
            return text.value.decode("ascii", "replace")
    except AttributeError:  # drivers before CUDA 6
        pass
    return ""


def describe_device(cuda: Any, index: int) -> dict[str, Any]:
    """Return a device's name, compute capability and memory."""
    device, memory, name = ctypes.c_int(), ctypes.c_size_t(), ctypes.create_string_buffer(256)
    cuda.cuDeviceGet(ctypes.byref(device), index)
    cuda.cuDeviceGetName(name, len(name), device)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    numbers = []
    for attribute in (CAPABILITY_MAJOR, CAPABILITY_MINOR):
        number = ctypes.c_int()
        cuda.cuDeviceGetAttribute(ctypes.byref(number), attribute, device)
        numbers.append(number.value)
    return {
        "name": name.value.decode("utf-8", "replace"),
        "capability": "%d.%d" % tuple(numbers),
        "memory": memory.value,
    }


def try_context(cuda: Any, index: int) -> dict[str, Any]:
    """Create the context that all work on a device needs; a busy or broken device refuses it."""
    device, context = ctypes.c_int(), ctypes.c_void_p()
    try:
        cuda.cuDeviceGet(ctypes.byref(device), index)
        status = cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        found: dict[str, Any] = {}
        if status == 0:
            status, found = try_memory(cuda, device, context)
            cuda.cuDevicePrimaryCtxRelease_v2(device)
    except AttributeError:  # drivers before CUDA 11
        return {}
    return dict(found, status=status, status_name=name_status(cuda, status))


def try_memory(cuda: Any, device: Any, context: Any) -> tuple[int, dict[str, Any]]:
    """Fill a block of the device's memory and copy it back, without a kernel.

    Return the status of the first call that failed, and the facts found, such as the free memory.
    """
    found: dict[str, Any] = {}
    free, total, integrated = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_int()
    block, content = ctypes.c_uint64(), ctypes.create_string_buffer(BLOCK)
    try:
        status = cuda.cuCtxSetCurrent(context)
        cuda.cuDeviceGetAttribute(ctypes.byref(integrated), INTEGRATED, device)
        if status == 0 and cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0:
            found.update(free=free.value, integrated=integrated.value)
        status = status or cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(BLOCK))
        if status != 0:
            return status, dict(found, refused="memory")
        status = cuda.cuMemsetD8_v2(block, ctypes.c_ubyte(WRITTEN), ctypes.c_size_t(BLOCK))
        status = status or cuda.cuMemcpyDtoH_v2(content, block, ctypes.c_size_t(BLOCK))
        cuda.cuMemFree_v2(block)
    except AttributeError:  # drivers before CUDA 11
        return 0, found
    if status == 0 and content.raw != bytes([WRITTEN]) * BLOCK:
        found["spoiled"] = True
    return status, dict(found, refused="work") if status else found


def ask_management(name: str, answer: dict[str, Any]) -> None:
    """Query the management library, which also lists GPUs that CUDA may not use."""
    library = load_library(name, {})
    if library is None:
        return
    try:
        answer["management"] = library.nvmlInit_v2()
        if answer["management"] != 0:
            return
        text = ctypes.create_string_buffer(96)
        if library.nvmlSystemGetDriverVersion(text, len(text)) == 0:
            answer["driver"] = text.value.decode("ascii", "replace")
        count = ctypes.c_uint()
        if library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0:
            answer["present"] = count.value
        answer["memory_errors"] = sum(count_errors(library, each) for each in range(count.value))
    except AttributeError:
        return


def count_errors(library: Any, index: int) -> int:
    """Return the number of uncorrected errors in a device's memory; 0 if they are not counted."""
    device, errors = ctypes.c_void_p(), ctypes.c_uint64()
    if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) != 0:
        return 0
    ask = library.nvmlDeviceGetTotalEccErrors
    status = ask(device, UNCORRECTED, VOLATILE, ctypes.byref(errors))
    return errors.value if status == 0 else 0


if __name__ == "__main__":
    functions = load_file(os.pardir, "process.py")
    recorder = functions["open_recorder"]()
    other = {"rocm": "amd.py", "xpu": "intel.py"}.get(recorder.request.get("platform", ""))
    if other:
        load_file(other)["describe_host"](load_library, recorder)
    else:
        describe_host(functions, recorder)

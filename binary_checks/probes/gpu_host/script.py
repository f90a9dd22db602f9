"""Query a driver of GPUs for its version and devices: NVIDIA's, AMD's or Intel's."""

from __future__ import annotations

import ctypes
import errno
import os

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from typing import Any

ABSENT = (
    "cannot open shared object file: No such file",
    "Could not find module",
    "image not found",
)


def probe(request: dict[str, Any], record: Any, process: dict[str, Any]) -> None:
    """Ask the driver of a platform; record the facts found so far before a call that may hang."""
    ask = {"rocm": ask_amd, "xpu": ask_intel}.get(request.get("platform", ""))
    answer = ask(record) if ask else ask_nvidia(record, process)
    record.finish(dict(answer, stage=""))


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


def list_render_nodes(vendor: str, root: str) -> list[str]:
    """Return the render nodes of a vendor's GPUs, in the order of their numbers."""
    folder = root + "sys/class/drm"
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    minors = [int(name[7:]) for name in names if name[:7] == "renderD" and name[7:].isdigit()]
    return [
        "/dev/dri/renderD%d" % minor
        for minor in sorted(minors)
        if read_text("%s/renderD%d/device/vendor" % (folder, minor)) == vendor
    ]


def read_text(path: str) -> str:
    """Return a file's text without surrounding spaces; "" if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 16).strip()
    except OSError:
        return ""


def list_handles(function: Any, *owner: Any) -> list[Any]:
    """Call a function of a driver that fills a list: first for its length, then for its handles."""
    count = ctypes.c_uint32()
    if function(*owner, ctypes.byref(count), None) != 0:
        return []
    handles = (ctypes.c_void_p * max(1, count.value))()
    if function(*owner, ctypes.byref(count), handles) != 0:
        return []
    return [ctypes.c_void_p(each) for each in handles[: count.value]]


# NVIDIA's driver, with its management library.

INTEGRATED, CAPABILITY_MAJOR, CAPABILITY_MINOR = 18, 75, 76  # CUdevice_attribute
# nvmlMemoryErrorType_t, nvmlEccCounterType_t (since the driver was loaded)
UNCORRECTED, VOLATILE = 1, 0
BLOCK = 1 << 20  # bytes of the block that is allocated, filled and copied
WRITTEN = 0x5A


def ask_nvidia(record: Any, process: dict[str, Any]) -> dict[str, Any]:
    """Ask NVIDIA's driver and its management library."""
    answer: dict[str, Any] = {"nodes": list_nvidia_nodes()}
    record.enter("load", answer)
    windows = os.name == "nt"
    cuda = load_library("nvcuda.dll" if windows else "libcuda.so.1", answer)
    if cuda is None:
        return answer
    part = "nvcuda" if windows else "libcuda.so"  # the library was loaded by its file name only
    paths = process["list_mapped"]() or ()
    loaded = (path for path in paths if part in os.path.basename(path).lower())
    answer["library"] = next(loaded, part)
    record.enter("cuInit", answer)
    ask_cuda(cuda, answer)
    for index, device in enumerate(answer.get("devices", ())):
        if index not in record.request.get("skip", ()):
            record.enter("the context of device %d" % index, answer)
            device.update(try_cuda_context(cuda, index))
    record.enter("nvmlInit", answer)
    ask_nvml("nvml.dll" if windows else "libnvidia-ml.so.1", answer)
    return answer


def list_nvidia_nodes() -> list[str]:
    """Return signs of an NVIDIA GPU or kernel module in the file system."""
    try:
        names = sorted(os.listdir("/dev"))
    except OSError:
        names = []
    found = ["/dev/" + name for name in names if name[:6] == "nvidia" and name[6:].isdigit()]
    module = "/proc/driver/nvidia/version"
    return found + ([module] if os.path.exists(module) else [])


def ask_cuda(cuda: Any, answer: dict[str, Any]) -> None:
    """Initialise the driver and list its devices."""
    answer["status"] = cuda.cuInit(0)
    answer["status_name"] = name_status(cuda, answer["status"])
    version = ctypes.c_int()
    if cuda.cuDriverGetVersion(ctypes.byref(version)) == 0:
        answer["cuda"] = version.value
    count = ctypes.c_int()
    if answer["status"] == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0:
        answer["devices"] = [describe_cuda_device(cuda, index) for index in range(count.value)]


def name_status(cuda: Any, status: int) -> str:
    """Return the driver's name for a CUresult, or "" if it has none."""
    text = ctypes.c_char_p()
    if cuda.cuGetErrorName(status, ctypes.byref(text)) == 0 and text.value:
        return text.value.decode("ascii", "replace")
    return ""


def describe_cuda_device(cuda: Any, index: int) -> dict[str, Any]:
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


def try_cuda_context(cuda: Any, index: int) -> dict[str, Any]:
    """Create the context that all work on a device needs; a busy or broken device refuses it."""
    device, context = ctypes.c_int(), ctypes.c_void_p()
    try:
        cuda.cuDeviceGet(ctypes.byref(device), index)
        status = cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        found: dict[str, Any] = {}
        if status == 0:
            status, found = try_cuda_memory(cuda, device, context)
            cuda.cuDevicePrimaryCtxRelease_v2(device)
    except AttributeError:  # drivers before CUDA 11
        return {}
    return dict(found, status=status, status_name=name_status(cuda, status))


def try_cuda_memory(cuda: Any, device: Any, context: Any) -> tuple[int, dict[str, Any]]:
    """Fill a block of the device's memory and copy it back, without a kernel.

    Return the status of the first call that failed, and the facts found, such as the free memory.
    """
    found: dict[str, Any] = {}
    free, total, integrated = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_int()
    block, content = ctypes.c_uint64(), ctypes.create_string_buffer(BLOCK)
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
    if status == 0 and content.raw != bytes([WRITTEN]) * BLOCK:
        found["spoiled"] = True
    return status, dict(found, refused="work") if status else found


def ask_nvml(name: str, answer: dict[str, Any]) -> None:
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


# AMD's driver: the kernel's files of KFD, and the library amdsmi if it is there. HIP itself comes
# with the package, so no code of it is needed to find the devices.

TOPOLOGY = "sys/class/kfd/kfd/topology/nodes"
VARIABLES = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
AMD_GPUS = 2  # AMDSMI_INIT_AMD_GPUS


class ErrorCounts(ctypes.Structure):
    """amdsmi_error_count_t."""

    _fields_ = (
        ("correctable", ctypes.c_uint64),
        ("uncorrectable", ctypes.c_uint64),
        ("rest", ctypes.c_uint64 * 6),
    )


def ask_amd(record: Any, root: str = "/") -> dict[str, Any]:
    """Ask AMD's driver."""
    device, module = root + "dev/kfd", root + "sys/module/amdgpu"
    nodes = ["/dev/kfd"] * os.path.exists(device) + list_render_nodes("0x1002", root)
    nodes += ["/sys/module/amdgpu"] * os.path.exists(module)
    answer: dict[str, Any] = {"nodes": nodes}
    record.enter("open", answer)
    if not os.path.exists(device):
        return answer
    answer["library"] = "/dev/kfd"
    if refused := find_refusal(device):
        answer["refused"] = os.strerror(refused)
    answer["driver"] = read_text(module + "/version")
    devices = list_amd_devices(root)
    answer.update(status=0, present=len(devices), devices=choose(devices, os.environ))
    record.enter("amdsmi", answer)
    ask_amdsmi(load_library("libamd_smi.so", {}), answer)
    return answer


def find_refusal(path: str) -> int:
    """Return the number of the error with which a device file cannot be opened, or 0."""
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def list_amd_devices(root: str) -> list[dict[str, Any]]:
    """Return name, architecture and memory of each GPU in the order of HIP's numbers."""
    try:
        nodes = sorted(map(int, filter(str.isdigit, os.listdir(root + TOPOLOGY))))
    except OSError:
        return []
    found = (read_properties("%s%s/%d/properties" % (root, TOPOLOGY, node)) for node in nodes)
    return [describe_amd_device(root, each) for each in found if each.get("gfx_target_version")]


def read_properties(path: str) -> dict[str, int]:
    """Read a file with a name and a number in each line."""
    rows = (line.split() for line in read_text(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def describe_amd_device(root: str, properties: dict[str, int]) -> dict[str, Any]:
    """Return the facts of one device, and whether its render node can be opened."""
    minor = properties.get("drm_render_minor", 0)
    folder = "%ssys/class/drm/renderD%d/device/" % (root, minor)
    architecture = name_architecture(properties["gfx_target_version"])
    total, used = (read_text(folder + "mem_info_vram_" + each) for each in ("total", "used"))
    row: dict[str, Any] = {
        "name": read_text(folder + "product_name") or "AMD " + architecture,
        "capability": architecture,
        "memory": int(total) if total.isdigit() else 0,
        "unique_id": properties.get("unique_id", 0),
    }
    if total.isdigit() and used.isdigit():
        row["free"] = int(total) - int(used)
    node = "%sdev/dri/renderD%d" % (root, minor)
    if refused := find_refusal(node):
        row.update(refused="render node", status=refused, status_name=os.strerror(refused))
    return row


def name_architecture(version: int) -> str:
    """Return the architecture for the number in which KFD packs it: gfx942 for 90402."""
    return "gfx%d%x%x" % (version // 10000, version // 100 % 100, version % 100)


def choose(devices: list[dict[str, Any]], environ: Any) -> list[dict[str, Any]]:
    """Return the devices that the variables of ROCm leave visible.

    As HIP does, read ROCR_VISIBLE_DEVICES first, and one of the other two for what it leaves.
    """
    hip = next((name for name in VARIABLES[1:] if name in environ), "")
    for name in (VARIABLES[0], hip):
        if name in environ:
            devices = list(pick(devices, environ[name]))
    return devices


def pick(devices: list[dict[str, Any]], value: str) -> list[dict[str, Any]]:
    """Return the devices of a list of numbers and UUIDs, up to the first that there is not."""
    found = []
    for word in value.split(","):
        text = word.strip()
        if text.isdigit() and int(text) < len(devices):
            found.append(devices[int(text)])
            continue
        named = [each for each in devices if text == "GPU-%x" % each["unique_id"]]
        if not named:
            break
        found += named
    return found


def ask_amdsmi(library: Any, answer: dict[str, Any]) -> None:
    """Count uncorrected errors in the memory of all devices with amdsmi."""
    if library is None:
        return
    try:
        if library.amdsmi_init(ctypes.c_uint64(AMD_GPUS)) != 0:
            return
        errors = 0
        for socket in list_handles(library.amdsmi_get_socket_handles):
            for processor in list_handles(library.amdsmi_get_processor_handles, socket):
                counts = ErrorCounts()
                if library.amdsmi_get_gpu_total_ecc_count(processor, ctypes.byref(counts)) == 0:
                    errors += counts.uncorrectable
        answer["memory_errors"] = errors
    except AttributeError:
        return


# Intel's driver, through Level Zero.

GPU_ONLY = 1  # ZE_INIT_FLAG_GPU_ONLY
GPU = 1  # ZE_DEVICE_TYPE_GPU
SHARES_MEMORY = 1  # ZE_DEVICE_PROPERTY_FLAG_INTEGRATED
DRIVER_PROPERTIES, DEVICE_PROPERTIES, MEMORY_PROPERTIES = 0x1, 0x3, 0x7
CONTEXT, DEVICE_ALLOCATION = 0xD, 0x15
NAMES = {
    0x70000001: "ZE_RESULT_ERROR_DEVICE_LOST",
    0x70000002: "ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY",
    0x70000003: "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
    0x70010000: "ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS",
    0x78000001: "ZE_RESULT_ERROR_UNINITIALIZED",
    0x78000003: "ZE_RESULT_ERROR_UNSUPPORTED_FEATURE",
}


class DriverProperties(ctypes.Structure):
    """ze_driver_properties_t."""

    _fields_ = (
        ("stype", ctypes.c_uint32),
        ("next", ctypes.c_void_p),
        ("uuid", ctypes.c_uint8 * 16),
        ("version", ctypes.c_uint32),
    )


class DeviceProperties(ctypes.Structure):
    """ze_device_properties_t."""

    _fields_ = (
        ("stype", ctypes.c_uint32),
        ("next", ctypes.c_void_p),
        ("type", ctypes.c_uint32),
        ("vendor", ctypes.c_uint32),
        ("device", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("subdevice", ctypes.c_uint32),
        ("clock", ctypes.c_uint32),
        ("largest", ctypes.c_uint64),
        ("numbers", ctypes.c_uint32 * 7),
        ("resolution", ctypes.c_uint64),
        ("bits", ctypes.c_uint32 * 2),
        ("uuid", ctypes.c_uint8 * 16),
        ("name", ctypes.c_char * 256),
    )


class MemoryProperties(ctypes.Structure):
    """ze_device_memory_properties_t."""

    _fields_ = (
        ("stype", ctypes.c_uint32),
        ("next", ctypes.c_void_p),
        ("flags", ctypes.c_uint32),
        ("clock", ctypes.c_uint32),
        ("width", ctypes.c_uint32),
        ("size", ctypes.c_uint64),
        ("name", ctypes.c_char * 256),
    )


class Description(ctypes.Structure):
    """ze_context_desc_t, and ze_device_mem_alloc_desc_t with its further number."""

    _fields_ = (
        ("stype", ctypes.c_uint32),
        ("next", ctypes.c_void_p),
        ("flags", ctypes.c_uint32),
        ("ordinal", ctypes.c_uint32),
    )


def ask_intel(record: Any) -> dict[str, Any]:
    """Ask Intel's driver."""
    answer: dict[str, Any] = {"nodes": list_render_nodes("0x8086", "/")}
    record.enter("load", answer)
    loader = load_library("ze_loader.dll" if os.name == "nt" else "libze_loader.so.1", answer)
    if loader is None:
        return answer
    answer["library"] = "ze_loader"
    record.enter("zeInit", answer)
    answer["status"] = loader.zeInit(ctypes.c_uint32(GPU_ONLY)) & 0xFFFFFFFF
    answer["status_name"] = NAMES.get(answer["status"], "")
    found = list_intel_gpus(loader, answer) if answer["status"] == 0 else []
    answer["devices"] = [row for _, _, row in found]
    answer["present"] = len(answer["nodes"])
    for index, (driver, device, row) in enumerate(found):
        if index not in record.request.get("skip", ()):
            record.enter("the context of device %d" % index, answer)
            row.update(try_intel_context(loader, driver, device))
    return answer


def list_intel_gpus(loader: Any, answer: dict[str, Any]) -> list[tuple[Any, Any, dict[str, Any]]]:
    """Return the driver, the handle and the facts of each GPU."""
    found = []
    for driver in list_handles(loader.zeDriverGet):
        about = DriverProperties(stype=DRIVER_PROPERTIES)
        if loader.zeDriverGetProperties(driver, ctypes.byref(about)) == 0:
            version = about.version
            answer["driver"] = "%d.%d.%d" % (version >> 24, version >> 16 & 0xFF, version & 0xFFFF)
        for device in list_handles(loader.zeDeviceGet, driver):
            properties = DeviceProperties(stype=DEVICE_PROPERTIES)
            status = loader.zeDeviceGetProperties(device, ctypes.byref(properties))
            if status == 0 and properties.type == GPU:
                found.append((driver, device, describe_intel_device(loader, device, properties)))
    return found


def describe_intel_device(loader: Any, device: Any, properties: Any) -> dict[str, Any]:
    """Return a device's name and memory."""
    count = ctypes.c_uint32()
    memory = 0
    if loader.zeDeviceGetMemoryProperties(device, ctypes.byref(count), None) == 0:
        rows = (MemoryProperties * max(1, count.value))()
        for row in rows:
            row.stype = MEMORY_PROPERTIES
        if loader.zeDeviceGetMemoryProperties(device, ctypes.byref(count), rows) == 0:
            memory = sum(row.size for row in rows[: count.value])
    return {
        "name": properties.name.decode("utf-8", "replace"),
        "capability": "",
        "memory": memory,
        "integrated": properties.flags & SHARES_MEMORY,
    }


def try_intel_context(loader: Any, driver: Any, device: Any) -> dict[str, Any]:
    """Create a context and allocate a block of the device's memory."""
    context, block = ctypes.c_void_p(), ctypes.c_void_p()
    wanted = Description(stype=CONTEXT)
    status = loader.zeContextCreate(driver, ctypes.byref(wanted), ctypes.byref(context))
    refused = "context"
    if status == 0:
        refused = "memory"
        wanted = Description(stype=DEVICE_ALLOCATION)
        size = ctypes.c_size_t(BLOCK)
        status = loader.zeMemAllocDevice(
            context, ctypes.byref(wanted), size, ctypes.c_size_t(64), device, ctypes.byref(block)
        )
        if status == 0:
            loader.zeMemFree(context, block)
        loader.zeContextDestroy(context)
    status &= 0xFFFFFFFF
    found: dict[str, Any] = {"status": status, "status_name": NAMES.get(status, "")}
    return dict(found, refused=refused) if status else found

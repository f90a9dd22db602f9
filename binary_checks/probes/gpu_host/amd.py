"""Query AMD's driver: the kernel's files of KFD, and the library amdsmi if it is there.

HIP itself comes with the package, so no code of it is needed to find the devices.
"""

from __future__ import annotations

import ctypes
import errno
import os

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from typing import Any

TOPOLOGY = "sys/class/kfd/kfd/topology/nodes"
VARIABLES = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
GPUS = 2  # AMDSMI_INIT_AMD_GPUS


class ErrorCounts(ctypes.Structure):
    """amdsmi_error_count_t."""

    _fields_ = (
        ("correctable", ctypes.c_uint64),
        ("uncorrectable", ctypes.c_uint64),
        ("rest", ctypes.c_uint64 * 6),
    )


def describe_host(load_library: Any, record: Any, root: str = "/") -> None:
    """Record the facts found so far before each call that may hang in a broken driver."""
    answer: dict[str, Any] = {"nodes": list_nodes(root), "stage": "open"}
    record(answer)
    if os.path.exists(root + "dev/kfd"):
        answer["library"] = "/dev/kfd"
        if refused := find_refusal(root + "dev/kfd"):
            answer["refused"] = os.strerror(refused)
        answer["driver"] = read_text(root + "sys/module/amdgpu/version")
        devices = list_devices(root)
        answer.update(status=0, present=len(devices), devices=choose(devices, os.environ))
        answer["stage"] = "amdsmi"
        record(answer)
        ask_management(load_library("libamd_smi.so", {}), answer)
    record.finish(dict(answer, stage=""))


def list_nodes(root: str) -> list[str]:
    """Return signs of an AMD GPU or its kernel module in the file system."""
    found = ["/dev/kfd"] * os.path.exists(root + "dev/kfd")
    for minor, folder in list_drm(root):
        if read_text(folder + "/vendor") == "0x1002":
            found.append("/dev/dri/renderD%d" % minor)
    return found + ["/sys/module/amdgpu"] * os.path.exists(root + "sys/module/amdgpu")


def list_drm(root: str) -> list[tuple[int, str]]:
    """Return the numbers of the render nodes, with the folder of each device."""
    folder = root + "sys/class/drm"
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    minors = [int(name[7:]) for name in names if name[:7] == "renderD" and name[7:].isdigit()]
    return [(minor, "%s/renderD%d/device" % (folder, minor)) for minor in sorted(minors)]


def find_refusal(path: str) -> int:
    """Return the number of the error with which a device file cannot be opened, or 0."""
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def list_devices(root: str) -> list[dict[str, Any]]:
    """Return name, architecture and memory of each GPU in the order of HIP's numbers."""
    try:
        nodes = sorted(map(int, filter(str.isdigit, os.listdir(root + TOPOLOGY))))
    except OSError:
        return []
    found = (read_properties("%s%s/%d/properties" % (root, TOPOLOGY, node)) for node in nodes)
    return [describe_device(root, each) for each in found if each.get("gfx_target_version")]


def read_properties(path: str) -> dict[str, int]:
    """Read a file with a name and a number in each line."""
    rows = (line.split() for line in read_text(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def describe_device(root: str, properties: dict[str, int]) -> dict[str, Any]:
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


def read_text(path: str) -> str:
    """Return a file's text without surrounding spaces; "" if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 16).strip()
    except OSError:
        return ""


def ask_management(library: Any, answer: dict[str, Any]) -> None:
    """Count uncorrected errors in the memory of all devices with amdsmi."""
    if library is None:
        return
    try:
        if library.amdsmi_init(ctypes.c_uint64(GPUS)) != 0:
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


def list_handles(function: Any, *owner: Any) -> list[Any]:
    """Call a function of amdsmi that fills a list: first for its length, then for its handles."""
    count = ctypes.c_uint32()
    if function(*owner, ctypes.byref(count), None) != 0:
        return []
    handles = (ctypes.c_void_p * max(1, count.value))()
    if function(*owner, ctypes.byref(count), handles) != 0:
        return []
    return [ctypes.c_void_p(each) for each in handles[: count.value]]

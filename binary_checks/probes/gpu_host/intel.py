"""Query Intel's driver through Level Zero for its version and devices."""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from typing import Any

GPU_ONLY = 1  # ZE_INIT_FLAG_GPU_ONLY
GPU = 1  # ZE_DEVICE_TYPE_GPU
INTEGRATED = 1  # ZE_DEVICE_PROPERTY_FLAG_INTEGRATED
DRIVER_PROPERTIES, DEVICE_PROPERTIES, MEMORY_PROPERTIES = 0x1, 0x3, 0x7
CONTEXT, DEVICE_ALLOCATION = 0xD, 0x15
BLOCK = 1 << 20  # bytes that are allocated
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


def describe_host(load_library: Any, record: Any, root: str = "/") -> None:
    """Record the facts found so far before each call that may hang in a broken driver."""
    answer: dict[str, Any] = {"nodes": list_nodes(root), "stage": "load"}
    record(answer)
    loader = load_library("ze_loader.dll" if os.name == "nt" else "libze_loader.so.1", answer)
    if loader is not None:
        answer.update(library="ze_loader", stage="zeInit")
        record(answer)
        answer["status"] = loader.zeInit(ctypes.c_uint32(GPU_ONLY)) & 0xFFFFFFFF
        answer["status_name"] = NAMES.get(answer["status"], "")
        found = list_gpus(loader, answer) if answer["status"] == 0 else []
        answer["devices"] = [row for _, _, row in found]
        answer["present"] = len(answer["nodes"])
        for index, (driver, device, row) in enumerate(found):
            if index in record.request.get("skip", ()):
                continue
            answer["stage"] = "the context of device %d" % index
            record(answer)
            row.update(try_context(loader, driver, device))
    record.finish(dict(answer, stage=""))


def list_nodes(root: str) -> list[str]:
    """Return the render nodes of Intel's GPUs."""
    folder = root + "sys/class/drm"
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    found = []
    for name in names:
        try:
            with open("%s/%s/device/vendor" % (folder, name), encoding="ascii") as file:
                vendor = file.read(16).strip()
        except (OSError, ValueError):
            continue
        if name.startswith("renderD") and vendor == "0x8086":
            found.append("/dev/dri/" + name)
    return found


def list_handles(function: Any, *owner: Any) -> list[Any]:
    """Call a function that fills a list: first for its length, then for its handles."""
    count = ctypes.c_uint32()
    if function(*owner, ctypes.byref(count), None) != 0:
        return []
    handles = (ctypes.c_void_p * max(1, count.value))()
    if function(*owner, ctypes.byref(count), handles) != 0:
        return []
    return [ctypes.c_void_p(each) for each in handles[: count.value]]


def list_gpus(loader: Any, answer: dict[str, Any]) -> list[tuple[Any, Any, dict[str, Any]]]:
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
                found.append((driver, device, describe_device(loader, device, properties)))
    return found


def describe_device(loader: Any, device: Any, properties: Any) -> dict[str, Any]:
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
        "integrated": properties.flags & INTEGRATED,
    }


def try_context(loader: Any, driver: Any, device: Any) -> dict[str, Any]:
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

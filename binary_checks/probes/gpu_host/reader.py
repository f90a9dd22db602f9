"""The driver of this host, and the reason if no GPU can be used."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from binary_checks.knowledge.device_code import describe_unusable
from binary_checks.model import Conditions, Ending, GpuDevice, GpuHost, Place, ProbeAnswer
from binary_checks.probes.answers import list_rows, list_texts, read_text

VENDORS = {"cuda": "NVIDIA", "rocm": "AMD", "xpu": "Intel"}
"""Platform -> the vendor of its driver."""
ABSENT = "no NVIDIA driver on this host"
_LONGEST = 5  # digits of a major version; a package may report thousands
_VISIBLE = "CUDA_VISIBLE_DEVICES"
HIDDEN = {_VISIBLE: ""}
"""An environment in which no device is visible; more cannot be hidden without privileges."""
_PIPES = "CUDA_MPS_PIPE_DIRECTORY"
_CHOOSING = {
    "cuda": (_VISIBLE,),
    "rocm": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", _VISIBLE),
    "xpu": ("ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR"),
}
"""Platform -> the variables with which users choose devices."""
_OTHERS = tuple(name for names in _CHOOSING.values() for name in names if name != _VISIBLE)
_PASSED_ON = (
    *(_VISIBLE, "CUDA_DEVICE_ORDER", _PIPES, "CUDA_MPS_LOG_DIRECTORY", "CC"),
    *(*_OTHERS, "HSA_OVERRIDE_GFX_VERSION"),
)
_TIMEOUT = 60.0  # seconds in which the driver must start; with many devices it takes ten
# bytes of a device's memory that must be free; the steps take 1 GiB, libraries as much
_ENOUGH = 4 << 30
_MISMATCH = 18  # NVML_ERROR_LIB_RM_VERSION_MISMATCH
_DOUBT = (
    "the NVIDIA driver's libraries and its kernel module are of different versions "
    "(NVML_ERROR_LIB_RM_VERSION_MISMATCH): restart the host"
)
_MOST_DEAD = 16  # devices that may end the process
_MOST_HUNG = 2  # devices that may hang; each takes the complete time limit
_CAPABILITY = re.compile(r"\d+\.\d+|gfx[0-9a-f]{3,5}")
_CONTEXT = re.compile(r"the context of device (\d{1,4})")


def describe_host(place: Place, conditions: Conditions, platform: str = "cuda") -> GpuHost:
    """Ask a platform's driver in a process of the place's interpreter, without any package.

    A device that ends or hangs the process is left out when the next process asks again.
    """
    # A driver reserves address space as large as the memory of its devices.
    conditions = replace(conditions, memory=0)
    timeout = min(place.timeout, _TIMEOUT)
    dead: dict[int, str] = {}
    hung = 0
    while True:
        request = {"skip": sorted(dead), "platform": platform}
        result = place.run("gpu_host", request, timeout=timeout, conditions=conditions)
        killer = _CONTEXT.fullmatch(read_text(result.answer, "stage"))
        if not killer or int(killer[1]) in dead or len(dead) >= _MOST_DEAD:
            return read_host(result, conditions.variables, dead, platform)
        dead[int(killer[1])] = f"its context {_describe_end(result)}"
        hung += result.outcome is Ending.HUNG
        if hung >= _MOST_HUNG:
            left = range(int(killer[1]) + 1, len(list_rows(result.answer, "devices")))
            dead.update(
                dict.fromkeys(left, f"{hung} other devices hung before it, and it was not tried")
            )


def find_services(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders of MPS, a daemon through which processes share devices, if it runs."""
    pipes = Path(environ.get(_PIPES) or "/tmp/nvidia-mps")  # noqa: S108 - where it is by default
    if sys.platform != "linux" or not (pipes.is_absolute() and pipes.is_dir()):
        return ()
    return (pipes, Path("/dev/shm"))  # noqa: S108 - both ends have memory in common there


def choose_devices(variables: Mapping[str, str], host: GpuHost) -> Mapping[str, str]:
    """Return variables that exclude unusable devices, unless all are unusable.

    Devices keep the names by which they were selected: the UUID of a device or of its part (MIG).
    """
    if len(host.usable) == len(host.devices):
        return variables
    choosing = _CHOOSING[host.platform]
    name = next((each for each in choosing if each in variables), choosing[0])
    named = variables.get(name, ",".join(map(str, range(len(host.devices))))).split(",")
    kept = [name for name, each in zip(named, host.devices, strict=False) if not each.problem]
    return {**variables, name: ",".join(kept)}


def choose_variables(environ: Mapping[str, str], place: Place) -> dict[str, str]:
    """Return the user's variables for devices and driver, which work on a GPU needs."""
    chosen = {name: environ[name] for name in _PASSED_ON if name in environ}
    return {**chosen, **place.driver_variables(environ)}


def read_host(
    result: ProbeAnswer,
    variables: Mapping[str, str],
    dead: Mapping[int, str] | None = None,
    platform: str = "cuda",
) -> GpuHost:
    """Turn the host probe's answer, and the end of its process, into facts.

    ``dead`` maps each device that could not create a context to the reason.
    """
    dead = dead or {}
    answer = result.answer
    version = answer.get("cuda")
    devices = tuple(
        GpuDevice(
            name=read_text(row, "name"),
            capability=_read_capability(row),
            memory=memory if isinstance(memory := row.get("memory"), int) else 0,
            problem=dead.get(index) or _describe_context(row),
        )
        for index, row in enumerate(list_rows(answer, "devices"))
    )
    problem = _find_problem(result, VENDORS[platform])
    if not problem and (answer.get("status") != 0 or not devices):
        problem = _describe_refusal(answer, variables, platform)
    if not problem and all(each.problem for each in devices):
        problem = "; ".join(describe_unusable(devices))
    mismatch = answer.get("management") == _MISMATCH
    errors = answer.get("memory_errors")
    return GpuHost(
        platform=platform,
        library=read_text(answer, "library"),
        driver=read_text(answer, "driver"),
        cuda=format_cuda(version) if isinstance(version, int) else "",
        devices=devices,
        problem=problem,
        doubt=_DOUBT if mismatch else "",
        memory_errors=errors if isinstance(errors, int) else 0,
    )


def find_blame(before: GpuHost, after: GpuHost) -> str:
    """Return why the host is the cause of failed work, or "".

    ``before`` and ``after`` are facts from before and after the work. A driver separates processes:
    once the package's processes have ended, a new process finds every device unchanged, unless the
    device or the driver is faulty. If the second process loads a driver from the package, its facts
    say nothing about the host.
    """
    if after.library and before.library != after.library:
        return ""
    if after.problem:
        return after.problem
    if problems := [*describe_unusable(after.devices)]:
        return "; ".join(problems)
    driver = f"the {VENDORS[before.platform]} driver"
    if len(after.devices) < len(before.usable):
        return f"{driver} finds {len(after.devices)} of {len(before.usable)} GPUs"
    if (errors := after.memory_errors - before.memory_errors) > 0:
        return f"{driver} counts {errors} uncorrectable ECC errors"
    return after.doubt


def format_cuda(version: int) -> str:
    """Format CUDA's number of a version: "12.4" for 12040."""
    return f"{version // 1000}.{version % 1000 // 10}"


def _find_problem(result: ProbeAnswer, vendor: str) -> str:
    """Return why no driver starts, or "" if one does."""
    answer = result.answer
    if result.outcome is not Ending.OK or answer.get("stage") != "":
        stage = read_text(answer, "stage") or "no call yet"
        return f"the {vendor} driver {_describe_end(result)} at its start ({stage})"
    if refused := read_text(answer, "refused"):
        if read_text(answer, "library").startswith("/dev/"):
            return f"the {vendor} driver's device file cannot be opened: {refused}"
        return f"the {vendor} driver's library cannot be loaded: {refused}"
    if not read_text(answer, "library"):
        nodes = list_texts(answer, "nodes")
        shown = f", though the host shows {nodes[0]}" if nodes else ""
        return ABSENT.replace(VENDORS["cuda"], vendor) + shown
    return ""


def _describe_end(result: ProbeAnswer) -> str:
    if result.outcome is Ending.OK and result.answer.get("state") == "raised":
        return f"fails with {read_text(result.answer, 'detail')}"
    return {
        Ending.HUNG: f"does not end within {result.detail}",
        Ending.CRASHED: f"crashes with {result.detail}",
        Ending.STOPPED: f"is stopped, because {result.detail},",
    }.get(result.outcome, f"ends the process: {result.detail or 'exit status 0'}")


_NO_DEVICE = {"cuda": 100, "rocm": 0, "xpu": 0x78000001}
"""Platform -> the status of a driver that finds no device."""
_STARTS = {"cuda": "cuInit", "rocm": "open", "xpu": "zeInit"}


def _describe_refusal(
    answer: Mapping[str, Any], variables: Mapping[str, str], platform: str
) -> str:
    """Return why a loaded driver provides no device."""
    status = answer.get("status")
    name = f"{read_text(answer, 'status_name') or f'error {status}'} ({_format_status(status)})"
    vendor, start, present = VENDORS[platform], _STARTS[platform], answer.get("present")
    chosen = next((each for each in _CHOOSING[platform] if each in variables), "")
    if status not in (0, _NO_DEVICE[platform]):
        return f"the {vendor} driver does not start: {start} gives {name}"
    if chosen:
        return f"{chosen}={variables[chosen]!r} leaves no GPU of the host visible"
    if present:
        there = "1 GPU is" if present == 1 else f"{present} GPUs are"
        programs = platform.upper() if platform != "rocm" else "ROCm"
        return f"{there} present, but {programs} cannot use any: {start} gives {name}"
    return f"the {vendor} driver finds no GPU"


def _format_status(status: object) -> str:
    """Format a status as its vendor's headers do: Level Zero's are bits."""
    return hex(status) if isinstance(status, int) and status >= 1 << 16 else str(status)


def _describe_context(row: Mapping[str, Any]) -> str:
    """Return why work on a device cannot be judged, or "" if it can be."""
    if status := row.get("status"):
        what = read_text(row, "refused") or "context"
        name = read_text(row, "status_name") or f"error {status}"
        return f"its {what} gives {name} ({_format_status(status)})"
    if row.get("spoiled"):
        return "its memory returns other bytes than were written"
    return _describe_hold(row)


def _describe_hold(row: Mapping[str, Any]) -> str:
    """Return how much of a device's memory other processes use, or "" if enough is free.

    Return "" for a GPU that shares the host's memory: its driver counts the system's caches as
    used.
    """
    total, free = row.get("memory"), row.get("free")
    if not (isinstance(total, int) and isinstance(free, int)) or row.get("integrated"):
        return ""
    if free >= min(_ENOUGH, total // 2):
        return ""
    return f"other processes hold {(total - free) / 2**30:.1f} of its {total / 2**30:.1f} GiB"


def find_old_driver(host: GpuHost, runtime: str) -> str:
    """Return why the driver is too old for a CUDA runtime; "" if it is new enough or unknown.

    Within one major version a runtime needs no newer driver (CUDA minor version compatibility).
    """
    served, wanted = (version.partition(".")[0] for version in (host.cuda, runtime))
    known = all(each.isdecimal() and len(each) <= _LONGEST for each in (served, wanted))
    if not known or int(served) >= int(wanted):
        return ""
    driver = f"the NVIDIA driver{host.driver and ' ' + host.driver}"
    return (
        f"{driver} serves CUDA {host.cuda}, and the package runs CUDA {runtime}: update the driver"
    )


def _read_capability(row: Mapping[str, Any]) -> str:
    text = read_text(row, "capability")
    return text if _CAPABILITY.fullmatch(text) else ""

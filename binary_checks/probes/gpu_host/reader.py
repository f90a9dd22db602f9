"""Asks the driver of this host what it is, and says why no GPU can be used where none can."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from binary_checks.model import Ending, GpuDevice, GpuHost
from binary_checks.model.places import Conditions, Place, ProbeAnswer

ABSENT = "no NVIDIA driver on this host"
HIDDEN = {"CUDA_VISIBLE_DEVICES": ""}
"""With nothing of the user's environment beside, the most that can be hidden without rights."""
_PASSED_ON = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CC")
_TIMEOUT = 60.0  # seconds for the driver's own start: ten on hosts with many devices


def describe_host(place: Place, conditions: Conditions) -> GpuHost:
    """Ask the driver in a process of the place's interpreter, which needs no package for it."""
    timeout = min(place.timeout, _TIMEOUT)
    result = place.run("gpu_host", {}, timeout=timeout, conditions=conditions)
    return read_host(result, conditions.variables)


def choose_variables(environ: Mapping[str, str], place: Place) -> dict[str, str]:
    """Choose what work on a GPU needs of the user's environment: which devices, and the driver."""
    chosen = {name: environ[name] for name in _PASSED_ON if name in environ}
    return {**chosen, **place.driver_variables(environ)}


def read_host(result: ProbeAnswer, variables: Mapping[str, str]) -> GpuHost:
    """Turn the host probe's answer, and the end of its process, into facts."""
    answer = result.answer
    version, rows = answer.get("cuda"), answer.get("devices")
    devices = tuple(
        GpuDevice(
            name=_text(row, "name"),
            capability=_capability(_text(row, "capability")),
            memory=memory if isinstance(memory := row.get("memory"), int) else 0,
        )
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict)
    )
    problem = _find_problem(result)
    if not problem and (answer.get("status") != 0 or not devices):
        problem = _describe_refusal(answer, variables)
    if not problem:
        problem = next(_find_unusable(rows), "")
    return GpuHost(
        library=_text(answer, "library"),
        driver=_text(answer, "driver"),
        cuda=spell_cuda(version) if isinstance(version, int) else "",
        devices=devices,
        problem=problem,
    )


def spell_cuda(version: int) -> str:
    """Spell a version as CUDA counts them: "12.4" of 12040."""
    return f"{version // 1000}.{version % 1000 // 10}"


def _find_problem(result: ProbeAnswer) -> str:
    """Say why there is no driver, or none that starts without harm; "" when there is one."""
    answer = result.answer
    if result.outcome is not Ending.OK or answer.get("stage") != "":
        return _describe_death(result)
    if refused := _text(answer, "refused"):
        return f"the NVIDIA driver's library cannot be loaded: {refused}"
    if not _text(answer, "library"):
        nodes = answer.get("nodes")
        shown = f", though the host shows {nodes[0]}" if isinstance(nodes, list) and nodes else ""
        return ABSENT + shown
    return ""


def _describe_death(result: ProbeAnswer) -> str:
    stage = _text(result.answer, "stage") or "no call yet"
    how = {
        Ending.HUNG: f"does not end within {result.detail}",
        Ending.CRASHED: f"crashes with {result.detail}",
        Ending.STOPPED: f"is stopped, because {result.detail},",
    }.get(result.outcome, f"ends the process: {result.detail or 'exit status 0'}")
    return f"the NVIDIA driver {how} at its start ({stage})"


def _describe_refusal(answer: Mapping[str, Any], variables: Mapping[str, str]) -> str:
    """Say why a driver that was loaded gives no device."""
    status = answer.get("status")
    name = _text(answer, "status_name") or f"error {status}"
    present, visible = answer.get("present"), variables.get("CUDA_VISIBLE_DEVICES")
    if status not in (0, 100):  # CUDA_SUCCESS, CUDA_ERROR_NO_DEVICE
        return f"the NVIDIA driver does not start: cuInit gives {name} ({status})"
    if visible is not None:
        return f"CUDA_VISIBLE_DEVICES={visible!r} leaves none of the host's GPUs to be used"
    if present:
        there = "1 GPU is" if present == 1 else f"{present} GPUs are"
        return f"{there} there, but CUDA cannot use one: cuInit gives {name} ({status})"
    return "the NVIDIA driver finds no GPU"


def _find_unusable(rows: object) -> Iterator[str]:
    """Say of each device that gives no context that it is there, and why it cannot be used."""
    for index, row in enumerate(rows if isinstance(rows, list) else ()):
        if isinstance(row, dict) and row.get("status"):
            status = row["status"]
            name = _text(row, "status_name") or f"error {status}"
            device = f"device {index} ({_text(row, 'name')})"
            yield f"{device} is there and cannot be used: its context gives {name} ({status})"


def find_old_driver(host: GpuHost, runtime: str) -> str:
    """Say that the driver is too old for a CUDA runtime; "" where it serves it, or is not known.

    Within one major version a runtime needs no newer driver (CUDA's minor version compatibility).
    """
    served, wanted = (version.partition(".")[0] for version in (host.cuda, runtime))
    if not (served.isdecimal() and wanted.isdecimal()) or int(served) >= int(wanted):
        return ""
    driver = f"the NVIDIA driver{host.driver and ' ' + host.driver}"
    return f"{driver} serves CUDA {host.cuda}, and the package runs CUDA {runtime}: update it"


def _capability(text: str) -> str:
    return text if re.fullmatch(r"\d+\.\d+", text) else ""


def _text(answer: Mapping[str, Any], key: str) -> str:
    value = answer.get(key)
    return value if isinstance(value, str) else ""

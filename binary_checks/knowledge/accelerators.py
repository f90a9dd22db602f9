"""Reads which accelerator a build is for: out of labels and variables, and out of its objects."""

from __future__ import annotations

import re
from collections.abc import Iterator

from binary_checks.knowledge.nvidia_names import (
    cuda_of_library,
    cuda_of_name,
    is_cuda_library,
    is_driver_library,
)
from binary_checks.model import DeviceKind, Kind, ObjectFile, Package
from binary_checks.model.binary_configuration import ClaimSource, ConfigurationClaim

_CUDA = r"cu(?:da)?[-_]?(?P<cuda>\d{1,2}\.\d{1,2}|\d{2,3})"
_ROCM = r"(?:rocm|hip)[-_]?(?P<rocm>\d{1,2}(?:\.\d{1,2})*)"
_WORD = rf"(?:{_CUDA}|{_ROCM}|(?P<cpu>cpu)|(?P<xpu>xpu))"
_LABEL = re.compile(rf"(?:^|[.+_-]|pt\d{{2,3}}){_WORD}(?=$|[.+_-]|torch|cxx11)")
_VALUE = re.compile(
    rf"(?:{_WORD}|(?P<plain>\d{{1,2}}\.\d{{1,2}})(?:\.\d+)?|(?P<family>cuda|rocm))"
    r"(?:-(?:full|aarch64|s390x|cxx11-abi|pre-cxx11))*"
)
_AMD = re.compile(
    r"lib(?:amdhip64|hsa-runtime64|roc(?:blas|fft|rand|solver|sparse|m_smi64|tx64)|"
    r"hip(?:blas(?:lt)?|fft|rand|solver|sparse(?:lt)?|rtc)|MIOpen|rccl)\b[^/]*?"
    r"(?:\.so(?:\.(?P<version>\d+))?[^/]*)"
)
_INTEL = re.compile(r"lib(?:sycl|ze_loader)\.so[.\d]*|sycl\d+\.dll|ze_loader\.dll", re.IGNORECASE)
_HIP = "libamdhip64"
"""The one whose number is ROCm's own major version."""


def accelerator_of_label(label: str) -> str:
    """What a local version label says: "cuda 12.6" of ``cu126``, "rocm 6.2", "cpu"; "" if none.

    That of flash-attn names CUDA among others: ``cu12torch2.8cxx11abiTRUE``.
    """
    match = _LABEL.search(label)
    return _spell(match) if match else ""


def accelerator_of_value(text: str) -> str:
    """What a variable's value says: that of DESIRED_CUDA may be ``cu126``, ``12.6``, ``cpu``."""
    match = _VALUE.fullmatch(text.strip().lower())
    if match is None:
        return ""
    if match["plain"]:
        return f"cuda {match['plain']}"
    return match["family"] or _spell(match)


def accelerator_of_distribution(name: str) -> str:
    """What a project's name says: ``nvidia-cublas-cu12``, ``faiss-cpu``."""
    if major := cuda_of_name(name):
        return f"cuda {major}"
    return "cpu" if name.lower().replace("_", "-").endswith("-cpu") else ""


def _spell(match: re.Match[str]) -> str:
    if version := match["cuda"]:
        return f"cuda {_put_dot(version)}"
    if version := match["rocm"]:
        return f"rocm {version}"
    return "cpu" if match["cpu"] else "xpu"


def _put_dot(digits: str) -> str:
    """126 is 12.6 and 92 is 9.2, but 11 and 12 are whole versions."""
    if "." in digits or (len(digits) == 2 and digits.startswith("1")):
        return digits
    return f"{digits[:-1]}.{digits[-1]}"


def claim_accelerators(package: Package) -> Iterator[ConfigurationClaim]:
    """What the objects say: device code, and libraries of an accelerator that they need.

    Where all were read and nothing of the kind is there: the CPU, by absence.
    """
    found: dict[str, ConfigurationClaim] = {}
    for item in package.objects:
        for value, evidence in _find_traces(item):
            shown = f"{package.layout.shorten(item.path)} {evidence}"
            claim = ConfigurationClaim(value=value, source=ClaimSource.BYTES, evidence=shown)
            found.setdefault(value, claim)
    yield from found.values()
    read = any(item.kind in (Kind.SHARED, Kind.EXECUTABLE) for item in package.objects)
    if read and not (found or package.unread or package.malformed):
        yield ConfigurationClaim(
            value="cpu",
            source=ClaimSource.BYTES,
            evidence="no object holds device code or needs a library of an accelerator",
            by_absence=True,
        )


def _find_traces(item: ObjectFile) -> Iterator[tuple[str, str]]:
    for code in getattr(item, "device_code", ()):
        if code.kind is DeviceKind.AMDGPU:
            yield "rocm", f"holds device code for {code.architecture or 'AMD'}"
        elif code.kind is not DeviceKind.UNKNOWN:
            yield "cuda", f"holds device code for {code.architecture or 'NVIDIA'}"
    for need in item.needed:
        name = need.name.rpartition("/")[2]
        if value := _accelerator_of_library(name):
            yield value, f"needs {name}"


def _accelerator_of_library(name: str) -> str:
    if is_cuda_library(name) or is_driver_library(name):
        major = cuda_of_library(name)
        return f"cuda {major}" if major else "cuda"
    if match := _AMD.fullmatch(name):
        return f"rocm {match['version']}" if match["version"] and _HIP in name else "rocm"
    return "xpu" if _INTEL.fullmatch(name) else ""

"""Reads files that are nothing but device code: ``.fatbin`` of CUDA, bundles of ROCm."""

from __future__ import annotations

from binary_checks.model import DeviceFile, Kind
from binary_checks.model.protocols import ByteSource, Observations, Plan
from binary_checks.objects.device import fatbin, hip_bundles
from binary_checks.objects.device.scanner import DeviceScanner
from binary_checks.objects.device.sections import read_device_code
from binary_checks.objects.device.walk import NEAR

_ARCHITECTURES = {
    fatbin.MAGIC + b"\1\0": "cuda",  # with its version: four bytes alone may be anything
    hip_bundles.MAGIC: "amdgpu",
    hip_bundles.COMPRESSED_MAGIC: "amdgpu",
}


def plan(_head: bytes, size: int) -> Plan:
    """Keep the start: where the other heads lie is known once they have been seen."""
    return Plan(ranges=((0, min(size, NEAR)),), scanners=(DeviceScanner([(0, size)], size),))


def read(path: str, source: ByteSource, _observations: Observations) -> tuple[DeviceFile, ...]:
    """The one object of such a file."""
    head = source.read(0, min(NEAR, source.size))
    name = next((n for magic, n in _ARCHITECTURES.items() if head.startswith(magic)), "")
    facts = read_device_code(source, [(0, source.size)])
    return (DeviceFile(path=path, kind=Kind.DEVICE, architecture=name, size=source.size, **facts),)

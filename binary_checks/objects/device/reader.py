"""Reads files that are nothing but device code: ``.fatbin`` of CUDA, bundles of ROCm."""

from __future__ import annotations

from binary_checks.model import DeviceFile, Kind
from binary_checks.model.protocols import ByteSource, Scout
from binary_checks.objects.device import fatbin, hip_bundles
from binary_checks.objects.device.sections import read_device_code
from binary_checks.objects.device.walk import NEAR

_ARCHITECTURES = {
    fatbin.MAGIC + b"\1\0": "cuda",  # with its version: four bytes alone may be anything
    hip_bundles.MAGIC: "amdgpu",
    hip_bundles.COMPRESSED_MAGIC: "amdgpu",
}


def recognises(head: bytes) -> bool:
    """Whether the file begins with a container."""
    return head.startswith(tuple(_ARCHITECTURES))


def retained(head: bytes, size: int) -> tuple[tuple[int, int], ...]:
    """The start: where the heads lie is known once they have been seen."""
    del head
    return ((0, min(size, NEAR)),)


def searched(head: bytes, size: int) -> tuple[tuple[int, int], ...]:
    """The ranges in which device code may lie: all of it."""
    del head
    return ((0, size),)


def watchers(head: bytes, size: int, device: Scout | None) -> tuple[Scout, ...]:
    """Nobody else watches such a file."""
    del head, size, device
    return ()


def read(path: str, source: ByteSource) -> tuple[DeviceFile, ...]:
    """The one object of such a file."""
    head = source.read(0, min(NEAR, source.size))
    name = next((n for magic, n in _ARCHITECTURES.items() if head.startswith(magic)), "")
    facts = read_device_code(source, [(0, source.size)])
    return (DeviceFile(path=path, kind=Kind.DEVICE, architecture=name, size=source.size, **facts),)

"""Short functions to read device code in tests."""

from __future__ import annotations

from collections import Counter

from binary_checks.model import DeviceFault, DeviceFile, ElfFile, PeFile, StaticArchive
from binary_checks.objects import read_objects
from tests.objects.byte_sources import Bytes

WithDeviceCode = ElfFile | PeFile | StaticArchive | DeviceFile


def read_device(content: bytes) -> WithDeviceCode:
    """Return the one object in the bytes, which must be of a type with device code."""
    (found,) = read_objects("demo/lib.so", Bytes(content))
    assert isinstance(found, WithDeviceCode), found
    return found


def entries(found: WithDeviceCode) -> dict[str, int]:
    """Return the number of entries by kind and architecture."""
    counts: Counter[str] = Counter()
    for code in found.device_code:
        counts[f"{code.kind.value} {code.architecture}".strip()] += code.count
    return dict(counts)


def groups(found: WithDeviceCode) -> list[tuple[str, int, int]]:
    """Return targets, number of containers and index of the first container of each group."""
    return [
        (
            ", ".join(f"{t.kind.value} {t.architecture}".strip() for t in group.targets),
            group.count,
            group.first,
        )
        for group in found.device_containers
    ]


def faults(content: bytes) -> tuple[DeviceFault, ...]:
    """Return the faults of the device code in the bytes."""
    return read_device(content).device_faults

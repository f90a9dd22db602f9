"""Reads device code in tests, in words that fit on a line."""

from __future__ import annotations

from collections import Counter

from binary_checks.model import DeviceFault, DeviceFile, ElfFile, PeFile, StaticArchive
from binary_checks.objects import read_objects
from tests.objects.byte_sources import Bytes

WithDeviceCode = ElfFile | PeFile | StaticArchive | DeviceFile


def read_device(content: bytes) -> WithDeviceCode:
    """The one object in the bytes, which has to be one that may hold device code."""
    (found,) = read_objects("demo/lib.so", Bytes(content))
    assert isinstance(found, WithDeviceCode), found
    return found


def entries(found: WithDeviceCode) -> dict[str, int]:
    """How many entries there are, by kind and architecture."""
    counts: Counter[str] = Counter()
    for code in found.device_code:
        counts[f"{code.kind.value} {code.architecture}".strip()] += code.count
    return dict(counts)


def groups(found: WithDeviceCode) -> list[tuple[str, int, int]]:
    """Targets, number of containers and the index of the first."""
    return [
        (
            ", ".join(f"{t.kind.value} {t.architecture}".strip() for t in group.targets),
            group.count,
            group.first,
        )
        for group in found.device_containers
    ]


def faults(content: bytes) -> tuple[DeviceFault, ...]:
    """What is wrong with the device code in the bytes."""
    return read_device(content).device_faults

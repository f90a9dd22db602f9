"""Whether all of a package's device code decompresses, and what a few pieces say of their toolkit.

Both come of one look at everything: to open a package again and decompress it is what costs.
"""

from __future__ import annotations

from dataclasses import dataclass

from binary_checks.model.device_details import UnreadDeviceCode
from binary_checks.model.device_toolkits import ToolkitSample


@dataclass(frozen=True, kw_only=True, slots=True)
class UnpackedObject:
    """The device code of one object."""

    path: str
    sample: ToolkitSample
    unread: tuple[UnreadDeviceCode, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class UnpackedDeviceCode:
    """The code for NVIDIA's GPUs of every object that has some."""

    objects: tuple[UnpackedObject, ...] = ()  # in the order of the package's objects

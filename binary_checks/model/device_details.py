"""What lies inside a package's device code once it is decompressed: all of it, or a sample."""

from __future__ import annotations

from dataclasses import dataclass

from binary_checks.model.device import DeviceTarget


@dataclass(frozen=True, kw_only=True, slots=True)
class CubinGroup:
    """The cubins of one object for one target that one toolkit made."""

    target: DeviceTarget  # with the suffix that the cubin's own note states
    toolkit: str = ""  # "13.2", that assembled or linked it; "" where it states none
    count: int = 1
    first: int = 0  # bytes from the start of the file: the entry of the first of them
    member: str = ""  # of a static archive, which has the first


@dataclass(frozen=True, kw_only=True, slots=True)
class PtxGroup:
    """The PTX of one object for one target in one version of the language."""

    target: DeviceTarget
    version: str  # "8.8", of its directive; the oldest driver that compiles it follows from that
    count: int = 1
    first: int = 0
    member: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadDeviceCode:
    """Device code that could not be decompressed, or not be read then."""

    offset: int  # bytes from the start of the file, of the first such entry
    count: int  # of entries
    reason: str
    broken: bool = False  # its own fault: cut, bombed, or no such code
    too_large: bool = False  # there is more than is read
    lacking: str = ""  # the extra of binary_checks that would decompress it: "device"


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectDetails:
    """The inside of one object's device code."""

    path: str
    entries: int = 0  # cubins and texts of PTX that it has, as its containers list them
    inspected: int = 0  # how many of these were decompressed, or could not be
    cubins: tuple[CubinGroup, ...] = ()  # sorted
    ptx: tuple[PtxGroup, ...] = ()
    unread: tuple[UnreadDeviceCode, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceDetails:
    """The inside of all device code of a package."""

    objects: tuple[ObjectDetails, ...] = ()  # in the order of the package's objects


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledDeviceCode:
    """The inside of a sample of each object's device code; of all of it in a thorough run."""

    objects: tuple[ObjectDetails, ...] = ()  # in the order of the package's objects

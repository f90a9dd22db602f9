"""What lies inside a package's device code once it is decompressed; read only for those who ask."""

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
class DeviceKernel:
    """One kernel in the machine code of one object for one architecture."""

    name: str  # mangled
    architecture: str  # "sm_90a"
    size: int = 0  # bytes of machine code
    registers: int | None = None  # a thread; None where the cubin does not state it
    stack: int | None = None  # bytes a thread of its own frame, spilled registers among them
    spill_stores: int | None = None  # bytes a thread, by the instructions marked as spilling
    spill_loads: int | None = None  # and loaded again; None where none are marked by its toolkit
    shared: int = 0  # bytes a block that the kernel itself declares, known when it is compiled
    count: int = 1  # of such kernels: each source file that uses a template may have its own


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
    cubins: tuple[CubinGroup, ...] = ()  # sorted
    ptx: tuple[PtxGroup, ...] = ()
    kernels: tuple[DeviceKernel, ...] = ()  # sorted by name and architecture
    unread: tuple[UnreadDeviceCode, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceDetails:
    """The inside of all device code of a package."""

    objects: tuple[ObjectDetails, ...] = ()  # in the order of the package's objects

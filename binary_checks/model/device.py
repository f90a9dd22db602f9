"""Device code of a package: architectures, containers, and what lies inside them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class DeviceKind(str, Enum):
    """What a piece of device code is."""

    SASS = "sass"  # machine code of one NVIDIA architecture, a cubin
    PTX = "ptx"  # text that the driver compiles for architectures from its own on
    LTO = "lto"  # for the device linker alone: no driver runs it
    AMDGPU = "amdgpu"  # machine code of one AMD architecture
    UNKNOWN = "unknown"  # newer than this version


class DeviceLinking(str, Enum):
    """Whether a driver takes code as it lies there, or relocatable code has to be linked first."""

    WHOLE = "whole"  # was compiled as a whole: the driver takes it
    LINKED = "linked"  # was linked of relocatable code: the driver takes it
    RELINKABLE = "relinkable"  # relocatable code that the driver links where nothing linked fits
    UNUSABLE = "unusable"  # relocatable code that no driver can use
    UNLINKED = "unlinked"  # relocatable code of an archive or object file: awaits the device linker


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class DeviceTarget:
    """For what a container has code.

    The architecture is ``sm_90`` for PTX too; its suffix ``a`` or ``f`` is there where it is proven
    and ``?`` stands for it where the file does not tell (``sm_100?``). AMD's is ``gfx90a`` with its
    features behind colons; "" is not known, as of what is compressed as a whole.
    """

    kind: DeviceKind
    architecture: str = ""


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class DeviceCode:
    """All code of one object for one target, of one kind of linking."""

    kind: DeviceKind
    architecture: str  # as a DeviceTarget has it
    count: int  # entries of that target
    bytes: int  # that they take in the file, with their heads, compressed or not
    compressed: int  # how many of the entries are
    linking: DeviceLinking = DeviceLinking.WHOLE


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceContainers:
    """The containers of one object that have code for the same targets.

    A compiler makes a container for each source file, so that one of them may lack what all others
    have.
    """

    targets: tuple[DeviceTarget, ...] = ()  # sorted, each once
    count: int = 0  # of such containers; 0 where what follows the offset was not read
    first: int = 0  # the index of the first among all containers of the object, in file order
    offset: int = 0  # of the first, bytes from the start of the file
    member: str = ""  # of a static archive, which has the first
    reason: str = ""  # why the targets are not known, or not all
    too_large: bool = False  # that is so because there is more of something than is read
    linking: DeviceLinking = DeviceLinking.WHOLE  # of relocatable code: whether any target is used
    relinkable: tuple[DeviceTarget, ...] = ()  # of linked ones: what its relocatable code serves

    @property
    def usable(self) -> tuple[DeviceTarget, ...]:
        """The targets for which a driver, or a device linker, takes something of it."""
        if self.linking in (DeviceLinking.RELINKABLE, DeviceLinking.UNUSABLE):
            return ()  # what it is good for stands at the linked one
        return tuple(sorted({*self.targets, *self.relinkable}))


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceFault:
    """A place at which device code contradicts itself: what follows may be missing above."""

    offset: int  # bytes from the start of the file
    reason: str


# What lies inside a package's device code once it is decompressed: all of it, or a sample.


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
    """The inside of a sample of each object's device code; of all of it in a thorough run."""

    objects: tuple[ObjectDetails, ...] = ()  # in the order of the package's objects


# Which toolkits made the device code of a package, by a look at a few pieces of each object.


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolkitSample:
    """A few of the cubins and texts of PTX of one object, spread over all of it."""

    path: str
    toolkits: tuple[tuple[str, int], ...] = ()
    """By toolkit ("13.2"; "" where a cubin states none) how many cubins, the most first."""
    ptx: tuple[tuple[str, int], ...] = ()  # the same by version of PTX, "9.2"
    seen: int = 0  # how many of both were looked at
    total: int = 0  # how many of both there are
    unread: str = ""  # why some of those chosen could not be read


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceToolkits:
    """One sample for each object with code for NVIDIA's GPUs."""

    samples: tuple[ToolkitSample, ...] = ()  # in the order of the package's objects

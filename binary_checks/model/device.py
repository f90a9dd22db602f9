"""Device code of a package: architectures, containers, and their contents."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class DeviceKind(str, Enum):
    """The kind of a piece of device code."""

    SASS = "sass"  # machine code of one NVIDIA architecture, a cubin
    PTX = "ptx"  # text that the driver compiles for its own and later architectures
    LTO = "lto"  # only for the device linker: no driver runs it
    AMDGPU = "amdgpu"  # machine code of one AMD architecture
    UNKNOWN = "unknown"  # not known to this version of binary_checks


class DeviceLinking(str, Enum):
    """Whether a driver loads code as it is, or relocatable code must be linked first."""

    WHOLE = "whole"  # compiled as a whole: the driver loads it
    LINKED = "linked"  # linked from relocatable code: the driver loads it
    RELINKABLE = "relinkable"  # relocatable code that the driver links if no linked code fits
    UNUSABLE = "unusable"  # relocatable code that no driver can use
    # relocatable code in an archive or object file: to be linked by the device linker
    UNLINKED = "unlinked"


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class DeviceTarget:
    """What a container has code for.

    The architecture is ``sm_90`` for PTX, too. Its suffix ``a`` or ``f`` is given if proven, and
    ``?`` if the file does not tell (``sm_100?``). AMD's are ``gfx90a`` with features after colons.
    The architecture is "" if unknown, as in containers that are compressed as a whole.
    """

    kind: DeviceKind
    architecture: str = ""


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class DeviceCode:
    """All code of one object for one target and one kind of linking."""

    kind: DeviceKind
    architecture: str  # as in `DeviceTarget`
    count: int  # entries of that target
    bytes: int  # size in the file, including headers, compressed or not
    compressed: int  # number of compressed entries
    linking: DeviceLinking = DeviceLinking.WHOLE


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceContainers:
    """The containers of one object that have code for the same targets.

    A compiler makes one container for each source file, so that a single container may lack a
    target that all others have.
    """

    targets: tuple[DeviceTarget, ...] = ()  # sorted, each once
    count: int = 0  # number of such containers; 0 if what follows the offset was not read
    first: int = 0  # the index of the first among all containers of the object, in file order
    offset: int = 0  # of the first, bytes from the start of the file
    member: str = ""  # the member of a static archive that contains the first
    reason: str = ""  # why the targets are unknown or incomplete
    too_large: bool = False  # unknown because a limit was exceeded
    linking: DeviceLinking = DeviceLinking.WHOLE  # for relocatable code, whether any target is used
    # for linked containers, the targets that their relocatable code serves
    relinkable: tuple[DeviceTarget, ...] = ()

    @property
    def usable(self) -> tuple[DeviceTarget, ...]:
        """The targets for which a driver, or a device linker, uses code of the container."""
        if self.linking in (DeviceLinking.RELINKABLE, DeviceLinking.UNUSABLE):
            return ()  # listed by the linked container
        return tuple(sorted({*self.targets, *self.relinkable}))


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceFault:
    """A place where device code contradicts itself; code after it may not be listed."""

    offset: int  # bytes from the start of the file
    reason: str


# What a package's device code contains once decompressed: all of it, or a sample.


@dataclass(frozen=True, kw_only=True, slots=True)
class CubinGroup:
    """The cubins of one object for one target, made by one toolkit."""

    target: DeviceTarget  # with the suffix that the cubin's own note states
    toolkit: str = ""  # "13.2", which assembled or linked it; "" if not stated
    count: int = 1
    first: int = 0  # bytes from the start of the file to the entry of the first of them
    member: str = ""  # the member of a static archive that contains the first


@dataclass(frozen=True, kw_only=True, slots=True)
class PtxGroup:
    """The PTX of one object for one target in one version of the language."""

    target: DeviceTarget
    # "8.8", from its .version directive; determines the oldest driver that compiles it
    version: str
    count: int = 1
    first: int = 0
    member: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadDeviceCode:
    """Device code that could not be decompressed, or not be parsed afterwards."""

    offset: int  # bytes from the start of the file to the first such entry
    count: int  # of entries
    reason: str
    # the fault of the code: truncated, a decompression bomb, or not device code
    broken: bool = False
    too_large: bool = False  # a limit was exceeded
    lacking: str = ""  # the extra of binary_checks that is needed to decompress it: "device"


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectDetails:
    """The decompressed device code of one object."""

    path: str
    entries: int = 0  # number of cubins and PTX texts listed by its containers
    inspected: int = 0  # number of entries that were decompressed, or could not be
    cubins: tuple[CubinGroup, ...] = ()  # sorted
    ptx: tuple[PtxGroup, ...] = ()
    unread: tuple[UnreadDeviceCode, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceDetails:
    """Samples of the decompressed device code of each object, or all of it in a thorough run."""

    objects: tuple[ObjectDetails, ...] = ()  # in the order of the package's objects


# The toolkits that made the device code of a package, from a few pieces of each object.


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolkitSample:
    """A few of the cubins and PTX texts of one object, spread over all of it."""

    path: str
    toolkits: tuple[tuple[str, int], ...] = ()
    """(toolkit, number of cubins), the most frequent first; the toolkit is "13.2", or "" if not
    stated."""
    ptx: tuple[tuple[str, int], ...] = ()  # (PTX version, number of texts), as "9.2"
    seen: int = 0  # number of cubins and texts examined
    total: int = 0  # number of cubins and texts in the object
    unread: str = ""  # why some of the chosen could not be read


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceToolkits:
    """One sample for each object with code for NVIDIA GPUs."""

    samples: tuple[ToolkitSample, ...] = ()  # in the order of the package's objects

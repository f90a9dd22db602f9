"""Device code of a package: architectures, containers, and their contents."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class DeviceKind(str, Enum):
    """The kind of a piece of device code."""

    SASS = "sass"  # machine code of one NVIDIA architecture, a cubin
    PTX = "ptx"  # text that the driver compiles for the PTX's own architecture and later ones
    LTO = "lto"  # input for the device linker: no driver runs it
    AMDGPU = "amdgpu"  # machine code of one AMD architecture
    UNKNOWN = "unknown"  # unknown to this version of binary_checks


class DeviceLinking(str, Enum):
    """Whether a driver loads device code directly, or relocatable code must be linked first."""

    WHOLE = "whole"  # compiled without relocatable code: the driver loads it
    LINKED = "linked"  # linked from relocatable code: the driver loads it
    RELINKABLE = "relinkable"  # relocatable code that the driver links if no linked code fits
    UNUSABLE = "unusable"  # relocatable code that no driver can use
    # relocatable code in an archive or object file: to be linked by the device linker
    UNLINKED = "unlinked"


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class DeviceTarget:
    """A target for which a container has code.

    The architecture is ``sm_90`` for PTX, too. A suffix ``a`` or ``f`` is given if the file proves
    it; ``?`` means that the file does not show the suffix (``sm_100?``). AMD's architectures are
    ``gfx90a`` with features after colons. The architecture is "" if unknown, as in a container that
    is compressed as a whole.
    """

    kind: DeviceKind
    architecture: str = ""


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class DeviceCode:
    """All code of one object for one target and one kind of linking."""

    kind: DeviceKind
    architecture: str  # as in `DeviceTarget`
    count: int  # number of entries for the target
    bytes: int  # size in the file, including headers, compressed or not
    compressed: int  # number of compressed entries
    linking: DeviceLinking = DeviceLinking.WHOLE


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceContainers:
    """The containers of one object that have code for the same targets.

    A compiler makes one container for each source file; a single container may therefore lack a
    target that all other containers have.
    """

    targets: tuple[DeviceTarget, ...] = ()  # sorted, each once
    count: int = 0  # number of such containers; 0 if bytes from the offset on were not read
    first: int = 0  # the index of the first one among all containers of the object, in file order
    offset: int = 0  # offset of the first container, bytes from the start of the file
    member: str = ""  # the member of a static archive that contains the first container
    reason: str = ""  # why the targets are unknown or incomplete
    too_large: bool = False  # the targets are unknown because a limit was exceeded
    # for relocatable code, how a driver or linker uses it
    linking: DeviceLinking = DeviceLinking.WHOLE
    # for linked containers, the targets of their relocatable code
    relinkable: tuple[DeviceTarget, ...] = ()

    @property
    def usable(self) -> tuple[DeviceTarget, ...]:
        """The targets for which a driver, or a device linker, uses code of the container."""
        if self.linking in (DeviceLinking.RELINKABLE, DeviceLinking.UNUSABLE):
            return ()  # the linked container lists them
        return tuple(sorted({*self.targets, *self.relinkable}))


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceFault:
    """An offset at which device code contradicts itself; code after it may not be listed."""

    offset: int  # bytes from the start of the file
    reason: str


# A package's decompressed device code: all of it, or a sample.


@dataclass(frozen=True, kw_only=True, slots=True)
class CubinGroup:
    """The cubins of one object for one target, made by one toolkit."""

    target: DeviceTarget  # with the suffix stated in the cubin's note
    # version of the toolkit that assembled or linked the cubins, "13.2"; "" if not stated
    toolkit: str = ""
    count: int = 1
    first: int = 0  # bytes from the start of the file to the entry of the first cubin
    member: str = ""  # the member of a static archive that contains the first cubin


@dataclass(frozen=True, kw_only=True, slots=True)
class PtxGroup:
    """The PTX of one object for one target in one version of the language."""

    target: DeviceTarget
    # from the PTX's .version directive, "8.8"; determines the oldest driver that compiles the PTX
    version: str
    count: int = 1
    first: int = 0
    member: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadDeviceCode:
    """Device code that could not be decompressed, or not be parsed after decompressing."""

    offset: int  # bytes from the start of the file to the first such entry
    count: int  # number of entries
    reason: str
    # whether the code itself is faulty: truncated, a decompression bomb, or not device code
    broken: bool = False
    too_large: bool = False  # whether a limit was exceeded
    lacking: str = ""  # the extra of binary_checks that is needed for decompressing: "device"


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectDetails:
    """The decompressed device code of one object."""

    path: str
    entries: int = 0  # number of cubins and PTX texts listed by its containers
    inspected: int = 0  # number of entries that were decompressed, or failed to be
    cubins: tuple[CubinGroup, ...] = ()  # sorted
    ptx: tuple[PtxGroup, ...] = ()
    unread: tuple[UnreadDeviceCode, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceDetails:
    """Samples of the decompressed device code of each object, or all of it in a thorough run."""

    objects: tuple[ObjectDetails, ...] = ()  # in the order of the package's objects


# The toolkits that made a package's device code, from a sample of each object's code.


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolkitSample:
    """A few cubins and PTX texts of one object, chosen across the whole object."""

    path: str
    toolkits: tuple[tuple[str, int], ...] = ()
    """(toolkit, number of cubins), the most frequent first; the toolkit is "13.2", or "" if not
    stated."""
    ptx: tuple[tuple[str, int], ...] = ()  # (PTX version, number of texts); a version is "9.2"
    seen: int = 0  # number of cubins and texts examined
    total: int = 0  # number of cubins and texts in the object
    unread: str = ""  # why some of the chosen cubins and texts could not be read


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceToolkits:
    """One sample for each object with code for NVIDIA GPUs."""

    samples: tuple[ToolkitSample, ...] = ()  # in the order of the package's objects

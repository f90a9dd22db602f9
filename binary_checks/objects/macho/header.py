"""Read a Mach-O file's headers: fat and thin headers, load commands, segments, dylibs.

Names and numbers are from <mach-o/loader.h> and <mach-o/fat.h>. All offsets in a slice are bytes
from the start of the slice, not of the fat file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from operator import attrgetter
from struct import Struct
from typing import Any, Final, NamedTuple
from uuid import UUID

from binary_checks.errors import MalformedError
from binary_checks.model import Dependency, NeededVersion, make_dependency
from binary_checks.objects.byte_source import LimitedSource

# The Mach-O header, and the fat header, which states where the slices lie. Architectures have the
# same names as in other formats.

MH_OBJECT: Final = 1
MH_EXECUTE: Final = 2
MH_DYLIB: Final = 6
MH_BUNDLE: Final = 8
MH_DSYM: Final = 10

MH_TWOLEVEL: Final = 0x80  # in flags: each import names its library

# MH_MAGIC (0xFEEDFACE) and MH_MAGIC_64 (0xFEEDFACF), as big-endian and little-endian files begin
THIN: Final = {
    b"\xfe\xed\xfa\xce": (32, ">"),
    b"\xfe\xed\xfa\xcf": (64, ">"),
    b"\xce\xfa\xed\xfe": (32, "<"),
    b"\xcf\xfa\xed\xfe": (64, "<"),
}
# fat_arch (cputype, cpusubtype, offset, size, align) and fat_arch_64, with 64-bit offset and size;
# always big-endian
FAT: Final = {b"\xca\xfe\xba\xbe": Struct(">5I"), b"\xca\xfe\xba\xbf": Struct(">2I2QI4x")}
_HEADER_SIZE = {32: 28, 64: 32}  # bytes of mach_header and mach_header_64
_HIGHEST_ALIGNMENT = 15  # as a power of two (MAXSECTALIGN of Apple's tools)
_ARCHIVE = b"!<arch>\n"  # static library, see ar(5)

CPU_64_BITS = 0x01000000
_SUBTYPE = 0x00FFFFFF
"""Mask of cpusubtype without its capability bits, such as the version of arm64e's pointer
authentication: the complement of CPU_SUBTYPE_MASK.
"""

# CPU_TYPE_* of <mach/machine.h>; bit 24 is CPU_ARCH_ABI64, bit 25 CPU_ARCH_ABI64_32
_NAMES = {
    0x00000007: "i686",
    0x01000007: "x86_64",
    0x0000000C: "armv7l",
    0x0100000C: "aarch64",
    0x0200000C: "arm64_32",
    0x00000012: "ppc",
    0x01000012: "ppc64",
}
# (type, subtype): CPU_SUBTYPE_X86_64_H is 8, CPU_SUBTYPE_ARM64E is 2
_SPECIAL = {
    (0x01000007, 8): "x86_64h",  # for Haswell and newer; older machines do not load it
    (0x0100000C, 2): "arm64e",  # Python cannot load it, because its processes are not arm64e
}


compile_layout = cache(Struct)
"""A cached `Struct`, since all slices use the same few layouts."""


class MachHeader(NamedTuple):
    """The fields of the Mach-O header."""

    bits: int
    byte_order: str  # "<" or ">", as in the struct module
    cpu_type: int
    cpu_subtype: int
    type: int
    command_count: int
    commands_size: int  # bytes
    flags: int

    @property
    def commands_offset(self) -> int:
        """The beginning of the load commands, in bytes from the start of the slice."""
        return _HEADER_SIZE[self.bits]

    def struct(self, layout: str) -> Struct:
        """Return a compiled structure in the file's byte order."""
        return compile_layout(self.byte_order + layout)


class Slice(LimitedSource):
    """One slice of a fat file, or a complete thin file, as a source of bytes."""

    def __init__(
        self, source: LimitedSource, start: int, size: int, architecture: str = ""
    ) -> None:
        super().__init__(source, source.factor)
        self.start = start
        self.size = size
        self.architecture = architecture  # stated in the fat header; "" in a thin file

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes from ``offset`` of the slice. Raises MalformedError."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise MalformedError(
                f"{length} bytes are requested, but the slice has only {self.size}", offset
            )
        return self._source.read(self.start + offset, length)


def read_slices(source: LimitedSource) -> tuple[Slice, ...]:
    """Return the slices of a fat file, or the only slice of a thin file. Raises MalformedError.

    A slice may also be a static library (`is_archive`).
    """
    if source.size < 8:
        raise MalformedError("the file ends within the magic number", source.size)
    layout = FAT.get(source.read(0, 4))
    if layout is None:
        return (Slice(source, 0, source.size),)
    slices = tuple(_read_fat(source, layout))
    _require_no_overlap(slices)
    return slices


def is_archive(source: Slice) -> bool:
    """Return whether a slice is a static library."""
    return source.read(0, min(8, source.size)) == _ARCHIVE


def _read_fat(source: LimitedSource, layout: Struct) -> Iterator[Slice]:
    """Yield the slices of a fat file. Raises MalformedError.

    The fat header is always big-endian; offsets and sizes in it are bytes from the start of the
    file.
    """
    count = int.from_bytes(source.read(4, 4), "big")
    if 8 + count * layout.size > source.size:
        raise MalformedError("the file ends within the fat header", source.size)
    names = set()
    rows = layout.iter_unpack(source.read(8, count * layout.size))
    for number, (cpu_type, cpu_subtype, start, size, alignment) in enumerate(rows):
        name = architecture_of(cpu_type, cpu_subtype)
        if start + size > source.size or start < 8 + count * layout.size:
            place = f"from byte {start:#x} to {start + size:#x}"
            raise MalformedError(
                f"the slice for {name} lies {place}, but the file has only {source.size:#x} bytes",
                8 + number * layout.size,
            )
        if alignment > _HIGHEST_ALIGNMENT:
            reason = f"the slice for {name} is aligned to 2**{alignment} bytes"
            raise MalformedError(reason, 8 + number * layout.size)
        if name in names:
            raise MalformedError(f"two slices for {name}", 8 + number * layout.size)
        names.add(name)
        yield Slice(source, start, size, name)


def _require_no_overlap(slices: tuple[Slice, ...]) -> None:
    """Raise MalformedError for slices that share bytes."""
    end = 0
    for item in sorted(slices, key=lambda item: item.start):
        if item.start < end:
            raise MalformedError(f"the slice for {item.architecture} overlaps another", item.start)
        end = item.start + item.size


def read_header(source: Slice) -> MachHeader:
    """Read the header, and verify that the load commands lie inside the slice.

    Raises MalformedError.
    """
    start = source.read(0, min(32, source.size))
    if start[:4] not in THIN:
        raise MalformedError(
            f"a slice begins with {start[:4].hex(' ')}, which is not a Mach-O header"
        )
    bits, byte_order = THIN[start[:4]]
    if len(start) < _HEADER_SIZE[bits]:
        raise MalformedError("the file ends within the Mach-O header", len(start))
    header = MachHeader(bits, byte_order, *compile_layout(byte_order + "6I").unpack_from(start, 4))
    end = header.commands_offset + header.commands_size
    if end > source.size:
        raise MalformedError(
            f"the load commands end at byte {end:#x}, but the file has only {source.size:#x} bytes",
            source.size,
        )
    found = architecture_of(header.cpu_type, header.cpu_subtype)
    if source.architecture and found != source.architecture:
        raise MalformedError(
            f"the fat header says {source.architecture}, but the slice says {found}", 4
        )
    return header


def architecture_of(cpu_type: int, cpu_subtype: int) -> str:
    """Return the name of an architecture; ``cpu 0x…`` if it is unknown."""
    special = _SPECIAL.get((cpu_type, cpu_subtype & _SUBTYPE))
    return special or _NAMES.get(cpu_type, f"cpu {cpu_type:#x}")


# The load commands, which describe the complete file to a loader.

LC_SEGMENT: Final = 0x1
LC_SYMTAB: Final = 0x2
LC_DYSYMTAB: Final = 0xB
LC_LOAD_DYLIB: Final = 0xC
LC_ID_DYLIB: Final = 0xD
LC_LOAD_DYLINKER: Final = 0xE
LC_ROUTINES: Final = 0x11
LC_SEGMENT_64: Final = 0x19
LC_ROUTINES_64: Final = 0x1A
LC_UUID: Final = 0x1B
LC_CODE_SIGNATURE: Final = 0x1D
LC_SEGMENT_SPLIT_INFO: Final = 0x1E
LC_LAZY_LOAD_DYLIB: Final = 0x20
LC_ENCRYPTION_INFO: Final = 0x21
LC_VERSION_MIN_MACOSX: Final = 0x24
LC_VERSION_MIN_IPHONEOS: Final = 0x25
LC_FUNCTION_STARTS: Final = 0x26
LC_DATA_IN_CODE: Final = 0x29
LC_DYLIB_CODE_SIGN_DRS: Final = 0x2B
LC_ENCRYPTION_INFO_64: Final = 0x2C
LC_LINKER_OPTIMIZATION_HINT: Final = 0x2E
LC_VERSION_MIN_TVOS: Final = 0x2F
LC_VERSION_MIN_WATCHOS: Final = 0x30
LC_BUILD_VERSION: Final = 0x32
LC_ATOM_INFO: Final = 0x36
LC_FUNCTION_VARIANTS: Final = 0x37
LC_FUNCTION_VARIANT_FIXUPS: Final = 0x38

LC_REQ_DYLD: Final = 0x80000000
LC_LOAD_WEAK_DYLIB: Final = 0x18 | LC_REQ_DYLD
LC_RPATH: Final = 0x1C | LC_REQ_DYLD
LC_REEXPORT_DYLIB: Final = 0x1F | LC_REQ_DYLD
LC_DYLD_INFO: Final = 0x22
LC_DYLD_INFO_ONLY: Final = 0x22 | LC_REQ_DYLD
LC_LOAD_UPWARD_DYLIB: Final = 0x23 | LC_REQ_DYLD
LC_DYLD_EXPORTS_TRIE: Final = 0x33 | LC_REQ_DYLD
LC_DYLD_CHAINED_FIXUPS: Final = 0x34 | LC_REQ_DYLD

# In this order: LC_LOAD_WEAK_DYLIB, LC_RPATH, LC_REEXPORT_DYLIB, LC_DYLD_INFO_ONLY,
# LC_LOAD_UPWARD_DYLIB, LC_MAIN, LC_DYLD_EXPORTS_TRIE, LC_DYLD_CHAINED_FIXUPS, LC_FILESET_ENTRY
REQUIRED: Final = frozenset(
    LC_REQ_DYLD | number for number in (0x18, 0x1C, 0x1F, 0x22, 0x23, 0x28, 0x33, 0x34, 0x35)
)
"""Commands with the flag LC_REQ_DYLD that dyld knows; it refuses a file with any other such
command.
"""
VERSIONS: Final = (
    LC_VERSION_MIN_MACOSX,
    LC_VERSION_MIN_IPHONEOS,
    LC_VERSION_MIN_TVOS,
    LC_VERSION_MIN_WATCHOS,
)

_MOST_BYTES = 16 << 20
"""Limit on the bytes of all load commands; the largest libraries have some ten KiB."""


class Command(NamedTuple):
    """One load command."""

    type: int
    offset: int  # bytes from the start of the slice
    contents: bytes  # including its first 8 bytes, cmd and cmdsize
    byte_order: str

    def unpack(self, layout: str) -> tuple[Any, ...]:
        """Unpack the fields after cmd and cmdsize. Raises MalformedError if there are too few."""
        struct = compile_layout(self.byte_order + layout)
        if len(self.contents) < 8 + struct.size:
            raise MalformedError(
                f"load command {self.type:#x} has only {len(self.contents)} bytes", self.offset
            )
        return struct.unpack_from(self.contents, 8)

    def text(self, start: int) -> str:
        """Return the string at an offset from the start of the command. Raises MalformedError."""
        end = self.contents.find(b"\0", start)
        if start < 8 or end < 0:
            raise MalformedError(
                f"the name of load command {self.type:#x} lies outside of it", self.offset
            )
        return decode(self.contents[start:end])


class Commands:
    """The load commands of one slice, by type."""

    __slots__ = ("_by_type",)

    def __init__(self, commands: Iterable[Command]) -> None:
        self._by_type: dict[int, list[Command]] = {}
        for command in commands:
            self._by_type.setdefault(command.type, []).append(command)

    def find(self, *types: int) -> tuple[Command, ...]:
        """Return the commands of any of these types, in file order."""
        if len(types) == 1:
            return tuple(self._by_type.get(types[0], ()))
        found = [command for each in types for command in self._by_type.get(each, ())]
        return tuple(sorted(found, key=attrgetter("offset")))

    def find_all(self) -> tuple[Command, ...]:
        """Return all commands, in file order."""
        return self.find(*self._by_type)

    def first(self, *types: int) -> Command | None:
        """Return the first command of any of these types, or None."""
        return next(iter(self.find(*types)), None)


def decode(name: bytes) -> str:
    """Decode a name. Its encoding is not defined: bytes that are not UTF-8 are escaped."""
    return name.decode("utf-8", "backslashreplace")


def read_commands(source: Slice, header: MachHeader) -> Commands:
    """Read all load commands; an unknown type is not a fault.

    Raises MalformedError, or TooLarge if the commands exceed the limit.
    """
    size = header.commands_size
    if header.command_count * 8 > size:
        claim = f"{header.command_count} load commands in {size:#x} bytes"
        raise MalformedError(f"the file claims {claim}", 16)
    source.require_at_most(size, _MOST_BYTES, "bytes of load commands")
    return Commands(_split(source.read(header.commands_offset, size), header))


def _split(table: bytes, header: MachHeader) -> Iterator[Command]:
    """Yield the load commands of a table. Their cmdsize includes the first 8 bytes."""
    head = header.struct("II")
    place = 0
    for number in range(header.command_count):
        at = header.commands_offset + place
        if place + head.size > len(table):
            raise MalformedError(
                f"load command {number} lies past the end of all load commands", at
            )
        kind, size = head.unpack_from(table, place)
        if size < head.size or place + size > len(table):
            raise MalformedError(f"load command {number} claims {size:#x} bytes", at)
        yield Command(kind, at, table[place : place + size], header.byte_order)
        place += size


# The segments of a Mach-O file and their sections (segment_command_64, section_64).

_LAYOUTS = {LC_SEGMENT: ("16s8I", "32s2I7I"), LC_SEGMENT_64: ("16s4Q4I", "32s2Q8I")}
_HEAD = 8  # bytes of cmd and cmdsize
_ZERO_FILLED = frozenset({0x1, 0xC, 0x12})  # S_ZEROFILL, S_GB_ZEROFILL, S_THREAD_LOCAL_ZEROFILL


class MachSection(NamedTuple):
    """One section."""

    name: str
    segment: str  # name of the segment to which the section claims to belong
    address: int
    size: int
    offset: int  # bytes from the start of the slice
    flags: int
    relocations: int  # number or offset of relocations; 0 without relocations

    @property
    def is_filled(self) -> bool:
        """Whether the file contains bytes for the section."""
        return self.flags & 0xFF not in _ZERO_FILLED  # SECTION_TYPE, a mask of flags


class Segment(NamedTuple):
    """One segment."""

    name: str
    address: int
    memory: int  # bytes in memory
    offset: int  # bytes from the start of the slice
    size: int  # bytes in the file
    protection: int  # initprot: 1 to read, 2 to write, 4 to execute
    sections: tuple[MachSection, ...]
    wide: bool  # from LC_SEGMENT_64
    command: Command


def read_segments(header: MachHeader, commands: Commands) -> tuple[Segment, ...]:
    """Return all segments, in order.

    Raises MalformedError if the sections do not fill their command exactly.
    """
    return tuple(
        _read_segment(header, command) for command in commands.find(LC_SEGMENT, LC_SEGMENT_64)
    )


def _read_segment(header: MachHeader, command: Command) -> Segment:
    layout, _ = _LAYOUTS[command.type]
    name, address, memory, offset, size, _, protection, count, _ = command.unpack(layout)
    sections = tuple(_read_sections(header, command, count))
    wide = command.type == LC_SEGMENT_64
    spelled = _decode_padded(name)
    return Segment(spelled, address, memory, offset, size, protection, sections, wide, command)


def _read_sections(header: MachHeader, command: Command, count: int) -> Iterator[MachSection]:
    """Yield the sections after a segment command's own fields."""
    segment, section = (header.struct(layout) for layout in _LAYOUTS[command.type])
    start = _HEAD + segment.size
    if start + count * section.size != len(command.contents):
        room = f"{len(command.contents):#x} bytes"
        reason = f"a segment of {count} sections has a load command of {room}"
        raise MalformedError(reason, command.offset)
    for fields in section.iter_unpack(command.contents[start:]):
        names, address, size, offset, _, relocations, count, flags = fields[:8]
        yield MachSection(
            _decode_padded(names[:16]),
            _decode_padded(names[16:]),
            address,
            size,
            offset,
            flags,
            relocations | count,
        )


def _decode_padded(name: bytes) -> str:
    """Decode a name in a field of 16 bytes, which ends with NUL only if the name is shorter."""
    return name.partition(b"\0")[0].decode("ascii", "backslashreplace")


# Needed dylibs, the file's own install name, and the systems that the file is for.

DYLIBS: Final = (
    LC_LOAD_DYLIB,
    LC_LOAD_WEAK_DYLIB,
    LC_REEXPORT_DYLIB,
    LC_LOAD_UPWARD_DYLIB,
    LC_LAZY_LOAD_DYLIB,
)
"""The commands that two-level ordinals count."""

# dylib_use_command: this number in place of a timestamp marks a command with flags
_USE_MARKER = 0x1A741800
_USE_SIZE = 28  # bytes of dylib_use_command, where its name begins
# Smallest offsets of a dylib's name and of a path in their commands, in bytes.
_NAME, _PATH = 24, 12
_OF_MACOS = ("/usr/lib/", "/System/")
_WEAK, _REEXPORT, _UPWARD = 1, 2, 4  # DYLIB_USE_WEAK_LINK, DYLIB_USE_REEXPORT, DYLIB_USE_UPWARD

# PLATFORM_*
_PLATFORMS = {
    1: "macos",
    2: "ios",
    3: "tvos",
    4: "watchos",
    5: "bridgeos",
    6: "maccatalyst",
    7: "iossimulator",
    8: "tvossimulator",
    9: "watchossimulator",
    10: "driverkit",
    11: "visionos",
    12: "visionossimulator",
}
_VERSION_MIN = {
    LC_VERSION_MIN_MACOSX: "macos",
    LC_VERSION_MIN_IPHONEOS: "ios",
    LC_VERSION_MIN_TVOS: "tvos",
    LC_VERSION_MIN_WATCHOS: "watchos",
}


def read_needed(commands: Commands) -> tuple[Dependency, ...]:
    """Return all needed dylibs, in the order of two-level ordinals. Raises MalformedError."""
    return tuple(_read_dylib(command) for command in commands.find(*DYLIBS))


def _read_dylib(command: Command) -> Dependency:
    """Return the dependency in a load command; a name's offset is relative to the command."""
    name, marker, _, _ = command.unpack("4I")
    flags = 0
    if marker == _USE_MARKER and name == _USE_SIZE:
        # The fourth flag, DYLIB_USE_DELAYED_INIT, delays only initialisers: the dylib itself is
        # loaded at once.
        (*_, flags) = command.unpack("5I")
    _require_behind(name, _NAME, command)
    return make_dependency(
        name=command.text(name),
        weak=command.type == LC_LOAD_WEAK_DYLIB or bool(flags & _WEAK),
        delayed=command.type == LC_LAZY_LOAD_DYLIB,
        reexported=command.type == LC_REEXPORT_DYLIB or bool(flags & _REEXPORT),
        upward=command.type == LC_LOAD_UPWARD_DYLIB or bool(flags & _UPWARD),
    )


def read_required_versions(commands: Commands) -> tuple[NeededVersion, ...]:
    """Return the compatibility versions that needed dylibs must have. Raises MalformedError.

    Libraries of macOS are left out. So are two versions that any dylib satisfies: 0, and the
    largest one, which dyld-852 calls a wildcard (ImageLoader.cpp).
    """
    found = []
    for command in commands.find(*DYLIBS):
        name, _, _, version = command.unpack("4I")
        library = command.text(name)
        if version not in (0, 0xFFFFFFFF) and not library.startswith(_OF_MACOS):
            found.append(NeededVersion(library=library, version=format_version(version)))
    return tuple(found)


def _read_rpath(command: Command) -> str:
    (path,) = command.unpack("I")
    _require_behind(path, _PATH, command)
    return command.text(path)


def _require_behind(name: int, first: int, command: Command) -> None:
    """Raise MalformedError for a name that begins within the command's fields."""
    if name < first:
        reason = f"the name of load command {command.type:#x} begins within its fields"
        raise MalformedError(reason, command.offset)


class Identity(NamedTuple):
    """The fields of LC_ID_DYLIB; "" without that command."""

    name: str = ""
    current_version: str = ""
    compatibility_version: str = ""


def read_identity(commands: Commands) -> Identity:
    """Return install name and versions of a dylib. Raises MalformedError."""
    own = commands.first(LC_ID_DYLIB)
    if own is None:
        return Identity()
    name, _, current, compatibility = own.unpack("4I")
    _require_behind(name, _NAME, own)
    return Identity(own.text(name), format_version(current), format_version(compatibility))


def read_rpaths(commands: Commands) -> tuple[str, ...]:
    """Return the search path (LC_RPATH). Raises MalformedError."""
    return tuple(_read_rpath(command) for command in commands.find(LC_RPATH))


def read_uuid(commands: Commands) -> str:
    """Return the UUID as dwarfdump prints it; "" if there is none. Raises MalformedError."""
    command = commands.first(LC_UUID)
    return str(UUID(bytes=command.unpack("16s")[0])).upper() if command else ""


class Systems(NamedTuple):
    """The platforms, oldest system and SDK that a file was built for."""

    platforms: tuple[str, ...]
    minimum_os: str
    sdk: str


def read_systems(commands: Commands) -> Systems:
    """Return platforms, and the oldest system and SDK for macOS, else for the first platform.

    A zippered dylib is for macOS and for Mac Catalyst, and has a command for each platform. Raises
    MalformedError if a platform has two commands.
    """
    found: dict[str, tuple[str, str]] = {}
    for command in commands.find(LC_BUILD_VERSION, *_VERSION_MIN):
        if command.type == LC_BUILD_VERSION:
            # build_version_command: platform, minos, sdk
            number, minimum, sdk = command.unpack("3I")
            platform = _PLATFORMS.get(number, f"platform {number}")
        else:
            platform = _VERSION_MIN[command.type]
            minimum, sdk = command.unpack("2I")  # version_min_command: version, sdk
        if platform in found:
            raise MalformedError(f"two minimum versions of {platform}", command.offset)
        found[platform] = (format_version(minimum), format_version(sdk) if sdk else "")
    versions = found.get("macos", next(iter(found.values()), ("", "")))
    return Systems(tuple(found), *versions)


def format_version(packed: int) -> str:
    """Return a version packed as xxxx.yy.zz as text, without a third number 0: "11.0"."""
    major, minor, patch = packed >> 16, packed >> 8 & 0xFF, packed & 0xFF
    return f"{major}.{minor}" + (f".{patch}" if patch else "")

"""Read the headers of a Mach-O file: fat and thin headers, load commands, segments and dylibs.

Names and numbers are from <mach-o/loader.h> and <mach-o/fat.h>. All offsets in a slice are bytes
from the start of the slice, not of the fat file.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any, Final, NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.model import Dependency, NeededVersion
from binary_checks.objects.byte_source import FilePart, LimitedSource

MH_OBJECT: Final = 1
MH_EXECUTE: Final = 2
MH_DYLIB: Final = 6
MH_BUNDLE: Final = 8
MH_DSYM: Final = 10
MH_TWOLEVEL: Final = 0x80  # in flags: each import names its library

ZERO_FILLED: Final = frozenset({0x1, 0xC, 0x12})
"""Types of sections: S_ZEROFILL, S_GB_ZEROFILL, S_THREAD_LOCAL_ZEROFILL."""

LC_SEGMENT: Final = 0x1
LC_SYMTAB: Final = 0x2
LC_DYSYMTAB: Final = 0xB
LC_LOAD_DYLIB: Final = 0xC
LC_ID_DYLIB: Final = 0xD
LC_SEGMENT_64: Final = 0x19
LC_UUID: Final = 0x1B
LC_CODE_SIGNATURE: Final = 0x1D
LC_LAZY_LOAD_DYLIB: Final = 0x20
LC_BUILD_VERSION: Final = 0x32
LC_REQ_DYLD: Final = 0x80000000
LC_LOAD_WEAK_DYLIB: Final = 0x18 | LC_REQ_DYLD
LC_RPATH: Final = 0x1C | LC_REQ_DYLD
LC_REEXPORT_DYLIB: Final = 0x1F | LC_REQ_DYLD
LC_DYLD_INFO: Final = 0x22
LC_DYLD_INFO_ONLY: Final = 0x22 | LC_REQ_DYLD
LC_LOAD_UPWARD_DYLIB: Final = 0x23 | LC_REQ_DYLD
LC_DYLD_EXPORTS_TRIE: Final = 0x33 | LC_REQ_DYLD
LC_DYLD_CHAINED_FIXUPS: Final = 0x34 | LC_REQ_DYLD
DYLIBS: Final = (
    LC_LOAD_DYLIB,
    LC_LOAD_WEAK_DYLIB,
    LC_REEXPORT_DYLIB,
    LC_LOAD_UPWARD_DYLIB,
    LC_LAZY_LOAD_DYLIB,
)
"""The commands that two-level ordinals count."""
_LINKEDIT_DATA = (
    *(LC_CODE_SIGNATURE, LC_DYLD_EXPORTS_TRIE, LC_DYLD_CHAINED_FIXUPS),
    # LC_SEGMENT_SPLIT_INFO, LC_FUNCTION_STARTS, LC_DATA_IN_CODE, LC_DYLIB_CODE_SIGN_DRS,
    # LC_LINKER_OPTIMIZATION_HINT, LC_ATOM_INFO, LC_FUNCTION_VARIANTS, LC_FUNCTION_VARIANT_FIXUPS
    *(0x1E, 0x26, 0x29, 0x2B, 0x2E, 0x36, 0x37, 0x38),
)
"""Commands that consist of a linkedit_data_command: offset and size of a table."""

# MH_MAGIC (0xFEEDFACE) and MH_MAGIC_64 (0xFEEDFACF), as big-endian and little-endian files begin
THIN: Final = {
    b"\xfe\xed\xfa\xce": (32, ">"),
    b"\xfe\xed\xfa\xcf": (64, ">"),
    b"\xce\xfa\xed\xfe": (32, "<"),
    b"\xcf\xfa\xed\xfe": (64, "<"),
}
_HEADER_SIZES = {32: 28, 64: 32}  # bytes of mach_header and mach_header_64, by the bits of a word
# fat_arch (cputype, cpusubtype, offset, size, align) and fat_arch_64, with 64-bit offset and size;
# always big-endian
FAT: Final = {b"\xca\xfe\xba\xbe": Struct(">5I"), b"\xca\xfe\xba\xbf": Struct(">2I2QI4x")}
_HIGHEST_ALIGNMENT = 15  # as a power of two (MAXSECTALIGN of Apple's tools)
_MOST_BYTES = 16 << 20  # bytes of all load commands; the largest libraries have some ten KiB

# CPU_TYPE_* of <mach/machine.h>; bit 24 is CPU_ARCH_ABI64, bit 25 CPU_ARCH_ABI64_32
_ARCHITECTURES = {
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
_SUBTYPE = 0x00FFFFFF  # the complement of CPU_SUBTYPE_MASK, the mask of capability bits


def read_slices(source: LimitedSource) -> Iterator[FilePart]:
    """Yield the slices of a fat file, or the only slice of a thin file. Raises MalformedError."""
    if source.size < 8:
        raise MalformedError("the file ends within the magic number", source.size)
    layout = FAT.get(source.read(0, 4))
    if layout is None:
        yield FilePart(source, 0, source.size)
        return
    size = int.from_bytes(source.read(4, 4), "big") * layout.size
    if 8 + size > source.size:
        raise MalformedError("the file ends within the fat header", source.size)
    names, reach = set[str](), 8 + size
    rows = sorted(layout.iter_unpack(source.read(8, size)), key=lambda row: int(row[2]))
    for cpu_type, cpu_subtype, start, length, alignment in rows:
        name = architecture_of(cpu_type, cpu_subtype)
        if start + length > source.size or start < reach:
            place = f"from byte {start:#x} to {start + length:#x}"
            reason = f"the slice for {name} lies {place}, outside of the file or in another slice"
            raise MalformedError(reason, start)
        if alignment > _HIGHEST_ALIGNMENT:
            raise MalformedError(f"the slice for {name} is aligned to 2**{alignment} bytes", start)
        if name in names:
            raise MalformedError(f"two slices for {name}", start)
        names.add(name)
        reach = start + length
        yield FilePart(source, start, length, name)


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
    def size(self) -> int:
        """The size of mach_header or mach_header_64; the load commands follow."""
        return _HEADER_SIZES[self.bits]

    def struct(self, layout: str) -> Struct:
        """Return a structure in the file's byte order; "P" is a word of the file's class."""
        return Struct(self.byte_order + layout.replace("P", "Q" if self.bits == 64 else "I"))


def read_header(source: FilePart) -> MachHeader:
    """Read the header. Raises MalformedError unless the load commands lie inside the slice."""
    start = source.read(0, min(_HEADER_SIZES[64], source.size))
    if start[:4] not in THIN:
        shown = start[:4].hex(" ")
        raise MalformedError(f"a slice begins with {shown}, which is not a Mach-O header")
    bits, order = THIN[start[:4]]
    if len(start) < _HEADER_SIZES[bits]:
        raise MalformedError("the file ends within the Mach-O header", len(start))
    header = MachHeader(bits, order, *Struct(order + "6I").unpack_from(start, 4))
    source.require_end(header.size + header.commands_size, "the load commands end")
    found = architecture_of(header.cpu_type, header.cpu_subtype)
    if source.name and found != source.name:
        reason = f"the fat header says {source.name}, but the slice says {found}"
        raise MalformedError(reason, 4)
    return header


def architecture_of(cpu_type: int, cpu_subtype: int) -> str:
    """Return the name of an architecture, "cpu 0x…" if it is unknown."""
    special = _SPECIAL.get((cpu_type, cpu_subtype & _SUBTYPE))
    return special or _ARCHITECTURES.get(cpu_type, f"cpu {cpu_type:#x}")


class Command(NamedTuple):
    """One load command."""

    type: int
    offset: int  # bytes from the start of the slice
    contents: bytes  # including its first 8 bytes, cmd and cmdsize
    header: MachHeader

    def unpack(self, layout: str) -> tuple[Any, ...]:
        """Unpack the fields after cmd and cmdsize. Raises MalformedError if there are too few."""
        fields = self.header.struct(layout)
        if len(self.contents) < 8 + fields.size:
            reason = f"load command {self.type:#x} has only {len(self.contents)} bytes"
            raise MalformedError(reason, self.offset)
        return fields.unpack_from(self.contents, 8)

    def text(self, start: int, first: int) -> str:
        """Return the string at an offset, at the least ``first``. Raises MalformedError.

        Its encoding is not defined: bytes that are not UTF-8 are escaped.
        """
        end = self.contents.find(b"\0", start)
        if start < first or end < 0:
            reason = f"the name of load command {self.type:#x} lies outside of it"
            raise MalformedError(reason, self.offset)
        return decode(self.contents[start:end])


def decode(name: bytes) -> str:
    """Decode a name; bytes that are not UTF-8 are escaped."""
    return name.decode("utf-8", "backslashreplace")


class Commands(tuple[Command, ...]):
    """The load commands of one slice, in the order of the file."""

    __slots__ = ()

    def find(self, *types: int) -> list[Command]:
        """Return the commands of any of these types."""
        return [command for command in self if command.type in types]

    def first(self, *types: int) -> Command | None:
        """Return the first command of any of these types, or None."""
        return next(iter(self.find(*types)), None)


def read_commands(source: FilePart, header: MachHeader) -> Commands:
    """Read all load commands; an unknown type is not a fault. Raises MalformedError, TooLarge."""
    source.require_at_most(header.commands_size, _MOST_BYTES, "bytes of load commands")
    table = source.read(header.size, header.commands_size)
    head, at, found = header.struct("II"), 0, list[Command]()
    for number in range(header.command_count):
        if at + head.size > len(table):
            reason = f"load command {number} lies past the end of all load commands"
            raise MalformedError(reason, header.size + at)
        kind, size = head.unpack_from(table, at)  # the size includes these 8 bytes
        if size < head.size or at + size > len(table):
            reason = f"load command {number} claims {size:#x} bytes"
            raise MalformedError(reason, header.size + at)
        found.append(Command(kind, header.size + at, table[at : at + size], header))
        at += size
    return Commands(found)


class MachSection(NamedTuple):
    """One section."""

    name: str
    segment: str
    address: int
    size: int
    offset: int  # bytes from the start of the slice
    type: int  # the low byte of its flags


def read_sections(source: FilePart, commands: Commands) -> tuple[MachSection, ...]:
    """Read the sections of all segments, which must lie inside the slice. Raises MalformedError."""
    found: list[MachSection] = []
    for command in commands.find(LC_SEGMENT, LC_SEGMENT_64):
        word, rest = ("Q", "I4x") if command.type == LC_SEGMENT_64 else ("I", "I")
        name, _, memory, offset, size, *_, count, _ = command.unpack(f"16s4{word}4I")
        what = f"segment {_decode_padded(name)}"
        if size > memory:
            reason = f"{what} is larger in the file than in memory"
            raise MalformedError(reason, command.offset)
        source.require_end(offset + size if size else 0, f"{what} ends")
        layout = command.header.struct(f"16s16s2{word}6I{rest}")
        start = 8 + command.header.struct(f"16s4{word}4I").size
        if start + count * layout.size != len(command.contents):
            size = len(command.contents)
            reason = f"a segment of {count} sections has a load command of {size:#x} bytes"
            raise MalformedError(reason, command.offset)
        for row in layout.iter_unpack(command.contents[start:]):
            own, segment, address, length, place, _, _, _, flags = row[:9]
            names = _decode_padded(own), _decode_padded(segment)
            if length and flags & 0xFF not in ZERO_FILLED:
                source.require_end(place + length, f"section {names[1]},{names[0]} ends")
            found.append(MachSection(*names, address, length, place, flags & 0xFF))
    return tuple(found)


def _decode_padded(name: bytes) -> str:
    """Decode a name in a field of 16 bytes, which ends with NUL only if the name is shorter."""
    return name.partition(b"\0")[0].decode("ascii", "backslashreplace")


# dysymtab_command behind its six counts of symbols: offset and number of the entries of contents,
# modules (56 bytes in a 64-bit file), external references, indirect symbols, relocations.
_DYSYMTAB_SIZES = (8, 52, 4, 4, 8, 8)


def verify_tables(source: FilePart, header: MachHeader, commands: Commands) -> None:
    """Raise MalformedError if a table in __LINKEDIT is not entirely inside the slice."""
    wide = header.bits == 64
    tables = [each.unpack("II") for each in commands.find(*_LINKEDIT_DATA)]
    for command in commands.find(LC_DYLD_INFO, LC_DYLD_INFO_ONLY):
        fields = command.unpack("10I")
        tables += zip(fields[::2], fields[1::2], strict=True)
    for command in commands.find(LC_SYMTAB):
        symbols, count, strings, length = command.unpack("4I")
        tables += [(symbols, count * (16 if wide else 12)), (strings, length)]
    for command in commands.find(LC_DYSYMTAB):
        fields = command.unpack("18I")[6:]
        for number, size in enumerate(_DYSYMTAB_SIZES):
            entry = 56 if number == 1 and wide else size
            tables.append((fields[2 * number], fields[2 * number + 1] * entry))
    for start, length in tables:
        source.require_end(start + length if length else 0, "a table of __LINKEDIT ends")


# Needed dylibs, the file's own install name, and the systems that the file is for.

_DYLIB = 24  # bytes of dylib_command, where its name begins
# dylib_use_command: this number in place of a timestamp marks a command with flags
_USE_MARKER, _USE_SIZE = 0x1A741800, 28
_OF_MACOS = ("/usr/lib/", "/System/")
_WEAK, _REEXPORT, _UPWARD = 1, 2, 4  # DYLIB_USE_WEAK_LINK, DYLIB_USE_REEXPORT, DYLIB_USE_UPWARD
# PLATFORM_*, from 1
_PLATFORMS = (
    *("macos", "ios", "tvos", "watchos", "bridgeos", "maccatalyst", "iossimulator"),
    *("tvossimulator", "watchossimulator", "driverkit", "visionos", "visionossimulator"),
)
# LC_VERSION_MIN_MACOSX, LC_VERSION_MIN_IPHONEOS, LC_VERSION_MIN_TVOS, LC_VERSION_MIN_WATCHOS
_VERSION_MIN = {0x24: "macos", 0x25: "ios", 0x2F: "tvos", 0x30: "watchos"}


def read_needed(commands: Commands) -> tuple[tuple[Dependency, ...], tuple[NeededVersion, ...]]:
    """Return needed dylibs in the order of ordinals, and the versions that they must have.

    Versions of libraries of macOS are left out. So are two versions that any dylib satisfies: 0,
    and the largest one, which dyld-852 calls a wildcard (ImageLoader.cpp). Raises MalformedError.
    """
    needed, versions = list[Dependency](), list[NeededVersion]()
    for command in commands.find(*DYLIBS):
        at, marker, _, version = command.unpack("4I")
        name, flags = command.text(at, _DYLIB), 0
        if marker == _USE_MARKER and at == _USE_SIZE:
            # DYLIB_USE_DELAYED_INIT delays only initialisers: the dylib is loaded at once.
            (*_, flags) = command.unpack("5I")
        needed.append(
            Dependency(
                name=name,
                weak=command.type == LC_LOAD_WEAK_DYLIB or bool(flags & _WEAK),
                delayed=command.type == LC_LAZY_LOAD_DYLIB,
                reexported=command.type == LC_REEXPORT_DYLIB or bool(flags & _REEXPORT),
                upward=command.type == LC_LOAD_UPWARD_DYLIB or bool(flags & _UPWARD),
            )
        )
        if version not in (0, 0xFFFFFFFF) and not name.startswith(_OF_MACOS):
            versions.append(NeededVersion(library=name, version=format_version(version)))
    return tuple(needed), tuple(versions)


def read_identity(commands: Commands) -> tuple[str, str, str]:
    """Return install name, current and compatibility version; "" without LC_ID_DYLIB."""
    own = commands.first(LC_ID_DYLIB)
    if own is None:
        return "", "", ""
    name, _, current, compatibility = own.unpack("4I")
    return own.text(name, _DYLIB), format_version(current), format_version(compatibility)


def read_systems(commands: Commands) -> tuple[tuple[str, ...], str, str]:
    """Return platforms, and the oldest system and the SDK for macOS, else for the first platform.

    A zippered dylib is for macOS and for Mac Catalyst, and has a command for each platform. Raises
    MalformedError if a platform has two commands.
    """
    found: dict[str, tuple[str, str]] = {}
    for command in commands.find(LC_BUILD_VERSION, *_VERSION_MIN):
        if command.type == LC_BUILD_VERSION:  # platform, minos, sdk
            number, minimum, sdk = command.unpack("3I")
            known = 0 < number <= len(_PLATFORMS)
            platform = _PLATFORMS[number - 1] if known else f"platform {number}"
        else:  # version_min_command: version, sdk
            platform = _VERSION_MIN[command.type]
            minimum, sdk = command.unpack("2I")
        if platform in found:
            raise MalformedError(f"two minimum versions of {platform}", command.offset)
        found[platform] = format_version(minimum), format_version(sdk) if sdk else ""
    return (tuple(found), *found.get("macos", next(iter(found.values()), ("", ""))))


def format_version(packed: int) -> str:
    """Return a version packed as xxxx.yy.zz as text, without a third number 0: "11.0"."""
    major, minor, patch = packed >> 16, packed >> 8 & 0xFF, packed & 0xFF
    return f"{major}.{minor}" + (f".{patch}" if patch else "")

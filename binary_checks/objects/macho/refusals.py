"""Find why dyld refuses a Mach-O file, or crashes on it, before any of its code runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.model import SymbolTable
from binary_checks.objects.macho.export_trie import MachOExports
from binary_checks.objects.macho.header import (
    CPU_64_BITS,
    LC_ATOM_INFO,
    LC_BUILD_VERSION,
    LC_CODE_SIGNATURE,
    LC_DATA_IN_CODE,
    LC_DYLD_CHAINED_FIXUPS,
    LC_DYLD_EXPORTS_TRIE,
    LC_DYLD_INFO,
    LC_DYLD_INFO_ONLY,
    LC_DYLIB_CODE_SIGN_DRS,
    LC_DYSYMTAB,
    LC_ENCRYPTION_INFO,
    LC_ENCRYPTION_INFO_64,
    LC_FUNCTION_STARTS,
    LC_FUNCTION_VARIANT_FIXUPS,
    LC_FUNCTION_VARIANTS,
    LC_ID_DYLIB,
    LC_LINKER_OPTIMIZATION_HINT,
    LC_LOAD_DYLINKER,
    LC_REQ_DYLD,
    LC_ROUTINES,
    LC_ROUTINES_64,
    LC_SEGMENT,
    LC_SEGMENT_64,
    LC_SEGMENT_SPLIT_INFO,
    LC_SYMTAB,
    LC_UUID,
    MH_BUNDLE,
    MH_DYLIB,
    REQUIRED,
    VERSIONS,
    Commands,
    MachHeader,
    Segment,
)

# Why dyld does not map a Mach-O file: rules for header, load commands and segments.
#
# dyld's sources state them (``MachOFile``, ``MachOAnalyzer``: "load command ... unaligned",
# "segment ... overlaps", "not within __LINKEDIT"), and LLVM checks most of them.

# Bytes of the smallest page of macOS: 4 KiB on x86_64, 16 KiB on arm64. Segments for x86_64 may be
# aligned only to 4 KiB (_sodium.abi3.so of PyNaCl 1.4.0).
_PAGE = 0x1000
_PERMISSIONS = 7  # all permissions of a page: the next three
_READ, _WRITE, _RUN = 1, 2, 4  # VM_PROT_READ, VM_PROT_WRITE, VM_PROT_EXECUTE
# CPU_TYPE_POWERPC, CPU_TYPE_POWERPC64
_BIG_ENDIAN = frozenset({0x12, 0x01000012})
# CPU_TYPE_X86, CPU_TYPE_X86_64, CPU_TYPE_ARM, CPU_TYPE_ARM64, CPU_TYPE_ARM64_32
_LITTLE_ENDIAN = frozenset({0x7, 0x01000007, 0xC, 0x0100000C, 0x0200000C})
_LIBRARIES = frozenset({MH_DYLIB, MH_BUNDLE})
# LC_SYMSEG, LC_LOADFVMLIB, LC_IDFVMLIB, LC_IDENT, LC_FVMFILE, LC_PREPAGE, LC_ID_DYLINKER.
_OBSOLETE = frozenset({0x3, 0x6, 0x7, 0x8, 0x9, 0xA, 0xF})
# LC_THREAD, LC_UNIXTHREAD, LC_DYLD_ENVIRONMENT, LC_MAIN. LC_LOAD_DYLINKER is not among them: dyld
# ignores it in a library, and libraries on PyPI have it.
_OF_PROGRAMS = frozenset({0x4, 0x5, 0x27, 0x80000028})
_ENCRYPTED = frozenset({LC_ENCRYPTION_INFO, LC_ENCRYPTION_INFO_64})
_address_of, _size_of = attrgetter("address"), attrgetter("size")
_SIZES = dict.fromkeys(VERSIONS, 16) | {
    LC_SYMTAB: 24,
    LC_DYSYMTAB: 80,
    LC_UUID: 24,
    LC_DYLD_INFO: 48,
    LC_DYLD_INFO_ONLY: 48,
    **dict.fromkeys((LC_DYLD_CHAINED_FIXUPS, LC_DYLD_EXPORTS_TRIE, LC_CODE_SIGNATURE), 16),
    LC_ROUTINES: 40,
    LC_ROUTINES_64: 72,
}
"""Sizes in bytes of load commands that end with their fields, without a name or a list:
version_min_command, symtab_command, dysymtab_command, uuid_command, dyld_info_command,
linkedit_data_command, routines_command.
"""
_ONCE = {
    LC_SYMTAB: "LC_SYMTAB",
    LC_DYSYMTAB: "LC_DYSYMTAB",
    LC_ID_DYLIB: "LC_ID_DYLIB",
    LC_UUID: "LC_UUID",
    LC_CODE_SIGNATURE: "LC_CODE_SIGNATURE",
    LC_DYLD_INFO: "LC_DYLD_INFO",
    LC_DYLD_INFO_ONLY: "LC_DYLD_INFO_ONLY",
    LC_DYLD_CHAINED_FIXUPS: "LC_DYLD_CHAINED_FIXUPS",
    LC_DYLD_EXPORTS_TRIE: "LC_DYLD_EXPORTS_TRIE",
}

_LINKEDIT_DATA = (
    LC_CODE_SIGNATURE,
    LC_SEGMENT_SPLIT_INFO,
    LC_FUNCTION_STARTS,
    LC_DATA_IN_CODE,
    LC_DYLIB_CODE_SIGN_DRS,
    LC_LINKER_OPTIMIZATION_HINT,
    LC_ATOM_INFO,
    LC_FUNCTION_VARIANTS,
    LC_FUNCTION_VARIANT_FIXUPS,
    LC_DYLD_EXPORTS_TRIE,
    LC_DYLD_CHAINED_FIXUPS,
)
"""Commands that consist of a linkedit_data_command: offset and size of a table."""

_DYSYMTAB_SIZES = (8, 52, 4, 4, 8, 8)
"""Bytes per entry of the tables of LC_DYSYMTAB: contents, modules (56 in a 64-bit file), external
references, indirect symbols, external and local relocations.
"""

_Extent = tuple[str, int, int]  # name, start and length in bytes


def verify_extent(commands: Commands, bits: int, size: int) -> None:
    """Raise MalformedError for a segment or a table that is not entirely inside the slice."""
    for what, start, length in _list_extents(commands, bits):
        if length and start + length > size:
            raise MalformedError(
                f"{what} ends at byte {start + length:#x}, but the file has only {size:#x} bytes",
                size,
            )


def _list_extents(commands: Commands, bits: int) -> Iterator[_Extent]:
    """Yield name, start and length in bytes of segments and of tables in __LINKEDIT."""
    for command in commands.find(LC_SEGMENT, LC_SEGMENT_64):
        words = "4I" if command.type == LC_SEGMENT else "4Q"
        name, _, memory, start, length = command.unpack(f"16s{words}")
        what = f"segment {name.rstrip(bytes(1)).decode('ascii', 'backslashreplace')}"
        if length > memory:
            raise MalformedError(f"{what} is larger in the file than in memory", command.offset)
        yield what, start, length
    yield from _list_linkedit(commands, bits)


def _list_linkedit(commands: Commands, bits: int) -> Iterator[_Extent]:
    """Yield name, start and length of everything that linkers put into __LINKEDIT."""
    for command in commands.find(*_LINKEDIT_DATA):
        yield f"the table of load command {command.type:#x}", *command.unpack("II")
    for command in commands.find(LC_DYLD_INFO, LC_DYLD_INFO_ONLY):
        fields = command.unpack("10I")
        for number in range(0, 10, 2):
            yield "a table of LC_DYLD_INFO", fields[number], fields[number + 1]
    yield from _list_symbol_tables(commands, bits)


def _list_symbol_tables(commands: Commands, bits: int) -> Iterator[_Extent]:
    """Yield the tables of LC_SYMTAB (nlist: 12 or 16 bytes a symbol) and LC_DYSYMTAB."""
    for command in commands.find(LC_SYMTAB):
        symbols, count, strings, length = command.unpack("4I")
        yield "the symbol table", symbols, count * (16 if bits == 64 else 12)
        yield "the string table", strings, length
    for command in commands.find(LC_DYSYMTAB):
        # dysymtab_command behind its six counts of symbols: offset and number of entries of six
        # tables
        fields = command.unpack("18I")[6:]
        for number, entry in enumerate(_DYSYMTAB_SIZES):
            size = 56 if number == 1 and bits == 64 else entry
            yield "a table of LC_DYSYMTAB", fields[2 * number], fields[2 * number + 1] * size


def find_layout_faults(
    header: MachHeader, commands: Commands, segments: Sequence[Segment]
) -> Iterator[str]:
    """Yield faults that prevent mapping the file. Each sentence continues the file's path."""
    yield from _judge_header(header)
    yield from _judge_commands(header, commands)
    for segment in segments:
        yield from _judge_segment(header, segment)
    yield from _judge_order(segments)
    yield from _judge_text(header, segments)
    yield from _judge_linkedit(header, commands, segments)
    yield from _judge_symbol_counts(commands)


def _judge_header(header: MachHeader) -> Iterator[str]:
    """Yield a CPU type that contradicts the header's width or byte order."""
    if bool(header.cpu_type & CPU_64_BITS) != (header.bits == 64):
        yield f"is for CPU type {header.cpu_type:#x} and has a header of {header.bits} bits"
    wrong = _BIG_ENDIAN if header.byte_order == "<" else _LITTLE_ENDIAN
    if header.cpu_type in wrong:
        yield f"is for CPU type {header.cpu_type:#x} and has its numbers in the wrong byte order"


def _judge_commands(header: MachHeader, commands: Commands) -> Iterator[str]:
    """Yield load commands of a wrong size, or of a type that the file may not have."""
    end = header.commands_offset
    for command in commands.find_all():
        size = len(command.contents)
        end = command.offset + size
        # <mach-o/loader.h> on load_command: cmdsize is a multiple of 4 bytes in 32-bit files, of 8
        # in 64-bit files.
        if size % (header.bits // 8):
            step = header.bits // 8
            yield f"has load command {command.type:#x} of {size} bytes, not a multiple of {step}"
        if size != (wanted := _SIZES.get(command.type, size)):
            yield f"has load command {command.type:#x} of {size} bytes, not {wanted}"
        if command.type & LC_REQ_DYLD and command.type not in REQUIRED:
            yield f"has required load command {command.type:#x}, which dyld does not know"
        # dylinker_command has 12 bytes; its only field is the offset of the name after them
        if command.type == LC_LOAD_DYLINKER and not 12 <= command.unpack("I")[0] < size:
            yield "names a dynamic linker outside its load command"
        # encryption_info_command: cryptoff, cryptsize, and cryptid, which is 0 in a plain file
        if command.type in _ENCRYPTED and command.unpack("3I")[2]:
            yield "is encrypted (LC_ENCRYPTION_INFO)"
        if command.type in _OBSOLETE or (
            command.type in _OF_PROGRAMS and header.type in _LIBRARIES
        ):
            yield f"has load command {command.type:#x}, which a file of this type cannot have"
    if end != header.commands_offset + header.commands_size:
        counted = f"has {header.command_count} load commands, which end at byte {end:#x}"
        yield f"{counted}, not at {header.commands_offset + header.commands_size:#x} as it claims"
    for command in commands.find(LC_BUILD_VERSION):
        *_, tools = command.unpack("4I")
        # build_version_command has 24 bytes, each following build_tool_version has 8
        if 24 + 8 * tools != len(command.contents):
            yield f"has LC_BUILD_VERSION of {len(command.contents)} bytes for {tools} tools"
    yield from _judge_counts(header, commands)


def _judge_counts(header: MachHeader, commands: Commands) -> Iterator[str]:
    """Yield commands that occur twice, or in a file of the wrong type."""
    for kind, name in _ONCE.items():
        if (count := len(commands.find(kind))) > 1:
            yield f"has {count} load commands {name}, but may have only one"
    if (count := len(commands.find(*VERSIONS))) > 1:
        yield f"has {count} load commands LC_VERSION_MIN, but may have only one"
    if (header.type == MH_DYLIB) != bool(commands.find(LC_ID_DYLIB)):
        yield (
            "is a dylib without LC_ID_DYLIB"
            if header.type == MH_DYLIB
            else ("has LC_ID_DYLIB but is not a dylib")
        )


def _judge_segment(header: MachHeader, segment: Segment) -> Iterator[str]:
    """Yield faults of one segment, which must begin at a page in memory and in the file."""
    what = f"has segment {segment.name}"
    if segment.wide != (header.bits == 64):
        yield f"{what} of {64 if segment.wide else 32} bits in a file of {header.bits}"
    if segment.address + segment.memory > 1 << header.bits:
        end = f"which ends outside the {header.bits}-bit address space"
        yield f"{what} of {segment.memory:#x} bytes at {segment.address:#x}, {end}"
    if segment.address % _PAGE or (segment.offset % _PAGE and segment.size):
        place = f"at address {segment.address:#x}, byte {segment.offset:#x} of the file"
        yield f"{what} {place}, which is not the start of a page"
    if segment.protection & ~_PERMISSIONS:
        yield f"{what} with permissions {segment.protection:#x}, which no page can have"
    yield from _judge_sections(segment)


def _judge_sections(segment: Segment) -> Iterator[str]:
    """Yield sections outside of their segment, or whose offsets in memory and in file differ."""
    end = segment.address + segment.memory
    for section in segment.sections:
        stop = section.address + section.size
        if section.size and not segment.address <= section.address <= stop <= end:
            yield f"has section {section.name} at {section.address:#x}, not in {segment.name}"
        elif section.size and section.is_filled:
            wanted = segment.offset + section.address - segment.address
            if section.offset + section.size > segment.offset + segment.size:
                yield f"has section {section.name} beyond the bytes of {segment.name} in the file"
            elif section.offset != wanted:
                place = f"at byte {section.offset:#x} of the file, not at {wanted:#x}"
                yield f"has section {section.name} of {segment.name} {place}"
        if section.relocations:
            yield f"has relocations of section {section.name}, which only linkers follow"
        if section.segment != segment.name:
            yield f"has section {section.name} in {segment.name}, but it names {section.segment}"
    for one, other in pairwise(sorted(filter(_size_of, segment.sections), key=_address_of)):
        if one.address + one.size > other.address:
            yield f"has sections {one.name} and {other.name} that overlap in {segment.name}"


def _judge_order(segments: Sequence[Segment]) -> Iterator[str]:
    """Yield segments that share memory or bytes of the file."""
    in_memory = sorted((s for s in segments if s.memory), key=attrgetter("address"))
    for one, other in pairwise(in_memory):
        if one.address + one.memory > other.address:
            yield f"has segments {one.name} and {other.name} that overlap in memory"
    in_file = sorted((s for s in segments if s.size), key=attrgetter("offset"))
    end = in_file[-1].offset + in_file[-1].size if in_file else 0
    for item in segments:
        if not item.size and item.offset > end:
            yield f"has segment {item.name} at byte {item.offset:#x}, after all others"
    for one, other in pairwise(in_file):
        if one.offset + one.size > other.offset:
            yield f"has segments {one.name} and {other.name} that overlap in the file"


def _judge_text(header: MachHeader, segments: Sequence[Segment]) -> Iterator[str]:
    """Yield faults of __TEXT, which must map header and load commands, readable and executable."""
    text = next((segment for segment in segments if segment.name == "__TEXT"), None)
    if text is None:
        yield "has no segment __TEXT"
        return
    end = header.commands_offset + header.commands_size
    if text.offset or text.size < end:
        place = f"from byte {text.offset:#x} to {text.offset + text.size:#x}"
        yield f"has __TEXT {place} of the file, which leaves out its load commands"
    if text.protection & (_READ | _RUN) != _READ | _RUN:
        yield f"has __TEXT with permissions {text.protection:#x}: it cannot be read and executed"


def _judge_linkedit(
    header: MachHeader, commands: Commands, segments: Sequence[Segment]
) -> Iterator[str]:
    """Yield tables outside of __LINKEDIT, the only segment from which dyld reads them."""
    linkedit = next((segment for segment in segments if segment.name == "__LINKEDIT"), None)
    if linkedit is None:
        yield "has no segment __LINKEDIT"
        return
    end = linkedit.offset + linkedit.size
    tables = sorted((start, length, what) for what, start, length in _list_tables(header, commands))
    reach = linkedit.offset
    for start, length, what in tables:
        if not linkedit.offset <= start <= start + length <= end:
            yield f"has {what} at byte {start:#x}, outside of __LINKEDIT"
        elif start < reach:
            yield f"has {what} at byte {start:#x}, in the bytes of another table"
        reach = max(reach, start + length)
    if not linkedit.protection & _READ:
        yield f"has __LINKEDIT with permissions {linkedit.protection:#x}: it cannot be read"


def _list_tables(header: MachHeader, commands: Commands) -> Iterator[tuple[str, int, int]]:
    for what, start, length in _list_linkedit(commands, header.bits):
        if length or start > header.commands_offset:  # an empty table at offset 0 counts as absent
            yield what, start, length


def _judge_symbol_counts(commands: Commands) -> Iterator[str]:
    """Yield faults of LC_DYSYMTAB, which splits the symbols into local, defined and undefined."""
    table, division = commands.first(LC_SYMTAB), commands.first(LC_DYSYMTAB)
    if table is None or division is None:
        if table is not division:
            yield "has one of LC_SYMTAB and LC_DYSYMTAB without the other"
        return
    _, count, _, _ = table.unpack("4I")
    # ilocalsym, nlocalsym, iextdefsym, nextdefsym, iundefsym, nundefsym.
    fields = division.unpack("6I")
    for what, first, length in zip(
        ("local", "defined", "undefined"), fields[::2], fields[1::2], strict=True
    ):
        if length and first + length > count:
            last = first + length
            yield f"counts {what} symbols {first} to {last} in a symbol table of {count}"


# All rules together.


class Parsed(NamedTuple):
    """The parts of a slice that were already read."""

    commands: Commands
    segments: Sequence[Segment]
    exports: SymbolTable


def find_refusals(header: MachHeader, parsed: Parsed, *, intact: bool) -> tuple[str, ...]:
    """Return why dyld refuses to load a file, from the outermost header inwards.

    The export trie of a file that is ``intact`` (its signature's hashes match) is not walked,
    because its linker wrote the trie. Raises MalformedError.
    """
    if not intact and isinstance(parsed.exports, MachOExports):
        parsed.exports.verify()
    return tuple(find_layout_faults(header, parsed.commands, parsed.segments))

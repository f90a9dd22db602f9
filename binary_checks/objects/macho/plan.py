"""Which parts of a Mach-O file its reader asks for, as far as the first bytes tell."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.errors import MalformedError, Unavailable
from binary_checks.objects.head import Head
from binary_checks.objects.macho.commands import (
    LC_CODE_SIGNATURE,
    LC_DYLD_CHAINED_FIXUPS,
    LC_DYLD_EXPORTS_TRIE,
    LC_DYLD_INFO,
    LC_DYLD_INFO_ONLY,
    LC_DYSYMTAB,
    LC_SYMTAB,
    Commands,
    read_commands,
)
from binary_checks.objects.macho.header import FAT, MachHeader, Slice, read_header
from binary_checks.objects.macho.pages import PageScout, guess_page_size
from binary_checks.objects.macho.segments import read_segments
from binary_checks.objects.ranges import merge

_WRITE = 2
_Range = tuple[int, int]

_OPCODES = (LC_DYLD_INFO, LC_DYLD_INFO_ONLY)
_TABLES = (LC_DYLD_EXPORTS_TRIE, LC_DYLD_CHAINED_FIXUPS, LC_CODE_SIGNATURE)


def find_ranges(head: bytes, size: int) -> tuple[_Range, ...]:
    """What is read of a file: tables, and no code; all where the commands lie far."""
    try:
        header, commands = read_first_commands(head, size)
        ranges = list(_find_tables(header, commands))
    except (MalformedError, Unavailable):
        return ((0, size),)
    return merge((start, min(end, size)) for start, end in ranges)


def find_signed_pages(head: bytes, size: int) -> PageScout | None:
    """Whoever hashes the pages that the signature is about; None where there may be none."""
    try:
        _, commands = read_first_commands(head, size)
        signature = commands.first(LC_CODE_SIGNATURE)
        limit, length = signature.unpack("II") if signature else (0, 0)
    except (MalformedError, Unavailable):
        return None
    return PageScout(limit, guess_page_size(limit, length)) if 0 < limit <= size else None


def read_first_commands(head: bytes, size: int) -> tuple[MachHeader, Commands]:
    """The header and the load commands. Raises MalformedError where the first bytes lack them.

    As those of fat files do, whose slices begin far behind.
    """
    if head[:4] in FAT:
        raise MalformedError("not among the first bytes")
    source = Slice(Head(head, size), 0, size)
    header = read_header(source)
    return header, read_commands(source, header)


def _find_tables(header: MachHeader, commands: Commands) -> Iterator[_Range]:
    yield 0, header.commands_offset + header.commands_size
    for start, length in (command.unpack("II") for command in commands.find(*_TABLES)):
        yield start, start + length
    for command in commands.find(*_OPCODES):
        fields = command.unpack("10I")
        for start, length in zip(fields[::2], fields[1::2], strict=True):
            yield start, start + length
    if not commands.find(*_OPCODES, LC_DYLD_EXPORTS_TRIE, LC_DYLD_CHAINED_FIXUPS):
        for command in commands.find(LC_SYMTAB):  # which is of no use beside those
            symbols, count, names, length = command.unpack("4I")
            yield symbols, symbols + 16 * count
            yield names, names + length
    elif not commands.find(LC_CODE_SIGNATURE):  # nothing else proves the tables intact
        yield from _find_proofs(header, commands)


def _find_proofs(header: MachHeader, commands: Commands) -> Iterator[_Range]:
    """What binds are held against: undefined symbols, and the segments that fixups run through."""
    for table, division in zip(commands.find(LC_SYMTAB), commands.find(LC_DYSYMTAB), strict=False):
        symbols, _, names, length = table.unpack("4I")
        fields = division.unpack("14I")
        yield symbols + 12 * fields[4], symbols + 16 * (fields[4] + fields[5])
        yield fields[12], fields[12] + 4 * fields[13]
        yield names, names + length
    if commands.find(LC_DYLD_CHAINED_FIXUPS):
        for segment in read_segments(header, commands):
            if segment.protection & _WRITE or segment.name.startswith("__DATA"):
                yield segment.offset, segment.offset + segment.size

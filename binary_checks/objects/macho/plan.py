"""Plans which parts of a Mach-O file to keep and to scan, as far as the first bytes tell."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.errors import MalformedError, Unavailable
from binary_checks.model.protocols import Plan
from binary_checks.objects.limits import LimitedSource
from binary_checks.objects.macho.commands import (
    LC_CODE_SIGNATURE,
    LC_DYLD_CHAINED_FIXUPS,
    LC_DYLD_EXPORTS_TRIE,
    LC_DYLD_INFO,
    LC_DYLD_INFO_ONLY,
    LC_SYMTAB,
    Commands,
    read_commands,
)
from binary_checks.objects.macho.header import FAT, MachHeader, Slice, read_header
from binary_checks.objects.macho.pages import PageScanner, guess_page_size
from binary_checks.objects.macho.segments import read_segments
from binary_checks.objects.macho.strings import find_name_scanner
from binary_checks.objects.ranges import Head, merge

_Range = tuple[int, int]

_OPCODES = (LC_DYLD_INFO, LC_DYLD_INFO_ONLY)
_TABLES = (LC_DYLD_EXPORTS_TRIE, LC_DYLD_CHAINED_FIXUPS, LC_CODE_SIGNATURE)


def plan(head: bytes, size: int, factor: int) -> Plan:
    """Keep tables, and leave out code, data and strings, of which scanners tell.

    Everything is kept where the first bytes lack the load commands, as those of fat files do, whose
    slices begin far behind.
    """
    whole = Plan(ranges=((0, size),))
    if head[:4] in FAT:
        return whole
    source = Slice(LimitedSource(Head(head, size), factor), 0, size)
    try:
        header = read_header(source)
        commands = read_commands(source, header)
        segments = read_segments(header, commands)
        ranges = merge((start, min(end, size)) for start, end in _find_tables(header, commands))
        pages = tuple(_find_signed_pages(commands, size))
    except (MalformedError, Unavailable):
        return whole
    return Plan(ranges=ranges, scanners=(*pages, find_name_scanner(segments, factor)))


def _find_signed_pages(commands: Commands, size: int) -> Iterator[PageScanner]:
    """Hash the pages that the signature is about; none where there is no signature."""
    signature = commands.first(LC_CODE_SIGNATURE)
    limit, length = signature.unpack("II") if signature else (0, 0)
    if 0 < limit <= size:
        yield PageScanner(limit, guess_page_size(limit, length))


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

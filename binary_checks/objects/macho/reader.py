"""Reads Mach-O files, thin and fat: the load commands first, as dyld does.

Each slice of a fat file is an object. Everything a slice refers to must lie inside of it: a
truncated file is malformed, never empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from binary_checks.errors import MalformedError, TooLarge, Unavailable
from binary_checks.model import Format, Kind, MachOFile, UnreadObject
from binary_checks.model.protocols import ByteSource, Scout
from binary_checks.objects.macho.commands import (
    LC_CODE_SIGNATURE,
    LC_DYLD_CHAINED_FIXUPS,
    LC_DYLD_INFO,
    LC_DYLD_INFO_ONLY,
    Commands,
    read_commands,
)
from binary_checks.objects.macho.dylibs import DYLIBS, read_identity, read_needed, read_systems
from binary_checks.objects.macho.exports import MachOExports
from binary_checks.objects.macho.extent import verify_extent
from binary_checks.objects.macho.fixups import find_fixup_faults
from binary_checks.objects.macho.header import (
    FAT,
    MH_BUNDLE,
    MH_DSYM,
    MH_DYLIB,
    MH_EXECUTE,
    MH_OBJECT,
    MH_TWOLEVEL,
    THIN,
    MachHeader,
    Slice,
    read_header,
    read_slices,
)
from binary_checks.objects.macho.imports import MachOImports
from binary_checks.objects.macho.layout import find_layout_faults
from binary_checks.objects.macho.machines import architecture_of
from binary_checks.objects.macho.opcodes import find_opcode_faults
from binary_checks.objects.macho.plan import find_ranges, find_signed_pages
from binary_checks.objects.macho.segments import Segment, read_segments
from binary_checks.objects.macho.signature import find_signature_faults
from binary_checks.objects.macho.strings import find_name_scout, read_opened
from binary_checks.objects.macho.symbols import read_symbols
from binary_checks.objects.macho.undefined import find_lost

_OLDEST_JAVA = 45
"""Java class files begin as fat ones do; where those count slices, they have a version."""

_KINDS = {
    MH_OBJECT: Kind.RELOCATABLE,
    MH_EXECUTE: Kind.EXECUTABLE,
    MH_DYLIB: Kind.SHARED,
    MH_BUNDLE: Kind.SHARED,
    MH_DSYM: Kind.DEBUG,
}


def recognises(head: bytes) -> bool:
    """Whether the first bytes announce a Mach-O file."""
    if head[:4] in FAT:
        return 0 < int.from_bytes(head[4:8], "big") < _OLDEST_JAVA
    return head[:4] in THIN


def retained(head: bytes, size: int) -> tuple[tuple[int, int], ...]:
    """The ranges that ``read`` may ask for, as far as the first bytes tell.

    What is left out is code, data and strings: who watches them stream by tells of them.
    """
    return find_ranges(head, size)


def searched(head: bytes, size: int) -> tuple[tuple[int, int], ...]:
    """The ranges in which device code may lie: none."""
    del head, size
    return ()


def watchers(head: bytes, size: int, device: Scout | None) -> tuple[Scout, ...]:
    """Whoever hashes the signed pages, and searches the strings for names."""
    del device
    watching = (find_signed_pages(head, size), find_name_scout(head, size))
    return tuple(each for each in watching if each is not None)


def read(path: str, source: ByteSource) -> tuple[MachOFile | UnreadObject, ...]:
    """The objects of a Mach-O file, one a slice; what is too long is unread.

    Raises MalformedError.
    """
    return tuple(_read_slices(path, source))


def _read_slices(path: str, source: ByteSource) -> Iterator[MachOFile | UnreadObject]:
    for item in read_slices(source):
        place = f"slice for {item.architecture}: " if item.architecture else ""
        try:
            yield _read_slice(path, item)
        except Unavailable as error:
            reason, too_large = f"{place}{error}", isinstance(error, TooLarge)
            yield UnreadObject(path=path, format=Format.MACHO, reason=reason, too_large=too_large)
        except MalformedError as error:
            raise MalformedError(place + error.reason, item.start + error.offset) from None


def _read_slice(path: str, source: Slice) -> MachOFile:
    header = read_header(source)
    kind = _KINDS.get(header.type, Kind.OTHER)
    commands = read_commands(source, header)
    facts: dict[str, Any] = {
        "path": path,
        "kind": kind,
        "size": source.size,
        "architecture": architecture_of(header.cpu_type, header.cpu_subtype),
        **read_systems(commands),
    }
    if kind is Kind.DEBUG:  # its segments tell where things lie in the stripped file
        return MachOFile(**facts, **read_identity(commands))
    verify_extent(commands, header.bits, source.size)
    if kind in {Kind.RELOCATABLE, Kind.OTHER}:
        return MachOFile(**facts)
    return _read_loadable(source, header, commands, facts)


def _read_loadable(
    source: Slice, header: MachHeader, commands: Commands, facts: dict[str, Any]
) -> MachOFile:
    needed = read_needed(commands)
    segments = read_segments(header, commands)
    signature = commands.first(LC_CODE_SIGNATURE)
    faults = find_signature_faults(source, *signature.unpack("II")) if signature else ()
    imports, exports = read_symbols(facts["path"], source, header, commands, needed)
    refusals = [*find_layout_faults(header, commands, segments)]
    if faults or signature is None:  # of a file that is signed and intact, the linker wrote them
        if isinstance(exports, MachOExports):
            exports.verify()
        refusals += _find_table_faults(source, header, commands, segments)
        if isinstance(imports, MachOImports):
            refusals += find_lost(source, header, commands, imports.spelled)
    return MachOFile(
        needed=needed,
        imports=imports,
        exports=exports,
        opened=(
            read_opened(source, header, commands, needed) if imports.among(("dlopen",)) else None
        ),
        bundle=header.type == MH_BUNDLE,
        two_level_namespace=bool(header.flags & MH_TWOLEVEL),
        chained_fixups=commands.first(LC_DYLD_CHAINED_FIXUPS) is not None,
        signed=signature is not None,
        signature_faults=faults,
        refusals=tuple(refusals),
        **read_identity(commands),
        **facts,
    )


def _find_table_faults(
    source: Slice, header: MachHeader, commands: Commands, segments: Sequence[Segment]
) -> Iterator[str]:
    opcodes = commands.first(LC_DYLD_INFO, LC_DYLD_INFO_ONLY)
    if opcodes is not None:
        fields = opcodes.unpack("8I")
        pairs = zip(fields[::2], fields[1::2], strict=True)
        tables = [source.read(start, size) for start, size in pairs]
        yield from find_opcode_faults(tables, segments, header.bits, len(commands.find(*DYLIBS)))
    fixups = commands.first(LC_DYLD_CHAINED_FIXUPS)
    if fixups is not None:
        table = source.read(*fixups.unpack("II"))
        yield from find_fixup_faults(source, header, table, segments)

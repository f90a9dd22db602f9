"""Read Mach-O files, thin and fat, by their load commands, as dyld does.

Each slice of a fat file is an object. Everything that a slice refers to must lie inside the slice:
a truncated file is malformed, never empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from binary_checks.errors import MalformedError, TooLarge, Unavailable
from binary_checks.model import (
    NOTHING_SEEN,
    Dependency,
    Format,
    Kind,
    MachOFile,
    Observations,
    OpenedNames,
    Plan,
    StaticArchive,
    SymbolTable,
    UnreadObject,
)
from binary_checks.objects.byte_source import Head, LimitedSource, merge
from binary_checks.objects.macho.header import (
    FAT,
    LC_CODE_SIGNATURE,
    LC_DYLD_CHAINED_FIXUPS,
    LC_DYLD_EXPORTS_TRIE,
    LC_DYLD_INFO,
    LC_DYLD_INFO_ONLY,
    LC_ID_DYLIB,
    LC_SYMTAB,
    MH_BUNDLE,
    MH_DSYM,
    MH_DYLIB,
    MH_EXECUTE,
    MH_OBJECT,
    MH_TWOLEVEL,
    Commands,
    MachHeader,
    Segment,
    Slice,
    architecture_of,
    is_archive,
    read_commands,
    read_header,
    read_identity,
    read_needed,
    read_required_versions,
    read_rpaths,
    read_segments,
    read_slices,
    read_systems,
    read_uuid,
)
from binary_checks.objects.macho.refusals import Parsed, find_refusals, verify_extent
from binary_checks.objects.macho.signature import (
    PageScanner,
    find_signature_faults,
    guess_page_size,
)
from binary_checks.objects.macho.symbols import read_symbols
from binary_checks.objects.strings import MACHO_NAMES, NameScanner, find_opened, find_texts

# The location of the strings in a Mach-O file, and the names of libraries among them.

_OPENERS = ("dlopen",)
_S_CSTRING_LITERALS = 2


def find_name_scanner(segments: Iterable[Segment], factor: int) -> NameScanner:
    """Return a scanner that searches strings while the file is streamed."""
    found = tuple(segments)
    extents = (*_find_strings(found), *_find_constants(found))
    return NameScanner(extents, MACHO_NAMES, factor=factor)


def _find_strings(segments: Iterable[Segment]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each section of NUL-terminated strings."""
    for segment in segments:
        for section in segment.sections:
            if section.flags & 0xFF == _S_CSTRING_LITERALS:
                yield section.offset, section.offset + section.size


def _find_constants(segments: Iterable[Segment]) -> Iterator[tuple[int, int]]:
    """Yield start and end of the constants in __TEXT, which include arrays of characters."""
    for segment in segments:
        for section in segment.sections:
            if section.name == "__const" and segment.name == "__TEXT" and section.is_filled:
                yield section.offset, section.offset + section.size


def opens_libraries(imports: SymbolTable) -> bool:
    """Return whether an object imports the function that opens libraries by name."""
    return bool(imports.among(_OPENERS))


def read_texts(
    source: Slice, seen: NameScanner | None, segments: Iterable[Segment]
) -> tuple[str, ...]:
    """Return the texts that identify statically linked libraries."""
    found = tuple(segments)
    return find_texts(source, seen, (*_find_strings(found), *_find_constants(found)))


def read_opened(
    source: Slice,
    seen: NameScanner | None,
    segments: Iterable[Segment],
    commands: Commands,
    needed: Sequence[Dependency],
) -> OpenedNames:
    """Return library names in a slice's strings, except its own and those of needed libraries."""
    known = [need.name.rpartition("/")[2] for need in needed]
    identity = commands.first(LC_ID_DYLIB)
    if identity is not None:
        known.append(identity.text(*identity.unpack("I")).rpartition("/")[2])
    return find_opened(source, seen, MACHO_NAMES, known, _find_strings(segments))


# The parts of a Mach-O file to keep and to scan, as far as the first bytes show them.

_Range = tuple[int, int]

_OPCODES = (LC_DYLD_INFO, LC_DYLD_INFO_ONLY)
_TABLES = (LC_DYLD_EXPORTS_TRIE, LC_DYLD_CHAINED_FIXUPS, LC_CODE_SIGNATURE)


def plan(head: bytes, size: int, factor: int) -> Plan:
    """Plan to keep tables, but not code, data or strings, which only scanners see.

    Everything is kept if the first bytes do not contain all load commands. For fat files they never
    do, because slices begin later.
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
    """Yield a scanner for the pages that the signature covers; nothing without a signature."""
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
        for command in commands.find(LC_SYMTAB):  # its contents are also in the other tables
            symbols, count, names, length = command.unpack("4I")
            yield symbols, symbols + 16 * count  # bytes of nlist_64; nlist has 12
            yield names, names + length


# The objects of the model.

KINDS = {
    MH_OBJECT: Kind.RELOCATABLE,
    MH_EXECUTE: Kind.EXECUTABLE,
    MH_DYLIB: Kind.SHARED,
    MH_BUNDLE: Kind.SHARED,
    MH_DSYM: Kind.DEBUG,
}


def read(
    path: str, source: LimitedSource, observations: Observations
) -> tuple[MachOFile | StaticArchive | UnreadObject, ...]:
    """Return the objects of a Mach-O file, one for each slice.

    A slice that exceeds a limit is an UnreadObject. Raises MalformedError.
    """
    return tuple(_read_slices(path, source, observations))


def _read_slices(
    path: str, source: LimitedSource, observations: Observations
) -> Iterator[MachOFile | StaticArchive | UnreadObject]:
    for item in read_slices(source):
        place = f"slice for {item.architecture}: " if item.architecture else ""
        if is_archive(item):
            yield from _read_archive(path, item)
            continue
        try:
            # Scanners count from the first byte of the file, so their results fit only a thin file.
            yield _read_slice(path, item, NOTHING_SEEN if item.start else observations)
        except Unavailable as error:
            reason, too_large = f"{place}{error}", isinstance(error, TooLarge)
            yield UnreadObject(path=path, format=Format.MACHO, reason=reason, too_large=too_large)
        except MalformedError as error:
            raise MalformedError(place + error.reason, item.start + error.offset) from None


def _read_archive(path: str, source: Slice) -> Iterator[StaticArchive | UnreadObject]:
    """Read a slice that is a static library."""
    from binary_checks.objects import archives  # only few packages have any

    try:
        yield from archives.read(path, source, NOTHING_SEEN)
    except (MalformedError, Unavailable) as error:
        reason = f"static library for {source.architecture}: {error}"
        too_large = isinstance(error, TooLarge)
        yield UnreadObject(path=path, format=Format.ARCHIVE, reason=reason, too_large=too_large)


def _read_slice(path: str, source: Slice, observations: Observations) -> MachOFile:
    header = read_header(source)
    kind = KINDS.get(header.type, Kind.OTHER)
    commands = read_commands(source, header)
    systems = read_systems(commands)
    found = MachOFile(
        path=path,
        kind=kind,
        size=source.size,
        architecture=architecture_of(header.cpu_type, header.cpu_subtype),
        platforms=systems.platforms,
        minimum_os=systems.minimum_os,
        sdk=systems.sdk,
    )
    if kind is Kind.DEBUG:  # the segments of a debug companion describe the stripped file
        return _add_identity(found, commands)
    verify_extent(commands, header.bits, source.size)
    if kind in {Kind.RELOCATABLE, Kind.OTHER}:
        return found
    return _read_loadable(_add_identity(found, commands), source, header, commands, observations)


def _add_identity(found: MachOFile, commands: Commands) -> MachOFile:
    own = read_identity(commands)
    return replace(
        found,
        name=own.name,
        current_version=own.current_version,
        compatibility_version=own.compatibility_version,
        rpaths=read_rpaths(commands),
        uuid=read_uuid(commands),
    )


def _read_loadable(
    found: MachOFile,
    source: Slice,
    header: MachHeader,
    commands: Commands,
    observations: Observations,
) -> MachOFile:
    """Add the facts that a loader reads from a slice."""
    needed = read_needed(commands)
    segments = read_segments(header, commands)
    signature = commands.first(LC_CODE_SIGNATURE)
    pages = observations.of(PageScanner)
    faults = find_signature_faults(source, pages, *signature.unpack("II")) if signature else ()
    imports, exports = read_symbols(found.path, source, header, commands, needed)
    parsed = Parsed(commands, segments, exports)
    # In a file that is signed and unchanged, the tables are those that the linker wrote.
    refusals = find_refusals(header, parsed, intact=signature is not None and not faults)
    return replace(
        found,
        needed=needed,
        required_versions=read_required_versions(commands),
        imports=imports,
        exports=exports,
        opened=(
            read_opened(source, observations.of(NameScanner), segments, commands, needed)
            if opens_libraries(imports)
            else None
        ),
        texts=read_texts(source, observations.of(NameScanner), segments),
        bundle=header.type == MH_BUNDLE,
        two_level_namespace=bool(header.flags & MH_TWOLEVEL),
        chained_fixups=commands.first(LC_DYLD_CHAINED_FIXUPS) is not None,
        signed=signature is not None,
        signature_faults=faults,
        refusals=refusals,
    )

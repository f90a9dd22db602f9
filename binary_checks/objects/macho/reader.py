"""Read Mach-O files, thin and fat, by their load commands, as dyld does.

Each slice of a fat file is an object. Everything that a slice refers to must lie inside the slice:
a truncated file is malformed, never empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

from binary_checks.errors import MalformedError, TooLarge, Unavailable
from binary_checks.model import Format, Kind, MachOFile, StaticArchive, UnreadObject
from binary_checks.objects.byte_source import FilePart, LimitedSource
from binary_checks.objects.macho.header import (
    LC_CODE_SIGNATURE,
    LC_DYLD_CHAINED_FIXUPS,
    LC_RPATH,
    LC_UUID,
    MH_BUNDLE,
    MH_DSYM,
    MH_DYLIB,
    MH_EXECUTE,
    MH_OBJECT,
    MH_TWOLEVEL,
    ZERO_FILLED,
    Commands,
    MachHeader,
    architecture_of,
    read_commands,
    read_header,
    read_identity,
    read_needed,
    read_sections,
    read_slices,
    read_systems,
    verify_tables,
)
from binary_checks.objects.macho.signature import find_signature_faults
from binary_checks.objects.macho.symbols import MachOExports, read_symbols
from binary_checks.objects.module_slots import find_gil_slot
from binary_checks.objects.strings import MACHO_NAMES, search_strings

KINDS = {
    MH_OBJECT: Kind.RELOCATABLE,
    MH_EXECUTE: Kind.EXECUTABLE,
    MH_DYLIB: Kind.SHARED,
    MH_BUNDLE: Kind.SHARED,
    MH_DSYM: Kind.DEBUG,
}
_ARCHIVE = b"!<arch>\n"  # static library, see ar(5)
_S_CSTRING_LITERALS = 2
_PATH = 12  # bytes of rpath_command, where its path begins


def read(path: str, source: LimitedSource) -> tuple[MachOFile | StaticArchive | UnreadObject, ...]:
    """Return the objects of a Mach-O file, one for each slice.

    A slice that exceeds a limit is an UnreadObject. Raises MalformedError.
    """
    return tuple(each for item in read_slices(source) for each in _read_any(path, item))


def _read_any(path: str, item: FilePart) -> Iterator[MachOFile | StaticArchive | UnreadObject]:
    """Yield the object in a slice, or the reason why it is not read."""
    what, form = f"slice for {item.name}: " if item.name else "", Format.MACHO
    try:
        if item.read(0, min(8, item.size)) == _ARCHIVE:
            from binary_checks.objects import archives  # only few packages have any

            what, form = f"static library for {item.name}: ", Format.ARCHIVE
            yield from archives.read(path, item)
        else:
            yield _read_slice(path, item)
    except Unavailable as error:
        reason, too_large = f"{what}{error}", isinstance(error, TooLarge)
        yield UnreadObject(path=path, format=form, reason=reason, too_large=too_large)
    except MalformedError as error:
        if form is Format.ARCHIVE:  # only linkers read it
            yield UnreadObject(path=path, format=form, reason=f"{what}{error}")
        else:
            raise MalformedError(what + error.reason, item.start + error.offset) from None


def _read_slice(path: str, source: FilePart) -> MachOFile:
    header = read_header(source)
    commands = read_commands(source, header)
    kind = KINDS.get(header.type, Kind.OTHER)
    platforms, minimum_os, sdk = read_systems(commands)
    found = MachOFile(
        path=path,
        kind=kind,
        size=source.size,
        architecture=architecture_of(header.cpu_type, header.cpu_subtype),
        platforms=platforms,
        minimum_os=minimum_os,
        sdk=sdk,
    )
    if kind is not Kind.DEBUG:  # the segments of a debug companion describe the stripped file
        verify_tables(source, header, commands)
    if kind in {Kind.RELOCATABLE, Kind.OTHER}:
        read_sections(source, commands)
        return found
    name, current_version, compatibility_version = read_identity(commands)
    uuid = commands.first(LC_UUID)
    found = replace(
        found,
        name=name,
        current_version=current_version,
        compatibility_version=compatibility_version,
        rpaths=tuple(each.text(each.unpack("I")[0], _PATH) for each in commands.find(LC_RPATH)),
        uuid=str(UUID(bytes=uuid.unpack("16s")[0])).upper() if uuid else "",
    )
    return found if kind is Kind.DEBUG else _add_loadable(found, source, header, commands)


def _add_loadable(
    found: MachOFile, source: FilePart, header: MachHeader, commands: Commands
) -> MachOFile:
    """Add the facts that a loader reads from a slice."""
    needed, required_versions = read_needed(commands)
    sections = read_sections(source, commands)
    signature = commands.first(LC_CODE_SIGNATURE)
    imports, exports = read_symbols(found.path, source, header, commands, needed)
    strings = [
        (each.offset, each.offset + each.size)
        for each in sections
        if each.type == _S_CSTRING_LITERALS
    ]
    constants = [  # they include arrays of characters
        (each.offset, each.offset + each.size)
        for each in sections
        if (each.segment, each.name) == ("__TEXT", "__const") and each.type not in ZERO_FILLED
    ]
    data = (
        (each.address, source.read(each.offset, each.size))
        for each in sections
        if each.segment.startswith("__DATA") and each.type not in ZERO_FILLED
    )
    own = [name.rpartition("/")[2] for name in (found.name, *(each.name for each in needed))]
    pattern = MACHO_NAMES if imports.among(("dlopen",)) else None
    opened, texts = search_strings(source, strings, pattern, own)
    _, more_texts = search_strings(source, constants, None)
    faults = find_signature_faults(source, *signature.unpack("II")) if signature else ()
    if isinstance(exports, MachOExports) and (faults or not signature):
        exports.verify()  # nothing else shows that the trie is as its linker wrote it
    return replace(
        found,
        needed=needed,
        required_versions=required_versions,
        imports=imports,
        exports=exports,
        opened=opened,
        texts=tuple(sorted({*texts, *more_texts})),
        gil_not_used=find_gil_slot(found.path, imports, data, header.struct("P")),
        bundle=header.type == MH_BUNDLE,
        two_level_namespace=bool(header.flags & MH_TWOLEVEL),
        chained_fixups=commands.first(LC_DYLD_CHAINED_FIXUPS) is not None,
        signed=signature is not None,
        signature_faults=faults,
    )

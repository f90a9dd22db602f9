"""Reads Mach-O files, thin and fat: the load commands first, as dyld does.

Each slice of a fat file is an object. Everything a slice refers to must lie inside of it: a
truncated file is malformed, never empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from binary_checks.errors import MalformedError, TooLarge, Unavailable
from binary_checks.model import Format, Kind, MachOFile, StaticArchive, UnreadObject
from binary_checks.model.protocols import NOTHING_SEEN, Observations
from binary_checks.objects.limits import LimitedSource
from binary_checks.objects.macho.commands import (
    LC_CODE_SIGNATURE,
    LC_DYLD_CHAINED_FIXUPS,
    Commands,
    read_commands,
)
from binary_checks.objects.macho.dylibs import (
    read_identity,
    read_needed,
    read_rpaths,
    read_systems,
    read_uuid,
)
from binary_checks.objects.macho.header import (
    MH_BUNDLE,
    MH_DSYM,
    MH_DYLIB,
    MH_EXECUTE,
    MH_OBJECT,
    MH_TWOLEVEL,
    MachHeader,
    Slice,
    architecture_of,
    is_archive,
    read_header,
    read_slices,
)
from binary_checks.objects.macho.layout import verify_extent
from binary_checks.objects.macho.pages import PageScanner
from binary_checks.objects.macho.plan import plan
from binary_checks.objects.macho.refusals import Parsed, find_refusals
from binary_checks.objects.macho.segments import read_segments
from binary_checks.objects.macho.signature import find_signature_faults
from binary_checks.objects.macho.strings import opens_libraries, read_opened, read_texts
from binary_checks.objects.macho.symbols import read_symbols
from binary_checks.objects.opened_names import NameScanner

__all__ = ["plan", "read"]

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
    """The objects of a Mach-O file, one a slice; what is too long is unread.

    Raises MalformedError.
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
            # Scanners count from the first byte of a file: what they saw is of a thin one.
            yield _read_slice(path, item, NOTHING_SEEN if item.start else observations)
        except Unavailable as error:
            reason, too_large = f"{place}{error}", isinstance(error, TooLarge)
            yield UnreadObject(path=path, format=Format.MACHO, reason=reason, too_large=too_large)
        except MalformedError as error:
            raise MalformedError(place + error.reason, item.start + error.offset) from None


def _read_archive(path: str, source: Slice) -> Iterator[StaticArchive | UnreadObject]:
    """The static library for one architecture of a fat one."""
    from binary_checks.objects import archives  # of few packages

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
    if kind is Kind.DEBUG:  # its segments tell where things lie in the stripped file
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
    """Add to a slice what a loader reads of it."""
    needed = read_needed(commands)
    segments = read_segments(header, commands)
    signature = commands.first(LC_CODE_SIGNATURE)
    pages = observations.of(PageScanner)
    faults = find_signature_faults(source, pages, *signature.unpack("II")) if signature else ()
    imports, exports = read_symbols(found.path, source, header, commands, needed)
    parsed = Parsed(commands, segments, exports)
    # Of a file that is signed and intact, its linker wrote the tables.
    refusals = find_refusals(header, parsed, intact=signature is not None and not faults)
    return replace(
        found,
        needed=needed,
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

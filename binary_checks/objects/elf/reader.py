"""Read ELF files by program headers and the dynamic segment, as a loader does.

Section headers may be missing; they are used only for debug information, device code and strings.
Everything that the headers refer to must lie inside the file: a truncated file is malformed, never
empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from binary_checks.errors import MalformedError, TooLarge, Unavailable
from binary_checks.knowledge.linked_libraries import names_compiler
from binary_checks.model import (
    ElfFile,
    Kind,
    Observations,
    OpenedNames,
    Plan,
    SymbolTable,
    UnreadObject,
    make_dependency,
)
from binary_checks.objects.byte_source import Head, LimitedSource, complement
from binary_checks.objects.device.reader import read_cubin
from binary_checks.objects.device.scanner import DeviceScanner
from binary_checks.objects.device.sections import (
    MOST_PLACES,
    RELOCATABLE,
    SECTIONS,
    WRAPPER_SECTIONS,
    Follow,
    Unfollowed,
    Wrappers,
    read_device_code,
    read_wrappers,
)
from binary_checks.objects.elf.dynamic import (
    DF_1_NODEFLIB,
    DF_1_NOW,
    DF_BIND_NOW,
    DF_STATIC_TLS,
    DF_TEXTREL,
    DT_ANDROID_REL,
    DT_ANDROID_RELA,
    DT_ANDROID_RELR,
    DT_BIND_NOW,
    DT_FLAGS,
    DT_FLAGS_1,
    DT_HASH,
    DT_NEEDED,
    DT_RELR,
    DT_RPATH,
    DT_RUNPATH,
    DT_SONAME,
    DT_TEXTREL,
    RELOCATION_TYPES,
    Dynamic,
    count_unwritable,
    decode,
    find_thread_symbols,
    kind_of_loaded,
    kind_of_unloaded,
    may_be_opened,
    read_dynamic,
    read_relocations,
    read_versions,
)
from binary_checks.objects.elf.header import (
    ET_EXEC,
    ET_REL,
    PF_W,
    PF_X,
    PT_GNU_EH_FRAME,
    PT_GNU_PROPERTY,
    PT_GNU_RELRO,
    PT_GNU_STACK,
    PT_INTERP,
    PT_LOAD,
    PT_NOTE,
    PT_TLS,
    SHT_NOBITS,
    ElfHeader,
    MappedImage,
    Section,
    Segment,
    architecture_of,
    assumes_executable_stack,
    find_extents,
    find_read_only,
    has_debug_information,
    is_debug_companion,
    measure_debug_information,
    read_header,
    read_sections,
    read_segments,
    runs_on_a_host,
)
from binary_checks.objects.elf.refusals import Parsed, find_refusals, verify_contents, verify_extent
from binary_checks.objects.elf.symbols import SymbolColumns, read_columns, read_symbols
from binary_checks.objects.strings import (
    ELF_NAMES,
    IsCode,
    NameScanner,
    find_opened,
    find_texts,
)

# Notes (gABI chapter 5, "Note Section"): the build id, and the program properties of the "Linux
# Extensions to gABI" (the x86 ISA level, control-flow protections).

_ANDROID_RELOCATIONS = {
    "packed": (DT_ANDROID_REL, DT_ANDROID_RELA),
    "relative": (DT_ANDROID_RELR,),
}
_NT_GNU_BUILD_ID = 3
_NT_GNU_PROPERTY_TYPE_0 = 5
# GNU_PROPERTY_X86_ISA_1_NEEDED; GNU_PROPERTY_X86_ISA_1_USED (0xC0010002) states no requirement
_X86_ISA_1_NEEDED = 0xC0008002
_X86 = 0xC0000002, ((1, "IBT"), (2, "SHSTK"))  # GNU_PROPERTY_X86_FEATURE_1_AND
# GNU_PROPERTY_AARCH64_FEATURE_1_AND
_AARCH64_FEATURES = 0xC0000000, ((1, "BTI"), (2, "PAC"), (4, "GCS"))
_GUARDS = {
    "x86_64": _X86,
    "x32": _X86,
    "i686": _X86,
    "aarch64": _AARCH64_FEATURES,
    "aarch64_be": _AARCH64_FEATURES,
}
_FROM_NOTES = frozenset({"x86_64", "x32", "i686"})
"""Architectures for which glibc also searches PT_NOTE for the property note. It does so if there is
no PT_GNU_PROPERTY, as in files of older linkers.
"""
# GNU_PROPERTY_X86_ISA_1_V2 to _V4; bit 0 is the baseline
_ISA_LEVELS = ((8, "x86-64-v4"), (4, "x86-64-v3"), (2, "x86-64-v2"))
_LONGEST_NOTE = 1 << 20  # limit on the bytes of one note segment; real segments have some hundred


class Notes(NamedTuple):
    """Facts from the notes; "" for facts not stated."""

    build_id: str = ""
    isa_level: str = ""
    guards: tuple[str, ...] = ()


def read_notes(source: LimitedSource, header: ElfHeader, segments: Iterable[Segment]) -> Notes:
    """Read all note segments; the first build id counts.

    Raises TooLarge if a segment is too long. The ISA level is the highest in all notes, so that the
    file is never taken to run on more CPUs than it does. Guards are read only from the note that
    glibc reads.
    """
    build_id, needed = "", 0
    by_type: dict[int, list[dict[int, int]]] = {PT_GNU_PROPERTY: [], PT_NOTE: []}
    for segment in segments:
        if segment.type not in by_type or not segment.file_size:
            continue
        source.require_at_most(segment.file_size, _LONGEST_NOTE, "bytes in a PT_NOTE")
        contents = source.read(segment.offset, segment.file_size)
        for kind, description in _iterate(contents, header, segment.alignment):
            if kind == _NT_GNU_BUILD_ID and not build_id:
                build_id = description.hex()
            elif kind == _NT_GNU_PROPERTY_TYPE_0:
                properties = _read_properties(description, header)
                needed |= properties.get(_X86_ISA_1_NEEDED, 0)
                # glibc skips note segments with any other alignment
                if segment.alignment == header.bits // 8:
                    by_type[segment.type].append(properties)
    isa_level = next((name for bit, name in _ISA_LEVELS if needed & bit), "")
    return Notes(build_id, isa_level, _find_guards(by_type, architecture_of(header)))


def _find_guards(by_type: Mapping[int, list[dict[int, int]]], architecture: str) -> tuple[str, ...]:
    """Return the guards in the only note that glibc reads.

    This note is the first in PT_GNU_PROPERTY, else the first in PT_NOTE.
    """
    if architecture not in _GUARDS:
        return ()
    kind, bits = _GUARDS[architecture]
    notes = by_type[PT_GNU_PROPERTY] or (by_type[PT_NOTE] if architecture in _FROM_NOTES else [])
    mask = notes[0].get(kind, 0) if notes else 0
    return tuple(name for bit, name in bits if mask & bit)


def _iterate(contents: bytes, header: ElfHeader, alignment: int) -> Iterator[tuple[int, bytes]]:
    """Yield type and description of each note whose owner is "GNU".

    Notes are padded to 4 bytes, or to 8 in a segment aligned to 8 bytes; other alignments occur (32
    in apsw 3.54.1.0). A note that does not fit ends the walk without a fault: loaders read only the
    property note, and linkers pad notes in different ways.
    """
    layout, step = header.struct("III"), 8 if alignment == 8 else 4
    position = 0
    while position + layout.size <= len(contents):
        name_size, size, kind = layout.unpack_from(contents, position)
        name_start = position + layout.size
        start = _round_up(name_start + name_size, step)
        if start + size > len(contents):
            return
        if contents[name_start : name_start + name_size] == b"GNU\0":
            yield kind, contents[start : start + size]
        position = _round_up(start + size, step)


def _read_properties(description: bytes, header: ElfHeader) -> dict[int, int]:
    """Return the properties with four bytes of data, by type; the first of a type counts.

    A property is pr_type, pr_datasz and data, padded to 8 bytes (4 in a 32-bit file).
    """
    layout, word = header.struct("II"), header.struct("I")
    found: dict[int, int] = {}
    position = 0
    while position + layout.size <= len(description):
        kind, size = layout.unpack_from(description, position)
        start = position + layout.size
        if size == 4 and start + 4 <= len(description):
            found.setdefault(kind, word.unpack_from(description, start)[0])
        position = _round_up(start + size, header.bits // 8)
    return found


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step


# Distinguish machine code from strings and tables by a few samples, if one segment contains both.
#
# Linkers that do not separate code put read-only data after it into the same segment. Only the
# section headers, at the end of the file, show the boundary. Strings mistaken for code are not
# searched, which OpenedNames.unread then reports.

_SAMPLE = 1 << 9  # bytes
_SAMPLES = 2  # samples per piece; the last sample ends at the end of the piece
_WORD = 4  # bytes of an AArch64 instruction

_X86_64 = b"\x48\x8b\x89\x0f"  # REX.W, two opcodes of MOV, and the first byte of two-byte opcodes
# Minimum share of these bytes in code; 19 of 20 samples of published libraries have more.
_X86_64_SHARE = 0.1
_AARCH64 = bytes.fromhex(
    "0b 0f 10 13 14 17 1a 1e 2a 34 35 38 39 3a 3d 4a 4e 52 54 6b 6e 6f 71 72 79"
    "7a 8a 8b 90 91 94 97 a9 aa ad b4 b5 b8 b9 cb d1 d2 d6 eb f1 f8 f9"
)
"""The last bytes of common instructions, which contain the opcode (little-endian words)."""
_AARCH64_SHARE = 0.6  # minimum share of these last bytes among the instructions of code


def _looks_like_x86_64(sample: bytes) -> bool:
    return len(sample) - len(sample.translate(None, _X86_64)) >= _X86_64_SHARE * len(sample)


def _looks_like_aarch64(sample: bytes) -> bool:
    ends = sample[_WORD - 1 :: _WORD]
    return len(ends) - len(ends.translate(None, _AARCH64)) >= _AARCH64_SHARE * len(ends)


def _is_code(
    looks_so: Callable[[bytes], bool], piece: bytes, start: int, end: int, offset: int
) -> bool:
    """Return whether samples at the end of both halves of a range look like code.

    Samples end at multiples of 4 bytes of the file, so that they consist of complete AArch64
    instructions.
    """
    places = (end - (end - start) * number // _SAMPLES for number in range(_SAMPLES))
    aligned = (place - (offset + place) % _WORD for place in places)
    return all(looks_so(piece[max(place - _SAMPLE, start) : place]) for place in aligned)


CODE_DETECTORS: Final[Mapping[str, IsCode]] = {
    "x86_64": partial(_is_code, _looks_like_x86_64),
    "aarch64": partial(_is_code, _looks_like_aarch64),
}
"""Detectors by architecture. For other architectures everything is searched."""


# The location of the strings in an ELF file, and the names of libraries among them.

KEPT_BEHIND: Final = 4096
"""Bytes kept after the last segment, for ``.comment``."""
_OPENERS = ("dlopen", "dlmopen")
_NO_STRINGS = (".interp", ".eh_frame", ".gcc_except_table", ".nv", "__nv", ".hip")
"""Beginnings of the names of read-only sections that contain tables or code for a GPU instead of
strings.
"""


def find_name_scanner(
    header: ElfHeader, segments: Iterable[Segment], device: DeviceScanner, factor: int
) -> NameScanner:
    """Return a scanner that searches strings while the file is streamed, and skips code."""
    known = tuple(segments)
    extents = tuple(_find_strings(known)) if runs_on_a_host(header) else ()
    mixed = any(
        load.type == PT_LOAD and load.flags & PF_X and load.offset <= start < _end_of(load)
        for load in known
        for start, _ in extents
    )
    is_code = CODE_DETECTORS.get(architecture_of(header)) if mixed else None
    return NameScanner(extents, ELF_NAMES, device=device, is_code=is_code, factor=factor)


def _find_strings(segments: tuple[Segment, ...]) -> Iterator[tuple[int, int]]:
    """Yield the ranges that may contain strings, as far as segments show them.

    Linkers put strings before PT_GNU_EH_FRAME, into the same segment. If that segment is missing,
    every segment without write permission may contain strings. Later segments may, too.
    """
    loads = [segment for segment in segments if segment.type == PT_LOAD]
    end = next((s.offset for s in segments if s.type == PT_GNU_EH_FRAME), 0)
    within = [(load.offset, end) for load in loads if load.offset < end < _end_of(load)]
    yield from within
    for load in loads:
        # .lrodata, the read-only data of the large code model
        behind = load.offset > end and not load.flags & PF_X
        if not load.flags & PF_W and (behind or not within):
            yield load.offset, _end_of(load)


def _end_of(load: Segment) -> int:
    return load.offset + load.file_size


def opens_libraries(imports: SymbolTable, dynamic: Dynamic) -> bool:
    """Return whether an object imports a function that opens libraries by name."""
    # Most objects import none; the string table shows this without decoding all names.
    likely = any(name.encode() + b"\0" in dynamic.strings for name in _OPENERS)
    return likely and bool(imports.among(_OPENERS))


def read_texts(
    source: LimitedSource, seen: NameScanner | None, sections: tuple[Section, ...]
) -> tuple[str, ...]:
    """Return the texts that identify statically linked libraries."""
    return find_texts(source, seen, find_read_only(sections, _NO_STRINGS))


def read_comment(
    source: LimitedSource, segments: Iterable[Segment], sections: Iterable[Section]
) -> Iterator[str]:
    """Yield the compilers named in ``.comment``, which linkers put after the last segment."""
    last = max((_end_of(each) for each in segments if each.type == PT_LOAD), default=0)
    for section in sections:
        end = min(section.offset + section.size, source.size)
        if section.name == ".comment" and last <= section.offset <= end <= last + KEPT_BEHIND:
            comment = source.read(section.offset, end - section.offset)
            for text in comment.decode("ascii", "replace").split("\0"):
                if names_compiler(text):
                    yield text


def read_opened(
    source: LimitedSource,
    seen: NameScanner | None,
    sections: tuple[Section, ...],
    dynamic: Dynamic,
) -> OpenedNames:
    """Return the names of libraries in read-only data, except those in DT_SONAME and DT_NEEDED."""
    if not sections:
        return OpenedNames(unread="it has no section headers to show where its strings are")
    known = (dynamic.string(DT_SONAME), *dynamic.texts(DT_NEEDED))
    return find_opened(source, seen, ELF_NAMES, known, find_read_only(sections, _NO_STRINGS))


# The wrappers of relocatable device code: their pointers are followed as by a loader.

_MOST_SECTIONS = 16  # real files have one, because linkers merge them


def find_wrappers(
    image: MappedImage, segments: Iterable[Segment], sections: tuple[Section, ...]
) -> Wrappers:
    """Read the wrappers of a file with relocatable device code; other files need none.

    Raises MalformedError or TooLarge as `read_dynamic` does.
    """
    relocatable = find_extents(sections, RELOCATABLE)
    if not relocatable:
        return Wrappers()
    if image.header.type == ET_REL:
        return Wrappers(relocatable=relocatable, awaits_linking=True)
    places = [s for s in sections if s.name in WRAPPER_SECTIONS and s.type != SHT_NOBITS and s.size]
    if len(places) > _MOST_SECTIONS:
        reason = f"no more than {_MOST_SECTIONS} sections of wrappers of device code are read"
        return Wrappers(relocatable=relocatable, unread=reason)
    segments = tuple(segments)
    if len(segments) > MOST_PLACES:
        reason = f"pointers are followed through no more than {MOST_PLACES} segments"
        return Wrappers(relocatable=relocatable, unread=reason)
    try:
        follow = _follow(image, read_dynamic(image, segments), places)
    except Unfollowed as error:
        return Wrappers(relocatable=relocatable, unread=str(error))
    return read_wrappers(
        image.source, find_extents(sections, WRAPPER_SECTIONS), relocatable, follow
    )


def _follow(image: MappedImage, dynamic: Dynamic, places: list[Section]) -> Follow:
    """Return a function that follows a pointer: by its relocation's addend, else by its value."""
    moved = _find_addends(image, dynamic, places)

    def follow(place: int, value: int) -> int | None:
        for section in places:
            if section.offset <= place < section.offset + section.size:
                address = moved.get(section.address + place - section.offset, value)
                try:
                    return image.locate(address, "device code")[0]
                except MalformedError:
                    return None
        return None

    return follow


def _find_addends(image: MappedImage, dynamic: Dynamic, places: list[Section]) -> dict[int, int]:
    """Return the addends of R_*_RELATIVE relocations in these sections, by address.

    Relocations of DT_RELR and Elf_Rel are left out, because their addends are the values in place.
    Raises Unfollowed if the tables cannot be read, or if a relocation of another type fills in a
    pointer.
    """
    types = RELOCATION_TYPES.get(architecture_of(image.header))
    if types is None or not dynamic:
        return {}
    try:
        tables = read_relocations(image, dynamic, types).tables
    except (MalformedError, TooLarge) as error:
        reason = error.reason if isinstance(error, MalformedError) else str(error)
        raise Unfollowed(f"the relocations of its wrappers were not read: {reason}") from None
    found: dict[int, int] = {}
    for table in tables:
        for section in places:
            start, end = section.address, section.address + section.size
            for index, address in enumerate(table.offsets):
                if start <= address < end:
                    if table.types[index] != types.relative:
                        raise Unfollowed(
                            "a wrapper of device code points to a symbol, which is not followed"
                        )
                    if table.addends is not None:
                        found[address] = table.addends[index]
    return found


# The parts of an ELF file to keep and to scan, as far as the first bytes show them.

_MIB = 1 << 20
_KEPT_OF_TABLES = 32 * _MIB
"""Bytes kept of a segment that may contain symbol tables; the tables of libtorch_cpu.so end at 8
MiB.
"""
_KEPT_OF_CODE = _MIB
_KEPT_OF_TAIL = _MIB
"""Bytes kept before the section headers: GNU ld and gold put the names of sections there."""
_KEPT_OF_LONG_TAIL = 128 * _MIB
"""Bytes kept in files of LLD, which puts .strtab, often a large section, between .shstrtab and the
headers.
"""


def plan(head: bytes, size: int, factor: int) -> Plan:
    """Plan to keep tables, but not code, device code, strings or debug information.

    Everything is kept if the first bytes do not contain all program headers.
    """
    source = LimitedSource(Head(head, size), factor)
    try:
        header = read_header(source)
        segments = read_segments(source, header)
    except (MalformedError, Unavailable):
        return Plan(ranges=((0, size),))
    device = DeviceScanner(_find_searched(segments, size), size)
    return Plan(
        ranges=_find_ranges(header, segments, len(head), size),
        scanners=(device, find_name_scanner(header, segments, device, factor)),
    )


def _find_searched(segments: Iterable[Segment], size: int) -> tuple[tuple[int, int], ...]:
    """Return the ranges that may contain device code, as far as segments show them."""
    loads = [segment for segment in segments if segment.type == PT_LOAD]
    # Device code is mapped, but not executable for the host; in libcudf.so it is writable. A linker
    # that does not separate code makes one segment for everything, at offset 0.
    apart = [load for load in loads if not load.flags & PF_X or not load.offset]
    return tuple((load.offset, load.offset + load.file_size) for load in apart) or ((0, size),)


def _find_ranges(
    header: ElfHeader, segments: tuple[Segment, ...], read: int, size: int
) -> tuple[tuple[int, int], ...]:
    """Return the ranges of the file to keep; leave out large segments and large unmapped parts.

    Tables in such segments and parts are kept. ``read`` is the length of the first bytes.
    """
    loads = sorted((s for s in segments if s.type == PT_LOAD), key=lambda load: load.offset)
    tables = _find_tables(segments, loads)
    tail = _KEPT_OF_LONG_TAIL if _is_from_lld(segments) else _KEPT_OF_TAIL
    skipped = []
    end = 0
    for load in loads:
        # patchelf adds an aligned segment after all parts that no segment maps.
        skipped.append((end, load.offset - load.alignment - tail))
        length = _KEPT_OF_TABLES if load in tables else _KEPT_OF_CODE if load.flags & PF_X else 0
        end = max(end, load.offset + load.file_size)
        skipped.append((load.offset + length, load.offset + load.file_size))
    if header.sections_offset:
        skipped.append((end if loads else size, header.sections_offset - tail))
    kept = [(s.offset, s.offset + s.file_size) for s in segments if s.type != PT_LOAD]
    end = max((load.offset + load.file_size for load in loads), default=0)
    kept.append((end, min(end + KEPT_BEHIND, size)))
    kept.append((0, read))  # the first bytes, from which the segments were read
    return complement(skipped, kept, size)


def _find_tables(segments: Iterable[Segment], loads: Iterable[Segment]) -> list[Segment]:
    """Return the segments that may contain the tables that a loader reads.

    A linker puts these tables into the first segments. If the segment at offset 0 is not code,
    constants and unwind tables (PT_GNU_EH_FRAME) are in a separate segment without tables. A linker
    that does not separate code makes one segment for everything (libsqlite3 of pysqlite3_binary
    0.5.4.post2).
    """
    first_is_code = any(load.flags & PF_X for load in loads if not load.offset)
    unwinding = [segment.offset for segment in segments if segment.type == PT_GNU_EH_FRAME]

    def may_hold(load: Segment) -> bool:
        if not load.offset or load.flags & PF_X:
            return not load.offset
        if load.flags & PF_W or first_is_code:
            return True
        return not any(0 <= place - load.offset < load.file_size for place in unwinding)

    return [load for load in loads if may_hold(load)]


def _is_from_lld(segments: Iterable[Segment]) -> bool:
    """Return whether the RELRO part has a separate PT_LOAD, which only LLD makes."""
    relro = {(s.offset, s.file_size) for s in segments if s.type == PT_GNU_RELRO}
    return any(s.type == PT_LOAD and (s.offset, s.file_size) in relro for s in segments)


# The object of the model.

_LONGEST_PATH = 4096  # bytes (PATH_MAX): the kernel runs no file with a longer PT_INTERP


def read(
    path: str, source: LimitedSource, observations: Observations
) -> tuple[ElfFile | UnreadObject, ...]:
    """Return the only object of an ELF file. Raises MalformedError, or TooLarge."""
    header = read_header(source)
    segments = read_segments(source, header)
    sections = read_sections(source, header)
    debug = header.type != ET_REL and is_debug_companion(sections)
    if not debug:  # the segments of a debug companion describe the stripped file
        verify_extent(segments, source.size)
    verify_contents(sections, source.size)
    image = MappedImage(path, source, header, segments)
    wrappers = Wrappers() if debug else find_wrappers(image, segments, sections)
    device = read_device_code(source, find_extents(sections, SECTIONS), wrappers)
    unloaded = Kind.DEBUG if debug else kind_of_unloaded(header)
    if unloaded is Kind.DEVICE and (own := read_cubin(source, header, sections)) is not None:
        device = own._replace(faults=device.faults)
    found = ElfFile(
        path=path,
        kind=unloaded or Kind.SHARED,
        size=source.size,
        architecture=architecture_of(header),
        debug_information=has_debug_information(sections),
        debug_bytes=measure_debug_information(sections),
        device_code=device.code,
        device_containers=device.containers,
        device_faults=device.faults,
    )
    if unloaded is not None:
        return (found,)
    return (_read_loadable(found, image, segments, sections, observations.of(NameScanner)),)


def _read_loadable(
    found: ElfFile,
    image: MappedImage,
    segments: tuple[Segment, ...],
    sections: tuple[Section, ...],
    seen: NameScanner | None,
) -> ElfFile:
    """Add the facts that a loader reads from the object."""
    source, header = image.source, image.header
    dynamic = read_dynamic(image, segments)
    versions = read_versions(image, dynamic)
    columns = read_columns(image, dynamic, sections)
    imports, exports = read_symbols(image, dynamic, versions, columns)
    notes = read_notes(source, header, segments)
    interpreter = _read_interpreter(source, segments)
    kind = kind_of_loaded(header, dynamic, interpreter)
    if not dynamic and (kind is Kind.SHARED or interpreter):
        raise MalformedError("a dynamic object without a dynamic segment")
    refusals: tuple[str, ...] = ()
    if kind is Kind.SHARED or interpreter:  # no loader reads a static program
        refusals = find_refusals(image, Parsed(segments, sections, dynamic, versions, columns))
    flags, flags_1 = dynamic.value(DT_FLAGS), dynamic.value(DT_FLAGS_1)
    # the last of each type counts, as in glibc
    by_type = {segment.type: segment for segment in segments}
    loads = [segment for segment in segments if segment.type == PT_LOAD]
    stack, thread = by_type.get(PT_GNU_STACK), by_type.get(PT_TLS)
    return replace(
        found,
        kind=kind,
        name=dynamic.string(DT_SONAME),
        needed=tuple(make_dependency(name=name) for name in dynamic.texts(DT_NEEDED)),
        rpath=dynamic.search_path(DT_RPATH),
        runpath=dynamic.search_path(DT_RUNPATH),
        bind_now=bool(DT_BIND_NOW in dynamic or flags & DF_BIND_NOW or flags_1 & DF_1_NOW),
        text_relocations=_announces_text_relocations(dynamic),
        static_tls=bool(flags & DF_STATIC_TLS),
        initial_exec=_find_initial_exec(image, dynamic, columns),
        relative_relocations=DT_RELR in dynamic,
        android_relocations=tuple(
            name
            for name, tags in _ANDROID_RELOCATIONS.items()
            if any(tag in dynamic for tag in tags)
        ),
        sysv_hash=DT_HASH in dynamic,
        section_headers=bool(header.section_count and header.names_index),
        no_default_libraries=bool(flags_1 & DF_1_NODEFLIB),
        stack_header=stack is not None,
        executable_stack=(
            bool(stack.flags & PF_X) if stack else assumes_executable_stack(found.architecture)
        ),
        relro=PT_GNU_RELRO in by_type,
        writable_executable=any(s.flags & PF_W and s.flags & PF_X for s in loads),
        alignment=min((segment.alignment for segment in loads), default=0),
        tls_size=_aligned_size(thread) if thread else 0,
        opens=may_be_opened(header, dynamic),
        refusals=refusals,
        imports=imports,
        exports=exports,
        symbol_versions=versions.needed,
        defined_versions=versions.defined,
        interpreter=interpreter,
        build_id=notes.build_id,
        isa_level=notes.isa_level,
        guards=notes.guards,
        fixed_address=header.type == ET_EXEC,
        opened=(
            read_opened(source, seen, sections, dynamic)
            if opens_libraries(imports, dynamic)
            else None
        ),
        texts=(
            *read_texts(source, seen, sections),
            *sorted({*read_comment(source, segments, sections)}),
        ),
        code_relocations=_count_code_relocations(image, segments, dynamic),
    )


def _count_code_relocations(
    image: MappedImage, segments: tuple[Segment, ...], dynamic: Dynamic
) -> int | None:
    """Return the number of text relocations; None if none are announced, or they cannot be read."""
    types = RELOCATION_TYPES.get(architecture_of(image.header))
    if types is None or not _announces_text_relocations(dynamic):
        return None
    try:
        return count_unwritable(image, segments, dynamic, types)
    except (MalformedError, TooLarge):  # reported among the refusals
        return None


def _find_initial_exec(
    image: MappedImage, dynamic: Dynamic, columns: SymbolColumns
) -> tuple[str, ...] | None:
    """Return the names of thread-local variables with a fixed place; None if they are unknown."""
    if not dynamic.value(DT_FLAGS) & DF_STATIC_TLS:
        return ()
    types = RELOCATION_TYPES.get(architecture_of(image.header))
    if types is None:
        return None
    try:
        indices = find_thread_symbols(image, dynamic, types)
        names = {dynamic.text(columns.names[each]) if each else "" for each in indices}
    except (MalformedError, TooLarge, IndexError):  # reported among the refusals
        return None
    return tuple(sorted(names))


def _announces_text_relocations(dynamic: Dynamic) -> bool:
    return bool(DT_TEXTREL in dynamic or dynamic.value(DT_FLAGS) & DF_TEXTREL)


def _aligned_size(segment: Segment) -> int:
    """Return the bytes that a segment takes for each thread: p_memsz, rounded up to p_align."""
    step = max(segment.alignment, 1)
    return -(-segment.memory_size // step) * step


def _read_interpreter(source: LimitedSource, segments: Iterable[Segment]) -> str:
    """Return the path in PT_INTERP (gABI chapter 5, "Program Interpreter"); "" without one."""
    segment = next((s for s in segments if s.type == PT_INTERP), None)
    if segment is None:
        return ""
    if segment.file_size > _LONGEST_PATH:
        raise MalformedError(f"a PT_INTERP of {segment.file_size} bytes, longer than any path")
    contents = source.read(segment.offset, segment.file_size)
    return decode(contents.partition(b"\0")[0])

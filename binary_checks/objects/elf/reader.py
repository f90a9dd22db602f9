"""Read ELF files by program headers and the dynamic segment, as a loader does.

Everything that the headers refer to must lie inside the file: a truncated file is malformed, never
empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from binary_checks.errors import MalformedError
from binary_checks.knowledge.linked_libraries import names_compiler
from binary_checks.model import (
    Dependency,
    ElfFile,
    Kind,
    OpenedNames,
    UnreadObject,
)
from binary_checks.objects.byte_source import LimitedSource, merge
from binary_checks.objects.device.reader import read_cubin
from binary_checks.objects.device.sections import (
    RELOCATABLE,
    SECTIONS,
    WRAPPER_SECTIONS,
    Wrappers,
    read_device_code,
    read_wrappers,
)
from binary_checks.objects.elf.header import (
    ET_DYN,
    ET_EXEC,
    ET_REL,
    PAGE,
    PF_W,
    PF_X,
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
    is_debug_companion,
    is_device_code,
    read_header,
    read_sections,
    read_segments,
    runs_on_a_host,
)
from binary_checks.objects.elf.symbols import (
    DT_HASH,
    DT_RELR,
    DT_RPATH,
    DT_RUNPATH,
    Dynamic,
    Versions,
    count_code_relocations,
    find_initial_exec,
    read_relocations,
    read_symbols,
    read_versions,
)
from binary_checks.objects.module_slots import find_gil_slot
from binary_checks.objects.strings import ELF_NAMES, search_strings

DT_NEEDED: Final = 1
DT_SONAME: Final = 14
DT_TEXTREL: Final = 22
DT_BIND_NOW: Final = 24
DT_FLAGS: Final = 30
DT_ANDROID_REL: Final = 0x6000000F
DT_ANDROID_RELA: Final = 0x60000011
DT_ANDROID_RELR: Final = 0x6FFFE000
DT_FLAGS_1: Final = 0x6FFFFFFB
_DF_TEXTREL: Final = 4
_DF_BIND_NOW: Final = 8
_DF_STATIC_TLS: Final = 0x10
_DF_1_NOW: Final = 1
_DF_1_NODEFLIB: Final = 0x800
_DF_1_PIE: Final = 0x08000000


_GUARDS = {
    "x86_64": (0xC0000002, ((1, "IBT"), (2, "SHSTK"))),
    "aarch64": (0xC0000000, ((1, "BTI"), (2, "PAC"), (4, "GCS"))),
}
_GUARDS |= {"x32": _GUARDS["x86_64"], "i686": _GUARDS["x86_64"], "aarch64_be": _GUARDS["aarch64"]}
_ISA_NEEDED = 0xC0008002
_ISA_LEVELS = ((8, "x86-64-v4"), (4, "x86-64-v3"), (2, "x86-64-v2"))


def read_notes(
    source: LimitedSource, header: ElfHeader, segments: Iterable[Segment]
) -> dict[str, Any]:
    """Return build id, ISA level and guards, from the notes of the owner GNU."""
    build_id, needed = "", 0
    found: dict[int, list[dict[int, int]]] = {PT_GNU_PROPERTY: [], PT_NOTE: []}
    for segment in segments:
        if segment.type not in found:
            continue
        contents = source.read(segment.offset, segment.file_size)
        for kind, text in _iterate_notes(contents, header, 8 if segment.alignment == 8 else 4):
            if kind == 3 and not build_id:  # NT_GNU_BUILD_ID
                build_id = text.hex()
            elif kind == 5:  # NT_GNU_PROPERTY_TYPE_0
                properties = _read_properties(text, header)
                needed |= properties.get(_ISA_NEEDED, 0)
                if segment.alignment == header.bits // 8:  # glibc skips others
                    found[segment.type].append(properties)
    architecture = architecture_of(header)
    kind, bits = _GUARDS.get(architecture, (0, ()))
    other = found[PT_NOTE] if not architecture.startswith("aarch64") else []
    mask = (found[PT_GNU_PROPERTY] or other or [{}])[0].get(kind, 0)
    return {
        "build_id": build_id,
        "isa_level": next((name for bit, name in _ISA_LEVELS if needed & bit), ""),
        "guards": tuple(name for bit, name in bits if mask & bit),
    }


def _iterate_notes(contents: bytes, header: ElfHeader, step: int) -> Iterator[tuple[int, bytes]]:
    layout, at = header.struct("III"), 0
    while at + 12 <= len(contents):
        name_size, size, kind = layout.unpack_from(contents, at)
        start = -(-(at + 12 + name_size) // step) * step
        if start + size > len(contents):
            return
        if contents[at + 12 : at + 12 + name_size] == b"GNU\0":
            yield kind, contents[start : start + size]
        at = -(-(start + size) // step) * step


def _read_properties(text: bytes, header: ElfHeader) -> dict[int, int]:
    """Return the properties with four bytes of data, by type; the first of a type counts."""
    found: dict[int, int] = {}
    layout, word, at = header.struct("II"), header.struct("I"), 0
    while at + 8 <= len(text):
        kind, size = layout.unpack_from(text, at)
        if size == 4 and at + 12 <= len(text):
            found.setdefault(kind, word.unpack_from(text, at + 8)[0])
        at = -(-(at + 8 + size) // (header.bits // 8)) * (header.bits // 8)
    return found


# The wrappers of relocatable device code: their pointers are followed as by a loader.

_RELATIVE = {"x86_64": 8, "aarch64": 1027, "ppc64le": 22}  # R_*_RELATIVE


def find_wrappers(
    image: MappedImage, segments: tuple[Segment, ...], sections: tuple[Section, ...]
) -> Wrappers:
    """Read the wrappers of a file with relocatable device code; other files need none."""
    relocatable = find_extents(sections, RELOCATABLE)
    if not relocatable or image.header.type == ET_REL:
        return Wrappers(relocatable=relocatable, awaits_linking=bool(relocatable))
    places = [s for s in sections if s.name in WRAPPER_SECTIONS and s.type != SHT_NOBITS]
    moved = {
        at: (info & 0xFFFFFFFF, addend)
        for at, info, addend in read_relocations(image, Dynamic(image, segments))
        if any(s.address <= at < s.address + s.size for s in places)
    }
    if {kind for kind, _ in moved.values()} - {_RELATIVE.get(architecture_of(image.header))}:
        reason = "a wrapper of device code points to a symbol, which is not followed"
        return Wrappers(relocatable=relocatable, unread=reason)

    def follow(place: int, value: int) -> int | None:
        for section in places:
            if section.offset <= place < section.offset + section.size:
                at = section.address + place - section.offset
                with suppress(MalformedError):
                    return image.locate(moved[at][1] if at in moved else value, "device code")[0]
        return None

    extents = find_extents(sections, WRAPPER_SECTIONS)
    return read_wrappers(image.source, extents, relocatable, follow)


_NO_STRINGS = (".interp", ".eh_frame", ".gcc_except_table", ".nv", "__nv", ".hip")
_DEBUG = (".debug_", ".zdebug_")


def find_refusals(
    segments: Iterable[Segment], dynamic: Dynamic, versions: Versions
) -> Iterator[str]:
    """Yield what editing tools leave behind that loaders refuse; each reason continues the path."""
    # ``strip`` after ``patchelf`` moves segments without regard to pages and p_align.
    for number, load in enumerate(segments):
        apart = load.address - load.offset
        where = f"at address {load.address:#x} and offset {load.offset:#x}"
        if load.type == PT_LOAD and apart % PAGE:
            fault = f"{where}, which have different offsets in their pages"
            yield f"has a PT_LOAD (program header {number}) {fault}"
        elif load.type == PT_LOAD and load.alignment and apart % load.alignment:
            fault = f"{where}, which differ modulo p_align {load.alignment:#x}"
            yield f"has a PT_LOAD (program header {number}) {fault}: glibc before 2.35 refuses it"
    # ``patchelf --remove-needed`` leaves the versions of the library that it removes.
    needed = dynamic.texts(DT_NEEDED)
    for library in dict.fromkeys(each.library for each in versions.needed):
        if library not in needed:
            yield (
                f"needs versions of {library}, which is not among its DT_NEEDED: glibc's loader "
                "ends the process if nothing else has loaded it"
            )


def read(path: str, source: LimitedSource) -> tuple[ElfFile | UnreadObject, ...]:
    """Return the only object of an ELF file. Raises MalformedError."""
    header = read_header(source)
    segments, sections = read_segments(source, header), read_sections(source, header)
    debug = header.type != ET_REL and is_debug_companion(sections)
    for segment in () if debug else segments:
        source.require_end(segment.offset + segment.file_size, "a segment ends")
    for section in sections:
        if section.type not in (0, SHT_NOBITS):
            source.require_end(section.offset + section.size, "a section ends")
    image = MappedImage(source, header, segments)
    wrappers = find_wrappers(image, segments, sections)
    device = read_device_code(source, find_extents(sections, SECTIONS), wrappers)
    kind: Kind | None = None
    if debug:
        kind = Kind.DEBUG
    elif not runs_on_a_host(header):
        kind = Kind.DEVICE if is_device_code(header) else Kind.OTHER
        device = read_cubin(source, header, sections) or device
    elif header.type == ET_REL:
        kind = Kind.RELOCATABLE
    elif header.type not in (ET_EXEC, ET_DYN):
        kind = Kind.OTHER
    traces = [each for each in sections if each.name.startswith(_DEBUG) and each.type != SHT_NOBITS]
    found = ElfFile(
        path=path,
        kind=kind or Kind.SHARED,
        size=source.size,
        architecture=architecture_of(header),
        debug_information=bool(find_extents(sections, (".debug_info", ".zdebug_info"))),
        debug_bytes=sum(
            end - start for start, end in merge((e.offset, e.offset + e.size) for e in traces)
        ),
        device_code=device.code,
        device_containers=device.containers,
        device_faults=device.faults,
    )
    if kind is None:
        found = _add_loadable(found, image, segments, sections)
    return (found,)


def _add_loadable(
    found: ElfFile,
    image: MappedImage,
    segments: tuple[Segment, ...],
    sections: tuple[Section, ...],
) -> ElfFile:
    """Add the facts that a loader reads from the object."""
    source, header = image.source, image.header
    dynamic = Dynamic(image, segments)
    versions = read_versions(image, dynamic)
    imports, exports, names = read_symbols(image, dynamic, versions, sections)
    by_type = {segment.type: segment for segment in segments}  # the last counts, as in glibc
    loads = [segment for segment in segments if segment.type == PT_LOAD]
    stack, thread, named = (by_type.get(kind) for kind in (PT_GNU_STACK, PT_TLS, PT_INTERP))
    interpreter = ""
    if named:
        contents = source.read(named.offset, named.file_size)
        interpreter = contents.partition(b"\0")[0].decode("utf-8", "backslashreplace")
    flags, flags_1 = dynamic.value(DT_FLAGS), dynamic.value(DT_FLAGS_1)
    opens = header.type != ET_EXEC and not flags_1 & _DF_1_PIE
    program = not opens or (interpreter and DT_SONAME not in dynamic)
    if not dynamic and (interpreter or not program):
        raise MalformedError("a dynamic object without a dynamic segment")
    text_relocations = bool(DT_TEXTREL in dynamic or flags & _DF_TEXTREL)
    constants = find_read_only(sections, _NO_STRINGS)
    own = (*dynamic.texts(DT_SONAME)[-1:], *dynamic.texts(DT_NEEDED))
    writable = (
        (each.address, source.read(each.offset, each.file_size))
        for each in loads
        if each.flags & PF_W
    )
    opens_others = imports.among(("dlopen", "dlmopen"))
    pattern = ELF_NAMES if opens_others else None
    opened, texts = search_strings(source, constants, pattern, own)
    if opens_others and not sections:
        opened = OpenedNames(unread="it has no section headers to show where its strings are")
    comments = (source.read(s.offset, s.size) for s in sections if s.name == ".comment")
    compilers = {
        text
        for comment in comments
        for text in comment.decode("ascii", "replace").split("\0")
        if names_compiler(text)
    }
    return replace(
        found,
        kind=Kind.EXECUTABLE if program else Kind.SHARED,
        name="".join(dynamic.texts(DT_SONAME)[-1:]),
        needed=tuple(Dependency(name=name) for name in dynamic.texts(DT_NEEDED)),
        rpath=dynamic.search_path(DT_RPATH),
        runpath=dynamic.search_path(DT_RUNPATH),
        bind_now=bool(DT_BIND_NOW in dynamic or flags & _DF_BIND_NOW or flags_1 & _DF_1_NOW),
        text_relocations=text_relocations,
        code_relocations=(
            count_code_relocations(image, segments, dynamic) if text_relocations else None
        ),
        static_tls=bool(flags & _DF_STATIC_TLS),
        initial_exec=(find_initial_exec(image, dynamic, names) if flags & _DF_STATIC_TLS else ()),
        relative_relocations=DT_RELR in dynamic,
        android_relocations=(
            *(["packed"] if DT_ANDROID_REL in dynamic or DT_ANDROID_RELA in dynamic else []),
            *(["relative"] if DT_ANDROID_RELR in dynamic else []),
        ),
        sysv_hash=DT_HASH in dynamic,
        section_headers=bool(header.section_count and header.names_index),
        no_default_libraries=bool(flags_1 & _DF_1_NODEFLIB),
        stack_header=stack is not None,
        executable_stack=(
            bool(stack.flags & PF_X) if stack else assumes_executable_stack(found.architecture)
        ),
        relro=PT_GNU_RELRO in by_type,
        writable_executable=any(s.flags & PF_W and s.flags & PF_X for s in loads),
        alignment=min((segment.alignment for segment in loads), default=0),
        tls_size=-(-thread.memory_size // max(thread.alignment, 1)) * max(thread.alignment, 1)
        if thread
        else 0,
        opens=opens,
        imports=imports,
        exports=exports,
        symbol_versions=tuple(versions.needed),
        defined_versions=tuple(versions.defined),
        interpreter=interpreter,
        refusals=tuple(find_refusals(segments, dynamic, versions)),
        fixed_address=header.type == ET_EXEC,
        opened=opened,
        texts=(*texts, *sorted(compilers)),
        gil_not_used=find_gil_slot(
            found.path, imports, writable, header.struct("P"), read_relocations(image, dynamic)
        ),
        **read_notes(source, header, segments),
    )

"""Reads ELF files: program headers and the dynamic segment first, as a loader does.

Section headers may be missing; they only tell of debug information and device code. Everything
a file refers to must lie inside of it: a truncated file is malformed, never empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from binary_checks.errors import MalformedError, TooLarge
from binary_checks.model import ElfFile, Kind, UnreadObject
from binary_checks.model.objects import make_dependency
from binary_checks.model.protocols import Observations
from binary_checks.objects.device.reader import read_cubin
from binary_checks.objects.device.sections import SECTIONS, read_device_code
from binary_checks.objects.device.wrappers import Wrappers
from binary_checks.objects.elf.dynamic import (
    DF_1_NODEFLIB,
    DF_1_NOW,
    DF_BIND_NOW,
    DF_STATIC_TLS,
    DF_TEXTREL,
    DT_BIND_NOW,
    DT_FLAGS,
    DT_FLAGS_1,
    DT_NEEDED,
    DT_RELR,
    DT_RPATH,
    DT_RUNPATH,
    DT_SONAME,
    DT_TEXTREL,
    Dynamic,
    decode,
    read_dynamic,
)
from binary_checks.objects.elf.header import (
    ET_EXEC,
    ET_REL,
    architecture_of,
    assumes_executable_stack,
    read_header,
)
from binary_checks.objects.elf.image import MappedImage
from binary_checks.objects.elf.kinds import kind_of_loaded, kind_of_unloaded, may_be_opened
from binary_checks.objects.elf.layout import verify_contents, verify_extent
from binary_checks.objects.elf.notes import read_notes
from binary_checks.objects.elf.plan import plan
from binary_checks.objects.elf.refusals import Parsed, find_refusals
from binary_checks.objects.elf.relocations import RELOCATION_TYPES, count_unwritable
from binary_checks.objects.elf.sections import (
    Section,
    find_extents,
    has_debug_information,
    is_debug_companion,
    measure_debug_information,
    read_sections,
)
from binary_checks.objects.elf.segments import (
    PF_W,
    PF_X,
    PT_GNU_RELRO,
    PT_GNU_STACK,
    PT_INTERP,
    PT_LOAD,
    PT_TLS,
    Segment,
    read_segments,
)
from binary_checks.objects.elf.strings import opens_libraries, read_comment, read_opened, read_texts
from binary_checks.objects.elf.symbols import read_columns, read_symbols
from binary_checks.objects.elf.versions import read_versions
from binary_checks.objects.elf.wrappers import find_wrappers
from binary_checks.objects.limits import LimitedSource
from binary_checks.objects.opened_names import NameScanner

__all__ = ["plan", "read"]

_LONGEST_PATH = 4096  # bytes, PATH_MAX: the kernel runs nothing whose PT_INTERP is longer


def read(
    path: str, source: LimitedSource, observations: Observations
) -> tuple[ElfFile | UnreadObject, ...]:
    """The one object of an ELF file. Raises MalformedError, or TooLarge for what is too long."""
    header = read_header(source)
    segments = read_segments(source, header)
    sections = read_sections(source, header)
    debug = header.type != ET_REL and is_debug_companion(sections)
    if not debug:  # in a companion, segments tell where things lie in the stripped file
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
    """Add to an object what a loader reads of it."""
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
    if kind is Kind.SHARED or interpreter:  # no loader looks at a static program
        refusals = find_refusals(image, Parsed(segments, sections, dynamic, versions, columns))
    flags, flags_1 = dynamic.value(DT_FLAGS), dynamic.value(DT_FLAGS_1)
    by_type = {segment.type: segment for segment in segments}  # the last of a type, as in glibc
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
        relative_relocations=DT_RELR in dynamic,
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
    types = RELOCATION_TYPES.get(architecture_of(image.header))
    if types is None or not _announces_text_relocations(dynamic):
        return None
    try:
        return count_unwritable(image, segments, dynamic, types)
    except (MalformedError, TooLarge):  # why, the refusals say
        return None


def _announces_text_relocations(dynamic: Dynamic) -> bool:
    return bool(DT_TEXTREL in dynamic or dynamic.value(DT_FLAGS) & DF_TEXTREL)


def _aligned_size(segment: Segment) -> int:
    step = max(segment.alignment, 1)
    return -(-segment.memory_size // step) * step


def _read_interpreter(source: LimitedSource, segments: Iterable[Segment]) -> str:
    segment = next((s for s in segments if s.type == PT_INTERP), None)
    if segment is None:
        return ""
    if segment.file_size > _LONGEST_PATH:
        raise MalformedError(f"a PT_INTERP of {segment.file_size} bytes, longer than any path")
    contents = source.read(segment.offset, segment.file_size)
    return decode(contents.partition(b"\0")[0])

"""Find why ld.so refuses an ELF file, or crashes on it, before any of its code runs."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress, islice, pairwise
from typing import Final, NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.objects.byte_source import merge
from binary_checks.objects.elf.dynamic import (
    DF_1_NOOPEN,
    DT_FINI_ARRAY,
    DT_FINI_ARRAYSZ,
    DT_FLAGS_1,
    DT_GNU_HASH,
    DT_HASH,
    DT_INIT_ARRAY,
    DT_INIT_ARRAYSZ,
    DT_JMPREL,
    DT_NEEDED,
    DT_PLTREL,
    DT_PLTRELSZ,
    DT_REL,
    DT_RELA,
    DT_RELAENT,
    DT_RELASZ,
    DT_RELENT,
    DT_RELR,
    DT_RELRENT,
    DT_RELRSZ,
    DT_RELSZ,
    DT_STRSZ,
    DT_STRTAB,
    DT_SYMTAB,
    DT_VERDEF,
    DT_VERDEFNUM,
    DT_VERNEED,
    DT_VERNEEDNUM,
    DT_VERSYM,
    RELOCATION_TYPES,
    Dynamic,
    RelocationTypes,
    Versions,
    column,
    judge_hash_table,
    may_be_opened,
)
from binary_checks.objects.elf.header import (
    PF_R,
    PF_W,
    PF_X,
    PT_DYNAMIC,
    PT_GNU_PROPERTY,
    PT_GNU_RELRO,
    PT_LOAD,
    PT_NOTE,
    PT_PHDR,
    PT_TLS,
    SHT_NOBITS,
    ElfHeader,
    MappedImage,
    Section,
    Segment,
    architecture_of,
)
from binary_checks.objects.elf.symbols import ENTRY_SIZE, HIDDEN, SymbolColumns, find_zeros, join

# The pages that a loader maps from an ELF file, by address: readable, writable and executable ones.

PAGE = 4096  # bytes of the smallest page of these architectures; loaders protect whole pages
# Addresses handled at once, because Python integers for a large table take much memory.
_AT_ONCE: Final = 1 << 14

Ranges = tuple[tuple[int, int], ...]


class Memory:
    """The pages of all PT_LOAD segments. Ranges are (start, end), sorted, and do not touch."""

    __slots__ = ("code", "mapped", "readable", "written")

    def __init__(self, segments: Iterable[Segment], tables: Iterable[tuple[int, int]]) -> None:
        """Map the segments. ``tables`` are ranges without code inside of executable segments."""
        loads = [s for s in segments if s.type == PT_LOAD and s.memory_size]
        self.mapped = merge(map(_pages, loads))
        self.readable = merge(_pages(load) for load in loads if load.flags & PF_R)
        self.written = merge(_pages(load) for load in loads if load.flags & PF_W)
        code = merge(
            (load.address, load.address + load.file_size) for load in loads if load.flags & PF_X
        )
        self.code = _subtract(code, merge(tables))


def _subtract(ranges: Ranges, holes: Ranges) -> Ranges:
    """Return the ranges without the holes."""
    left = list(ranges)
    for start, end in holes:
        left = [
            piece
            for first, last in left
            for piece in ((first, min(last, start)), (max(first, end), last))
            if piece[0] < piece[1]
        ]
    return tuple(left)


def _pages(load: Segment) -> tuple[int, int]:
    end = load.address + load.memory_size
    return load.address // PAGE * PAGE, -(-end // PAGE) * PAGE


def holds(ranges: Ranges, start: int, size: int) -> bool:
    """Return whether one range contains all ``size`` bytes from ``start``."""
    end = start + size
    for first, last in ranges:  # noqa: SIM110 - a generator takes twice as long, and all ask here
        if first <= start and end <= last:
            return True
    return False


def find_outside(ranges: Ranges, addresses: Sequence[int]) -> int | None:
    """Return the lowest address that lies in none of the ranges, or None."""
    blocks = (addresses[at : at + _AT_ONCE] for at in range(0, len(addresses), _AT_ONCE))
    lowest = (_find_in_block(ranges, list(block)) for block in blocks)
    return min((address for address in lowest if address is not None), default=None)


def _find_in_block(ranges: Ranges, addresses: list[int]) -> int | None:
    low, high = min(addresses), max(addresses)
    if holds(ranges, low, high + 1 - low):
        return None  # the usual case, decided without a loop in Python
    ordered = sorted(addresses)
    position = 0
    for start, end in ranges:
        if bisect_left(ordered, start) > position:
            break
        position = bisect_left(ordered, end)
    return ordered[position] if position < len(ordered) else None


# Why a loader does not map an ELF file: rules for the ELF header and the program headers.
#
# They are the checks that glibc's loader makes before mapping (elf/dl-load.c, ``open_verify`` and
# ``_dl_map_object_from_fd``). An earlier check ensures that everything the headers refer to lies
# inside the file.

# Set by linkers for STB_GNU_UNIQUE and STT_GNU_IFUNC (image.so of torchvision 0.28.0).
_OS_ABI_GNU: Final = 3
_OS_ABIS = {0: "System V", _OS_ABI_GNU: "GNU"}
_EM_ARM: Final = 40
_ARM_OS_ABIS = (64, 97)  # ELFOSABI_ARM_AEABI, ELFOSABI_ARM
_NEWEST_ABI_VERSION: Final = 3  # LIBC_ABI_ABSOLUTE, the highest EI_ABIVERSION that glibc accepts
_LARGEST: Final = 1 << 36  # bytes of memory; the largest libraries take some GiB
_LARGEST_ALIGNMENT: Final = 1 << 30  # bytes; the largest pages that processors have
# Bytes, of which each thread that uses them gets a copy (_kiwipiepy.abi3.so of kiwipiepy 0.24.1 has
# 816,136). The limit is ours: glibc's loader ends the process if it cannot allocate them.
_LARGEST_TLS: Final = 1 << 32
# Bytes. The limit is ours, far above real libraries (libcudart.so.13 of nvidia_cuda_runtime 13.5.37
# has 4096).
_LARGEST_TLS_ALIGNMENT: Final = 1 << 20
_NAMES = {PT_PHDR: "PT_PHDR", PT_NOTE: "PT_NOTE", PT_GNU_PROPERTY: "PT_GNU_PROPERTY"}


def verify_extent(segments: Iterable[Segment], size: int) -> None:
    """Raise MalformedError for a segment that is not entirely inside the file.

    Without this, a truncated library would seem to need nothing and to define nothing.
    """
    for number, segment in enumerate(segments):
        end = segment.offset + segment.file_size
        if segment.file_size and end > size:
            raise MalformedError(
                f"program header {number} ends at byte {end:#x}, but the file has only "
                f"{size:#x} bytes",
                size,
            )
        if segment.type == PT_LOAD and segment.file_size > segment.memory_size:
            raise MalformedError(
                f"program header {number} is larger in the file than in memory", segment.offset
            )


def verify_contents(sections: tuple[Section, ...], size: int) -> None:
    """Raise MalformedError for a section whose contents are not entirely inside the file."""
    for section in sections:
        end = section.offset + section.size
        if section.type not in (0, SHT_NOBITS) and end > size:
            raise MalformedError(
                f"section {section.name!r} ends at byte {end:#x}, but the file has only "
                f"{size:#x} bytes",
                size,
            )


def find_layout_faults(
    header: ElfHeader, segments: tuple[Segment, ...], memory: Memory, *, for_musl: bool
) -> Iterator[str]:
    """Yield faults that prevent mapping the file. Each sentence continues the file's path."""
    if not for_musl:  # musl checks less of the header
        yield from _judge_header(header)
    yield from _judge_segments(header, segments, memory)


def _judge_header(header: ElfHeader) -> Iterator[str]:
    """Yield faults of the ELF header that glibc's loader refuses."""
    os_abi, abi_version = header.identification[7:9]
    if os_abi not in _OS_ABIS and not (header.machine == _EM_ARM and os_abi in _ARM_OS_ABIS):
        yield f"has EI_OSABI {os_abi}, but Linux takes only 0 (System V) or 3 (GNU)"
    elif abi_version > (_NEWEST_ABI_VERSION if os_abi == _OS_ABI_GNU else 0):
        yield f"has EI_ABIVERSION {abi_version}, which no loader takes with EI_OSABI {os_abi}"
    if any(header.identification[9:]):
        yield "has an e_ident whose padding is not zero: glibc's loader refuses it"
    if header.version != 1:
        yield f"has e_version {header.version:#x}, but glibc's loader takes only 1"


def _judge_segments(
    header: ElfHeader, segments: tuple[Segment, ...], memory: Memory
) -> Iterator[str]:
    """Yield faults of the program headers that the loader refuses, or crashes on."""
    loads = [segment for segment in segments if segment.type == PT_LOAD]
    if not loads:
        yield "has no PT_LOAD: there is nothing to load"
        return
    for number, segment in enumerate(segments):
        if segment.type == PT_LOAD:
            yield from (
                f"has a PT_LOAD (program header {number}) {s}" for s in _judge_load(segment)
            )
    yield from _judge_order(loads)
    yield from _judge_others(segments, memory)
    yield from _judge_table(header, segments, loads)


def _judge_table(
    header: ElfHeader, segments: tuple[Segment, ...], loads: list[Segment]
) -> Iterator[str]:
    """Yield a fault of PT_PHDR, by which a loader finds the program headers in memory.

    Linkers also write PT_PHDR for libraries (orjson 3.13.0).
    """
    found = {
        segment.address - load.address + load.offset
        for segment in segments
        for load in loads
        if segment.type == PT_PHDR and 0 <= segment.address - load.address < load.memory_size
    }
    is_there = any(segment.type == PT_PHDR for segment in segments)
    if is_there and header.segments_offset not in found:
        yield "has a PT_PHDR that does not point to its program headers"


def _judge_load(load: Segment) -> Iterator[str]:
    """Yield faults of one PT_LOAD (gABI chapter 5, "Program Header").

    p_vaddr and p_offset must be congruent modulo the page size for a loader, and modulo p_align
    according to the gABI. glibc reports "ELF load command address/offset not page-aligned"; before
    2.35 it compared p_align, too, and reported "not properly aligned".
    """
    if (load.address - load.offset) % PAGE:
        yield (
            f"at address {load.address:#x} and offset {load.offset:#x}, which have "
            "different offsets in their pages"
        )
    elif load.alignment and (load.alignment % PAGE or load.alignment & load.alignment - 1):
        yield f"with p_align {load.alignment:#x}, not a power of two of at least {PAGE:#x}"
    elif load.alignment > _LARGEST_ALIGNMENT:
        yield f"with p_align {load.alignment:#x}, for which there is no room in memory"
    elif load.alignment and (load.address - load.offset) % load.alignment:
        yield (
            f"at address {load.address:#x} and offset {load.offset:#x}, which differ modulo "
            f"p_align {load.alignment:#x}: glibc before 2.35 refuses it"
        )


def _judge_order(loads: list[Segment]) -> Iterator[str]:
    """Yield PT_LOADs that overlap: the gABI requires ascending p_vaddr, and loaders rely on it."""
    used = [load for load in loads if load.memory_size]
    for before, after in pairwise(used):
        end = before.address + before.memory_size
        if after.address // PAGE * PAGE < end and not _shares_page(before, after):
            yield (
                f"has PT_LOADs that overlap or are out of order: one ends at {end:#x}, the next "
                f"begins at {after.address:#x}"
            )
            return
    if used and used[-1].address + used[-1].memory_size - used[0].address > _LARGEST:
        yield f"claims more than {_LARGEST >> 30} GiB of memory"


def _shares_page(before: Segment, after: Segment) -> bool:
    """Return whether two segments share a page with the same contents in the file."""
    same = before.address - before.offset == after.address - after.offset
    end = before.address + before.memory_size
    return same and before.file_size == before.memory_size and end <= after.address


def _judge_others(segments: tuple[Segment, ...], memory: Memory) -> Iterator[str]:
    """Yield segments other than PT_LOAD for which nothing suitable is loaded at their addresses."""
    for segment in segments:
        size = segment.memory_size
        if segment.type in _NAMES and size and not holds(memory.readable, segment.address, size):
            yield f"has a {_NAMES[segment.type]} at {segment.address:#x}, where nothing is loaded"
        elif segment.type == PT_GNU_RELRO:
            yield from _judge_relro(segment, memory)
        elif segment.type == PT_TLS and size:
            yield from _judge_thread(segment, memory)
    dynamics = [segment for segment in segments if segment.type == PT_DYNAMIC]
    if len(dynamics) > 1:
        yield f"has {len(dynamics)} PT_DYNAMIC, and loaders and tools choose different ones"
    for segment in dynamics:
        # glibc writes addresses into PT_DYNAMIC, and did so before 2.35 even if its flags forbid
        # writing.
        place = (segment.address, segment.memory_size)
        if segment.flags & PF_W and not holds(memory.written, *place):
            yield f"has a PT_DYNAMIC at {segment.address:#x}, where nothing writable is loaded"
        elif not holds(memory.readable, *place):
            yield f"has a PT_DYNAMIC at {segment.address:#x}, where nothing is loaded"


def _judge_relro(segment: Segment, memory: Memory) -> Iterator[str]:
    """Yield faults of PT_GNU_RELRO.

    A loader rounds both ends down to whole pages and protects the pages between; it gives up if one
    is not mapped ("cannot apply additional memory protection after relocation":
    ``_dl_protect_relro`` in glibc's elf/dl-reloc.c).
    """
    start = segment.address // PAGE * PAGE
    end = (segment.address + segment.memory_size) // PAGE * PAGE
    if start >= end:
        return
    if not holds(memory.mapped, start, end - start):
        yield (
            f"has a PT_GNU_RELRO at {segment.address:#x}, {segment.memory_size:#x} bytes, which is "
            "not entirely loaded: it cannot be protected"
        )
    elif any(first < end and start < last for first, last in memory.code):
        yield f"has a PT_GNU_RELRO at {segment.address:#x} over its code, which then cannot run"


def _judge_thread(segment: Segment, memory: Memory) -> Iterator[str]:
    """Yield faults of PT_TLS, the initial contents of thread-local storage."""
    step = segment.alignment
    if step & (step - 1):
        yield f"has a PT_TLS with p_align {step:#x}, which is not a power of two"
    elif step > _LARGEST_TLS_ALIGNMENT:
        yield f"has a PT_TLS with p_align {step:#x}, more than any real library has"
    elif segment.file_size > segment.memory_size:
        memory_size = f"{segment.memory_size:#x} bytes in memory"
        yield f"has a PT_TLS that is larger in the file than its {memory_size}"
    elif segment.memory_size > _LARGEST_TLS:
        yield f"has a PT_TLS of {segment.memory_size:#x} bytes, for each thread"
    elif segment.file_size and not holds(memory.readable, segment.address, segment.file_size):
        yield f"has a PT_TLS at {segment.address:#x}, where nothing is loaded"


# The entries of the dynamic segment (gABI chapter 5, "Dynamic Section") that loaders use unchecked.

_TABLES: Final = {
    "DT_STRTAB": DT_STRTAB,
    "DT_SYMTAB": DT_SYMTAB,
    "DT_HASH": DT_HASH,
    "DT_GNU_HASH": DT_GNU_HASH,
    "DT_RELA": DT_RELA,
    "DT_REL": DT_REL,
    "DT_RELR": DT_RELR,
    "DT_JMPREL": DT_JMPREL,
    "DT_VERSYM": DT_VERSYM,
    "DT_VERNEED": DT_VERNEED,
    "DT_VERDEF": DT_VERDEF,
    "DT_INIT_ARRAY": DT_INIT_ARRAY,
    "DT_FINI_ARRAY": DT_FINI_ARRAY,
}
"""Entries with the address of a table that loaders read."""
_SIZES: Final = {
    DT_RELA: DT_RELASZ,
    DT_REL: DT_RELSZ,
    DT_RELR: DT_RELRSZ,
    DT_JMPREL: DT_PLTRELSZ,
    DT_INIT_ARRAY: DT_INIT_ARRAYSZ,
    DT_FINI_ARRAY: DT_FINI_ARRAYSZ,
}
"""The entry that states a table's length in bytes."""
_TOGETHER: Final = (
    {"DT_RELA": DT_RELA, "DT_RELASZ": DT_RELASZ, "DT_RELAENT": DT_RELAENT},
    {"DT_REL": DT_REL, "DT_RELSZ": DT_RELSZ, "DT_RELENT": DT_RELENT},
    {"DT_RELR": DT_RELR, "DT_RELRSZ": DT_RELRSZ, "DT_RELRENT": DT_RELRENT},
    {"DT_JMPREL": DT_JMPREL, "DT_PLTRELSZ": DT_PLTRELSZ, "DT_PLTREL": DT_PLTREL},
    {"DT_VERNEED": DT_VERNEED, "DT_VERNEEDNUM": DT_VERNEEDNUM},
    {"DT_VERDEF": DT_VERDEF, "DT_VERDEFNUM": DT_VERDEFNUM},
    {"DT_INIT_ARRAY": DT_INIT_ARRAY, "DT_INIT_ARRAYSZ": DT_INIT_ARRAYSZ},
    {"DT_FINI_ARRAY": DT_FINI_ARRAY, "DT_FINI_ARRAYSZ": DT_FINI_ARRAYSZ},
)
"""Groups of entries: a loader that finds the first uses the others without checking that they
exist.
"""

_PACKED: Final = {
    "DT_REL": 0x6000000F,  # DT_ANDROID_REL
    "DT_RELA": 0x60000011,  # DT_ANDROID_RELA
    "DT_RELR": 0x6FFFE000,  # DT_ANDROID_RELR
}
"""Entries of packed relocations, with which Android's linkers replace those of the same records.

``DT_RELENT`` stays beside ``DT_ANDROID_REL`` (libpdfium.so of pypdfium2 5.15.2).
"""


def judge_entries(dynamic: Dynamic, memory: Memory) -> Iterator[str]:
    """Yield entries that are missing, have an invalid address, or forbid loading."""
    for name, tag in (("DT_STRTAB", DT_STRTAB), ("DT_SYMTAB", DT_SYMTAB)):
        if tag not in dynamic:
            yield f"has no {name}, which loaders read unchecked: the process crashes"
    packed = {name for name, tag in _PACKED.items() if tag in dynamic}
    for group in _TOGETHER:
        if packed.intersection(group):
            continue
        missing = [name for name, tag in group.items() if tag not in dynamic]
        if missing and len(missing) < len(group):
            there = next(name for name in group if name not in missing)
            fault = f"has {there} and no {missing[0]}"
            yield f"{fault}, which loaders read unchecked: the process crashes"
    if DT_VERSYM not in dynamic and (DT_VERNEED in dynamic or DT_VERDEF in dynamic):
        fault = "has tables of versions but no DT_VERSYM"
        yield f"{fault}, which glibc reads unchecked: the process crashes"
    for name, tag in _TABLES.items():
        address = dynamic.value(tag)
        if tag in dynamic and not holds(memory.readable, address, 1) and _counts(dynamic, tag):
            yield f"has {name} at {address:#x}, where nothing is loaded that may be read"
    if dynamic.value(DT_FLAGS_1) & DF_1_NOOPEN:
        yield "has DF_1_NOOPEN in its DT_FLAGS_1: dlopen refuses it"


def _counts(dynamic: Dynamic, tag: int) -> bool:
    """Return whether the table is not empty, as far as an entry states its size."""
    return tag not in _SIZES or dynamic.value(_SIZES[tag]) > 0


def judge_extents(image: MappedImage, dynamic: Dynamic) -> Iterator[str]:
    """Yield tables that extend beyond the bytes that their segment has in the file."""
    for name, tag in _TABLES.items():
        if tag in dynamic and tag in _SIZES and (size := dynamic.value(_SIZES[tag])):
            try:
                image.require(dynamic.value(tag), size, name)
            except MalformedError as error:
                yield f"cannot be loaded: {error}"


def judge_sizes(
    dynamic: Dynamic, types: RelocationTypes, word: int, *, for_musl: bool
) -> Iterator[str]:
    """Yield wrong sizes of tables and relocation records.

    glibc asserts the records' sizes, musl ignores them.
    """
    kind = DT_RELA if types.addends else DT_REL
    size = word * (3 if types.addends else 2)
    if DT_PLTREL in dynamic and dynamic.value(DT_PLTREL) != kind:
        yield (
            f"has DT_PLTREL {dynamic.value(DT_PLTREL)}, not {kind} "
            f"({'DT_RELA' if types.addends else 'DT_REL'}), so loaders misread the records"
        )
    own = (
        ("DT_RELA", DT_RELA, DT_RELASZ, DT_RELAENT)
        if types.addends
        else ("DT_REL", DT_REL, DT_RELSZ, DT_RELENT)
    )
    for name, table, length, each, wanted in (
        (*own, size),
        ("DT_RELR", DT_RELR, DT_RELRSZ, DT_RELRENT, word),
    ):
        asserted = not for_musl and table in dynamic and each in dynamic
        if asserted and dynamic.value(each) != wanted:
            yield (
                f"has {name}ENT {dynamic.value(each)}, but records have {wanted} bytes: glibc's "
                "loader ends the process"
            )
        if table in dynamic and dynamic.value(length) % wanted:
            yield f"has {name}SZ {dynamic.value(length)}, not a multiple of {wanted}"
    if DT_JMPREL in dynamic and dynamic.value(DT_PLTRELSZ) % size:
        yield f"has DT_PLTRELSZ {dynamic.value(DT_PLTRELSZ)}, not a multiple of {size}"


# Dynamic symbols (gABI chapter 4, "Symbol Table") as a loader uses them: in lookups, or in calls.

_ZERO: Final = bytes(number == 0 for number in range(256))
_UNSEEN: Final = bytes(other & 3 in (1, 2) for other in range(256))  # STV_INTERNAL, STV_HIDDEN
_BINDINGS: Final = frozenset({0, 1, 2, 10})  # STB_LOCAL, STB_GLOBAL, STB_WEAK, STB_GNU_UNIQUE
# STT_NOTYPE, _OBJECT, _FUNC, _COMMON, _TLS, _GNU_IFUNC: types that a lookup of glibc finds
# (elf/dl-lookup.c)
_TYPES: Final = frozenset({0, 1, 2, 5, 6, 10})
_STT_FUNC, _STT_GNU_IFUNC = 2, 10
_FUNCTION: Final = bytes(info & 15 in (_STT_FUNC, _STT_GNU_IFUNC) for info in range(256))


def judge_values(symbols: SymbolColumns, strings: bytes, memory: Memory) -> Iterator[str]:
    """Yield functions that the object defines at an address without code."""
    functions = join(symbols.information.translate(_FUNCTION), symbols.in_sections())
    places = array(symbols.values.typecode, compress(symbols.values, functions))
    wrong = find_outside(memory.code, places)
    if wrong is not None:
        index = symbols.values.index(wrong)
        name = name_at(strings, symbols.names[index]).decode("utf-8", "backslashreplace")
        yield f"has the function {name} at {wrong:#x}, where there is no code"


def judge_symbols(symbols: SymbolColumns, strings: bytes, *, is_program: bool) -> Iterator[str]:
    """Yield entries of DT_SYMTAB that make a loader find nothing, or the wrong definition."""
    if symbols.names[0] or symbols.bindings[0] or symbols.sections[0] or symbols.values[0]:
        yield "has a symbol number 0 that is not empty, and relocations without a symbol use it"
    kinds = {(each >> 4, each & 15) for each in set(symbols.information[1:])}
    if any(binding not in _BINDINGS for binding, _ in kinds):
        yield "has a dynamic symbol whose binding no loader knows"
    elif any(binding and kind not in _TYPES for binding, kind in kinds):
        yield "has a dynamic symbol of a type that no lookup finds"
    try:
        if 0 in map(strings.__getitem__, compress(symbols.names, symbols.bindings)):
            yield "has a dynamic symbol without a name, which no lookup finds"
    except IndexError:
        yield "has a dynamic symbol whose name lies outside of DT_STRTAB"
    for mask, fault in _find_undefined(symbols, is_program=is_program):
        index = join(symbols.undefined, mask).find(1)
        if index >= 0:
            name = name_at(strings, symbols.names[index]).decode("utf-8", "backslashreplace")
            yield f"imports {name}, but its entry in DT_SYMTAB {fault}"


def _find_undefined(symbols: SymbolColumns, *, is_program: bool) -> Iterator[tuple[bytes, str]]:
    """Yield masks of undefined symbols that a loader treats as defined, each with the reason.

    A mask has one byte for each symbol: 0 or 1.
    """
    if symbols.bindings.find(0, 1) >= 0:
        named = find_zeros(symbols.names).translate(_ZERO)
        yield join(symbols.bindings.translate(_ZERO), named), "is local"
    yield symbols.views.translate(_UNSEEN), "is hidden"
    # In a program an undefined function may have the address of its PLT entry, which is then the
    # function's address in the whole process.
    if not is_program and any(compress(symbols.values, symbols.undefined)):
        yield find_zeros(symbols.values).translate(_ZERO), "has an address"


def judge_versions(
    symbols: SymbolColumns, strings: bytes, indices: array[int], own: frozenset[int]
) -> Iterator[str]:
    """Yield undefined symbols with a version that only the object itself defines."""
    asked = {index & ~HIDDEN for index in set(compress(indices, symbols.undefined))}
    for number in own & asked:
        place = next(
            i for i, u in enumerate(symbols.undefined) if u and indices[i] & ~HIDDEN == number
        )
        name = name_at(strings, symbols.names[place]).decode("utf-8", "backslashreplace")
        yield f"imports {name} in a version that only this file defines: no loader finds the symbol"


def name_at(strings: bytes, offset: int) -> bytes:
    """Return the string at an offset."""
    end = strings.find(b"\0", offset)
    return strings[offset : end if end >= 0 else len(strings)]


# All rules together. Each is a rule of glibc's or musl's loader, which checks, asserts or relies on
# it.

_MUSL: Final = "libc.musl-"
_MOST: Final = 20
"""Limit on the reasons that are reported: one damaged address causes many."""


class Parsed(NamedTuple):
    """The parts of an object that were already read."""

    segments: tuple[Segment, ...]
    sections: tuple[Section, ...]
    dynamic: Dynamic
    versions: Versions
    symbols: SymbolColumns


def find_refusals(image: MappedImage, parsed: Parsed) -> tuple[str, ...]:
    """Return why a loader refuses a dynamic object: the first reasons, without duplicates."""
    loading = _Loading(image, parsed)
    found = (sentence for judge in loading.judges() for sentence in _collect(judge))
    return tuple(islice(dict.fromkeys(found), _MOST))


class _Loading:
    """One object, and the rules to apply to it."""

    def __init__(self, image: MappedImage, parsed: Parsed) -> None:
        header, dynamic = image.header, parsed.dynamic
        segments = parsed.segments
        tables = _list_tables(image, segments, dynamic, len(parsed.symbols))
        self.image, self.parsed = image, parsed
        self.segments, self.dynamic = segments, dynamic
        self.memory = Memory(segments, tables)
        self.symbols = parsed.symbols
        self.types = RELOCATION_TYPES.get(architecture_of(header))
        self.is_program = not may_be_opened(header, dynamic)
        # musl asserts less than glibc, and checks less of the headers.
        self.for_musl = any(name.startswith(_MUSL) for name in dynamic.texts(DT_NEEDED))

    def judges(self) -> tuple[Callable[[], Iterable[str]], ...]:
        """The rules, from the outermost header inwards."""
        return (
            self._judge_headers,
            lambda: judge_entries(self.dynamic, self.memory),
            self._judge_symbols,
            self._judge_hash_table,
            self._judge_tables,
            lambda: self.parsed.versions.faults,
        )

    def _judge_headers(self) -> Iterator[str]:
        if not self.is_program:  # a program is loaded by the kernel, which checks little
            header, for_musl = self.image.header, self.for_musl
            yield from find_layout_faults(header, self.segments, self.memory, for_musl=for_musl)

    def _judge_symbols(self) -> Iterator[str]:
        if len(self.symbols):
            strings = self.dynamic.strings
            yield from judge_values(self.symbols, strings, self.memory)
            # On MIPS, as in programs, an undefined symbol may have the address of its stub.
            stubs = self.is_program or self.types is None
            yield from judge_symbols(self.symbols, strings, is_program=stubs)
            own = self.parsed.versions.own
            if own and DT_VERSYM in self.dynamic:
                size, order = 2 * len(self.symbols), self.image.header.byte_order
                table = self.image.read(self.dynamic.value(DT_VERSYM), size, "DT_VERSYM")
                yield from judge_versions(self.symbols, strings, column("H", table, order), own)

    def _judge_hash_table(self) -> Iterator[str]:
        if len(self.symbols):
            yield from judge_hash_table(self.image, self.dynamic)

    def _judge_tables(self) -> Iterator[str]:
        if self.types is None:
            return
        word = self.image.header.bits // 8
        yield from judge_sizes(self.dynamic, self.types, word, for_musl=self.for_musl)
        yield from judge_extents(self.image, self.dynamic)


def _list_tables(
    image: MappedImage, segments: Iterable[Segment], dynamic: Dynamic, symbols: int
) -> Iterator[tuple[int, int]]:
    """Yield the address ranges of headers and tables, which contain no code."""
    for load in segments:
        if load.type == PT_LOAD and not load.offset:
            yield load.address, load.address + (64 if image.header.bits == 64 else 52)
            break
    for tag, size in (
        (DT_SYMTAB, symbols * ENTRY_SIZE[image.header.bits]),
        (DT_STRTAB, dynamic.value(DT_STRSZ)),
        (DT_RELA, dynamic.value(DT_RELASZ)),
        (DT_REL, dynamic.value(DT_RELSZ)),
        (DT_JMPREL, dynamic.value(DT_PLTRELSZ)),
        (DT_VERSYM, symbols * 2),
    ):
        yield dynamic.value(tag), dynamic.value(tag) + size


def _collect(judge: Callable[[], Iterable[str]]) -> Iterator[str]:
    """Yield a rule's sentences; a table that cannot be read adds one sentence."""
    try:
        yield from judge()
    except MalformedError as error:
        yield f"cannot be loaded: {error}"

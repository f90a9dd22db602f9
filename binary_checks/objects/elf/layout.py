"""Why a loader does not map an ELF file: what its headers and program headers have to agree on.

What glibc's loader asks of them before it maps anything (dl-load.c). Before that, everything that
the headers refer to must lie inside of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from binary_checks.errors import MalformedError
from binary_checks.objects.elf.header import ElfHeader
from binary_checks.objects.elf.memory import PAGE, Memory, holds
from binary_checks.objects.elf.sections import SHT_NOBITS, Section
from binary_checks.objects.elf.segments import (
    PF_W,
    PT_DYNAMIC,
    PT_GNU_PROPERTY,
    PT_GNU_RELRO,
    PT_LOAD,
    PT_NOTE,
    PT_PHDR,
    PT_TLS,
    Segment,
)

_OS_ABI_GNU: Final = 3
_OS_ABIS = {0: "System V", _OS_ABI_GNU: "GNU"}
_EM_ARM: Final = 40
_ARM_OS_ABIS = (64, 97)  # ELFOSABI_ARM_AEABI, ELFOSABI_ARM
_NEWEST_ABI_VERSION: Final = 3  # LIBC_ABI_ABSOLUTE
_LARGEST: Final = 1 << 36  # bytes of memory; the largest libraries take some GiB
_LARGEST_ALIGNMENT: Final = 1 << 30  # the largest pages that processors have
_LARGEST_TLS: Final = 1 << 32
_LARGEST_TLS_ALIGNMENT: Final = 1 << 20
_NAMES = {PT_PHDR: "PT_PHDR", PT_NOTE: "PT_NOTE", PT_GNU_PROPERTY: "PT_GNU_PROPERTY"}

_FLAGS: Final = {
    # e_machine: (mask of e_flags, values that the loader takes, what they stand for)
    (21, "<"): (3, (0, 2), "version 2 of the ABI"),
    (243, "<"): (6, (4,), "floating-point arguments of double precision in registers"),
    (258, "<"): (7, (3,), "floating-point arguments of double precision in registers"),
}
"""Machines of which a loader refuses what passes arguments in another way."""


def verify_extent(segments: Iterable[Segment], size: int) -> None:
    """Raise MalformedError for a segment that the file does not hold in full.

    Without this a truncated library reads as one that needs nothing and defines nothing.
    """
    for number, segment in enumerate(segments):
        end = segment.offset + segment.file_size
        if segment.file_size and end > size:
            raise MalformedError(
                f"program header {number} ends at byte {end:#x}, the file has {size:#x} bytes",
                size,
            )
        if segment.type == PT_LOAD and segment.file_size > segment.memory_size:
            raise MalformedError(
                f"program header {number} is larger in the file than in memory", segment.offset
            )


def verify_contents(sections: tuple[Section, ...], size: int) -> None:
    """Raise MalformedError for a section whose contents the file does not hold in full."""
    for section in sections:
        end = section.offset + section.size
        if section.type not in (0, SHT_NOBITS) and end > size:
            raise MalformedError(
                f"section {section.name!r} ends at byte {end:#x}, the file has {size:#x} bytes",
                size,
            )


def find_layout_faults(
    header: ElfHeader, segments: tuple[Segment, ...], memory: Memory, *, for_musl: bool
) -> Iterator[str]:
    """Say what keeps the file from being mapped: each goes on from its path."""
    if not for_musl:  # musl asks less of the header
        yield from _judge_header(header)
    yield from _judge_segments(header, segments, memory)


def _judge_header(header: ElfHeader) -> Iterator[str]:
    """What glibc's loader refuses in the ELF header itself."""
    os_abi, abi_version = header.identification[7:9]
    if os_abi not in _OS_ABIS and not (header.machine == _EM_ARM and os_abi in _ARM_OS_ABIS):
        yield f"has EI_OSABI {os_abi}, and Linux takes 0 (System V) or 3 (GNU)"
    elif abi_version > (_NEWEST_ABI_VERSION if os_abi == _OS_ABI_GNU else 0):
        yield f"has EI_ABIVERSION {abi_version}, which no loader takes with EI_OSABI {os_abi}"
    if any(header.identification[9:]):
        yield "has an e_ident whose padding is not zero: glibc's loader refuses it"
    if header.version != 1:
        yield f"has e_version {header.version:#x}, and glibc's loader takes only 1"
    mask, allowed, meaning = _FLAGS.get((header.machine, header.byte_order), (0, (0,), ""))
    if header.flags & mask not in allowed:
        yield f"has e_flags {header.flags:#x}, and the loader takes only {meaning}"


def _judge_segments(
    header: ElfHeader, segments: tuple[Segment, ...], memory: Memory
) -> Iterator[str]:
    """What the loader refuses in the program headers, or crashes over."""
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
    """PT_PHDR, by which a loader finds the program headers once they are in memory."""
    found = {
        segment.address - load.address + load.offset
        for segment in segments
        for load in loads
        if segment.type == PT_PHDR and 0 <= segment.address - load.address < load.memory_size
    }
    is_there = any(segment.type == PT_PHDR for segment in segments)
    if is_there and header.segments_offset not in found:
        yield "has a PT_PHDR that leads to something else than its program headers"


def _judge_load(load: Segment) -> Iterator[str]:
    if (load.address - load.offset) % PAGE:
        yield (
            f"at address {load.address:#x} and offset {load.offset:#x}, which lie differently "
            "within their pages"
        )
    elif load.alignment and (load.alignment % PAGE or load.alignment & load.alignment - 1):
        yield f"with p_align {load.alignment:#x}, no power of two from {PAGE:#x} on"
    elif load.alignment > _LARGEST_ALIGNMENT:
        yield f"with p_align {load.alignment:#x}, for which there is no room in memory"
    elif load.alignment and (load.address - load.offset) % load.alignment:
        yield (
            f"at address {load.address:#x} and offset {load.offset:#x}, which disagree by p_align "
            f"{load.alignment:#x}: glibc before 2.35 refuses it"
        )


def _judge_order(loads: list[Segment]) -> Iterator[str]:
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
    """Whether two segments are neighbours in the file too: either way the page is the same."""
    same = before.address - before.offset == after.address - after.offset
    end = before.address + before.memory_size
    return same and before.file_size == before.memory_size and end <= after.address


def _judge_others(segments: tuple[Segment, ...], memory: Memory) -> Iterator[str]:
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
        yield f"has {len(dynamics)} PT_DYNAMIC, of which loaders and tools take different ones"
    for segment in dynamics:
        # glibc writes addresses into it, before 2.35 whatever its flags say.
        place = (segment.address, segment.memory_size)
        if segment.flags & PF_W and not holds(memory.written, *place):
            yield f"has a PT_DYNAMIC at {segment.address:#x}, where nothing writable is loaded"
        elif not holds(memory.readable, *place):
            yield f"has a PT_DYNAMIC at {segment.address:#x}, where nothing is loaded"


def _judge_relro(segment: Segment, memory: Memory) -> Iterator[str]:
    """A loader protects whole pages, down from either end; it gives up where one is not there."""
    start = segment.address // PAGE * PAGE
    end = (segment.address + segment.memory_size) // PAGE * PAGE
    if start >= end:
        return
    if not holds(memory.mapped, start, end - start):
        yield (
            f"has a PT_GNU_RELRO at {segment.address:#x}, {segment.memory_size:#x} bytes, which is "
            "not all loaded: it cannot be protected"
        )
    elif any(first < end and start < last for first, last in memory.code):
        yield f"has a PT_GNU_RELRO at {segment.address:#x} over its code, which then cannot run"


def _judge_thread(segment: Segment, memory: Memory) -> Iterator[str]:
    step = segment.alignment
    if step & (step - 1) or step > _LARGEST_TLS_ALIGNMENT:
        yield f"has a PT_TLS with p_align {step:#x}, which no loader can serve"
    elif segment.file_size > segment.memory_size:
        yield f"has a PT_TLS that is larger in the file than in memory, {segment.memory_size:#x}"
    elif segment.memory_size > _LARGEST_TLS:
        yield f"has a PT_TLS of {segment.memory_size:#x} bytes, for each thread"
    elif segment.file_size and not holds(memory.readable, segment.address, segment.file_size):
        yield f"has a PT_TLS at {segment.address:#x}, where nothing is loaded"

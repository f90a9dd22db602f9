"""Finds why a loader would refuse an ELF object, or crash over it, before any of its code runs.

Every rule is one of glibc's or musl's loader: what they check, assert, or follow without a look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.objects.elf.dynamic import (
    DT_JMPREL,
    DT_NEEDED,
    DT_PLTRELSZ,
    DT_REL,
    DT_RELA,
    DT_RELASZ,
    DT_RELSZ,
    DT_STRSZ,
    DT_STRTAB,
    DT_SYMTAB,
    DT_VERSYM,
    Dynamic,
)
from binary_checks.objects.elf.dynamic_faults import judge_entries, judge_extents, judge_sizes
from binary_checks.objects.elf.hash_tables import judge_hash_table
from binary_checks.objects.elf.header import architecture_of
from binary_checks.objects.elf.image import MappedImage
from binary_checks.objects.elf.kinds import may_be_opened
from binary_checks.objects.elf.layout import find_layout_faults
from binary_checks.objects.elf.memory import Memory
from binary_checks.objects.elf.relocations import RELOCATION_TYPES, column
from binary_checks.objects.elf.sections import Section
from binary_checks.objects.elf.segments import PT_LOAD, Segment
from binary_checks.objects.elf.symbol_faults import judge_symbols, judge_values, judge_versions
from binary_checks.objects.elf.symbol_table import ENTRY_SIZE, SymbolColumns
from binary_checks.objects.elf.versions import Versions

_MUSL: Final = "libc.musl-"
_MOST: Final = 20
"""Reasons that are given: one damaged address leads to many."""


class Parsed(NamedTuple):
    """What has been read of an object."""

    segments: tuple[Segment, ...]
    sections: tuple[Section, ...]
    dynamic: Dynamic
    versions: Versions
    symbols: SymbolColumns


def find_refusals(image: MappedImage, parsed: Parsed) -> tuple[str, ...]:
    """Why a loader refuses a dynamic object; each of the first reasons once."""
    loading = _Loading(image, parsed)
    found = (sentence for judge in loading.judges() for sentence in _hear(judge))
    return tuple(islice(dict.fromkeys(found), _MOST))


class _Loading:
    """One object on its way into a process."""

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
        # musl asserts less than glibc, and asks less of the headers.
        self.for_musl = any(name.startswith(_MUSL) for name in dynamic.texts(DT_NEEDED))

    def judges(self) -> tuple[Callable[[], Iterable[str]], ...]:
        """What looks at it, from the outside in."""
        return (
            self._judge_headers,
            lambda: judge_entries(self.dynamic, self.memory),
            self._judge_symbols,
            self._judge_hash_table,
            self._judge_tables,
            lambda: self.parsed.versions.faults,
        )

    def _judge_headers(self) -> Iterator[str]:
        if not self.is_program:  # the kernel loads a program, and asks for little
            header, for_musl = self.image.header, self.for_musl
            yield from find_layout_faults(header, self.segments, self.memory, for_musl=for_musl)

    def _judge_symbols(self) -> Iterator[str]:
        if len(self.symbols):
            strings = self.dynamic.strings
            yield from judge_values(self.symbols, strings, self.memory)
            # On MIPS, as in a program, an undefined symbol may have the address of its own stub.
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
    """Where headers and tables are in memory."""
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


def _hear(judge: Callable[[], Iterable[str]]) -> Iterator[str]:
    """The judge's sentences; a table that is not all there is one more."""
    try:
        yield from judge()
    except MalformedError as error:
        yield f"cannot be loaded: {error}"

"""Read the dynamic symbols of an ELF file; names are decoded only on demand."""

from __future__ import annotations

import sys
import threading
import weakref
from array import array
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain, compress, starmap
from typing import Final, Literal

from binary_checks.errors import MalformedError, TooLarge
from binary_checks.model import NO_SYMBOLS, Symbol, SymbolTable
from binary_checks.objects.elf.dynamic import (
    DT_GNU_HASH,
    DT_HASH,
    DT_JMPREL,
    DT_PLTREL,
    DT_PLTRELSZ,
    DT_REL,
    DT_RELA,
    DT_RELASZ,
    DT_RELSZ,
    DT_SYMENT,
    DT_SYMTAB,
    DT_VERSYM,
    WIDE_SYSV,
    Dynamic,
    Versions,
    column,
    decode,
)
from binary_checks.objects.elf.header import SHT_DYNSYM, MappedImage, Section

# The columns of DT_SYMTAB (gABI chapter 4, "Symbol Table"): a large library has a million symbols.

ENTRY_SIZE: Final = {32: 16, 64: 24}  # bytes of Elf32_Sym and Elf64_Sym
_ZERO: Final = bytes(number == 0 for number in range(256))
_BINDING_OF: Final = bytes(info >> 4 for info in range(256))  # ELF64_ST_BIND of st_info
_TYPE_OF: Final = bytes(info & 15 for info in range(256))  # ELF64_ST_TYPE of st_info
# High byte of SHN_LORESERVE (0xFF00) and of all higher section indices, which are reserved.
_RESERVED: Final = 0xFF
_IS_ORDINARY: Final = bytes(high != _RESERVED for high in range(256))
_HIGH: Final = int(sys.byteorder == "little")  # index of the high byte in an st_shndx of two bytes


class SymbolColumns:
    """DT_SYMTAB by columns, so that the table itself, which takes the most memory, can be freed."""

    def __init__(self, table: bytes, bits: int, byte_order: str) -> None:
        wide, size = bits == 64, ENTRY_SIZE[bits]
        whole = memoryview(table)

        def take(kind: Literal["H", "I", "Q"], first: int) -> array[int]:
            numbers = whole.cast(kind)
            each = numbers[first // numbers.itemsize :: size // numbers.itemsize]
            return column(kind, each.tobytes(), byte_order)

        self.names = take("I", 0)
        self.information = table[4 if wide else 12 :: size]  # st_info: binding and type
        self.views = table[5 if wide else 13 :: size]  # st_other: visibility
        self.sections = take("H", 6 if wide else 14)
        self.values = take("Q", 8) if wide else take("I", 4)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def bindings(self) -> bytes:
        """The binding of each symbol: STB_LOCAL is 0."""
        return self.information.translate(_BINDING_OF)

    @cached_property
    def types(self) -> bytes:
        """The type of each symbol (STT_FUNC …)."""
        return self.information.translate(_TYPE_OF)

    @cached_property
    def undefined(self) -> bytes:
        """One byte for each symbol: 1 if it is undefined, else 0."""
        return find_zeros(self.sections)

    @cached_property
    def defined(self) -> bytes:
        """One byte for each symbol: 1 if the object defines it, else 0."""
        return self.undefined.translate(_ZERO)

    def in_sections(self) -> bytes:
        """Return 1 for each symbol defined in a section, 0 for all others (absolute, common …)."""
        high = self.sections.tobytes()[_HIGH::2]
        return (
            join(self.defined, high.translate(_IS_ORDINARY)) if _RESERVED in high else self.defined
        )


def find_zeros(numbers: array[int]) -> bytes:
    """Return one byte for each number: 1 if the number is 0, else 0; without a loop in Python."""
    content, step = numbers.tobytes(), numbers.itemsize
    return join(*(content[place::step].translate(_ZERO) for place in range(step)))


def join(*masks: bytes) -> bytes:
    """Return the bitwise AND of masks of 0 and 1 bytes; without a loop in Python."""
    first, *others = masks
    joined = int.from_bytes(first, "little")
    for mask in others:
        joined &= int.from_bytes(mask, "little")
    return joined.to_bytes(len(first), "little")


# The number of dynamic symbols of an ELF file, which PT_DYNAMIC does not state.

_CHAIN_BLOCK = 4096  # bytes of a hash chain read at a time
_MOST_BUCKETS: Final = 1 << 22  # the largest libraries have some hundred thousand symbols


def count_symbols(
    image: MappedImage, dynamic: Dynamic, sections: Iterable[Section], entry_size: int
) -> int:
    """Return the number of entries of DT_SYMTAB.

    Raises MalformedError, or TooLarge if the hash table has more buckets than the limit.
    """
    count = _from_gnu_hash(image, dynamic) or _from_sysv_hash(image, dynamic)
    if count:
        return count
    return max(_from_sections(dynamic, sections, entry_size), _from_relocations(image, dynamic))


def _from_gnu_hash(image: MappedImage, dynamic: Dynamic) -> int:
    """Return the end of the last chain of DT_GNU_HASH; 0 if there is no table or chain.

    Hashed symbols come last in DT_SYMTAB, so the last chain ends where DT_SYMTAB ends. A hash table
    without chains does not show the number of symbols: GNU ld then writes a symbol offset of 1,
    regardless of the number of imports.
    """
    if DT_GNU_HASH not in dynamic:
        return 0
    address, word = dynamic.value(DT_GNU_HASH), image.header.struct("I").size
    # nbuckets, symoffset (index of the first hashed symbol), bloom_size (in words), bloom_shift
    head = image.header.struct("IIII")
    bucket_count, first, bloom_size, _ = image.unpack(head, address, "DT_GNU_HASH")
    # The words of the Bloom filter have the size of the file's class; words of buckets and chains
    # have 32 bits.
    buckets = address + head.size + bloom_size * image.header.bits // 8
    chains = buckets + bucket_count * word
    table = image.read(buckets, bucket_count * word, "DT_GNU_HASH", _MOST_BUCKETS * word)
    last = max(column("I", table, image.header.byte_order), default=0)
    if last == 0:
        return 0
    if last < first:
        raise MalformedError(
            f"DT_GNU_HASH has a bucket at symbol {last}, but its first symbol is {first}"
        )
    return last + 1 + _find_chain_end(image, chains + (last - first) * word)


def _find_chain_end(image: MappedImage, address: int) -> int:
    """Count the words before the first odd one: bit 0 marks the end of a chain."""
    low = 0 if image.header.byte_order == "<" else 3
    passed = 0
    while True:
        _, available = image.locate(address, "a chain of DT_GNU_HASH")
        block = image.read(
            address, min(available - available % 4, _CHAIN_BLOCK), "a chain of DT_GNU_HASH"
        )
        if not block:
            raise MalformedError("a chain of DT_GNU_HASH has no end")
        ends = (index for index, byte in enumerate(block[low::4]) if byte & 1)
        found = next(ends, -1)
        if found >= 0:
            return passed + found
        passed += len(block) // 4
        address += len(block)


def _from_sysv_hash(image: MappedImage, dynamic: Dynamic) -> int:
    """Return nchain of DT_HASH, the number of symbols; 0 if there is no DT_HASH.

    Some objects have no DT_GNU_HASH (python_bidi 0.6.12 for aarch64).
    """
    if DT_HASH not in dynamic:
        return 0
    wide = image.header.bits == 64 and image.header.machine in WIDE_SYSV
    layout = image.header.struct("QQ" if wide else "II")  # nbucket, nchain
    buckets, chains = image.unpack(layout, dynamic.value(DT_HASH), "DT_HASH")
    _, available = image.locate(dynamic.value(DT_HASH), "DT_HASH")
    length = layout.size + (buckets + chains) * layout.size // 2
    if length > available:
        raise MalformedError(
            f"DT_HASH has {length:#x} bytes, but its segment has only {available:#x} more"
        )
    return int(chains)


def _from_sections(dynamic: Dynamic, sections: Iterable[Section], entry_size: int) -> int:
    """Return the number of symbols from the section header of DT_SYMTAB; 0 if there is none."""
    address = dynamic.value(DT_SYMTAB)
    sizes = (s.size for s in sections if s.type == SHT_DYNSYM and s.address == address)
    return next(sizes, 0) // entry_size


def _from_relocations(image: MappedImage, dynamic: Dynamic) -> int:
    """Return 1 + the highest symbol index in relocations: a loader sees no further symbols."""
    rela, rel = (24, 16) if image.header.bits == 64 else (12, 8)
    plt = rela if dynamic.value(DT_PLTREL) == DT_RELA else rel
    tables = (
        (dynamic.value(DT_RELA), dynamic.value(DT_RELASZ), rela),
        (dynamic.value(DT_REL), dynamic.value(DT_RELSZ), rel),
        (dynamic.value(DT_JMPREL), dynamic.value(DT_PLTRELSZ), plt),
    )
    highest = (_highest_symbol(image, *table) for table in tables if table[1])
    return max(highest, default=-1) + 1


def _highest_symbol(image: MappedImage, address: int, size: int, entry_size: int) -> int:
    """Return the highest symbol index in a relocation table; -1 if the table is empty.

    The index is the upper part of r_info: above 32 bits in a 64-bit file, above 8 bits in a 32-bit
    file (gABI chapter 4, "Relocation").
    """
    word, shift = ("Q", 32) if image.header.bits == 64 else ("I", 8)
    padding = entry_size - 2 * image.header.bits // 8
    layout = image.header.struct(f"{word}{word}{padding}x")
    table = image.read(address, size - size % entry_size, "a relocation table")
    return max((info >> shift for _, info in layout.iter_unpack(table)), default=-1)


# The named dynamic symbols of an ELF file, kept as bytes and integers.

HIDDEN = 0x8000
"""Bit 15 of a version index: name@VERSION, to which imports without a version are not bound."""
_SHN_ABS = 0xFFF1  # section index of absolute symbols
_GLOBAL = bytes(info > 15 for info in range(256))  # st_info with any binding but STB_LOCAL
# st_other with STV_DEFAULT or STV_PROTECTED
_VISIBLE = bytes(other & 3 in (0, 3) for other in range(256))

_AT_ONCE = 32  # names decoded between two checks of their total length


class DynamicSymbols:
    """The needed columns of DT_SYMTAB, with the tables of their names and versions."""

    __slots__ = (
        "bindings",
        "by_index",
        "names",
        "path",
        "sections",
        "strings",
        "versions",
        "visibilities",
    )

    def __init__(
        self,
        columns: SymbolColumns,
        image: MappedImage,
        strings: bytes,
        versions: bytes,
        by_index: Mapping[int, tuple[str, str]],
    ) -> None:
        self.path = image.path
        self.names, self.sections = columns.names, columns.sections
        self.bindings, self.visibilities = columns.information, columns.views
        # Empty if the object has no versions.
        self.versions = column("H", versions, image.header.byte_order)
        self.strings = strings
        self.by_index = by_index

    def verify(self) -> None:
        """Raise MalformedError if a name or a version lies outside its table."""
        if max(self.names) >= len(self.strings):
            raise MalformedError("a dynamic symbol's name lies beyond DT_STRTAB")
        unknown = {index & ~HIDDEN for index in set(self.versions)} - {0, 1, *self.by_index}
        if unknown:
            raise MalformedError(f"DT_VERSYM names version {min(unknown)}, which nothing defines")

    def version(self, index: int) -> tuple[str, str]:
        """Return library and version node of a symbol, each "" if the symbol has none."""
        if not self.versions:
            return "", ""
        return self.by_index.get(self.versions[index] & ~HIDDEN, ("", ""))

    def name(self, index: int) -> str:
        """Return the name of one symbol."""
        start = self.names[index]
        return decode(self.strings[start : self.strings.index(b"\0", start)])

    def mentions(self, name: str) -> bool:
        """Return whether DT_STRTAB contains ``name``, as a name or within a longer one."""
        # Decoded names that are not UTF-8 contain escapes, so their bytes differ.
        if not name.isascii() or "\\" in name:
            return True
        return name.encode() in self.strings

    def imports(self) -> array[int]:
        """Return the indices of undefined symbols that are not local."""
        names, bindings = self.names, self.bindings
        undefined = (index for index, section in enumerate(self.sections) if not section)
        return array("I", (index for index in undefined if bindings[index] > 15 and names[index]))

    def exports(self) -> array[int]:
        """Return the indices of defined symbols that other objects can see, in any version.

        Absolute symbols that GNU ld adds for version nodes are left out; such a symbol has its
        node's name (libcrypto has 15).
        """
        names, seen = self.names, self.bindings.translate(_GLOBAL)
        visible = self.visibilities.translate(_VISIBLE)
        defined = compress(range(len(names)), self.sections)
        found = (i for i in defined if seen[i] and visible[i] and names[i])
        if _SHN_ABS in self.sections:
            found = (i for i in found if self.sections[i] != _SHN_ABS or not self._is_node(i))
        return array("I", found)

    def _is_node(self, index: int) -> bool:
        """Return whether an absolute symbol is named like its version node."""
        start, node = self.names[index], self.version(index)[1].encode()
        return bool(node) and self.strings[start : start + len(node) + 1] == node + b"\0"

    def decode_names(self, indices: array[int]) -> Iterator[list[str]]:
        """Yield the names of symbols in blocks.

        Linkers merge common suffixes, so a name may begin inside another name. In real files the
        names together are about as long as DT_STRTAB; in a crafted file they could be far longer.
        Raises TooLarge in that case.
        """
        strings, most = self.strings, 2 * len(self.strings) + (1 << 20)
        length = 0  # total length of the names so far
        slice_all = _slice_text if strings.isascii() else _slice_bytes
        place = self.names.__getitem__
        blocks = (indices[at : at + _AT_ONCE] for at in range(0, len(indices), _AT_ONCE))
        for pieces in slice_all(strings, (map(place, block) for block in blocks)):
            length += sum(map(len, pieces))
            if length > most:
                reason = f"have more than {most} bytes together; no more are read"
                raise TooLarge(f"the names of the symbols of {self.path} {reason}")
            yield pieces


def _slice_text(strings: bytes, blocks: Iterable[Iterable[int]]) -> Iterator[list[str]]:
    """Yield the strings at these offsets, in blocks; for tables that are all ASCII."""
    text = strings.decode("ascii")
    find = text.index
    for starts in blocks:
        yield [text[start : find("\0", start)] for start in starts]


def _slice_bytes(strings: bytes, blocks: Iterable[Iterable[int]]) -> Iterator[list[str]]:
    """Yield the strings at these offsets, in blocks; for tables that are not all ASCII."""
    find = strings.index
    for starts in blocks:
        yield [decode(strings[start : find(b"\0", start)]) for start in starts]


# Imports and exports as symbol tables of the model.

_STB_WEAK = 2
_MOST_SYMBOLS = 1 << 22  # the largest libraries have some hundred thousand


_KEPT = 400_000  # limit on decoded names of all tables together; 3 million names take 350 MB


class _Memory:
    """Limits the decoded names of all tables; the oldest tables drop their names first."""

    def __init__(self) -> None:
        self._tables: deque[tuple[weakref.ref[ElfSymbolTable], int]] = deque()
        self._names = 0
        self._one_at_a_time = threading.Lock()

    def add(self, table: ElfSymbolTable, names: int) -> None:
        """Register a table that has just decoded ``names`` names."""
        with self._one_at_a_time:
            self._tables.append((weakref.ref(table), names))
            self._names += names
            while self._names > _KEPT and len(self._tables) > 1:
                oldest, count = self._tables.popleft()
                self._names -= count
                if (known := oldest()) is not None:
                    known.forget()


_MEMORY = _Memory()


class ElfSymbolTable(SymbolTable):
    """The imports or the exports among an object's dynamic symbols.

    Names are decoded on demand, and may be dropped again. A table that has dropped its names, or
    has too many to keep, finds single names by a hash table with 8 bytes a symbol. Names are
    therefore decoded at most twice, regardless of the number of lookups.
    """

    __slots__ = (
        "__weakref__", "_are_imports", "_by_version", "_hashes", "_indices", "_is_forgotten",
        "_names", "_raw", "_set",
    )  # fmt: skip

    def __init__(self, raw: DynamicSymbols, *, are_imports: bool) -> None:
        self._raw = raw
        self._are_imports = are_imports
        self._indices: array[int] | None = None
        self._hashes: array[int] | None = None
        self.forget()
        self._is_forgotten = False

    def forget(self) -> None:
        """Drop all decoded names, which can be decoded again; any thread may call this."""
        self._names: list[str] | None = None
        self._set: frozenset[str] | None = None
        self._by_version: dict[tuple[str, str], frozenset[str]] | None = None
        self._is_forgotten = True

    @property
    def names(self) -> frozenset[str]:
        """Every name, without versions and duplicates."""
        known = self._set
        if known is None:
            known = self._set = frozenset(self._all_names())
        return known

    @property
    def by_version(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """The names under each (library, version); the library of an export is ""."""
        known = self._by_version
        if known is None:
            known = self._by_version = self._group()
        return known

    def find(self, name: str) -> tuple[Symbol, ...]:
        """Return the symbols with this name, one for each version."""
        return tuple(self._make(position, name) for position in self._find_positions(name))

    def _find_positions(self, name: str) -> Iterator[int]:
        """Yield the positions of symbols with this name, counted among the chosen symbols."""
        chosen, bits = self._chosen(), self._position_bits
        hashes = self._hashes
        if hashes is None:
            hashes = self._hashes = self._hash_names()
        wanted = _high_bits(name, bits)
        for place in range(bisect_left(hashes, wanted), len(hashes)):
            if hashes[place] >> bits != wanted >> bits:
                break
            position = hashes[place] & ((1 << bits) - 1)
            if self._raw.name(chosen[position]) == name:  # two names may have the same hash
                yield position

    @property
    def _position_bits(self) -> int:
        return len(self).bit_length()

    def _hash_names(self) -> array[int]:
        """Return sorted hashes of all names, each with its name's position in the lowest bits."""
        bits, names = self._position_bits, self._names or self._stream_names()
        return array("Q", sorted(_high_bits(name, bits) | at for at, name in enumerate(names)))

    def __contains__(self, name: object) -> bool:
        if (known := self._set) is not None:
            return name in known
        return isinstance(name, str) and self._raw.mentions(name) and bool(self.among((name,)))

    def __iter__(self) -> Iterator[Symbol]:
        return starmap(self._make, enumerate(self._all_names()))

    def __len__(self) -> int:
        return len(self._chosen())

    def __repr__(self) -> str:
        return f"<{len(self)} {'imports' if self._are_imports else 'exports'}>"

    def _chosen(self) -> array[int]:
        if self._indices is None:
            self._indices = self._raw.imports() if self._are_imports else self._raw.exports()
        return self._indices

    def _all_names(self) -> list[str]:
        names = self._names
        if names is None:
            names = self._names = list(self._stream_names())
            _MEMORY.add(self, len(names))
        return names

    def each_name(self) -> Iterator[str]:
        """Return an iterator over all names; a table with too many names does not keep them."""
        if self._names is not None or len(self) <= _KEPT:
            return iter(self._all_names())
        return self._stream_names()

    def may_mention(self, piece: str) -> bool:
        """Return whether DT_STRTAB contains ``piece``."""
        return self._raw.mentions(piece)

    def among(self, names: Iterable[str]) -> frozenset[str]:
        """Return the given names that the table contains."""
        if self._set is None and (self._is_forgotten or len(self) > _KEPT):
            return frozenset(
                name for name in names if any(True for _ in self._find_positions(name))
            )
        return self.names.intersection(names)

    def _stream_names(self) -> Iterator[str]:
        return chain.from_iterable(self._raw.decode_names(self._chosen()))

    def _group(self) -> dict[tuple[str, str], frozenset[str]]:
        raw, grouped = self._raw, defaultdict[int, list[str]](list)
        if not raw.versions:
            return {("", ""): self.names}
        for name, index in zip(self._all_names(), self._chosen(), strict=True):
            grouped[raw.versions[index] & ~HIDDEN].append(name)
        found: dict[tuple[str, str], frozenset[str]] = {}
        for number, names in grouped.items():
            library, version = raw.by_index.get(number, ("", ""))
            key = (library if self._are_imports else "", version)
            found[key] = found.get(key, frozenset()).union(names)
        return found

    def _make(self, position: int, name: str) -> Symbol:
        raw, index, are_imports = self._raw, self._chosen()[position], self._are_imports
        library, version = raw.version(index)
        return Symbol(
            name=name,
            library=library if are_imports else "",
            version=version,
            weak=raw.bindings[index] >> 4 == _STB_WEAK,
            hidden=not are_imports and bool(raw.versions) and raw.versions[index] >= HIDDEN,
        )


def _high_bits(name: str, bits: int) -> int:
    """Return a 64-bit hash of a name with the lowest ``bits`` bits cleared."""
    return hash(name) % (1 << 64) >> bits << bits


def read_columns(
    image: MappedImage, dynamic: Dynamic, sections: Iterable[Section]
) -> SymbolColumns:
    """Read DT_SYMTAB; the result is empty without the table. Raises MalformedError, or TooLarge."""
    table = _read_table(image, dynamic, sections) if DT_SYMTAB in dynamic else b""
    return SymbolColumns(table, image.header.bits, image.header.byte_order)


def _read_table(image: MappedImage, dynamic: Dynamic, sections: Iterable[Section]) -> bytes:
    size = ENTRY_SIZE[image.header.bits]
    if dynamic.value(DT_SYMENT) != size:
        raise MalformedError(f"dynamic symbols of {dynamic.value(DT_SYMENT)} bytes each")
    count = count_symbols(image, dynamic, sections, size)
    return image.read(dynamic.value(DT_SYMTAB), count * size, "DT_SYMTAB", _MOST_SYMBOLS * size)


def read_symbols(
    image: MappedImage, dynamic: Dynamic, versions: Versions, columns: SymbolColumns
) -> tuple[SymbolTable, SymbolTable]:
    """Return imports and exports. Raises MalformedError."""
    count = len(columns)
    if count < 2:  # entry 0 is reserved (STN_UNDEF)
        return NO_SYMBOLS, NO_SYMBOLS
    indices = b""
    if DT_VERSYM in dynamic:
        indices = image.read(dynamic.value(DT_VERSYM), count * 2, "DT_VERSYM")
    raw = DynamicSymbols(columns, image, dynamic.strings, indices, versions.by_index)
    raw.verify()
    return ElfSymbolTable(raw, are_imports=True), ElfSymbolTable(raw, are_imports=False)

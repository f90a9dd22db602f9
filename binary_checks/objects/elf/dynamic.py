"""Read the parts of an ELF file that ld.so reads: PT_DYNAMIC, symbol versions and relocations."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from binary_checks.errors import MalformedError, TooLarge
from binary_checks.knowledge.device_code import EM_CUDA
from binary_checks.model import Kind, NeededVersion
from binary_checks.objects.device.reader import EM_AMDGPU
from binary_checks.objects.elf.header import (
    ET_DYN,
    ET_EXEC,
    ET_REL,
    PF_W,
    PT_DYNAMIC,
    PT_LOAD,
    ElfHeader,
    MappedImage,
    Segment,
    is_known_device,
    runs_on_a_host,
)

# The dynamic segment (gABI chapter 5, "Dynamic Section"; names with GNU, VER, RELR or FLAGS_1 are
# extensions, in glibc's elf.h). Its entries lead a loader to all other tables.

DT_NEEDED: Final = 1
DT_HASH: Final = 4
DT_STRTAB: Final = 5
DT_SYMTAB: Final = 6
DT_RELA: Final = 7
DT_RELASZ: Final = 8
DT_STRSZ: Final = 10
DT_RELAENT: Final = 9
DT_SYMENT: Final = 11
DT_SONAME: Final = 14
DT_RPATH: Final = 15
DT_REL: Final = 17
DT_RELSZ: Final = 18
DT_RELENT: Final = 19
DT_TEXTREL: Final = 22
DT_PLTRELSZ: Final = 2
DT_PLTREL: Final = 20
DT_JMPREL: Final = 23
DT_BIND_NOW: Final = 24
DT_INIT_ARRAY: Final = 25
DT_FINI_ARRAY: Final = 26
DT_INIT_ARRAYSZ: Final = 27
DT_FINI_ARRAYSZ: Final = 28
DT_RUNPATH: Final = 29
DT_FLAGS: Final = 30
DT_RELRSZ: Final = 35
DT_RELR: Final = 36
DT_RELRENT: Final = 37
# Android's own (bionic's libc/include/elf.h): packed relocations, and DT_RELR before its number
DT_ANDROID_REL: Final = 0x6000000F
DT_ANDROID_RELA: Final = 0x60000011
DT_ANDROID_RELR: Final = 0x6FFFE000
DT_GNU_HASH: Final = 0x6FFFFEF5
DT_VERSYM: Final = 0x6FFFFFF0
DT_FLAGS_1: Final = 0x6FFFFFFB
DT_VERDEF: Final = 0x6FFFFFFC
DT_VERDEFNUM: Final = 0x6FFFFFFD
DT_VERNEED: Final = 0x6FFFFFFE
DT_VERNEEDNUM: Final = 0x6FFFFFFF

DF_TEXTREL: Final = 4
DF_BIND_NOW: Final = 8
DF_STATIC_TLS: Final = 0x10
DF_1_NOW: Final = 1
DF_1_NOOPEN: Final = 0x40
DF_1_NODEFLIB: Final = 0x800
DF_1_PIE: Final = 0x08000000

_MOST_ENTRIES = 1 << 16  # real objects have some thirty
_MOST_STRINGS = 1 << 28
"""Limit on the bytes of DT_STRTAB; the largest libraries have some ten million."""
_LONGEST = 64 * 1024
"""Limit on the bytes of one string in DT_STRTAB."""


class Dynamic:
    """The entries of PT_DYNAMIC with their strings; empty for a file without PT_DYNAMIC."""

    __slots__ = ("_entries", "_last", "strings")

    def __init__(self, entries: Iterable[tuple[int, int]] = (), strings: bytes = b"") -> None:
        self._entries = tuple(entries)
        # If several entries have the same tag, the last one counts, as for loaders: glibc's
        # elf_get_dynamic_info (elf/get-dynamic-info.h) overwrites earlier ones.
        self._last = dict(self._entries)
        # DT_STRTAB: ends with NUL, and none of its strings exceeds the limit
        self.strings = strings

    def __bool__(self) -> bool:
        return bool(self._entries)

    def __contains__(self, tag: int) -> bool:
        return tag in self._last

    def value(self, tag: int) -> int:
        """Return the value or address of the last entry with this tag; 0 if there is none."""
        return self._last.get(tag, 0)

    def string(self, tag: int) -> str:
        """Return the string that the last entry with this tag refers to; "" if there is none."""
        return self.text(self._last[tag]) if tag in self._last else ""

    def texts(self, tag: int) -> tuple[str, ...]:
        """Return the strings of all entries with this tag, in order."""
        return tuple(self.text(value) for kind, value in self._entries if kind == tag)

    def search_path(self, tag: int) -> tuple[str, ...]:
        """Return the elements of DT_RPATH or DT_RUNPATH; () if there is no such entry."""
        return tuple(self.string(tag).split(":")) if tag in self._last else ()

    def text(self, offset: int) -> str:
        """Return the string at an offset of DT_STRTAB.

        Raises MalformedError for an offset outside of the table.
        """
        if offset >= len(self.strings):
            raise MalformedError(f"a string at {offset:#x}, beyond the end of DT_STRTAB")
        return decode(self.strings[offset : self.strings.index(b"\0", offset)])


def decode(name: bytes) -> str:
    """Decode a name. ELF does not define its encoding: bytes that are not UTF-8 are escaped."""
    return name.decode("utf-8", "backslashreplace")


def read_dynamic(image: MappedImage, segments: Iterable[Segment]) -> Dynamic:
    """Read PT_DYNAMIC and its string table.

    Raises MalformedError, or TooLarge if a limit is exceeded.
    """
    segment = next((s for s in segments if s.type == PT_DYNAMIC), None)
    if segment is None:
        return Dynamic()
    layout = image.header.struct("II" if image.header.bits == 32 else "QQ")
    length = segment.file_size - segment.file_size % layout.size
    table = image.read(segment.address, length, "PT_DYNAMIC", _MOST_ENTRIES * layout.size)
    entries = []
    for tag, value in layout.iter_unpack(table):
        if tag == 0:  # DT_NULL; linkers reserve space after it, which is ignored
            break
        entries.append((tag, value))
    else:
        raise MalformedError("PT_DYNAMIC has no DT_NULL", segment.offset)
    return Dynamic(entries, _read_strings(image, Dynamic(entries)))


def _read_strings(image: MappedImage, dynamic: Dynamic) -> bytes:
    """Read DT_STRTAB up to the NUL of its last string.

    The gABI (chapter 4, "String Table") requires a NUL in the last byte. Loaders ignore DT_STRSZ,
    however: if an editing tool stated it too short, the last string ends after that size.
    """
    address, size = dynamic.value(DT_STRTAB), dynamic.value(DT_STRSZ)
    strings = image.read(address, size, "DT_STRTAB", _MOST_STRINGS)
    if strings and strings[-1]:
        _, available = image.locate(address + size - 1, "the end of DT_STRTAB")
        length = min(available - 1, _LONGEST)
        rest, end, _ = image.read(address + size, length, "DT_STRTAB").partition(b"\0")
        if not end:
            raise MalformedError("DT_STRTAB does not end with NUL")
        strings += rest + end
    for start in range(0, len(strings) - _LONGEST + 1, _LONGEST):
        if strings.find(b"\0", start, start + _LONGEST) < 0:
            reason = (
                f"DT_STRTAB holds a string of more than {_LONGEST} bytes; longer ones are not read"
            )
            raise TooLarge(reason)
    return strings


# The headers of DT_HASH (gABI chapter 5, "Hash Table") and DT_GNU_HASH ("GNU Hash ELF Sections"),
# by which a loader looks symbols up.

WIDE_SYSV: Final = (22, 0x9026)
"""EM_S390 and EM_ALPHA: their 64-bit DT_HASH has words of 8 bytes instead of the gABI's 4."""
_HASH_BITS: Final = 32  # of a hash in DT_GNU_HASH


def hash_sysv(name: bytes) -> int:
    """Return the hash used by DT_HASH and by version records (gABI chapter 5, "Hash Table")."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        value = (value ^ value >> 24 & 0xF0) & 0x0FFFFFFF
    return value


def judge_hash_table(image: MappedImage, dynamic: Dynamic) -> Iterator[str]:
    """Yield faults in the header of the hash table that a loader cannot handle.

    A loader uses DT_GNU_HASH if both tables are present. Counting the symbols checks whether the
    table itself lies inside its segment. Raises MalformedError if there is no hash table.
    """
    if DT_GNU_HASH in dynamic:
        # nbuckets, symoffset, bloom_size (in words of the file's class), bloom_shift (in bits)
        head = image.header.struct("IIII")
        _, _, size, shift = image.unpack(head, dynamic.value(DT_GNU_HASH), "DT_GNU_HASH")
        if not size or size & size - 1:
            yield f"has a DT_GNU_HASH whose Bloom filter has {size} words, not a power of two"
        elif shift >= _HASH_BITS:
            yield f"has a DT_GNU_HASH that shifts hashes of {_HASH_BITS} bits by {shift}"
    elif DT_HASH in dynamic:
        wide = image.header.bits == 64 and image.header.machine in WIDE_SYSV
        layout = image.header.struct("QQ" if wide else "II")
        # nbucket, nchain
        buckets, _ = image.unpack(layout, dynamic.value(DT_HASH), "DT_HASH")
        if not buckets:
            yield "has a DT_HASH without buckets: a loader divides by their number"
    else:
        raise MalformedError("neither DT_GNU_HASH nor DT_HASH: no symbol is ever found in it")


# Symbol versions (LSB Core, "Symbol Versioning") that an ELF file needs (DT_VERNEED) and defines
# (DT_VERDEF).

_VER_FLG_BASE = 1  # in vd_flags
_VER_FLG_WEAK = 2  # in vna_flags: a missing version is no error
_MOST_VERSIONS = 0x7FFF  # a version index has 15 bits; bit 15 marks a hidden version


class Versions(NamedTuple):
    """The version nodes that one object needs and defines."""

    needed: tuple[NeededVersion, ...] = ()
    defined: tuple[str, ...] = ()
    by_index: dict[int, tuple[str, str]] = {}  # noqa: RUF012 - never changed; versym -> (library, node)
    own: frozenset[int] = frozenset()  # indices of the nodes that the object defines
    faults: tuple[str, ...] = ()  # records for which a loader finds no version, or the wrong one


def read_versions(image: MappedImage, dynamic: Dynamic) -> Versions:
    """Read both tables. Raises MalformedError."""
    faults: dict[str, None] = {}
    needed = tuple(_read_needed(image, dynamic, faults))
    defined = tuple(_read_defined(image, dynamic, faults))
    by_index = {index: (item.library, item.version) for index, item in needed}
    # The base node (VER_FLG_BASE) is the library itself: a symbol bound to it has no version.
    by_index |= {index: ("", "" if base else name) for index, name, base in defined}
    return Versions(
        needed=tuple(item for _, item in needed),
        defined=tuple(name for _, name, base in defined if not base),
        by_index=by_index,
        own=frozenset(index for index, _, base in defined if not base),
        faults=tuple(faults),
    )


def _read_needed(
    image: MappedImage, dynamic: Dynamic, faults: dict[str, None]
) -> Iterator[tuple[int, NeededVersion]]:
    """Yield each Vernaux of each Verneed, with its version index."""
    # Elf_Verneed: vn_version, vn_cnt, vn_file, vn_aux, vn_next. Elf_Vernaux: vna_hash, vna_flags,
    # vna_other (the version index), vna_name, vna_next. Both are the same for 32 and 64 bits.
    need, auxiliary = image.header.struct("HHIII"), image.header.struct("IHHII")
    files = _chain(image, need, dynamic, (DT_VERNEED, DT_VERNEEDNUM), "DT_VERNEED")
    known, total = frozenset(dynamic.texts(DT_NEEDED)), 0
    for file_address, (revision, count, file, first, _) in files:
        library = dynamic.text(file)
        faults.update(_judge_revision("Verneed", revision))
        if library not in known:
            faults[
                f"needs versions of {library}, which is not among its DT_NEEDED: glibc's loader "
                "ends the process if nothing else has loaded it"
            ] = None
        total += count
        if total > _MOST_VERSIONS:  # the total is checked, since many records may share one chain
            raise MalformedError(f"DT_VERNEED claims more than {_MOST_VERSIONS} versions")
        for _, row in _follow(image, auxiliary, file_address + first, count, "a Vernaux"):
            hashed, flags, index, name, _ = row
            weak, version = bool(flags & _VER_FLG_WEAK), dynamic.text(name)
            faults.update(_judge_hash("needs", version, hashed))
            yield index & 0x7FFF, NeededVersion(library=library, version=version, weak=weak)


def _read_defined(
    image: MappedImage, dynamic: Dynamic, faults: dict[str, None]
) -> Iterator[tuple[int, str, bool]]:
    """Yield index, name and whether the node is the base node, for each Verdef."""
    # Elf_Verdef: vd_version, vd_flags, vd_ndx, vd_cnt, vd_hash, vd_aux, vd_next. Elf_Verdaux:
    # vda_name, vda_next. Both are the same for 32 and 64 bits.
    definition, auxiliary = image.header.struct("HHHHIII"), image.header.struct("II")
    nodes = _chain(image, definition, dynamic, (DT_VERDEF, DT_VERDEFNUM), "DT_VERDEF")
    for address, (revision, flags, index, _, hashed, first, _) in nodes:
        # The first Verdaux has the node's name, later ones have the names of its parents.
        place, _ = image.unpack(auxiliary, address + first, "a Verdaux")
        name, is_base = dynamic.text(place), bool(flags & _VER_FLG_BASE)
        faults.update(_judge_revision("Verdef", revision))
        if not is_base:
            faults.update(_judge_hash("defines", name, hashed))
        yield index & 0x7FFF, name, is_base


def _judge_revision(what: str, revision: int) -> Iterator[tuple[str, None]]:
    """Yield a fault for vd_version or vn_version other than 1."""
    if revision != 1:
        yield f"has a {what} record of revision {revision}: glibc's loader knows only 1", None


def _judge_hash(verb: str, version: str, hashed: int) -> Iterator[tuple[str, None]]:
    """Yield a fault if the hash is wrong, because a loader compares hashes before names."""
    if hashed != hash_sysv(version.encode("utf-8", "surrogateescape")):
        yield f"{verb} version {version} with a wrong hash, so that no loader finds it", None


def _chain(
    image: MappedImage, layout: Any, dynamic: Dynamic, tags: tuple[int, int], what: str
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the records of DT_VERNEED or DT_VERDEF; a second dynamic entry states their number."""
    if tags[0] not in dynamic:
        return iter(())
    return _follow(image, layout, dynamic.value(tags[0]), dynamic.value(tags[1]), what)


def _follow(
    image: MappedImage, layout: Any, address: int, count: int, what: str
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield address and fields of each record; the last field is the offset to the next record."""
    if count > _MOST_VERSIONS:
        raise MalformedError(f"{what} claims {count} entries")
    for remaining in range(count - 1, -1, -1):
        fields = image.unpack(layout, address, what)
        yield address, fields
        if remaining and not fields[-1]:
            raise MalformedError(f"{what} ends {remaining} entries before its count")
        if not remaining and fields[-1]:  # glibc's loader follows the chain, not the count
            raise MalformedError(f"{what} continues past its count")
        address += fields[-1]


# The relocation tables (gABI chapter 4, "Relocation"), as columns: a large library has a million
# records. They are read for text relocations and for pointers to device code. Single records are
# not judged.

_NONE: Final = 0  # R_X86_64_NONE and its counterpart of every architecture: changes nothing
# Bytes of one table; the largest libraries have some twenty million.
_MOST_RELOCATIONS: Final = 1 << 28


class RelocationTypes(NamedTuple):
    """Numbers of relocation types of one architecture, and the form of its records."""

    relative: int  # R_*_RELATIVE: load address plus addend
    # R_*_TPOFF, R_*_TPREL: the place of a thread-local variable in a thread's first block
    thread: tuple[int, ...]
    # Whether records are Elf_Rela; if False, Elf_Rel, whose addend is in the relocated place.
    addends: bool = True


RELOCATION_TYPES: Final = {
    # R_X86_64_RELATIVE, R_X86_64_TPOFF64
    "x86_64": RelocationTypes(relative=8, thread=(18,)),
    # R_386_RELATIVE, R_386_TLS_TPOFF, R_386_TLS_TPOFF32
    "i686": RelocationTypes(relative=8, thread=(14, 37), addends=False),
    # R_AARCH64_RELATIVE, R_AARCH64_TLS_TPREL
    "aarch64": RelocationTypes(relative=1027, thread=(1030,)),
    # R_ARM_RELATIVE, R_ARM_TLS_TPOFF32
    "armv7l": RelocationTypes(relative=23, thread=(19,), addends=False),
    # R_PPC64_RELATIVE, R_PPC64_TPREL64
    "ppc64le": RelocationTypes(relative=22, thread=(73,)),
    # R_390_RELATIVE, R_390_TLS_TPOFF
    "s390x": RelocationTypes(relative=12, thread=(56,)),
    # R_RISCV_RELATIVE, R_RISCV_TLS_TPREL64
    "riscv64": RelocationTypes(relative=3, thread=(11,)),
    # R_LARCH_RELATIVE, R_LARCH_TLS_TPREL64
    "loongarch64": RelocationTypes(relative=3, thread=(11,)),
}
"""Relocation types by architecture, with numbers from the processor supplements. Relocations of
other architectures are not read.
"""


class Relocations:
    """The columns of one relocation table, in the order of its records."""

    __slots__ = ("addends", "offsets", "types")

    def __init__(self, content: bytes, image: MappedImage, *, addends: bool) -> None:
        order, wide = image.header.byte_order, image.header.bits == 64
        words, step = column("Q" if wide else "I", content, order), 3 if addends else 2
        self.offsets = words[::step]
        self.addends = words[2::step] if addends else None  # as unsigned numbers; None for Elf_Rel
        information = words[1::step]
        if wide:
            halves = array("I", information.tobytes())
            low = int(sys.byteorder == "big")
            self.types = halves[low::2]  # ELF64_R_TYPE: the low 32 bits of r_info
        else:
            # ELF32_R_TYPE: the low 8 bits of r_info
            self.types = array("I", [each & 0xFF for each in information])


class RelocationTables(NamedTuple):
    """All relocations of one object."""

    tables: tuple[Relocations, ...]
    packed: array[int]  # words of DT_RELR: an address, or a bitmap of the following words


def column(kind: str, content: bytes, byte_order: str) -> array[int]:
    """Return an array of integers of 8 ("Q"), 4 ("I") or 2 ("H") bytes each."""
    numbers = array(kind, content)
    if (byte_order == "<") != (sys.byteorder == "little"):
        numbers.byteswap()
    return numbers


def read_relocations(
    image: MappedImage, dynamic: Dynamic, types: RelocationTypes
) -> RelocationTables:
    """Read the tables that a loader processes. Raises MalformedError, or TooLarge."""
    tables = tuple(_read_tables(image, dynamic, types))
    wide = image.header.bits == 64
    content = b""
    if DT_RELR in dynamic:  # as in libgcc_s of cryptography 50.0.2; its records have one word
        length = dynamic.value(DT_RELRSZ) // (8 if wide else 4) * (8 if wide else 4)
        content = image.read(dynamic.value(DT_RELR), length, "DT_RELR", _MOST_RELOCATIONS)
    packed = column("Q" if wide else "I", content, image.header.byte_order)
    return RelocationTables(tables, packed)


def _read_tables(
    image: MappedImage, dynamic: Dynamic, types: RelocationTypes
) -> Iterator[Relocations]:
    for content in _read_contents(image, dynamic, types):
        yield Relocations(content, image, addends=types.addends)


def _read_contents(image: MappedImage, dynamic: Dynamic, types: RelocationTypes) -> Iterator[bytes]:
    """Yield DT_RELA or DT_REL, depending on the architecture, and DT_JMPREL."""
    kind = ("DT_RELA", DT_RELA, DT_RELASZ) if types.addends else ("DT_REL", DT_REL, DT_RELSZ)
    size = image.header.bits // 8 * (3 if types.addends else 2)
    for name, table, length in (kind, ("DT_JMPREL", DT_JMPREL, DT_PLTRELSZ)):
        if table in dynamic:
            whole = dynamic.value(length) // size * size
            yield image.read(dynamic.value(table), whole, name, _MOST_RELOCATIONS)


def count_unwritable(
    image: MappedImage, segments: Iterable[Segment], dynamic: Dynamic, types: RelocationTypes
) -> int:
    """Return the number of text relocations: they change bytes of a PT_LOAD without PF_W.

    Raises MalformedError or TooLarge as `read_relocations` does.
    """
    loads = [each for each in segments if each.type == PT_LOAD and not each.flags & PF_W]
    fixed = [(each.address, each.address + each.memory_size) for each in loads]
    relocations = read_relocations(image, dynamic, types)
    total = 0
    for start, end in fixed:
        for table in relocations.tables:
            pairs = zip(table.offsets, table.types, strict=True)
            total += sum(kind != _NONE and start <= place < end for place, kind in pairs)
        packed = unpack_between(relocations.packed, image.header.bits // 8, start, end)
        total += sum(1 for _ in packed)
    return total


def find_thread_symbols(
    image: MappedImage, dynamic: Dynamic, types: RelocationTypes
) -> frozenset[int]:
    """Return the symbols of relocations of the initial-exec model, by index; 0 for none.

    Raises MalformedError or TooLarge as `read_relocations` does.
    """
    found: set[int] = set()
    for content in _read_contents(image, dynamic, types):
        wide = image.header.bits == 64
        words = column("Q" if wide else "I", content, image.header.byte_order)
        shift = 32 if wide else 8  # ELF64_R_SYM, ELF32_R_SYM
        kinds = (1 << shift) - 1
        found.update(
            each >> shift
            for each in words[1 :: 3 if types.addends else 2]
            if each & kinds in types.thread
        )
    return frozenset(found)


def unpack_between(words: array[int], word: int, start: int, end: int) -> Iterator[int]:
    """Yield the addresses from ``start`` to ``end`` that DT_RELR relocates.

    An even word is an address to relocate. An odd word is a bitmap: bit n (n >= 1) stands for the
    n-th word after the last one that the previous words cover. ``word`` is the size of a word in
    bytes.
    """
    place, reach = 0, (8 * word - 1) * word
    for entry in words:
        if not entry & 1:
            place = entry + word
            if start <= entry < end:
                yield entry
            continue
        if place < end and place + reach > start:
            places = (place + word * bit for bit in range(8 * word - 1) if entry >> bit + 1 & 1)
            yield from (each for each in places if start <= each < end)
        place += reach


# The kind of an ELF file: a library, a program, code of a device, or none of these.

_EM_BPF: Final = 247
# ELFOSABI_AMDGPU_HSA, ELFOSABI_AMDGPU_PAL, ELFOSABI_AMDGPU_MESA3D
_AMDGPU_OS_ABIS: Final = range(64, 67)


def kind_of_unloaded(header: ElfHeader) -> Kind | None:
    """Return the kind of a file that no loader of the host takes; None for all other files."""
    if not runs_on_a_host(header):
        return Kind.DEVICE if _is_device_code(header) else Kind.OTHER
    if header.type == ET_REL:
        return Kind.RELOCATABLE
    return None if header.type in (ET_EXEC, ET_DYN) else Kind.OTHER


def _is_device_code(header: ElfHeader) -> bool:
    """Return whether the file's type and OS ABI match the tools of its device.

    A damaged e_machine therefore does not make a file device code.

    Cubins and BPF programs are never ET_DYN. AMD's code objects are ET_DYN, but have OS ABIs that
    nothing else has. Libraries for Hexagon and similar devices (Qualcomm's ``libQnnHtpV73Skel.so``)
    look like any library.
    """
    if header.machine in (EM_CUDA, _EM_BPF):
        return header.type != ET_DYN
    if header.machine == EM_AMDGPU:
        return header.type != ET_DYN or header.identification[7] in _AMDGPU_OS_ABIS
    return is_known_device(header)


def kind_of_loaded(header: ElfHeader, dynamic: Dynamic, interpreter: str) -> Kind:
    """Return whether a loadable file is an executable or a shared library.

    Position-independent executables are ET_DYN, too, and some libraries have a PT_INTERP because
    they can be run (libQt6Core.so.6, glibc's libc.so.6). A DT_SONAME identifies a library.
    """
    if not may_be_opened(header, dynamic) or (interpreter and DT_SONAME not in dynamic):
        return Kind.EXECUTABLE
    return Kind.SHARED


def may_be_opened(header: ElfHeader, dynamic: Dynamic) -> bool:
    """Return whether dlopen accepts a file of this type; it refuses programs."""
    return header.type != ET_EXEC and not dynamic.value(DT_FLAGS_1) & DF_1_PIE

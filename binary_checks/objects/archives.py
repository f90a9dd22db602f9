"""Read static archives (``.a``, ``.lib``): the kinds of their members, and device code in them.

No loader takes an archive, but its code becomes part of libraries that are linked with it. Formats:
ar(5) with the extensions of GNU and BSD; PE, "Archive (Library) File Format" ("PE" is Microsoft's
specification "PE Format").
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from struct import Struct
from typing import Final, NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.model import (
    ArchiveMembers,
    CxxStrings,
    DeviceFault,
    Format,
    Kind,
    StaticArchive,
    UnreadObject,
    names_old_abi,
)
from binary_checks.objects.byte_source import FilePart, LimitedSource
from binary_checks.objects.device.sections import (
    RELOCATABLE,
    SECTIONS,
    SHORT_RELOCATABLE,
    SHORT_SECTIONS,
    Extent,
    Wrappers,
    read_device_code,
)
from binary_checks.objects.elf import header as elf_header
from binary_checks.objects.elf.header import find_extents, read_sections
from binary_checks.objects.macho import header as macho_header
from binary_checks.objects.pe.header import FILE, SYMBOL_SIZE, read_section_name

# The sections of a COFF object (``.obj``), which begins without a magic number (PE, "COFF File
# Header (Object and Image)").

# ANON_OBJECT_HEADER_BIGOBJ: 0, 0xFFFF, version, machine, time stamp, class, number of sections,
# offset and number of symbols
_BIG = Struct("<HHHHI16s16xIII")
# {D1BAA1C7-BAEE-4BA9-AF20-FAF66AA4DCB8}, of `cl /bigobj`
_BIG_CLASS = bytes.fromhex("c7a1bad1eebaa94baf20faf66aa4dcb8")
_SECTION = Struct("<8s8xII16x")  # name, SizeOfRawData, PointerToRawData of a section header
_MACHINES = frozenset({0x014C, 0x8664, 0xAA64})  # i386, AMD64, ARM64
_BIG_SYMBOL_SIZE = 20  # bytes; the section number has 4 instead of 2


def find_coff_sections(source: LimitedSource) -> Iterator[tuple[str, int, int]]:
    """Yield name, offset and size of each section; nothing if the file is not a COFF object.

    Raises MalformedError if sections lie after the end.
    """
    if source.size < FILE.size:
        return
    machine, count, _, symbols, symbol_count, optional, _ = FILE.unpack(source.read(0, FILE.size))
    start, symbol_size = FILE.size + optional, SYMBOL_SIZE
    if not machine and source.size >= _BIG.size:
        *_, kind, count, symbols, symbol_count = _BIG.unpack(source.read(0, _BIG.size))
        start, symbol_size = _BIG.size, _BIG_SYMBOL_SIZE
        if kind != _BIG_CLASS:  # PE, "Import Header": a member of an import library
            return
    elif machine not in _MACHINES:
        return
    table = source.read(start, count * _SECTION.size)
    strings = symbols + symbol_count * symbol_size
    for name, size, offset in _SECTION.iter_unpack(table):
        if size and offset:
            yield read_section_name(source, name.rstrip(b"\0"), strings), offset, size


# The kind of an archive's member, and the std::string types in the names of the archive's index.

# "LLVM Bitcode File Format", "Magic Numbers" and "Bitcode Wrapper Format"
_BITCODE: Final = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
_COFF = {0x014C: "i686", 0x8664: "x86_64", 0xAA64: "aarch64", 0xA641: "arm64ec", 0x01C4: "armv7l"}
# {0CB3FE38-D9A5-4DAB-AC9B-D6B6222653C2}, class of the objects that `cl /GL` writes
_LTCG_CLASS = bytes.fromhex("38feb30ca5d9ab4dac9bd6b6222653c2")
_SHORT = b"\0\0\xff\xff"  # first bytes of import headers, big objects and objects of `cl /GL`
_OF_GCC = ".gnu.lto_"  # first characters of sections with GIMPLE, GCC's intermediate code
# Tag "cxx11" in a mangled name: std::__cxx11 or [abi:cxx11]
_NEW = re.compile(rb"\0(_Z[^\0]*cxx11[^\0]*)")
# Ss is std::string, Sb std::basic_string (Itanium C++ ABI, "Compression")
_OLD = re.compile(rb"\0(_Z[^\0]*(?:Ss|Sb|St4list)[^\0]*)")
# Names in std and __gnu_cxx are left out: a library's objects contain them because they use the
# standard library, whichever std::string its own functions take. In the Itanium C++ ABI's grammar:
# <special-name> (vtables TV, VTTs TT, type information TI and its names TS, construction vtables TC
# as an extension, guard variables GV, reference temporaries GR); <nested-name> (N, qualifiers);
# <substitution> (St is std; Ss, Sb, Sa, Si and others are names in std).
_OF_STD = re.compile(rb"_Z(?:T[VTISC]|GV|GR)?N?[VKRO]*S[a-z]|_ZN[VKRO]*9__gnu_cxx")
_LONGEST_EXAMPLE = 300  # characters of an example


class MemberKind(NamedTuple):
    """The properties by which members are grouped."""

    format: str = ""
    architecture: str = ""
    note: str = ""


def describe_member(member: LimitedSource) -> MemberKind:
    """Return format and architecture of a member; describe a broken member as far as possible."""
    head = member.read(0, min(_BIG.size, member.size))
    try:
        if head.startswith(elf_header.MAGIC):
            elf = elf_header.read_header(member)
            sections = read_sections(member, elf)
            # An object with GIMPLE and without code is only for LTO.
            slim = any(each.name.startswith(_OF_GCC) for each in sections) and not any(
                each.flags & elf_header.SHF_EXECINSTR and each.size for each in sections
            )
            note = "GCC's own code for link-time optimisation" if slim else ""
            return MemberKind("ELF", elf_header.architecture_of(elf), note)
        if head[:4] in macho_header.THIN:
            header = macho_header.read_header(FilePart(member, 0, member.size))
            found = macho_header.architecture_of(header.cpu_type, header.cpu_subtype)
            return MemberKind("Mach-O", found)
    except MalformedError:
        return MemberKind("ELF" if head.startswith(elf_header.MAGIC) else "Mach-O", note="broken")
    if head.startswith(_BITCODE):
        return MemberKind("LLVM bitcode")
    return _describe_coff(head)


def _describe_coff(head: bytes) -> MemberKind:
    """Describe a COFF object, an import header or an object of `cl /GL`, by its first bytes."""
    # IMPORT_OBJECT_HEADER (PE, "Import Header"; 20 bytes) and ANON_OBJECT_HEADER of winnt.h begin
    # with Sig1, Sig2, Version (byte 4; 0 in import headers), Machine (byte 6) and TimeDateStamp.
    # Only in ANON_OBJECT_HEADER, ClassID follows (bytes 12 to 27).
    if head.startswith(_SHORT) and len(head) >= FILE.size:
        machine = _COFF.get(int.from_bytes(head[6:8], "little"), "")
        if head[12:28] == _LTCG_CLASS:
            return MemberKind("COFF", machine, "Visual C++'s own code for link-time optimisation")
        return MemberKind("import" if head.startswith(_IMPORT) else "COFF", machine)
    machine = _COFF.get(int.from_bytes(head[:2], "little"), "") if len(head) >= FILE.size else ""
    return MemberKind("COFF", machine) if machine else MemberKind()


def find_strings(index: bytes) -> CxxStrings:
    """Search the NUL-terminated names in a symbol index of any form."""
    if b"_Z" not in index:
        return CxxStrings()
    new = [name for name in _NEW.findall(index) if not _OF_STD.match(name)]
    old, example = 0, ""
    candidates = (found[1] for found in _OLD.finditer(index) if not _OF_STD.match(found[1]))
    for name in candidates:
        if b"cxx11" not in name and names_old_abi(spelled := name.decode("latin-1")):
            old, example = old + 1, example or spelled
    return CxxStrings(
        new=len(new),
        old=old,
        new_example=new[0].decode("latin-1")[:_LONGEST_EXAMPLE] if new else "",
        old_example=example[:_LONGEST_EXAMPLE],
    )


# The archive.

MAGIC: Final = b"!<arch>\n"
THIN_MAGIC: Final = b"!<thin>\n"
# Member header: name, (time, owner, group, mode), size in decimal digits, ARFMAG of <ar.h>
_HEAD = Struct("16s32x10s2s")
_IMPORT = b"\0\0\xff\xff\0\0"  # first bytes of a member that only names a function of a DLL
_LONGEST_NAME = 256  # bytes
# Index names: GNU and Visual C++ ("/"), GNU with 64-bit offsets, BSD and macOS.
_INDEXES = (b"/", b"/SYM64/", b"__.SYMDEF", b"__.SYMDEF SORTED", b"__.SYMDEF_64")
# Bytes, also of the table of long names; the indexes of torch's static libraries have 20 MB.
_LONGEST_INDEX = 256 << 20
# Members of import libraries that are not objects: long names, ARM64EC's symbols, hashes of XFG.
_OTHERS = (b"//", b"/<ECSYMBOLS>/", b"/<XFGHASHMAP>/")


def read(path: str, source: LimitedSource) -> tuple[StaticArchive | UnreadObject, ...]:
    """Return the archive; an UnreadObject if none of its members could be searched for device code.

    Raises MalformedError.
    """
    extents: dict[Extent, str] = {}  # device code, with the name of its member
    relocatable: list[Extent] = []  # relocatable device code, part of the above
    faults: list[DeviceFault] = []
    contents = _Contents()
    thin = source.read(0, min(len(THIN_MAGIC), source.size)) == THIN_MAGIC
    for member, is_index in _find_members(source, thin=thin):
        if is_index:
            contents.read_index(member)
            continue
        if thin:
            contents.thin.append(member.name)
            continue
        contents.add(member)
        try:
            for extent, awaits_linking in _find_extents(member):
                extents[extent] = member.name
                relocatable += [extent] if awaits_linking else []
        except MalformedError as error:
            reason = f"a member that cannot be read: {error.reason}"
            faults.append(DeviceFault(offset=member.start, reason=reason))
    if not extents:
        if faults:
            first, *_ = faults
            reason = f"at offset {first.offset}: {first.reason}"
            return (UnreadObject(path=path, format=Format.ARCHIVE, reason=reason),)
        return (contents.describe(path, source.size),)
    awaiting = Wrappers(relocatable=tuple(relocatable), awaits_linking=True)
    device = read_device_code(source, extents, awaiting)
    starts = sorted(extents)

    def name_at(offset: int) -> str:
        return extents[starts[bisect_right(starts, (offset, source.size)) - 1]]

    containers = tuple(replace(group, member=name_at(group.offset)) for group in device.containers)
    archive = replace(
        contents.describe(path, source.size),
        device_code=device.code,
        device_containers=containers,
        device_faults=(*faults, *device.faults),
    )
    return (archive,)


def find_device_code(source: LimitedSource) -> Iterator[tuple[str, tuple[Extent, ...]]]:
    """Yield members with device code, and its ranges in the archive; skip broken members."""
    try:
        for member, is_index in _find_members(source):
            with suppress(MalformedError):
                if not is_index and (found := tuple(_find_extents(member))):
                    yield member.name, tuple(extent for extent, _ in found)
    except MalformedError:
        return


class _Contents:
    """Counts the members of an archive by kind."""

    def __init__(self) -> None:
        self._counts: Counter[MemberKind] = Counter()
        self._first: dict[MemberKind, str] = {}
        self._indexed = False
        self._strings = CxxStrings()
        self._unread = ""
        self.thin: list[str] = []

    def add(self, member: FilePart) -> None:
        """Count a member."""
        kind = describe_member(member)
        self._counts[kind] += 1
        self._first.setdefault(kind, member.name)

    def read_index(self, member: FilePart) -> None:
        """Read the symbol index. Visual C++ writes a second index with the same symbols."""
        if self._indexed:
            return
        self._indexed = True
        if member.size > member.limit(_LONGEST_INDEX):
            self._unread = f"its index has {member.size} bytes, which are not read"
        else:
            self._strings = find_strings(member.read(0, member.size))

    def describe(self, path: str, size: int) -> StaticArchive:
        """Return the archive without its device code."""
        rows = sorted(self._counts.items())
        members = tuple(
            ArchiveMembers(
                format=kind.format,
                architecture=kind.architecture,
                note=kind.note,
                count=count,
                first=self._first[kind],
            )
            for kind, count in rows
        )
        return StaticArchive(
            path=path,
            kind=Kind.RELOCATABLE,
            architecture="",
            size=size,
            members=members,
            indexed=self._indexed or not any(each.format for each in members),
            strings=self._strings,
            thin=tuple(self.thin),
            unread=self._unread,
        )


def _find_members(source: LimitedSource, *, thin: bool = False) -> Iterator[tuple[FilePart, bool]]:
    """Yield all members, and whether each is the symbol index.

    Members of a thin archive have no bytes.
    """
    at = len(MAGIC)
    long_names = b""
    while at + _HEAD.size <= source.size:
        name, digits, mark = _HEAD.unpack(source.read(at, _HEAD.size))
        if mark != b"`\n" or not digits.strip().isdigit():
            raise MalformedError("a member of the archive has no header", at)
        # In a thin archive only the tables of long names and of symbols have contents.
        if thin and not name.startswith((b"// ", b"/ ", b"/SYM64/ ")):
            digits = b"0"
        start, size = at + _HEAD.size, int(digits)
        if start + size > source.size:
            reason = f"a member of {size} bytes begins, but only {source.size - start} are left"
            raise MalformedError(reason, at)
        at = start + size + size % 2  # headers begin at even offsets
        name = name.rstrip()
        # BSD: the name is at the beginning of the contents, its length in the header
        if name.startswith(b"#1/") and name[3:].isdigit():
            length = min(int(name[3:]), size)
            name = source.read(start, min(length, _LONGEST_NAME)).rstrip(b"\0")
            start, size = start + length, size - length
        elif name == b"//":
            long_names = source.read(start, min(size, _LONGEST_INDEX))
        elif name[:1] == b"/" and name[1:].isdigit():  # GNU: offset of the name in the member "//"
            place = int(name[1:])
            name = re.split(rb"[\n\0]", long_names[place : place + _LONGEST_NAME])[0] or name
        if name not in _OTHERS:
            # GNU ends short names with a slash
            label = name.rstrip(b"/").decode("utf-8", "backslashreplace")
            yield FilePart(source, start, size, label), name in _INDEXES
    if at < source.size and source.read(at, source.size - at).strip(b"\0\n "):
        raise MalformedError("it ends within the header of a member", at)


def _find_extents(member: FilePart) -> Iterator[tuple[Extent, bool]]:
    """Yield the ranges of a member's device code, and whether the code must still be linked.

    Ranges are in bytes from the start of the archive. Raises MalformedError.
    """
    if member.size < 16:
        return
    beginning = member.read(0, len(_IMPORT))
    if beginning == _IMPORT:
        return
    if beginning.startswith(elf_header.MAGIC):
        sections = read_sections(member, elf_header.read_header(member))
        relocatable = find_extents(sections, RELOCATABLE)
        for start, end in find_extents(sections, SECTIONS):
            yield (member.start + start, member.start + end), (start, end) in relocatable
        return
    for name, offset, size in find_coff_sections(member):
        if name.startswith(SHORT_SECTIONS):
            if offset + size > member.size:
                raise MalformedError(f"section {name!r} ends beyond it", offset)
            start = member.start + offset
            yield (start, start + size), name.startswith(SHORT_RELOCATABLE)

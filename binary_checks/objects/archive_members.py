"""What a member of a static archive is, and which std::string the names in its index have."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from binary_checks.errors import MalformedError, Unavailable
from binary_checks.model import CxxStrings
from binary_checks.model.mangling import names_old_abi
from binary_checks.objects.elf import header as elf_header
from binary_checks.objects.elf.header import read_sections
from binary_checks.objects.limits import LimitedSource
from binary_checks.objects.macho import header as macho_header

_BITCODE: Final = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
_COFF = {0x014C: "i686", 0x8664: "x86_64", 0xAA64: "aarch64", 0xA641: "arm64ec", 0x01C4: "armv7l"}
_LTCG_CLASS = bytes.fromhex("38feb30ca5d9ab4dac9bd6b6222653c2")  # what `cl /GL` writes
_SHORT = b"\0\0\xff\xff"  # of COFF's import objects, of its big ones, and of LTCG's
_OF_GCC = ".gnu.lto_"
_CODE = 4  # SHF_EXECINSTR
_NEW = re.compile(rb"\0(_Z[^\0]*cxx11[^\0]*)")
_OLD = re.compile(rb"\0(_Z[^\0]*(?:Ss|Sb|St4list)[^\0]*)")
_OF_STD = re.compile(rb"_Z(?:T[VTISC]|GV|GR)?N?[VKRO]*S[a-z]|_ZN[VKRO]*9__gnu_cxx")
_MOST_LOOKED_AT = 20_000  # names that may be of the old ABI: each is taken apart
_LONGEST_NAME = 300  # characters of an example


class MemberKind(NamedTuple):
    """What members are alike in."""

    format: str = ""
    architecture: str = ""
    note: str = ""


def describe_member(member: LimitedSource) -> MemberKind:
    """Its format and architecture; a broken one's as far as they can be told."""
    head = member.read(0, min(64, member.size))
    try:
        if head.startswith(elf_header.MAGIC):
            return _describe_elf(member)
        if head[:4] in macho_header.THIN:
            header = macho_header.read_header(macho_header.Slice(member, 0, member.size))
            found = macho_header.architecture_of(header.cpu_type, header.cpu_subtype)
            return MemberKind("Mach-O", found)
    except (MalformedError, Unavailable):
        return MemberKind("ELF" if head.startswith(elf_header.MAGIC) else "Mach-O", note="broken")
    if head.startswith(_BITCODE):
        return MemberKind("LLVM bitcode")
    return _describe_coff(head)


def _describe_elf(member: LimitedSource) -> MemberKind:
    header = elf_header.read_header(member)
    sections = read_sections(member, header)
    slim = any(each.name.startswith(_OF_GCC) for each in sections) and not any(
        each.flags & _CODE and each.size for each in sections
    )
    note = "GCC's own code for link-time optimisation" if slim else ""
    return MemberKind("ELF", elf_header.architecture_of(header), note)


def _describe_coff(head: bytes) -> MemberKind:
    if head.startswith(_SHORT) and len(head) >= 20:
        machine = _COFF.get(int.from_bytes(head[6:8], "little"), "")
        if head[12:28] == _LTCG_CLASS:
            return MemberKind("COFF", machine, "Visual C++'s own code for link-time optimisation")
        return MemberKind("COFF" if any(head[4:6]) else "import", machine)
    machine = _COFF.get(int.from_bytes(head[:2], "little"), "") if len(head) >= 20 else ""
    return MemberKind("COFF", machine) if machine else MemberKind()


def find_strings(index: bytes) -> CxxStrings:
    """Look through the names in an index of symbols, between NUL bytes, in any of its forms."""
    if b"_Z" not in index:
        return CxxStrings()
    new = [name for name in _NEW.findall(index) if not _OF_STD.match(name)]
    old, example = 0, ""
    candidates = (found[1] for found in _OLD.finditer(index) if not _OF_STD.match(found[1]))
    for number, name in enumerate(candidates):
        if number >= _MOST_LOOKED_AT:
            break
        if b"cxx11" not in name and names_old_abi(spelled := name.decode("latin-1")):
            old, example = old + 1, example or spelled
    return CxxStrings(
        new=len(new),
        old=old,
        new_example=new[0].decode("latin-1")[:_LONGEST_NAME] if new else "",
        old_example=example[:_LONGEST_NAME],
    )

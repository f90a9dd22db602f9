"""Vector instructions of x86-64 code, counted with capstone: legacy SSE, AVX, AVX-512; and AMX.

A compiler that may use AVX (``-march=native``) encodes every vector instruction with a VEX or EVEX
prefix (Intel SDM, volume 2, 2.3 and 2.7), also those of one number. An object that chooses its code
at run time has both encodings: the rest of it is compiled for all CPUs. Of 3,481 libraries in 303
published wheels, all that have EVEX and (nearly) no legacy encoding are variants for newer CPUs
that say so in their names, or ask the CPU.

The tile instructions of AMX, which capstone 5 does not read, are found by their bytes. Compilers
write them only for intrinsics. All 11 objects of 347 published wheels that have them ask the CPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.objects.byte_source import LimitedSource
from binary_checks.objects.elf.header import SHF_EXECINSTR, SHT_NOBITS, read_header, read_sections

_WINDOWS, _WINDOW = 64, 4096  # pieces that are read of a long section, and their bytes
_SETTLES = 16  # instructions after which a reader that began inside of one is in step again
_LEGACY_PREFIXES = frozenset(b"\x66\xf2\xf3\x2e\x36\x3e\x26\x64\x65\x67\xf0")
_VEX, _EVEX, _ESCAPE = b"\xc4\xc5", 0x62, 0x0F
_SSE = re.compile(rb"\x0f[\x10-\x17\x28-\x2f\x50-\x7f\xd0-\xff]")
"""The opcodes of legacy SSE. In other code these two bytes are rare: a jump has 0f 80 to 0f 8f."""
_USUAL = 400  # bytes of code for one such pair, at most, in an object that is surely for all CPUs
_MOST_SEARCHED = 16 << 20  # bytes of code that are searched for cpuid
_ASKS = frozenset({"cpuid", "xgetbv"})
_TILE = re.compile(
    rb"\xc4[\x82\xa2\xc2\xe2](?:"  # a VEX prefix of three bytes, for the opcodes 0f 38
    # ldtilecfg and sttilecfg have a place in memory, tilerelease and tilezero have none
    rb"[\x78-\x7b]\x49[\x00-\x07\x40-\x47\x80-\x87\xc0\xc8\xd0\xd8\xe0\xe8\xf0\xf8]"
    # tileloadd, tileloaddt1 and tilestored, whose place always has two registers
    rb"|[\x79-\x7b]\x4b[\x04\x0c\x14\x1c\x24\x2c\x34\x3c\x44\x4c\x54\x5c\x64\x6c\x74\x7c"
    rb"\x84\x8c\x94\x9c\xa4\xac\xb4\xbc]"
    # products of two tiles: tdpbf16ps, tdpfp16ps; tdpbssd, tdpbsud, …; tcmmimfp16ps, tcmmrlfp16ps
    rb"|[\x40-\x43\x48-\x4b\x50-\x53\x58-\x5b\x60-\x63\x68-\x6b\x70-\x73\x78-\x7b]"
    rb"[\x5c\x5e\x6c][\xc0-\xff])"
)
"""Instructions of AMX (Intel SDM, volume 2). In random bytes, one in 40 MB looks like one."""


class VectorCode(NamedTuple):
    """Numbers of instructions in the pieces that were read, and whether the code asks the CPU."""

    legacy: int = 0  # SSE
    avx: int = 0
    avx512: int = 0
    amx: int = 0  # in all of the code; 0 if it is too long to be searched for cpuid
    asks: bool = False  # whether some instruction asks which CPU runs it


def read_vector_code(source: LimitedSource) -> VectorCode:
    """Count the vector instructions of an ELF file for x86-64.

    All numbers but ``amx`` are 0 if the code has as many pairs of bytes that look like legacy SSE
    as code for all CPUs has. Raises MalformedError, TooLarge, and ImportError without capstone.
    """
    sections = read_sections(source, read_header(source))
    code = [
        (section.offset, section.size)
        for section in sections
        if section.flags & SHF_EXECINSTR and section.type != SHT_NOBITS
    ]
    if not sections:
        raise MalformedError("it has no section headers, which say where its code is", 0)
    if not code:
        return VectorCode()
    offset, size = max(code, key=lambda each: each[1])  # .text; others are .plt, .init, .fini
    whole = source.read(offset, min(size, _MOST_SEARCHED))
    amx = len(_TILE.findall(whole)) if size <= _MOST_SEARCHED else 0
    pieces = list(_read_pieces(source, offset, size))
    if sum(len(_SSE.findall(piece)) for piece in pieces) * _USUAL > sum(map(len, pieces)):
        found = VectorCode()
    else:
        found = _count(pieces)
    if (found.avx512 or amx) and not found.asks:
        found = found._replace(asks=_asks(whole))
    return found._replace(amx=amx)


def _read_pieces(source: LimitedSource, offset: int, size: int) -> Iterator[bytes]:
    if size <= _WINDOWS * _WINDOW:
        yield source.read(offset, size)
        return
    for number in range(_WINDOWS):
        yield source.read(offset + number * (size - _WINDOW) // (_WINDOWS - 1), _WINDOW)


def _count(pieces: list[bytes]) -> VectorCode:
    legacy = avx = avx512 = 0
    asks = False
    for at, piece in enumerate(pieces):
        for number, (start, length, mnemonic, operands) in enumerate(_disassemble(piece)):
            if number < _SETTLES and at:
                continue
            asks = asks or mnemonic in _ASKS
            first = _opcode(piece[start : start + length])
            if first == _EVEX or (first in _VEX and mnemonic.startswith("k")):
                avx512 += 1
            elif first in _VEX:
                avx += "mm" in operands
            elif first == _ESCAPE:
                legacy += "xmm" in operands
    return VectorCode(legacy=legacy, avx=avx, avx512=avx512, asks=asks)


def _asks(code: bytes) -> bool:
    return any(mnemonic in _ASKS for _, _, mnemonic, _ in _disassemble(code))


def _disassemble(code: bytes) -> Iterator[tuple[int, int, str, str]]:
    """Yield (offset, length, mnemonic, operands); bytes that are no instruction are skipped."""
    import capstone

    reader = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    reader.skipdata = True
    yield from reader.disasm_lite(code, 0)


def _opcode(instruction: bytes) -> int:
    """Return the first byte of the opcode, or the prefix VEX or EVEX in its place; 0 for none."""
    rest = instruction.lstrip(bytes(_LEGACY_PREFIXES))
    if rest[:1] and 0x40 <= rest[0] <= 0x4F:  # REX
        rest = rest[1:]
    return rest[0] if rest else 0

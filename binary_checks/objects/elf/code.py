"""Tells machine code from strings and tables by a few samples, where one segment holds both.

Linkers that do not separate code put the strings behind it, and only the section headers, at the
end of the file, say where. What is taken for code in error is missed there, and then told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from binary_checks.objects.library_texts import IsCode

_SAMPLE = 1 << 9  # bytes
_SAMPLES = 2  # in a piece, the last one at its end
_WORD = 4  # bytes of an instruction for AArch64

_X86_64 = b"\x48\x8b\x89\x0f"  # a prefix, two moves, and what begins longer opcodes
_X86_64_SHARE = 0.1  # of code; 19 of 20 samples of published libraries' have more
_AARCH64 = bytes.fromhex(
    "0b 0f 10 13 14 17 1a 1e 2a 34 35 38 39 3a 3d 4a 4e 52 54 6b 6e 6f 71 72 79"
    "7a 8a 8b 90 91 94 97 a9 aa ad b4 b5 b8 b9 cb d1 d2 d6 eb f1 f8 f9"
)
"""How the words of common instructions end."""
_AARCH64_SHARE = 0.6


def _looks_like_x86_64(sample: bytes) -> bool:
    return len(sample) - len(sample.translate(None, _X86_64)) >= _X86_64_SHARE * len(sample)


def _looks_like_aarch64(sample: bytes) -> bool:
    ends = sample[_WORD - 1 :: _WORD]
    return len(ends) - len(ends.translate(None, _AARCH64)) >= _AARCH64_SHARE * len(ends)


def _is_code(
    looks_so: Callable[[bytes], bool], piece: bytes, start: int, end: int, offset: int
) -> bool:
    places = (end - (end - start) * number // _SAMPLES for number in range(_SAMPLES))
    aligned = (place - (offset + place) % _WORD for place in places)
    return all(looks_so(piece[max(place - _SAMPLE, start) : place]) for place in aligned)


TELLING: Final[Mapping[str, IsCode]] = {
    "x86_64": partial(_is_code, _looks_like_x86_64),
    "aarch64": partial(_is_code, _looks_like_aarch64),
}
"""By architecture; of others everything is searched."""

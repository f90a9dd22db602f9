"""Knows the GPU that the flags of a cubin's ELF header name, in each version of its ABI."""

from __future__ import annotations

from typing import Final, NamedTuple

EM_CUDA: Final = 190  # the machine of a cubin


class CubinFlags(NamedTuple):
    """What the flags state; no ABI has a bit for the suffix ``f``."""

    number: int  # 90, of sm_90
    is_for_one_gpu: bool  # the suffix "a"; ABI 8 does not always mark it: ptxas 13.5 leaves it out


def read_flags(abi: int, flags: int) -> CubinFlags | None:
    """Read the flags of a cubin with that ABI version; None for an unknown one."""
    if abi == 7:
        return CubinFlags(flags & 0xFF, bool(flags & 0x800))
    if abi == 8:
        return CubinFlags(flags >> 8 & 0xFF, bool(flags & 8))
    return None

"""Options that GCC records in debug information (DW_AT_producer).

For ``-march=native`` the record has what the driver found: the CPU, each instruction set that the
CPU has or lacks, and the sizes of its caches. An option such as ``-march=znver3`` is recorded
alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_CACHE = b"l1-cache-size="
_NATIVE = re.compile(rb"-march=([\w.-]{1,40})((?: -m[\w.=+-]{1,60}){1,300} )--param[ =]\Z")
_SETS = ((b" -mavx512f ", "AVX-512"), (b" -mavx2 ", "AVX2"), (b" -mavx ", "AVX"))
LONGEST_RECORD: Final = 8192
"""The most bytes from -march to the size of the cache; GCC 12 needs 1,200."""


def find_native_cpus(block: bytes, begin: int) -> Iterator[str]:
    """Yield each CPU with its newest instruction set, "znver3 with AVX-512", from ``begin`` on.

    The record of ``-march=native`` ends with the size of a cache.
    """
    at = block.find(_CACHE, begin)
    while at >= 0:
        match = _NATIVE.search(block[max(at - LONGEST_RECORD, 0) : at])
        newest = (name for word, name in _SETS if match and word in match[2])
        if match and (name := next(newest, "")):
            yield f"{match[1].decode()} with {name}"
        at = block.find(_CACHE, at + 1)

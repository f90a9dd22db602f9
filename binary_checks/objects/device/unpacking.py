"""Decompresses one entry of a CUDA container, never to more than its head claims.

nvcc compresses with Zstandard (13.0 and later, and ``--compress-mode=size`` of 12.8), with one raw
block of LZ4 (before, and ``=speed``), and did with a method of NVIDIA's own that nobody documents.
The libraries are imported for the first such entry.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, TypeAlias

from binary_checks.errors import BrokenDataError, NotInstalled, TooLarge, Unavailable
from binary_checks.objects.device.fatbin import LZ4, OLD_LZ, SCRAMBLED, ZSTANDARD

LARGEST: Final = 256 << 20  # bytes that one entry unpacks to; the largest known one has 136 MB
_WINDOW: Final = 27  # 128 MiB, as in the decompression of packages
_EXTRA: Final = "device"
_COMPRESSED_CODE = "it is compressed"

Begin: TypeAlias = Callable[[bytes, int], bytes]
"""Takes compressed bytes and returns the first of them decompressed, as many as are asked for."""


def unpack(packed: bytes, flags: int, claimed: int | None, factor: int = 1) -> bytes:
    """What an entry with these flags unpacks to.

    Raises BrokenDataError where it is not what its head claims, TooLarge, NotInstalled, and
    Unavailable for a method that is not known.
    """
    if claimed is None:
        return packed
    if claimed > (limit := LARGEST * factor):
        raise TooLarge(f"an entry unpacks to {claimed} bytes; at most {limit} are read")
    found = _choose(flags)(packed, claimed + 1)
    if len(found) > claimed:
        raise BrokenDataError(f"it unpacks to more than the {claimed} bytes that its head claims")
    if len(found) < claimed:
        raise BrokenDataError(f"it unpacks to {len(found)} bytes where its head claims {claimed}")
    return found


def measure(size: int, claimed: int | None, factor: int = 1) -> int:
    """How many bytes unpacking makes of so many; 0 where it is refused at once."""
    if claimed is None:
        return size
    return 0 if claimed > LARGEST * factor else max(claimed, size)


def _choose(flags: int) -> Begin:
    if flags & SCRAMBLED:
        raise Unavailable("it is scrambled, as code for the device linker is")
    if flags & ZSTANDARD:
        return _find_zstandard()
    if flags & LZ4:
        return _find_lz4()
    if flags & OLD_LZ:
        raise Unavailable("it is compressed by NVIDIA's own method of before CUDA 11.4")
    raise Unavailable(f"it is compressed by a method that is not known (flags {flags:#x})")


@lru_cache(maxsize=1)
def _find_zstandard() -> Begin:
    """The standard library's decompressor (Python 3.14), else that of the package."""
    try:
        library: Any = import_module("compression.zstd")
    except ImportError:
        return _find_package()
    options = {library.DecompressionParameter.window_log_max: _WINDOW}

    def begin(packed: bytes, length: int) -> bytes:
        try:
            return bytes(library.ZstdDecompressor(options=options).decompress(packed, length))
        except library.ZstdError:
            raise BrokenDataError("its Zstandard frame is broken") from None

    return begin


def _find_package() -> Begin:
    try:
        library: Any = import_module("zstandard")
    except ImportError:
        raise NotInstalled(_COMPRESSED_CODE, _EXTRA) from None

    def begin(packed: bytes, length: int) -> bytes:
        # One each time: several threads read a package, and it is for one of them alone.
        decompressor = library.ZstdDecompressor(max_window_size=1 << _WINDOW)
        try:
            return bytes(decompressor.stream_reader(packed).read(length))
        except library.ZstdError:
            raise BrokenDataError("its Zstandard frame is broken") from None

    return begin


@lru_cache(maxsize=1)
def _find_lz4() -> Begin:
    try:
        library: Any = import_module("lz4.block")
    except ImportError:
        raise NotInstalled(_COMPRESSED_CODE, _EXTRA) from None

    def begin(packed: bytes, length: int) -> bytes:
        try:
            return bytes(library.decompress(packed, uncompressed_size=length))
        except library.LZ4BlockError:
            raise BrokenDataError("its LZ4 block is broken, or has more than it claims") from None

    return begin

"""Decompression of gzip, bzip2, xz and Zstandard streams in bounded pieces."""

from __future__ import annotations

from bz2 import BZ2Decompressor
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, Protocol

from binary_checks.errors import BrokenDataError, GatherError
from binary_checks.watchdog import ask

_BLOCK = 256 << 10  # bytes of output at a time
_FRAMES = 100_000  # streams in one file; pbzip2 writes one for every 900,000 bytes
# bytes of output that are always read; hashing and searching them takes about five seconds
_HARMLESS = 512 << 20
_RATIO = 500  # largest ratio of output to input beyond that; real packages stay below 30
_WINDOW: Final = 27  # 128 MiB, the largest window that `zstd --ultra` and conda's tools use
# bytes of memory for decompressing xz; `xz -9` needs half of this limit
_MEMORY: Final = (1 << _WINDOW) + (1 << 20)
_GZIP: Final = 31  # zlib's wbits for gzip streams (RFC 1952) with the largest window: 16 + 15
# bytes of Zstandard input; an RLE block of 4 bytes gives up to 128 KiB (RFC 8878, 3.1.1.2)
_INPUT = 1024
_LACKING = "Zstandard cannot be read here: install binary-checks[conda]"


class _Decompressor(Protocol):
    """The attributes that ``bz2`` and ``compression.zstd`` have in common, for one stream."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


Start = Callable[[], _Decompressor]
"""Returns a decompressor for the next stream of a file."""


def find_bzip2() -> Start:
    """Return the standard library's decompressor for bzip2."""
    return BZ2Decompressor


def find_gzip() -> Start:
    """Return a decompressor for gzip: isal's, which is twice as fast, or the standard library's."""
    library: Any = import_module("zlib")
    with suppress(ImportError):
        library = import_module("isal.isal_zlib")
    return lambda: _Guarded(_Inflating(library.decompressobj(_GZIP)), library.error)


def find_xz() -> Start:
    """Return the standard library's decompressor for xz."""
    library: Any = import_module("lzma")
    return lambda: _Guarded(
        library.LZMADecompressor(format=library.FORMAT_XZ, memlimit=_MEMORY), library.LZMAError
    )


def find_zstandard() -> Start:
    """Return a decompressor for Zstandard, from the standard library or the package ``zstandard``.

    The standard library has a decompressor since Python 3.14. Raises GatherError, without a file's
    name, if neither is available: a file that cannot be read must never pass.
    """
    try:
        library: Any = import_module("compression.zstd")
    except ImportError:
        return _find_package()
    limit = {library.DecompressionParameter.window_log_max: _WINDOW}
    return lambda: _Guarded(library.ZstdDecompressor(options=limit), library.ZstdError)


def _find_package() -> Start:
    try:
        library: Any = import_module("zstandard")
    except ImportError:
        raise GatherError(_LACKING) from None
    most = 1 << _WINDOW
    return lambda: _Guarded(
        _Streamed(library.ZstdDecompressor(max_window_size=most).decompressobj()),
        library.ZstdError,
    )


class _Wrapper:
    """A decompressor of a library that differs from those of the standard library."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._waiting = b""  # input that is not consumed yet

    @property
    def eof(self) -> bool:
        return bool(self._stream.eof)

    @property
    def needs_input(self) -> bool:
        return not self._waiting

    @property
    def unused_data(self) -> bytes:
        return bytes(self._stream.unused_data) + self._waiting


class _Inflating(_Wrapper):
    """A decompressor of ``zlib`` that stores unconsumed input, as the other libraries do."""

    _full = False  # whether the output was cut at its limit, so that more may follow

    @property
    def needs_input(self) -> bool:
        return not (self._full or self._waiting)

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        piece = bytes(self._stream.decompress(self._waiting + data, max_length))
        self._waiting = bytes(self._stream.unconsumed_tail)
        self._full = len(piece) >= max_length
        return piece


class _Guarded(_Wrapper):
    """A decompressor that raises OSError on broken data, as bz2's decompressor does."""

    def __init__(self, stream: Any, error: type[Exception]) -> None:
        super().__init__(stream)
        self._error = error

    @property
    def needs_input(self) -> bool:
        return bool(self._stream.needs_input)

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        try:
            return bytes(self._stream.decompress(data, max_length))
        except self._error as error:
            # Only these of the library's messages mean that decompression would need too much
            # memory.
            message = str(error)
            large = any(each in message for each in ("too much memory", "too large", "usage limit"))
            raise OSError("it needs more than 128 MiB of memory" if large else "") from None


class _Streamed(_Wrapper):
    """A decompressor of ``zstandard``, which cannot limit its output; so its input is limited."""

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        waiting = memoryview(self._waiting + data)
        pieces, size, at = [], 0, 0
        while at < len(waiting) and size < max_length and not self._stream.eof:
            pieces.append(self._stream.decompress(waiting[at : at + _INPUT]))
            size += len(pieces[-1])
            at += _INPUT
        self._waiting = bytes(waiting[at:])
        return b"".join(pieces)


def expand(packed: Iterable[bytes], start: Start) -> Iterator[bytes]:
    """Decompress a file of one or more streams, and yield its bytes in pieces.

    Raises BrokenDataError if the data is truncated, broken, followed by other bytes, or expands by
    more than a factor of 500; pieces yielded before that are valid.
    """
    stream, frames = start(), 1
    taken = given = 0
    for fetched in packed:
        taken += len(fetched)
        rest = fetched
        while rest or not (stream.needs_input or stream.eof):
            if stream.eof:
                stream, frames = start(), frames + 1
                if frames > _FRAMES:
                    raise BrokenDataError(f"it has more than {_FRAMES} compressed streams")
            piece = _decompress(stream, rest, frames)
            rest = stream.unused_data if stream.eof else b""
            given += len(piece)
            ask(len(piece))
            if given > max(_HARMLESS, _RATIO * taken):
                raise BrokenDataError(
                    f"its first {taken} bytes expand to more than {given - 1}, which is not read"
                )
            if piece:
                yield piece
    if not stream.eof:
        raise BrokenDataError("truncated: its compressed data end too early")


def _decompress(stream: _Decompressor, packed: bytes, frame: int) -> bytes:
    try:
        return stream.decompress(packed, _BLOCK)
    except (OSError, ValueError) as error:
        if frame > 1:
            raise BrokenDataError("bytes follow its compressed data") from None
        reason = str(error) if "memory" in str(error) else "its compressed data are broken"
        raise BrokenDataError(reason) from None

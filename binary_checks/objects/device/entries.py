"""List the entries of CUDA containers one by one, each with its unpacked code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from hashlib import sha256
from importlib import import_module
from typing import Any, Final, TypeAlias

from binary_checks.errors import (
    BinaryChecksError,
    BrokenDataError,
    MalformedError,
    TooLarge,
    Unavailable,
)
from binary_checks.knowledge.device_code import EM_CUDA
from binary_checks.model import ByteSource, DeviceKind, DeviceTarget
from binary_checks.objects import archives
from binary_checks.objects.byte_source import LimitedSource
from binary_checks.objects.device.containers import (
    FATBIN_MAGIC,
    LZ4,
    OLD_LZ,
    SCRAMBLED,
    ZSTANDARD,
    Container,
    Entry,
    Part,
)
from binary_checks.objects.device.sections import (
    SECTIONS,
    SHORT_SECTIONS,
    Extent,
    walk_device_code,
)
from binary_checks.objects.elf import header as elf_header
from binary_checks.objects.pe import header as pe_header
from binary_checks.trees.kept_bytes import ByteStore
from binary_checks.watchdog import ask

# Decompress one entry, never to more bytes than its head claims.
#
# nvcc compresses with Zstandard (since 13.0, and with ``--compress-mode=size`` since 12.8), with
# one raw block of LZ4 (in earlier versions, and with ``=speed``), and before CUDA 11.4 with an
# undocumented method of NVIDIA's own. A library is imported for the first entry that needs it.

LARGEST: Final = 256 << 20  # bytes of an unpacked entry; the largest known entry has 136 MB
# log2 of the window's bytes (RFC 8878, 3.1.1.1.2): 128 MiB, as in decompressing packages
_WINDOW: Final = 27

_Decompressor: TypeAlias = tuple[Callable[[bytes, int], bytes], type[Exception]]
"""Takes compressed bytes and a length, and returns at most that many decompressed bytes; and what
it raises for broken data.
"""


class NotInstalled(Unavailable):
    """A library that reads the file is missing; installing our ``extra`` provides it."""

    def __init__(self, reason: str, extra: str) -> None:
        super().__init__(f"{reason}: pip install binary-checks[{extra}]")
        self.extra = extra


def unpack(packed: bytes, flags: int, claimed: int) -> bytes:
    """Return the unpacked bytes of an entry with these flags.

    Raises BrokenDataError if they are not what the entry's head claims, NotInstalled, and
    Unavailable for an unknown method.
    """
    if flags & SCRAMBLED:
        raise Unavailable("it is scrambled, as code for the device linker is")
    if flags & ZSTANDARD:
        (decompress, failure), broken = _find_zstandard(), "its Zstandard frame is broken"
    elif flags & LZ4:
        broken = "its LZ4 block is broken, or unpacks to more bytes than it claims"
        decompress, failure = _find_lz4()
    elif flags & OLD_LZ:
        raise Unavailable("it is compressed by a method of NVIDIA's own, used before CUDA 11.4")
    else:
        raise Unavailable(f"it is compressed by an unknown method (flags {flags:#x})")
    try:
        found = decompress(packed, claimed + 1)
    except failure:
        raise BrokenDataError(broken) from None
    if len(found) > claimed:
        raise BrokenDataError(f"it unpacks to more than the {claimed} bytes that its head claims")
    if len(found) < claimed:
        raise BrokenDataError(f"it unpacks to {len(found)} bytes, but its head claims {claimed}")
    return found


# A decompressor is created for each entry, because several threads read a package.


@lru_cache(maxsize=1)
def _find_zstandard() -> _Decompressor:
    """Return the decompressor of the standard library (Python 3.14), else of zstandard."""
    try:
        library: Any = import_module("compression.zstd")
        options = {library.DecompressionParameter.window_log_max: _WINDOW}
    except ImportError:
        library = _import("zstandard")

        def decompress(packed: bytes, length: int) -> bytes:
            started = library.ZstdDecompressor(max_window_size=1 << _WINDOW)
            return bytes(started.stream_reader(packed).read(length))

    else:

        def decompress(packed: bytes, length: int) -> bytes:
            return bytes(library.ZstdDecompressor(options=options).decompress(packed, length))

    return decompress, library.ZstdError


@lru_cache(maxsize=1)
def _find_lz4() -> _Decompressor:
    library = _import("lz4.block")

    def decompress(packed: bytes, length: int) -> bytes:
        return bytes(library.decompress(packed, uncompressed_size=length))

    return decompress, library.LZ4BlockError


def _import(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise NotInstalled("it is compressed", "device") from None


# The entries.


class DeviceEntry:
    """One cubin or PTX text in a file. Each of several jointly compressed parts is an entry."""

    def __init__(self, block: _Block, part: Part, member: str = "") -> None:
        self._block, self._part = block, part
        self.member = member  # name of a member of a static archive
        self.kind, self.architecture = part.target.kind, part.target.architecture
        # offset of the entry's head, in bytes from the start of the file
        self.offset = block.entry.offset
        # bytes that the entry claims to unpack to
        self.size = block.size if part.size is None else part.size

    def digest(self) -> bytes:
        """Return a digest that differs for different contents, without unpacking anything."""
        part = f"{self._block.entry.flags} {self._part.start} {self._part.size}"
        return sha256(self._block.read() + part.encode()).digest()

    def keep(self, kept: ByteStore) -> DeviceEntry:
        """Append the stored bytes to ``kept``; return an equal entry that reads them from there."""
        return DeviceEntry(self._block.keep(kept), self._part, self.member)

    def unpack(self) -> bytes:
        """Return the code. PTX ends with NUL bytes.

        Raises BrokenDataError if the entry is at fault, TooLarge, NotInstalled, and Unavailable for
        an unknown method of compression.
        """
        if self._part.size is None:
            return self._block.unpack()
        content = self._block.unpack_once()[self._part.start :][: self._part.size]
        if len(content) < self._part.size:
            raise BrokenDataError(
                f"a part of {self._part.size} bytes lies beyond the end of the unpacked bytes"
            )
        return content


class _Block:
    """Bytes that were compressed together; several parts share the unpacked bytes."""

    def __init__(self, source: LimitedSource, entry: Entry) -> None:
        self._source, self.entry = source, entry
        self.size = entry.size if entry.unpacked_size is None else entry.unpacked_size
        self._unpacked: bytes | BinaryChecksError | BrokenDataError | None = None

    def read(self) -> bytes:
        return self._source.read(self.entry.start, self.entry.size)

    def keep(self, kept: ByteStore) -> _Block:
        entry = self.entry._replace(start=kept.size)
        kept.append(self.read())
        return _Block(LimitedSource(kept, self._source.factor), entry)

    def unpack(self) -> bytes:
        entry, most = self.entry, self._source.limit(LARGEST)
        if entry.size > most:
            raise TooLarge(f"an entry of {entry.size} bytes; at most {most} are read")
        if self.size > most:
            raise TooLarge(f"an entry unpacks to {self.size} bytes; at most {most} are read")
        # Not by the unpacked size: a few kilobytes may unpack to gigabytes.
        ask(entry.size)
        packed = self.read()
        if entry.unpacked_size is None:
            return packed
        return unpack(packed, entry.flags, entry.unpacked_size)

    def unpack_once(self) -> bytes:
        """Unpack the block only once for all its parts; also remember a failure."""
        if self._unpacked is None:
            try:
                self._unpacked = self.unpack()
            except (BinaryChecksError, BrokenDataError) as error:
                error.__context__ = None  # the frames of its traceback hold all unpacked bytes
                self._unpacked = error.with_traceback(None)
        if isinstance(self._unpacked, bytes):
            return self._unpacked
        raise self._unpacked


def list_entries(content: ByteSource, factor: int = 1) -> Iterator[DeviceEntry]:
    """Yield the entries of all CUDA containers in a file; a loose cubin is one entry.

    They are not decompressed yet: they can be unpacked as long as the file is open. ``factor``
    multiplies the limits on reading. Yields nothing for a file without device code, or from the
    place on where it cannot be read: the error is reported when the file is read as an object.
    """
    source = LimitedSource(content, factor)
    found: Iterable[tuple[str, Iterable[Extent]]] = ()  # members of an archive, and their extents
    try:
        head = source.read(0, min(len(archives.MAGIC), source.size))
        if head.startswith(elf_header.MAGIC):
            header = elf_header.read_header(source)
            if header.machine == EM_CUDA:
                part = Part(DeviceTarget(kind=DeviceKind.SASS), source.size, compressed=False)
                whole = Entry(0, (part,), size=source.size)
                yield DeviceEntry(_Block(source, whole), part)
                return
            sections = elf_header.read_sections(source, header)
            found = [("", elf_header.find_extents(sections, SECTIONS))]
        elif head.startswith(b"MZ"):
            image = pe_header.read_header(source, pe_header.find_signature(source))
            rows = pe_header.read_sections(source, image)
            found = [("", pe_header.find_extents(rows, SHORT_SECTIONS))]
        elif head.startswith(archives.MAGIC):
            found = archives.find_device_code(source)
        elif head.startswith(FATBIN_MAGIC):
            found = [("", [(0, source.size)])]
        for member, extents in found:
            for step in walk_device_code(source, extents):
                for entry in step.entries if isinstance(step, Container) else ():
                    block = _Block(source, entry)
                    yield from (DeviceEntry(block, part, member) for part in entry.parts)
    except (MalformedError, Unavailable):
        return

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
    NotInstalled,
    TooLarge,
    Unavailable,
)
from binary_checks.knowledge.device_code import EM_CUDA
from binary_checks.model import ByteSource, DeviceFault, DeviceKind
from binary_checks.objects import archives
from binary_checks.objects.byte_source import LimitedSource
from binary_checks.objects.device.containers import (
    FATBIN_MAGIC,
    LZ4,
    OLD_LZ,
    SCRAMBLED,
    ZSTANDARD,
    Container,
    Part,
    Rest,
    Stored,
)
from binary_checks.objects.device.sections import SECTIONS, SHORT_SECTIONS, Extent, follow_all
from binary_checks.objects.elf import header as elf_header
from binary_checks.objects.pe import header as pe_header
from binary_checks.trees.kept_bytes import ByteStore

# Decompress one entry, never to more bytes than its head claims.
#
# nvcc compresses with Zstandard (since 13.0, and with ``--compress-mode=size`` since 12.8), with
# one raw block of LZ4 (in earlier versions, and with ``=speed``), and before CUDA 11.4 with an
# undocumented method of NVIDIA's own. A library is imported for the first entry that needs it.

LARGEST: Final = 256 << 20  # bytes of an unpacked entry; the largest known entry has 136 MB
# log2 of the window's bytes (RFC 8878, 3.1.1.1.2): 128 MiB, as in decompressing packages
_WINDOW: Final = 27
_EXTRA: Final = "device"
_COMPRESSED_CODE = "it is compressed"

Begin: TypeAlias = Callable[[bytes, int], bytes]
"""Called with compressed bytes and a length. Returns at most that many decompressed bytes."""


def unpack(packed: bytes, flags: int, claimed: int | None, factor: int = 1) -> bytes:
    """Return the unpacked bytes of an entry with these flags.

    Raises BrokenDataError if they are not what the entry's head claims, TooLarge, NotInstalled, and
    Unavailable for an unknown method.
    """
    if claimed is None:
        return packed
    if claimed > (limit := LARGEST * factor):
        raise TooLarge(f"an entry unpacks to {claimed} bytes; at most {limit} are read")
    found = _choose(flags)(packed, claimed + 1)
    if len(found) > claimed:
        raise BrokenDataError(f"it unpacks to more than the {claimed} bytes that its head claims")
    if len(found) < claimed:
        raise BrokenDataError(f"it unpacks to {len(found)} bytes, but its head claims {claimed}")
    return found


def measure(size: int, claimed: int | None, factor: int = 1) -> int:
    """Return how many bytes unpacking produces, even from broken data; 0 if it is refused."""
    if claimed is None:
        return size
    return 0 if claimed > LARGEST * factor else max(claimed, size)


def _choose(flags: int) -> Begin:
    """Return the decompressor for an entry's flags. Raises Unavailable, NotInstalled."""
    if flags & SCRAMBLED:
        raise Unavailable("it is scrambled, as code for the device linker is")
    if flags & ZSTANDARD:
        return _find_zstandard()
    if flags & LZ4:
        return _find_lz4()
    if flags & OLD_LZ:
        raise Unavailable("it is compressed by a method of NVIDIA's own, used before CUDA 11.4")
    raise Unavailable(f"it is compressed by an unknown method (flags {flags:#x})")


@lru_cache(maxsize=1)
def _find_zstandard() -> Begin:
    """Return the decompressor of the standard library (Python 3.14), else of zstandard."""
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
        # Created each time: several threads read a package, and a decompressor is not thread-safe.
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
            raise BrokenDataError(
                "its LZ4 block is broken, or unpacks to more bytes than it claims"
            ) from None

    return begin


# The entries.


class DeviceEntry:
    """One cubin or PTX text in a file. Each of several jointly compressed parts is an entry."""

    def __init__(self, block: _Block, part: Part, member: str = "") -> None:
        self._block, self._part = block, part
        self.member = member  # name of a member of a static archive
        self.kind = DeviceKind(part.target[0])
        self.architecture = part.target[1]  # as in a DeviceTarget
        self.flags = block.stored.flags
        # offset of the entry's head, in bytes from the start of the file
        self.offset = block.stored.offset
        unpacked, stored = block.stored.unpacked_size, block.stored.size
        whole = stored if unpacked is None else unpacked
        # bytes that the entry claims to unpack to
        self.size = whole if part.size is None else part.size

    def digest(self) -> bytes:
        """Return a digest that differs for different contents, without unpacking anything."""
        part = f"{self.flags} {self._part.start} {self._part.size}"
        return sha256(self._block.digest() + part.encode()).digest()

    def keep(self, kept: ByteStore) -> DeviceEntry:
        """Append the stored bytes to ``kept``; return an equal entry that reads them from there."""
        return DeviceEntry(self._block.keep(kept), self._part, self.member)

    def cost(self) -> int:
        """Return the bytes that unpacking produces, even if the entry turns out to be broken."""
        if self._part.size is None:
            return self._block.cost()
        return self._block.cost_of_all() + min(self._part.size, self._block.cost())

    def unpack(self) -> bytes:
        """Return the code. PTX ends with NUL bytes.

        Raises BrokenDataError if the entry is at fault, TooLarge, NotInstalled, and Unavailable for
        an unknown method of compression.
        """
        start, size = self._part.start, self._part.size
        if size is None:
            return self._block.unpack()
        content = self._block.unpack_all()[start : start + size]
        if len(content) < size:
            raise BrokenDataError(
                f"a part of {size} bytes lies beyond the end of the unpacked bytes"
            )
        return content


def whole_file(source: LimitedSource) -> DeviceEntry:
    """Return a file that is a single cubin as an entry."""
    target = (DeviceKind.SASS.value, "")
    parts = (Part(target, 0, None),)
    return DeviceEntry(_Block(source, Stored(0, 0, source.size, 0, None, parts)), parts[0])


class _Block:
    """Bytes that were compressed together; several parts share the unpacked bytes."""

    def __init__(self, source: LimitedSource, stored: Stored) -> None:
        self._source, self.stored = source, stored
        self._unpacked: bytes | BinaryChecksError | BrokenDataError | None = None
        self._digest = b""

    def read(self) -> bytes:
        return self._source.read(self.stored.start, self.stored.size)

    def keep(self, kept: ByteStore) -> _Block:
        stored = self.stored._replace(start=kept.size)
        kept.append(self.read())
        return _Block(LimitedSource(kept, self._source.factor), stored)

    def cost(self) -> int:
        return measure(self.stored.size, self.stored.unpacked_size, self._source.factor)

    def cost_of_all(self) -> int:
        """Return the bytes that unpacking would produce; 0 if the block is already unpacked."""
        return self.cost() if self._unpacked is None else 0

    def unpack(self) -> bytes:
        stored = self.stored
        if stored.size > (limit := self._source.limit(LARGEST)):
            raise TooLarge(f"an entry of {stored.size} bytes; at most {limit} are read")
        return unpack(self.read(), stored.flags, stored.unpacked_size, self._source.factor)

    def digest(self) -> bytes:
        if not self._digest:
            self._digest = sha256(self.read()).digest()
        return self._digest

    def unpack_all(self) -> bytes:
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


def find_entries(
    source: LimitedSource, extents: Iterable[Extent], member: str = ""
) -> Iterator[DeviceEntry | Rest | DeviceFault]:
    """Yield the entries of containers in these parts of a file, and faults, in order.

    Entries are not decompressed yet: they can be unpacked as long as the source is open.
    """
    for step in follow_all(source, extents):
        if isinstance(step, Stored):
            block = _Block(source, step)
            for part in step.parts:
                yield DeviceEntry(block, part, member)
        elif not isinstance(step, Container):
            yield step


# All code for NVIDIA's GPUs in a file of any format.


def list_entries(
    content: ByteSource, factor: int = 1
) -> Iterator[DeviceEntry | Rest | DeviceFault]:
    """Yield the entries of all containers in a file, and faults; a loose cubin is one entry.

    ``factor`` multiplies the limits on reading. Yields nothing for a file without device code.
    Yields nothing for a file that cannot be read, either: the error is reported when the file is
    read as an object.
    """
    source = LimitedSource(content, factor)
    try:
        head = source.read(0, min(64, source.size))
        if head.startswith(elf_header.MAGIC):
            yield from _list_elf(source)
        elif head.startswith(b"MZ"):
            header = pe_header.read_header(source, pe_header.find_signature(source))
            sections = pe_header.read_sections(source, header)
            yield from find_entries(source, pe_header.find_extents(sections, SHORT_SECTIONS))
        elif head.startswith(archives.MAGIC):
            for member, extents in archives.find_device_code(source):
                yield from find_entries(source, extents, member)
        elif head.startswith(FATBIN_MAGIC):
            yield from find_entries(source, [(0, source.size)])
    except (MalformedError, Unavailable):
        return


def _list_elf(source: LimitedSource) -> Iterator[DeviceEntry | Rest | DeviceFault]:
    header = elf_header.read_header(source)
    if header.machine == EM_CUDA:
        yield whole_file(source)
        return
    sections = elf_header.read_sections(source, header)
    extents: tuple[Extent, ...] = elf_header.find_extents(sections, SECTIONS)
    yield from find_entries(source, extents)

"""Lists the entries of CUDA containers one by one, each with the code that it unpacks to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256

from binary_checks.errors import BrokenDataError, TooLarge
from binary_checks.model import DeviceFault, DeviceKind
from binary_checks.model.protocols import ByteSource
from binary_checks.objects.device.sections import Extent, follow_all
from binary_checks.objects.device.unpacking import LARGEST, unpack
from binary_checks.objects.device.walk import Container, Part, Rest, Stored
from binary_checks.objects.limits import raised


class DeviceEntry:
    """One cubin or one text of PTX in a file; of what is compressed together each part is one."""

    def __init__(self, block: _Block, part: Part, container: int, member: str = "") -> None:
        self._block, self._part = block, part
        self.container = container  # its index among those of the file
        self.member = member  # of a static archive
        self.kind = DeviceKind(part.target[0])
        self.architecture = part.target[1]  # as a DeviceTarget has it
        self.flags = block.stored.flags
        self.offset = block.stored.offset  # of its head, bytes from the start of the file
        self.stored = block.stored.size  # bytes in the file, of all parts together
        unpacked, stored = block.stored.unpacked_size, block.stored.size
        whole = stored if unpacked is None else unpacked
        self.size = whole if part.size is None else part.size  # bytes that it claims to unpack to

    def digest(self) -> bytes:
        """What tells it from others of other content, without unpacking it."""
        packed = sha256(self._block.read_stored())
        packed.update(f"{self.flags} {self._part.start} {self._part.size}".encode())
        return packed.digest()

    def unpack(self, most: int | None = None) -> bytes:
        """The code, or no more than the first ``most`` bytes of it.

        PTX ends with NUL bytes. Raises BrokenDataError where the entry is at fault, TooLarge,
        NotInstalled, and Unavailable for a method of compression that is not known.
        """
        start, size = self._part.start, self._part.size
        if size is None:
            return self._block.unpack(most)
        if most is not None:
            size = min(size, most)
        content = self._block.unpack_all()[start : start + size]
        if len(content) < size:
            raise BrokenDataError(f"a part of {size} bytes lies beyond what it unpacks to")
        return content


def whole_file(source: ByteSource) -> DeviceEntry:
    """A file that is one cubin, as if it were an entry."""
    target = (DeviceKind.SASS.value, "")
    parts = (Part(target, 0, None),)
    return DeviceEntry(_Block(source, Stored(0, 0, source.size, 0, None, parts)), parts[0], 0)


class _Block:
    """Bytes that were compressed as one; several parts share what they unpack to."""

    def __init__(self, source: ByteSource, stored: Stored) -> None:
        self._source, self.stored = source, stored
        self._unpacked: bytes | None = None

    def unpack(self, most: int | None) -> bytes:
        stored = self.stored
        size = stored.size
        if stored.unpacked_size is None and most is not None:
            size = min(size, most)
        if size > (limit := raised(LARGEST)):
            raise TooLarge(f"an entry of {size} bytes; at most {limit} are read")
        packed = self._source.read(stored.start, size)
        return unpack(packed, stored.flags, stored.unpacked_size, most)

    def read_stored(self) -> bytes:
        return self._source.read(self.stored.start, self.stored.size)

    def unpack_all(self) -> bytes:
        if self._unpacked is None:
            self._unpacked = self.unpack(None)
        return self._unpacked


def find_entries(
    source: ByteSource, extents: Iterable[Extent], member: str = ""
) -> Iterator[DeviceEntry | Rest | DeviceFault]:
    """Every entry of the containers in these parts of a file, in order, and what is wrong there.

    Nothing is decompressed yet. An entry may be unpacked until the next one is asked for.
    """
    containers = 0
    for step in follow_all(source, extents):
        if isinstance(step, Stored):
            block = _Block(source, step)
            for part in step.parts:
                yield DeviceEntry(block, part, containers, member)
        elif isinstance(step, Container):
            containers += 1
        else:
            yield step

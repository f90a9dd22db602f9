"""Lists the entries of CUDA containers one by one, each with the code that it unpacks to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256

from binary_checks.errors import BinaryChecksError, BrokenDataError, TooLarge
from binary_checks.model import DeviceFault, DeviceKind
from binary_checks.objects.device.sections import Extent, follow_all
from binary_checks.objects.device.unpacking import LARGEST, measure, unpack
from binary_checks.objects.device.walk import Container, Part, Rest, Stored
from binary_checks.objects.limits import LimitedSource


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
        part = f"{self.flags} {self._part.start} {self._part.size}"
        return sha256(self._block.digest() + part.encode()).digest()

    def cost(self, most: int | None = None) -> int:
        """The bytes that unpacking it makes, whether it then turns out to be broken or not."""
        if self._part.size is None:
            return self._block.cost(most)
        return self._block.cost_of_all() + min(self._part.size, self._block.cost(None))

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


def whole_file(source: LimitedSource) -> DeviceEntry:
    """A file that is one cubin, as if it were an entry."""
    target = (DeviceKind.SASS.value, "")
    parts = (Part(target, 0, None),)
    return DeviceEntry(_Block(source, Stored(0, 0, source.size, 0, None, parts)), parts[0], 0)


class _Block:
    """Bytes that were compressed as one; several parts share what they unpack to."""

    def __init__(self, source: LimitedSource, stored: Stored) -> None:
        self._source, self.stored = source, stored
        self._unpacked: bytes | BinaryChecksError | BrokenDataError | None = None
        self._digest = b""

    def cost(self, most: int | None) -> int:
        stored = self.stored
        factor = self._source.factor
        return measure(stored.size, stored.flags, stored.unpacked_size, most, factor)

    def cost_of_all(self) -> int:
        return self.cost(None) if self._unpacked is None else 0

    def unpack(self, most: int | None) -> bytes:
        stored = self.stored
        size = stored.size
        if stored.unpacked_size is None and most is not None:
            size = min(size, most)
        if size > (limit := self._source.raised(LARGEST)):
            raise TooLarge(f"an entry of {size} bytes; at most {limit} are read")
        packed = self._source.read(stored.start, size)
        return unpack(packed, stored.flags, stored.unpacked_size, most, self._source.factor)

    def digest(self) -> bytes:
        if not self._digest:
            packed = self._source.read(self.stored.start, self.stored.size)
            self._digest = sha256(packed).digest()
        return self._digest

    def unpack_all(self) -> bytes:
        """All of it once, however many parts it has, and if it is broken too."""
        if self._unpacked is None:
            try:
                self._unpacked = self.unpack(None)
            except (BinaryChecksError, BrokenDataError) as error:
                error.__context__ = None  # frames hold all that was unpacked, and itself
                self._unpacked = error.with_traceback(None)
        if isinstance(self._unpacked, bytes):
            return self._unpacked
        raise self._unpacked


class Allowance:
    """How much of a package's device code is still unpacked, and gone through.

    An entry counts by what its head claims before it is unpacked, and tables before they are read:
    thousands that turn out to be broken at their end take as long as healthy ones.
    """

    def __init__(self, most: int, most_read: int) -> None:
        self._most = self._left = most
        self._most_read = self._read_left = most_read

    def unpack(self, entry: DeviceEntry, most: int | None = None) -> bytes:
        """Unpack an entry, as it does itself. Raises TooLarge too once there were too many."""
        self._left -= entry.cost(most)
        if self._left < 0:
            raise TooLarge(f"the package's device code unpacks to more than {self._most} bytes")
        self.go_through(0)
        return entry.unpack(most)

    def go_through(self, size: int) -> None:
        """Count bytes of tables and texts. Raises TooLarge."""
        self._read_left -= size
        if self._read_left < 0:
            most = self._most_read
            raise TooLarge(f"the package's cubins have more than {most} bytes of names and facts")


def find_entries(
    source: LimitedSource, extents: Iterable[Extent], member: str = ""
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

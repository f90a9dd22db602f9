"""Looks names up in DT_GNU_HASH or DT_HASH, as a loader does for every other object."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from operator import mul

from binary_checks.errors import MalformedError
from binary_checks.objects.elf.dynamic import DT_GNU_HASH, DT_HASH, Dynamic
from binary_checks.objects.elf.image import MappedImage
from binary_checks.objects.elf.relocations import column

_MOST_BYTES = 1 << 28  # of one table
_WALKED = 50  # chains of a table that has more
_WIDE = (22, 0x9026)  # EM_S390 and EM_ALPHA: words of 8 bytes in DT_HASH, against the gABI

_POWERS = tuple(pow(33, exponent, 1 << 32) for exponent in range(64))


def hash_gnu(name: bytes) -> int:
    """The hash of DT_GNU_HASH (djb2)."""
    value = 5381
    for start in range(0, len(name), len(_POWERS)):  # each byte counts 33 times its next one
        piece = name[start : start + len(_POWERS)]
        value = value * 33 ** len(piece) + sum(map(mul, reversed(piece), _POWERS)) & 0xFFFFFFFF
    return value


def hash_sysv(name: bytes) -> int:
    """The hash of DT_HASH and of the version tables (gABI, "Hash Table")."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        value = (value ^ value >> 24 & 0xF0) & 0x0FFFFFFF
    return value


class GnuHash:
    """DT_GNU_HASH: a Bloom filter, buckets, and chains that are runs of the symbol table."""

    def __init__(self, image: MappedImage, dynamic: Dynamic, count: int) -> None:
        address, bits = dynamic.value(DT_GNU_HASH), image.header.bits
        head = image.header.struct("IIII")
        buckets, self.first, size, self.shift = image.unpack(head, address, "DT_GNU_HASH")
        order, self.bits = image.header.byte_order, bits
        address += head.size
        what = "DT_GNU_HASH"
        filters = image.read(address, size * bits // 8, what, _MOST_BYTES)
        self.filter = column("Q" if bits == 64 else "I", filters, order)
        address += len(filters)
        self.buckets = column("I", image.read(address, buckets * 4, what, _MOST_BYTES), order)
        length = max(count - self.first, 0) * 4
        chains = image.read(address + buckets * 4, length, what, _MOST_BYTES)
        self.chains = column("I", chains, order)

    def faults(self) -> Iterator[str]:
        """What glibc's loader stops at, or reads memory of others for."""
        size = len(self.filter)
        if not size or size & size - 1:
            yield f"has a DT_GNU_HASH whose Bloom filter has {size} words, no power of two"
        elif self.shift >= 32:
            yield f"has a DT_GNU_HASH that shifts hashes of 32 bits by {self.shift}"
        end, last = self.first + len(self.chains), max(self.buckets, default=0)
        if self.buckets and last >= max(end, 1):
            yield f"has a DT_GNU_HASH with a bucket at symbol {last}, of {end}"
        elif last and not self._agrees():
            yield "has a DT_GNU_HASH with a chain that is not in its bucket: names in it are lost"

    def _agrees(self) -> bool:
        """Whether what is in a chain belongs into its bucket; of many buckets, in some."""
        step = len(self.buckets) // _WALKED + 1
        return all(map(self._is_sound, range(0, len(self.buckets), step)))

    def _is_sound(self, bucket: int) -> bool:
        count, position = len(self.buckets), self.buckets[bucket] - self.first
        if position < -self.first + 1:
            return True  # an empty one
        for place in range(max(position, 0), len(self.chains)):
            value = self.chains[place]
            # The lowest bit of a hash is lost: it marks the end of a chain.
            if bucket not in {value % count, (value ^ 1) % count}:
                return False
            if value & 1:
                return True
        return False

    def finds(self, name: bytes, symbol: int) -> bool:
        """Whether the lookup of its name comes to the symbol."""
        value = hash_gnu(name)
        word = self.filter[value // self.bits % len(self.filter)]
        wanted = 1 << value % self.bits | 1 << (value >> self.shift) % self.bits
        if not self.buckets or word & wanted != wanted:
            return False
        position = self.buckets[value % len(self.buckets)] - self.first
        wanted_at = symbol - self.first
        if not 0 <= position <= wanted_at < len(self.chains):
            return False
        between = self.chains[position:wanted_at]
        # An odd word ends a chain.
        return self.chains[wanted_at] | 1 == value | 1 and not any(each & 1 for each in between)


class SysvHash:
    """DT_HASH: buckets and chains of all symbols."""

    def __init__(self, image: MappedImage, dynamic: Dynamic) -> None:
        wide = image.header.bits == 64 and image.header.machine in _WIDE
        layout = image.header.struct("QQ" if wide else "II")
        address = dynamic.value(DT_HASH)
        buckets, chains = image.unpack(layout, address, "DT_HASH")
        length = (buckets + chains) * layout.size // 2
        content = image.read(address + layout.size, length, "DT_HASH", _MOST_BYTES)
        words = column("Q" if wide else "I", content, image.header.byte_order)
        self.buckets, self.chains = words[:buckets], words[buckets:]
        self._places = _number_places(self.buckets, self.chains)

    def faults(self) -> Iterator[str]:
        """What leads a loader out of the table, or round and round in it."""
        count = len(self.chains)
        last = max(max(self.buckets, default=0), max(self.chains, default=0))
        if not self.buckets:
            yield "has a DT_HASH without buckets: a loader divides by their number"
        elif last >= max(count, 1):
            yield f"has a DT_HASH that leads to symbol {last}, of {count}"
        elif not self._places:
            yield "has a DT_HASH with a chain that comes back to itself: a lookup never ends"

    def finds(self, name: bytes, symbol: int) -> bool:
        """Whether the lookup of its name comes to the symbol."""
        bucket = hash_sysv(name) % len(self.buckets)
        return symbol < len(self._places) and self._places[symbol] == bucket


def _number_places(buckets: array[int], chains: array[int]) -> array[int]:
    """By symbol the bucket whose chain it is in; empty where chains meet, or lead nowhere."""
    places = array("i", [-1]) * len(chains)
    for number, symbol in enumerate(buckets):
        while symbol:
            if symbol >= len(chains) or places[symbol] >= 0:
                return array("i")
            places[symbol] = number
            symbol = chains[symbol]  # noqa: PLW2901 - the next of the chain
    return places


def read_hash_table(image: MappedImage, dynamic: Dynamic, count: int) -> GnuHash | SysvHash:
    """The table that loaders use: the GNU one, where there are both. Raises MalformedError."""
    if DT_GNU_HASH in dynamic:
        return GnuHash(image, dynamic, count)
    if DT_HASH in dynamic:
        return SysvHash(image, dynamic)
    raise MalformedError("neither DT_GNU_HASH nor DT_HASH: no symbol is ever found in it")

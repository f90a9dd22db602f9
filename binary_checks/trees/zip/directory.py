"""The central directory of zip archives, and the headers that installers refuse."""

from __future__ import annotations

import re
import struct
import unicodedata
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from binary_checks.errors import PackageError
from binary_checks.trees.file_bytes import PackageBytes
from binary_checks.trees.members import MAXIMUM_ENTRIES, MAXIMUM_SIZE

# The flags, versions and extra fields that installers refuse or read differently.
#
# zipfile (used by pip) and uv's reader check different rules: an archive that one accepts and the
# other refuses must not be published. Section numbers are those of APPNOTE.TXT 6.3.10.

DESCRIPTOR: Final = 8  # bit 3 of the flags: CRC-32 and sizes follow the data (4.4.4)
UTF8: Final = 0x800  # bit 11: name and comment are UTF-8 (4.4.4, Appendix D)
_REFUSED_FLAGS = {  # 4.4.4
    0x20: "it is compressed patched data (bit 5 of its flags)",
    0x40: "it asks for strong encryption (bit 6 of its flags)",
    0x2000: "its headers are masked (bit 13 of its flags)",
}
SPECIAL_FLAGS: Final = sum(_REFUSED_FLAGS)
NEWEST_VERSION: Final = 63  # 4.4.3.2: ten times the version; 6.3 is the last one defined
FULL: Final = 0xFFFFFFFF  # 4.4.8, 4.4.9: the value is in the ZIP64 extra field
ZIP64_FAULT: Final = "its ZIP64 field is missing, or has too many or too few numbers"
_ZIP64 = 1  # 4.5.3
_UNICODE_PATH = 0x7075  # 4.6.9: version, CRC-32 of the name in the header, and this name in UTF-8
_UNICODE_COMMENT = 0x6375  # 4.6.8: as the field for the name, but for the comment
_UNICODE_HEAD = struct.Struct("<BI")
_SIGNATURE = b"PK\7\x08"  # of a data descriptor (4.3.9.3)
LONGEST_DESCRIPTOR: Final = 24  # bytes: signature, CRC-32, and two sizes of 8 bytes (4.3.9)


def judge_kind(version: int, flags: int, where: str = "") -> Iterator[str]:
    """Report flags (4.4.4) and versions (4.4.3) that no installer reads.

    ``where`` names the header.
    """
    # The lower byte is the version, as zipfile reads it; some writers put the host system into the
    # upper one, as in "version made by" (4.4.2).
    if version & 0xFF > NEWEST_VERSION:
        needed = "{}.{}".format(*divmod(version & 0xFF, 10))
        yield f"it needs version {needed} of the format{where}; the newest is 6.3"
    for flag, fault in _REFUSED_FLAGS.items():
        if flags & flag:
            yield fault + where


def judge_extra(extra: bytes, raw_name: bytes, where: str) -> Iterator[str]:
    """Report extra fields that are malformed (4.5.1), repeated, or state another name.

    zipalign pads with up to three bytes after the last field.
    """
    at = 0
    seen: set[int] = set()
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        at += 4 + length
        if at > len(extra):
            yield f"its extra field {kind:#06x} is longer than all its extra fields together{where}"
            return
        if kind in seen:
            yield f"it has the extra field {kind:#06x} twice{where}"
        seen.add(kind)
        if kind in {_UNICODE_PATH, _UNICODE_COMMENT}:
            yield from _judge_unicode(kind, extra[at - length : at], raw_name, where)


def _judge_unicode(kind: int, field: bytes, raw_name: bytes, where: str) -> Iterator[str]:
    if len(field) < _UNICODE_HEAD.size:
        yield f"its extra field {kind:#06x} is too short{where}"
        return
    _, crc = _UNICODE_HEAD.unpack_from(field)
    name = field[_UNICODE_HEAD.size :]
    if kind == _UNICODE_PATH and name and crc == zlib.crc32(raw_name) and name != raw_name:
        yield f"its extra field calls it {name.decode(errors='backslashreplace')!r}{where}"


def find_zip64(extra: bytes) -> bytes | None:
    """Return the content of the ZIP64 field (0x0001, 4.5.3), or None if there is none."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == _ZIP64:
            return extra[at + 4 : at + 4 + length]
        at += 4 + length
    return None


def widen(extra: bytes, values: tuple[int, ...]) -> tuple[int, ...] | None:
    """Replace values of 0xFFFFFFFF by those in the ZIP64 field.

    Return None if the field has more or fewer values than needed.

    The field contains only the values that do not fit elsewhere (4.5.3). zipfile ignores further
    numbers in the field, uv refuses them.
    """
    field = find_zip64(extra)
    full = values.count(FULL)
    if field is None:
        return None if full else values
    if len(field) != 8 * full:
        return None
    wide = iter(struct.unpack(f"<{full}Q", field))
    return tuple(next(wide) if value == FULL else value for value in values)


def measure_descriptor(following: bytes, sums: tuple[int, int, int], *, wide: bool) -> int | None:
    """Return the length of the data descriptor (4.3.9) after a member's data.

    Return None if there is none. ``sums`` are CRC-32, compressed size and size in the central
    directory. The signature is optional (4.3.9.3). With ``wide``, if the local header has a ZIP64
    field, sizes have 8 bytes each (4.3.9.2), else 4.
    """
    layout = struct.Struct("<IQQ" if wide else "<3I")
    begin = len(_SIGNATURE) if following.startswith(_SIGNATURE) else 0
    if len(following) < begin + layout.size or layout.unpack_from(following, begin) != sums:
        return None
    return begin + layout.size


# The central directory.

_MAXIMUM_DIRECTORY = 32 << 20  # bytes; as many entries as allowed, with names of about 120 bytes
_END = struct.Struct("<4s4H2IH")  # 4.3.16
_END64 = struct.Struct("<4sQ2H2I4Q")  # 4.3.14
_LOCATOR64 = struct.Struct("<4sIQI")  # 4.3.15
# 4.3.12, without version made by, time, date and internal attributes
_CENTRAL = struct.Struct("<6x3H4x3I4H2x2I")
_END_SIGNATURE = b"PK\5\6"  # 4.3.16
_WIDE = (0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, FULL, FULL)
"""Values of the end record (4.3.16) that refer to the ZIP64 end record (4.4.1.4)."""
# bytes of the ZIP64 end record that its length does not count: signature and length (4.3.14.1)
_UNCOUNTED = 12
_OF_RECORDS = re.compile(rb"[\x01-\x08]")
"""Bytes that occur in signatures, at least one in each; uv refuses a comment with any of them."""
_MOST_LISTED = 4


class ZipEntry(NamedTuple):
    """One file header of the central directory (4.3.12)."""

    name: str
    raw_name: bytes
    flags: int
    method: int
    crc: int
    compressed_size: int
    size: int
    mode: int  # st_mode
    offset: int  # offset of the local header, from the start of the file
    faults: tuple[str, ...] = ()

    @property
    def stored(self) -> str:
        """The member's name."""
        return self.name


class Archive(NamedTuple):
    """All entries in the order of the central directory, and why tools may read other entries."""

    entries: tuple[ZipEntry, ...]
    ambiguities: tuple[str, ...]
    directory_offset: int  # offset of the central directory
    boundaries: tuple[int, ...] = ()  # sorted offsets of the entries and of the central directory

    def limit_of(self, entry: ZipEntry) -> int | None:
        """Return the offset at which an entry must end: the next entry's, or the directory's.

        Return None for an entry that begins behind all others and the directory.
        """
        following = bisect_right(self.boundaries, entry.offset)
        return self.boundaries[following] if following < len(self.boundaries) else None


class _End(NamedTuple):
    """The location of the central directory."""

    entries: int
    size: int
    offset: int
    place: int  # offset of the first record after the directory
    locator: int | None = None  # offset of this record according to the ZIP64 locator
    ambiguities: tuple[str, ...] = ()


def read_archive(file: PackageBytes) -> Archive:
    """Read the central directory. Raises PackageError if it is broken."""
    end = _find_end(file)
    start = end.place - end.size
    shift = start - end.offset  # bytes before the archive, as in self-extracting files (4.1.9)
    if start < 0 or shift < 0:
        raise PackageError(f"{file.path.name}: truncated: its central directory is not complete")
    if end.entries > MAXIMUM_ENTRIES or end.size > _MAXIMUM_DIRECTORY:
        raise PackageError(
            f"{file.path.name}: its central directory claims {end.entries} entries"
            f" in {end.size} bytes; at most {MAXIMUM_ENTRIES} in {_MAXIMUM_DIRECTORY} are read"
        )
    rest = file.read(start, file.size - start)
    entries = tuple(_read_entries(file, end, rest[: end.size], start, shift))
    if (total := sum(entry.size for entry in entries)) > MAXIMUM_SIZE:
        raise PackageError(
            f"{file.path.name}: its members claim {total} bytes; at most {MAXIMUM_SIZE} are read"
        )
    boundaries = (*sorted(entry.offset for entry in entries), start)
    ambiguities: list[str] = []
    if boundaries[0] > shift:
        ambiguities.append(f"{boundaries[0] - shift} bytes stand before its first member")
    if shift:
        ambiguities.append(f"{shift} bytes stand before the start of the archive")
    ambiguities += end.ambiguities
    # uv uses the offset in a ZIP64 locator, zipfile ignores it.
    if end.locator is not None and end.locator != end.place - shift:
        ambiguities.append(
            f"its ZIP64 locator says that its ZIP64 end record is at byte {end.locator:#x},"
            f" but it is at {end.place:#x}"
        )
    ambiguities += _find_other_ends(rest, start)
    return Archive(entries, tuple(ambiguities), start, boundaries)


def _find_other_ends(rest: bytes, start: int) -> Iterator[str]:
    """Report a second end record after the directory's start: tools may use either."""
    if (count := rest.count(_END_SIGNATURE)) > 1:
        found = islice(re.finditer(re.escape(_END_SIGNATURE), rest), _MOST_LISTED)
        places = ", ".join(f"{start + each.start():#x}" for each in found)
        yield f"it has {count} end-of-central-directory records (at bytes {places})"


def _find_end(file: PackageBytes) -> _End:
    """Find the last end of central directory record (4.3.16), as zipfile, and thus pip, does."""
    if not file.size:
        raise PackageError(f"{file.path.name}: empty (0 bytes)")
    base = max(0, file.size - _END.size - 0xFFFF)  # the longest comment (4.4.25)
    tail = file.read(base, file.size - base)
    place = tail.rfind(_END_SIGNATURE, 0, len(tail) - _END.size + len(_END_SIGNATURE))
    if place < 0 or len(tail) < _END.size:
        reason = "truncated" if file.read(0, 4) == b"PK\3\4" else "not a zip archive"
        raise PackageError(f"{file.path.name}: {reason}: it has no end-of-central-directory record")
    _, *fields, length = _END.unpack_from(tail, place)
    ambiguities = tuple(_judge_following(tail[place + _END.size :], length))
    end = _find_end64(file, base + place, fields)
    if end is None:
        disk, first_disk, here, count, size, offset = fields
        if disk or first_disk:
            raise PackageError(f"{file.path.name}: part of an archive that spans several files")
        if here != count:
            counts = (
                f"its end-of-central-directory record states {here} members in this file "
                f"and {count} in total"
            )
            ambiguities = (counts, *ambiguities)
        end = _End(count, size, offset, base + place)
    return end._replace(ambiguities=(*end.ambiguities, *ambiguities))


def _judge_comment(comment: bytes) -> str:
    """Report a comment that may contain records of another archive."""
    if found := _OF_RECORDS.search(comment):
        return f"its comment may hide records of another archive (byte {found[0][0]:#04x})"
    return ""


def _judge_following(following: bytes, length: int) -> Iterator[str]:
    """Report faults of the archive's comment, and bytes after it."""
    if fault := _judge_comment(following[:length]):
        yield fault
    if length > len(following):
        there = f"{len(following)} bytes follow its end"
        yield f"{there}, which claims a comment of {length}: zipfile accepts it, uv refuses it"
    elif length < len(following):
        yield f"{len(following) - length} bytes follow the end of the archive"


def _find_end64(file: PackageBytes, place: int, common: list[int]) -> _End | None:
    """Read the ZIP64 end record (4.3.14) if a locator (4.3.15) precedes the end record."""
    place -= _LOCATOR64.size
    locator = file.read(max(0, place), _LOCATOR64.size)
    if place < 0 or not locator.startswith(b"PK\6\7"):  # signature of the locator (4.3.15)
        return None
    # Assume that the record directly precedes its locator: the offset in the locator is wrong if
    # bytes precede the archive.
    place -= _END64.size
    record = file.read(max(0, place), _END64.size)
    if place < 0 or not record.startswith(b"PK\6\6"):
        raise PackageError(
            f"{file.path.name}: its ZIP64 end-of-central-directory record is broken:"
            " it does not stand directly before its locator"
        )
    _, length, _, _, *wide = _END64.unpack(record)
    _, first_of_all, stated, files = _LOCATOR64.unpack(locator)
    disk, first_disk, here, count, size, offset = wide
    ambiguities: list[str] = []
    if any(it not in {that, most} for it, that, most in zip(common, wide, _WIDE, strict=True)):
        ambiguities.append(
            "its end record and its ZIP64 end record disagree on where the directory is"
        )
    if length != _END64.size - _UNCOUNTED:
        claimed = f"states a length of {length + _UNCOUNTED} bytes, but has {_END64.size}"
        ambiguities.append(f"its ZIP64 end record {claimed}")
    if disk or first_disk or first_of_all or files > 1 or here != count:
        ambiguities.append("its ZIP64 end record says that the archive spans several files")
    return _End(count, size, offset, place, stated, tuple(ambiguities))


def _read_entries(
    file: PackageBytes, end: _End, directory: bytes, start: int, shift: int
) -> Iterator[ZipEntry]:
    at = 0
    for number in range(end.entries):
        # signature of a central file header (4.3.12)
        if directory[at : at + 4] != b"PK\1\2" or at + _CENTRAL.size > len(directory):
            raise PackageError(
                f"{file.path.name}: entry {number + 1} of its central directory is broken"
                f" (at byte {start + at:#x})"
            )
        fields = _CENTRAL.unpack_from(directory, at)
        name_end = at + _CENTRAL.size + fields[6]
        extra_end = name_end + fields[7]
        raw_name = directory[at + _CENTRAL.size : name_end]
        entry = _make_entry(fields, raw_name, directory[name_end:extra_end], shift)
        at = extra_end + fields[8]
        if fields[8] and (fault := _judge_comment(directory[extra_end:at])):
            entry = entry._replace(faults=(*entry.faults, fault))
        yield entry
    if at != len(directory):
        raise PackageError(
            f"{file.path.name}: its central directory has {len(directory)} bytes,"
            f" but its {end.entries} entries take {at}"
        )


def _make_entry(fields: tuple[int, ...], raw_name: bytes, extra: bytes, shift: int) -> ZipEntry:
    version, flags, method, crc, packed, size, _, _, _, disk, attributes, offset = fields
    name, faults = decode_name(raw_name, flags)
    if extra or disk or version > NEWEST_VERSION or flags & SPECIAL_FLAGS:
        faults = (
            *faults,
            *judge_kind(version, flags),
            *judge_extra(extra, raw_name, " in the central directory"),
        )
        if disk:  # disk number start (4.4.13)
            faults = (*faults, f"it lies in part {disk + 1} of an archive that spans several files")
    if extra or FULL in (packed, size, offset):
        widened = widen(extra, (size, packed, offset))
        if widened is None:
            faults = (*faults, f"{ZIP64_FAULT} in the central directory")
        else:
            size, packed, offset = widened
    # uv streams an archive, takes no bytes for a folder, and compares that with its descriptor
    described = packed if flags & DESCRIPTOR else 0
    if (size or crc or described) and name.endswith("/"):
        faults = (*faults, f"it is the entry of a folder, and claims {size or described} bytes")
    default = 0o40755 if name.endswith("/") else 0o100644
    mode = attributes >> 16 or default  # 4.4.15; Unix writers store st_mode in the upper half
    return ZipEntry(name, raw_name, flags, method, crc, packed, size, mode, offset + shift, faults)


def decode_name(raw_name: bytes, flags: int) -> tuple[str, tuple[str, ...]]:
    """Decode a member's name: as UTF-8 if bit 11 of the flags is set, else as CP437.

    See Appendix D.
    """
    if raw_name.isascii():
        name = raw_name.decode("ascii")
        return name, () if name and name.isprintable() else tuple(_judge_characters(name))
    if not flags & UTF8:
        spelled = "its name is neither ASCII nor marked as UTF-8: tools read it differently"
        return raw_name.decode("cp437"), (spelled,)
    try:
        name = raw_name.decode()
    except UnicodeDecodeError:
        return raw_name.decode(errors="backslashreplace"), ("its name is not valid UTF-8",)
    return name, tuple(_judge_characters(name))


def _judge_characters(name: str) -> Iterator[str]:
    """Report invisible characters: uv refuses them, and zipfile cuts the name at a NUL."""
    if not name:
        yield "it has no name"
    elif "\0" in name:
        yield "its name holds a NUL byte"
    elif found := next((each for each in name if unicodedata.category(each)[0] == "C"), ""):
        yield f"its name holds the invisible character U+{ord(found):04X}, which uv refuses"

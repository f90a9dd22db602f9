"""Tar archives, read as a stream: one member after another, and nothing written to disk.

The formats are those of POSIX.1-2017 (pax, "ustar Interchange Format" and "pax Interchange Format")
and GNU tar's long names. Anything on whose meaning tools disagree is refused or becomes a fault of
its member: sparse files, two sizes of one member, links with data.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from binary_checks.errors import BrokenDataError
from binary_checks.trees.members import MAXIMUM_ENTRIES, MAXIMUM_SIZE

_BLOCK: Final = 512  # bytes of a header; the data of members is padded to a multiple of this size
_EMPTY = bytes(_BLOCK)
_LONGEST_TEXT = 1 << 20  # bytes of a long name or of a pax header
_MAXIMUM_NAMES = 32 << 20  # bytes of the names of all members together
_MOST_HEADERS = 8  # extended headers before a member's header; writers need three
_LONG_NAME, _LONG_LINK, _PAX, _PAX_GLOBAL = b"L", b"K", b"xX", b"g"
_FILES = b"0\x007"  # typeflags of regular files: "0", NUL of old tars, and "7" of contiguous files
_HARD_LINK, _SYMLINK, _DIRECTORY, _SPARSE = b"1", b"2", b"5", b"S"
_MODES = {  # the file type in st_mode, by typeflag
    _HARD_LINK: stat.S_IFREG,
    _SYMLINK: stat.S_IFLNK,
    b"3": stat.S_IFCHR,
    b"4": stat.S_IFBLK,
    _DIRECTORY: stat.S_IFDIR,
    b"6": stat.S_IFIFO,
}
_DEVICES = {b"3": "a character device", b"4": "a block device", b"6": "a named pipe"}


class TarEntry(NamedTuple):
    """The header of a member, merged with the extended headers before it."""

    name: str  # as in the archive; the name of a folder ends with a slash
    size: int  # bytes of data
    mode: int  # st_mode
    target: str  # the path that a link names, as in the archive; "" if it is no link
    faults: tuple[str, ...]

    @property
    def stored(self) -> str:
        """The name in the archive."""
        return self.name

    @property
    def compressed_size(self) -> int:
        """The uncompressed size; the member's share of the compressed stream is not known."""
        return self.size

    @property
    def is_symlink(self) -> bool:
        """Whether the member is a symbolic link; every other link is a hard link."""
        return stat.S_ISLNK(self.mode)

    @property
    def is_file(self) -> bool:
        """Whether the member is a regular file, not a folder, link or device."""
        return stat.S_ISREG(self.mode) and not self.target


class TarStream:
    """The members in order; the content of each must be read before the next member.

    Raises BrokenDataError if the stream cannot be read any further.
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._bytes = _Pieces(pieces)
        self._left = 0  # bytes of the current member not read yet
        self._padding = 0
        self.faults: tuple[str, ...] = ()
        """Faults of the whole archive, complete once it is read to its end."""

    def __iter__(self) -> Iterator[TarEntry]:
        count = names = total = 0
        while (entry := self._read_entry()) is not None:
            count, total = count + 1, total + entry.size
            names += len(entry.name) + len(entry.target)
            if count > MAXIMUM_ENTRIES:
                raise BrokenDataError(f"it has more than {MAXIMUM_ENTRIES} members")
            if names > _MAXIMUM_NAMES:
                raise BrokenDataError(f"the names in it have more than {_MAXIMUM_NAMES} bytes")
            if total > MAXIMUM_SIZE:
                raise BrokenDataError(f"its members claim more than {MAXIMUM_SIZE} bytes")
            self._left, self._padding = entry.size, -entry.size % _BLOCK
            yield entry
            for _ in self.content():
                pass
            self._bytes.take_all(self._padding)
        self._finish()

    def content(self) -> Iterator[bytes]:
        """Yield the bytes of the current member in pieces."""
        while self._left:
            piece = self._bytes.some(self._left)
            if not piece:
                raise BrokenDataError("truncated: it ends inside a member")
            self._left -= len(piece)
            yield piece

    def _read_entry(self) -> TarEntry | None:
        """Return the next member, or None at the end of the archive."""
        extended: dict[str, str] = {}  # records of the extended headers that precede the member
        for _ in range(_MOST_HEADERS + 1):
            place = self._bytes.offset
            block = self._bytes.take(_BLOCK)
            # POSIX.1 (pax, "ustar Interchange Format") ends an archive with two blocks of zeros.
            # tarfile stops at the first, and so do we; `_finish` reports anything else after it.
            if block in {_EMPTY, b""}:
                if extended:
                    raise BrokenDataError(
                        "truncated: it ends before a member that a header announces"
                    )
                if not block:
                    self.faults = ("it lacks the empty block that ends an archive",)
                return None
            header = _Header.read(block, place)
            if header.kind in {_LONG_NAME, _LONG_LINK}:
                key = "path" if header.kind == _LONG_NAME else "linkpath"
                text, end, _ = self._read_text(header).partition(b"\0")
                if not end:  # tools disagree on how a name without a NUL ends
                    raise BrokenDataError(f"the long name at byte {place:#x} has no end")
                _add(extended, {key: _decode(text)}, place)
            elif header.kind in _PAX:
                _add(extended, dict(_read_pax(self._read_text(header), place)), place)
            elif header.kind in _PAX_GLOBAL:
                _refuse_global(_read_pax(self._read_text(header), place))
            else:
                return _make_entry(header, extended, place)
        raise BrokenDataError(f"more than {_MOST_HEADERS} headers stand before one member")

    def _read_text(self, header: _Header) -> bytes:
        if header.size > _LONGEST_TEXT:
            raise BrokenDataError(f"a header in it claims {header.size} bytes of text")
        text = self._bytes.take_all(header.size)
        self._bytes.take_all(-header.size % _BLOCK)
        return text

    def _finish(self) -> None:
        """Report bytes other than zeros after the end of the archive.

        Tools stop reading at the end.
        """
        following = 0
        try:
            while piece := self._bytes.some():
                following += len(piece if following else piece.lstrip(b"\0"))
        except BrokenDataError as error:  # after the last member, which was read completely
            self.faults = (*self.faults, str(error))
        if following:
            self.faults = (*self.faults, f"{following} bytes follow the end of the archive")


class _Pieces:
    """A stream of pieces that can be read in any lengths."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._piece = memoryview(b"")
        self.offset = 0

    def some(self, most: int | None = None) -> bytes:
        """Return the rest of a piece, at most ``most`` bytes; b"" at the end."""
        while not self._piece:
            following = next(self._pieces, None)
            if following is None:
                return b""
            self._piece = memoryview(following)
        taken = self._piece[:most]
        self._piece = self._piece[len(taken) :]
        self.offset += len(taken)
        return bytes(taken)

    def take(self, length: int) -> bytes:
        """Return ``length`` bytes, or b"" at the end. Raises BrokenDataError if fewer are left."""
        parts, missing = [], length
        while missing and (part := self.some(missing)):
            parts.append(part)
            missing -= len(part)
        if missing and parts:
            raise BrokenDataError("truncated: it ends inside a block")
        return b"".join(parts)

    def take_all(self, length: int) -> bytes:
        """Return ``length`` bytes. Raises BrokenDataError if fewer or none are left."""
        found = self.take(length)
        if len(found) < length:
            raise BrokenDataError("truncated: it ends inside a member")
        return found


class _Header(NamedTuple):
    """The fields of a 512-byte header that are used here (POSIX.1-2017, pax, ustar header block).

    Offsets in bytes: name 0, mode 100, size 124, chksum 148, typeflag 156, linkname 157, magic 257,
    prefix 345.
    """

    kind: bytes
    name: bytes
    link: bytes
    mode: int
    size: int

    @classmethod
    def read(cls, block: bytes, place: int) -> _Header:
        stated = _read_number(block[148:156], place)
        rest = block[:148] + b" " * 8 + block[156:]
        total = sum(rest)
        # The checksum is the sum of all bytes, with spaces in its own field. Some old writers
        # summed signed characters, which every reader accepts, too.
        if stated != total and stated != total - 256 * sum(byte > 127 for byte in rest):
            raise BrokenDataError(f"there is no tar header at byte {place:#x}")
        name = _cut(block[:100])
        # GNU's magic is "ustar " with a space; GNU tar stores other fields in place of the prefix.
        if block[257:263] == b"ustar\0" and block[345]:
            name = _cut(block[345:500]) + b"/" + name
        mode = _read_number(block[100:108], place)
        size = _read_number(block[124:136], place)
        return cls(block[156:157], name, _cut(block[157:257]), stat.S_IMODE(mode), size)


def _cut(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _read_number(field: bytes, place: int) -> int:
    """Read an octal number, or the base-256 number that GNU tar writes for larger values.

    In a base-256 number the first byte is 0x80, and the others are big-endian.
    """
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = _cut(field).strip(b" ")
    if digits.strip(b"01234567"):
        raise BrokenDataError(f"the header at byte {place:#x} has an invalid number")
    return int(digits or b"0", 8)


def _decode(name: bytes) -> str:
    """Decode a name; a surrogate represents each byte that is not UTF-8, as in Python's tarfile."""
    return name.decode("utf-8", "surrogateescape")


def _escape_surrogates(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _read_pax(text: bytes, place: int) -> Iterator[tuple[str, str]]:
    """Yield the records of a pax header: ``27 path=a/name/in/UTF-8``.

    The number at the start is the length of the record.
    """
    at = 0
    while at < len(text):
        digits, space, _ = text[at : at + 9].partition(b" ")
        length = int(digits) if space and digits.isdigit() else 0
        record = text[at + len(digits) + 1 : at + length]
        key, equals, value = record.partition(b"=")
        if len(record) + len(digits) + 1 != length or not equals or not value.endswith(b"\n"):
            raise BrokenDataError(f"the pax header at byte {place:#x} is broken")
        yield _decode(key), _decode(value[:-1])
        at += length


def _add(extended: dict[str, str], more: Mapping[str, str], place: int) -> None:
    """Add a header's records to the records of earlier headers.

    Raises BrokenDataError if both headers set the same value: some tools use the first, some the
    last.
    """
    for key in {"path", "linkpath", "size"} & more.keys():
        if key in extended or not more[key]:
            raise BrokenDataError(f"the header at byte {place:#x} contradicts the one before it")
    extended.update(more)


def _refuse_global(records: Iterable[tuple[str, str]]) -> None:
    """Raise BrokenDataError if a global header sets values of members: some tools ignore these.

    git writes a comment into the global header, which is harmless.
    """
    for key, _ in records:
        if key in {"path", "linkpath", "size"} or key.startswith("GNU.sparse"):
            raise BrokenDataError(f"a global header in it sets the {key} of every member")


def _make_entry(header: _Header, extended: Mapping[str, str], place: int) -> TarEntry:
    name = extended.get("path", _decode(header.name))
    if header.kind == _SPARSE:
        raise BrokenDataError(f"{name}: a sparse file, which tools read differently")
    # Before there was a typeflag for folders, a slash at the end of the name marked one.
    directory = header.kind == _DIRECTORY or (header.kind == b"\0" and name.endswith("/"))
    kind = _DIRECTORY if directory else header.kind
    if kind not in _MODES and kind not in _FILES:
        raise BrokenDataError(f"{name}: its type {kind!r} is not one that every tool knows")
    size = _agree_on_size(header, extended, name, place)
    if size and kind in _MODES:
        raise BrokenDataError(f"{name}: {size} bytes of data follow it, but only files have data")
    link = extended.get("linkpath", _decode(header.link)) if kind in {_HARD_LINK, _SYMLINK} else ""
    spelled = _escape_surrogates(name)
    return TarEntry(
        name=f"{spelled}/" if directory and not name.endswith("/") else spelled,
        size=size,
        mode=_MODES.get(kind, stat.S_IFREG) | header.mode,
        target=_escape_surrogates(link),
        faults=tuple(_judge(kind, name, link, extended)),
    )


def _agree_on_size(header: _Header, extended: Mapping[str, str], name: str, place: int) -> int:
    """Return the size in the header and the pax records. Raises BrokenDataError if they disagree.

    Tools that believe different sizes would see different members.
    """
    if "size" not in extended:
        return header.size
    digits = extended["size"]
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise BrokenDataError(f"the pax header at byte {place:#x} has an invalid number")
    if header.size not in {0, int(digits)}:
        raise BrokenDataError(f"{name}: its headers disagree on its size")
    return int(digits)


def _judge(kind: bytes, name: str, link: str, extended: Mapping[str, str]) -> Iterator[str]:
    if not name:
        yield "it has no name"
    if "\0" in name or "\0" in link:
        yield "its name holds a NUL byte"
    if kind in _FILES and name.endswith("/"):
        yield "it is a file, but its name is a folder's"
    if any(each != _escape_surrogates(each) for each in (name, link)):
        yield "its name is not valid UTF-8"
    if kind in _DEVICES:
        yield f"it is {_DEVICES[kind]}, which no package installs"
    if kind in {_HARD_LINK, _SYMLINK} and not link:
        yield "it is a link without a target"
    if any(key.startswith("GNU.sparse") for key in extended):
        yield "it is a sparse file, which tools read differently"

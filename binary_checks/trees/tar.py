"""A tar archive as it streams by: its members one after the other, and nothing put on disk.

The formats are those of POSIX.1-2001 (ustar and pax) and GNU's long names. What tools read each in
their own way is refused, or becomes a fault of its member: sparse files, two sizes of one member,
links that carry data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from binary_checks.errors import BrokenDataError
from binary_checks.trees.members import MAXIMUM_ENTRIES, MAXIMUM_SIZE

_BLOCK: Final = 512  # bytes, of headers and of what members are filled up to
_EMPTY = bytes(_BLOCK)
_LONGEST_TEXT = 1 << 20  # bytes of a long name or of a pax header
_MAXIMUM_NAMES = 32 << 20  # bytes, of all members together
_MOST_HEADERS = 8  # before one member's own; writers need three
_LONG_NAME, _LONG_LINK, _PAX, _PAX_GLOBAL = b"L", b"K", b"xX", b"g"
_FILES = b"0\x007"  # of old tars, and contiguous ones, which nobody treats otherwise
_HARD_LINK, _SYMLINK, _DIRECTORY, _SPARSE = b"1", b"2", b"5", b"S"
_MODES = {  # the type of a file in st_mode
    _HARD_LINK: 0o100000,
    _SYMLINK: 0o120000,
    b"3": 0o020000,
    b"4": 0o060000,
    _DIRECTORY: 0o040000,
    b"6": 0o010000,
}
_DEVICES = {b"3": "a character device", b"4": "a block device", b"6": "a named pipe"}


class TarEntry(NamedTuple):
    """A member's header, together with the headers before it that say more of it."""

    name: str  # as the archive spells it; that of a folder ends with a slash
    size: int = 0  # bytes that follow
    mode: int = 0o100644  # st_mode
    target: str = ""  # of a link: as the archive spells it
    faults: tuple[str, ...] = ()

    @property
    def stored(self) -> str:
        """Where it lies in the archive: at its name."""
        return self.name

    @property
    def compressed_size(self) -> int:
        """Its size: what it takes of the compressed stream cannot be told apart."""
        return self.size

    @property
    def is_symlink(self) -> bool:
        """Whether it is a symbolic link; every other link is a hard one."""
        return self.mode & 0o170000 == 0o120000

    @property
    def is_file(self) -> bool:
        """Whether it has data: no folder, link or device."""
        return self.mode & 0o170000 == 0o100000 and not self.target


class TarStream:
    """The members in order; each one's bytes can be had until the next one is asked for.

    Raises BrokenDataError where the stream cannot be followed any further.
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._bytes = _Pieces(pieces)
        self._left = 0  # bytes of the current member that nobody asked for
        self._padding = 0
        self.faults: tuple[str, ...] = ()
        """What is wrong with the archive as a whole, complete once it was read to its end."""

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
            self._bytes.demand(self._padding)
        self._finish()

    def content(self) -> Iterator[bytes]:
        """The bytes of the member that was given last, in pieces as they come."""
        while self._left:
            piece = self._bytes.some(self._left)
            if not piece:
                raise BrokenDataError("truncated: it ends inside a member")
            self._left -= len(piece)
            yield piece

    def _read_entry(self) -> TarEntry | None:
        """The next member, None at the end of the archive."""
        said: dict[str, str] = {}  # in the headers before its own
        for _ in range(_MOST_HEADERS + 1):
            place = self._bytes.offset
            block = self._bytes.take(_BLOCK)
            if block in {_EMPTY, b""}:
                if said:
                    raise BrokenDataError("truncated: it ends before a member that is announced")
                if not block:
                    self.faults = ("it lacks the empty block that ends an archive",)
                return None
            header = _Header.read(block, place)
            if header.kind in {_LONG_NAME, _LONG_LINK}:
                key = "path" if header.kind == _LONG_NAME else "linkpath"
                text, end, _ = self._read_text(header).partition(b"\0")
                if not end:  # of what follows each tool takes a part of its own
                    raise BrokenDataError(f"the long name at byte {place:#x} has no end")
                _add(said, {key: _decode(text)}, place)
            elif header.kind in _PAX:
                _add(said, dict(_read_pax(self._read_text(header), place)), place)
            elif header.kind in _PAX_GLOBAL:
                _refuse_global(_read_pax(self._read_text(header), place))
            else:
                return _make_entry(header, said, place)
        raise BrokenDataError(f"more than {_MOST_HEADERS} headers stand before one member")

    def _read_text(self, header: _Header) -> bytes:
        if header.size > _LONGEST_TEXT:
            raise BrokenDataError(f"a header in it claims {header.size} bytes of text")
        text = self._bytes.demand(header.size)
        self._bytes.demand(-header.size % _BLOCK)
        return text

    def _finish(self) -> None:
        """Look at what follows the end: tools stop there, and there must be nothing."""
        following = 0
        try:
            while piece := self._bytes.some(1 << 20):
                following += len(piece if following else piece.lstrip(b"\0"))
        except BrokenDataError as error:  # behind the last member, which was read whole
            self.faults = (*self.faults, str(error))
        if following:
            self.faults = (*self.faults, f"{following} bytes follow the end of the archive")


class _Pieces:
    """Bytes that come in pieces of any size, asked for in others."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._piece = memoryview(b"")
        self.offset = 0

    def some(self, most: int) -> bytes:
        """The next bytes, at most so many; b"" at the end."""
        while not self._piece:
            following = next(self._pieces, None)
            if following is None:
                return b""
            self._piece = memoryview(following)
        taken, self._piece = self._piece[:most], self._piece[most:]
        self.offset += len(taken)
        return bytes(taken)

    def take(self, length: int) -> bytes:
        """So many bytes, none at the end; BrokenDataError where there are too few."""
        parts, missing = [], length
        while missing and (part := self.some(missing)):
            parts.append(part)
            missing -= len(part)
        if missing and parts:
            raise BrokenDataError("truncated: it ends inside a block")
        return b"".join(parts)

    def demand(self, length: int) -> bytes:
        """So many bytes; BrokenDataError also at the end."""
        found = self.take(length)
        if len(found) < length:
            raise BrokenDataError("truncated: it ends inside a member")
        return found


class _Header(NamedTuple):
    """The fields of a block of 512 bytes that are used here (POSIX.1-2017, pax, ustar)."""

    kind: bytes
    name: bytes
    link: bytes
    mode: int
    size: int

    @classmethod
    def read(cls, block: bytes, place: int) -> _Header:
        _check_sum(block, place)
        name = _cut(block[:100])
        if block[257:263] == b"ustar\0" and block[345]:  # GNU's "ustar " has other fields there
            name = _cut(block[345:500]) + b"/" + name
        mode = _read_number(block[100:108], place)
        size = _read_number(block[124:136], place)
        return cls(block[156:157], name, _cut(block[157:257]), mode & 0o7777, size)


def _check_sum(block: bytes, place: int) -> None:
    stated = _read_number(block[148:156], place)
    rest = block[:148] + b" " * 8 + block[156:]
    total = sum(rest)
    # Some old writers summed signed characters, and every reader takes that too.
    if stated != total and stated != total - 256 * sum(byte > 127 for byte in rest):
        raise BrokenDataError(f"there is no tar header at byte {place:#x}")


def _cut(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _read_number(field: bytes, place: int) -> int:
    """An octal number, or the binary one (base 256) that GNU writes where that is too small."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = _cut(field).strip(b" ")
    if digits.strip(b"01234567"):
        raise BrokenDataError(f"the header at byte {place:#x} has no number where one belongs")
    return int(digits or b"0", 8)


def _decode(name: bytes) -> str:
    """The name, in which a surrogate stands for each byte that is not UTF-8, as Python has it."""
    return name.decode("utf-8", "surrogateescape")


def _spell(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _read_pax(text: bytes, place: int) -> Iterator[tuple[str, str]]:
    """The records of a pax header: ``27 path=a/name/in/UTF-8``, the length being the record's."""
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


def _add(said: dict[str, str], more: Mapping[str, str], place: int) -> None:
    """Of two headers one reader believes the first, the next the second."""
    for key in {"path", "linkpath", "size"} & more.keys():
        if key in said or not more[key]:
            raise BrokenDataError(f"the header at byte {place:#x} contradicts the one before it")
    said.update(more)


def _refuse_global(records: Iterable[tuple[str, str]]) -> None:
    """A comment is what git puts there; what changes every member some tools do not heed."""
    for key, _ in records:
        if key in {"path", "linkpath", "size"} or key.startswith("GNU.sparse"):
            raise BrokenDataError(f"a global header in it sets the {key} of every member")


def _make_entry(header: _Header, said: Mapping[str, str], place: int) -> TarEntry:
    name = said.get("path", _decode(header.name))
    if header.kind == _SPARSE:
        raise BrokenDataError(f"{name}: a sparse file, which tools read differently")
    # Before there was a type for folders, a file of that name was one.
    directory = header.kind == _DIRECTORY or (header.kind == b"\0" and name.endswith("/"))
    kind = _DIRECTORY if directory else header.kind
    if kind not in _MODES and kind not in _FILES:
        raise BrokenDataError(f"{name}: its type {kind!r} is not one that every tool knows")
    size = _agree_on_size(header, said, name, place)
    if size and kind in _MODES:
        raise BrokenDataError(f"{name}: {size} bytes follow it, and only files have any")
    link = said.get("linkpath", _decode(header.link)) if kind in {_HARD_LINK, _SYMLINK} else ""
    spelled = _spell(name)
    return TarEntry(
        name=f"{spelled}/" if directory and not name.endswith("/") else spelled,
        size=size,
        mode=_MODES.get(kind, 0o100000) | header.mode,
        target=_spell(link),
        faults=tuple(_judge(kind, name, link, said)),
    )


def _agree_on_size(header: _Header, said: Mapping[str, str], name: str, place: int) -> int:
    """Of two sizes one reader believes the one, the next the other, and sees other members."""
    if "size" not in said:
        return header.size
    digits = said["size"]
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise BrokenDataError(f"the pax header at byte {place:#x} has no number where one belongs")
    if header.size not in {0, int(digits)}:
        raise BrokenDataError(f"{name}: its headers disagree on its size")
    return int(digits)


def _is_text(name: str) -> bool:
    return name == _spell(name)


def _judge(kind: bytes, name: str, link: str, said: Mapping[str, str]) -> Iterator[str]:
    if not name:
        yield "it has no name"
    if "\0" in name or "\0" in link:
        yield "its name holds a NUL byte"
    if kind in _FILES and name.endswith("/"):
        yield "it is a file, and its name is a folder's"
    if not (_is_text(name) and _is_text(link)):
        yield "its name is not valid UTF-8"
    if kind in _DEVICES:
        yield f"it is {_DEVICES[kind]}, which no package installs"
    if kind in {_HARD_LINK, _SYMLINK} and not link:
        yield "it is a link to nothing"
    if any(key.startswith("GNU.sparse") for key in said):
        yield "it is a sparse file, which tools read differently"

"""Interfaces between sources, trees, kinds of packages and object readers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from binary_checks.model.objects import Format, MalformedObject, ObjectFile, UnreadObject
from binary_checks.model.packages import Member, Package
from binary_checks.model.published import Provenance

ReadObject: TypeAlias = ObjectFile | MalformedObject | UnreadObject

_ScannerT = TypeVar("_ScannerT")


class Progress(Protocol):
    """A callback for the progress of reading a package."""

    def __call__(self, done: int, total: int, /) -> None:
        """Take the number of bytes read and the total."""


class ByteSource(Protocol):
    """The bytes of one file, in memory, on disk or elsewhere."""

    @property
    def size(self) -> int:
        """Size of the whole file in bytes."""

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly length bytes from offset. Raises MalformedError if the file is shorter."""


class Scanner(Protocol):
    """Scan a file while it is streamed, for facts that its first bytes do not show."""

    def see(self, piece: bytes) -> Iterable[tuple[int, bytes]]:
        """Take the next piece; yield offsets and bytes to keep, in rising order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How to stream a file that is too large to be kept, decided by its first bytes.

    The ranges are nearly always sufficient: a reader may ask for others all the same.
    """

    ranges: tuple[tuple[int, int], ...] = ()  # (start, end) of the bytes to keep
    scanners: tuple[Scanner, ...] = ()  # each is given every piece, in order


@dataclass(frozen=True, slots=True)
class Observations:
    """The scanners of a plan, after the whole file was streamed."""

    scanners: tuple[Scanner, ...] = ()

    def of(self, kind: type[_ScannerT]) -> _ScannerT | None:
        """Return the scanner of that class; None if there was none, and the reader must scan."""
        return next((each for each in self.scanners if isinstance(each, kind)), None)


NOTHING_SEEN: Final = Observations()
"""For a file that can be read at any offset, and is not scanned beforehand."""


class ObjectReader(Protocol):
    """Read object files from a byte source (implemented by ``binary_checks.objects``)."""

    def recognise(self, head: bytes) -> Format | None:
        """Return the format that the first bytes (64 are enough) announce, or None."""

    def announce(self, path: str, head: bytes) -> Format | None:
        """Return that format, or else the format that loaders expect of a file of that name."""

    def plan(self, head: bytes, size: int) -> Plan:
        """Return which bytes of a large file to keep, and the scanners that it is streamed through.

        With more bytes in ``head``, fewer bytes have to be kept.
        """

    def read_objects(
        self, path: str, source: ByteSource, observations: Observations = NOTHING_SEEN
    ) -> tuple[ObjectFile | MalformedObject | UnreadObject, ...]:
        """Return every object of the file, and each slice of a fat one.

        Never raises because of the file's contents.
        """


class TreeEntry(Protocol):
    """A member as listed by its tree, before it is read."""

    @property
    def name(self) -> str:
        """The name in the list; two members may have the same."""

    @property
    def stored(self) -> str:
        """The name under which the tree stores it; differs for a list that leaves its folder."""

    @property
    def size(self) -> int:
        """Size in bytes, as listed."""

    @property
    def compressed_size(self) -> int:
        """Compressed size in the package file, in bytes."""

    @property
    def mode(self) -> int:
        """Its ``st_mode``."""

    @property
    def faults(self) -> tuple[str, ...]:
        """Faults that the list alone shows."""


Watch: TypeAlias = Callable[[str], Callable[[bytes], object] | None]
"""Return, for a member's name, a callback for each piece of its content, or None."""


class ContentRequest(NamedTuple):
    """Members whose contents a fact will ask for, chosen before a package is read.

    This only avoids reading them twice: a fact may ask for other members, too.
    """

    chooses: Callable[[TreeEntry], bool]
    longest: int  # largest size of a member, bytes
    only_with: Callable[[TreeEntry], bool] | None = None
    """Nothing is kept unless the tree lists such a member, for example an object file."""


class ContentRequests(tuple[ContentRequest, ...]):
    """All wants of the facts of a run."""

    __slots__ = ()


class ContentStore(Protocol):
    """Keep the contents that facts want while every member is read once."""

    def expect(self, entries: Sequence[TreeEntry]) -> None:
        """Choose among the members that will be read, if they are known beforehand."""

    def wants(self, entry: TreeEntry) -> bool:
        """Return whether the content of that member is kept."""

    @property
    def size(self) -> int:
        """Number of bytes that are kept."""

    def keep(self, entry: TreeEntry, content: bytes) -> None:
        """Store the content; called from several threads."""

    def find(self, stored: str) -> bytes | None:
        """Return the content of the last member stored by that name, or None if it is not kept."""

    def close(self) -> None:
        """Drop all contents."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VisitRequest:
    """What a kind of package needs from the members of a tree."""

    place: Callable[[str], str] = str  # name in the tree -> path of the member and of its objects
    # contents to return: name -> largest size in bytes
    texts: Mapping[str, int] = field(default_factory=dict)
    condense: Callable[[str, bytes], bytes] | None = None
    """Reduces such a content, given the member's name; None: keep all of it. Called from several
    threads."""
    watches: Sequence[Watch] = ()
    only: Sequence[TreeEntry] | None = None  # the members to visit; None: all
    hashed: bool = True  # False: their hashes are known otherwise, and may stay empty
    store: ContentStore | None = None  # keeps contents for facts


class Visited(NamedTuple):
    """A member, the objects in it, and its content if wanted."""

    member: Member
    objects: tuple[ReadObject, ...] = ()
    content: bytes | None = None


class Tree(Protocol):
    """The opened container of one package's members; the opener must close it.

    Raises PackageError, one line that begins with the label, if it cannot be read as a whole;
    faults of a single member become ``faults`` of its entry.
    """

    @property
    def path(self) -> Path:
        """The package file or folder."""

    @property
    def label(self) -> str:
        """The name in messages."""

    @property
    def size(self) -> int:
        """Size of the package file in bytes."""

    @property
    def faults(self) -> tuple[str, ...]:
        """Faults of the whole file, such as bytes after its end."""

    @property
    def ambiguities(self) -> tuple[str, ...]:
        """Why other tools may read other members from the file: a second end of directory, ..."""

    def entries(self) -> Sequence[TreeEntry]:
        """Return all members, in the order of the tree."""

    def each_entry(self) -> Iterator[TreeEntry]:
        """Yield all members, reading no further than necessary if the file must be read in order.

        Raises PackageError if it cannot be read any further.
        """

    def find(self, name: str) -> TreeEntry | None:
        """Return the last member of that name, or None.

        A folder has every name, maybe with faults.
        """

    def heads(self, entries: Iterable[TreeEntry]) -> Iterator[bytes]:
        """Yield the first 64 bytes of each of these members, b"" if it cannot be read."""

    def visit(
        self, reader: ObjectReader, wanted: VisitRequest, progress: Progress | None = None
    ) -> list[Visited]:
        """Read every member once, in bounded memory: verify, hash, and parse object files.

        The result is in the order of the entries. The reader is called from several threads,
        ``progress`` from the calling one.
        """

    def pieces(self, entry: TreeEntry) -> Iterator[bytes]:
        """Yield the content of one member in pieces. Raises BrokenDataError or PackageError."""

    def contents(self, entries: Sequence[TreeEntry]) -> Iterator[tuple[TreeEntry, Iterator[bytes]]]:
        """Yield these members with their contents in one pass; read each before the next.

        Raises PackageError; a single content may raise BrokenDataError, and the others continue.
        """

    def close(self) -> None:
        """Close the file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """What collection needs to know about a package."""

    kind: type[Package]
    formats: frozenset[Format] = frozenset()


class PackageKind(Protocol):
    """One kind of package: how to recognise it in a tree, and how to read it."""

    def recognises(self, label: str, look: Callable[[], Tree]) -> bool:
        """Return whether it is one: by the label if that suffices, else by looking into the tree.

        ``look`` opens the file: call it only if the name may be that of a package.
        """

    def preview(self, tree: Tree, reader: ObjectReader) -> Preview:
        """Return kind and formats from the list of members and their first bytes, quickly.

        Raises PackageError if ``read`` could not begin either.
        """

    def read(
        self,
        tree: Tree,
        reader: ObjectReader,
        progress: Progress | None = None,
        store: ContentStore | None = None,
    ) -> Package:
        """Read every member once. Raises PackageError if the package cannot be read as a whole."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """The result of one pass over a package; its owner must release what was kept."""

    package: Package
    kept: ContentStore
    formats: frozenset[Format] = frozenset()  # by the first bytes of the members

    @property
    def preview(self) -> Preview:
        """The preview that a look at the package would have given."""
        return Preview(kind=type(self.package), formats=self.formats)

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        self.kept.close()


Neighbours: TypeAlias = Callable[[str], Package | None]
"""Read an installed distribution by name; return None if there is none."""


class RemoteFile(Protocol):
    """A file on a server that supports range requests."""

    @property
    def size(self) -> int:
        """Size in bytes."""

    def read(self, offset: int, length: int) -> bytes:
        """Request exactly these bytes once, from any thread.

        Raises RemoteChanged if the file is no longer the one that was opened, GatherError if the
        network or the server failed.
        """

    def close(self) -> None:
        """Close the connections."""


class Remote(Protocol):
    """A published package file, before its download."""

    @property
    def file_name(self) -> str:
        """The file's name, which tells its kind."""

    @property
    def provenance(self) -> Provenance:
        """What is stated about it where it is published."""

    def open(self) -> RemoteFile:
        """Open it for range requests.

        Raises Unavailable if the server does not support them, GatherError if it fails.
        """

    def core_metadata(self) -> bytes | None:
        """Return the METADATA that the index serves next to the file (PEP 658), or None.

        Raises GatherError if it is not available, or its hash is wrong.
        """

    def siblings(self) -> tuple[str, ...]:
        """Return the names of all files that the index has for the same project and version.

        Return () if no index was asked. Raises GatherError.
        """


class Source(Protocol):
    """Where one package that the user named comes from."""

    @property
    def path(self) -> Path:
        """The file; for a source without a file, its label in the current folder."""

    @property
    def label(self) -> str:
        """The name in messages."""

    def identity(self) -> str:
        """Return what identifies it: ``sha256 …`` of the file or ``record_sha256 …``.

        Raises PackageError or GatherError if it cannot be read.
        """

    def open(self) -> Tree:
        """Open the tree of its members. Raises PackageError."""

    def preview(self, reader: ObjectReader) -> Preview:
        """Return its kind and the formats of its objects. Raises PackageError."""

    def read(
        self,
        reader: ObjectReader,
        progress: Progress | None = None,
        wants: Sequence[ContentRequest] = (),
    ) -> Reading:
        """Read every member once, and keep the contents that are wanted. Raises PackageError."""

    def restate(self, package: Package) -> Package:
        """Return the package with facts that were recorded earlier; only the others are read."""

    def neighbours(self, reader: ObjectReader) -> Neighbours | None:
        """Return a function that reads packages installed in the same environment, or None."""

    def remote(self) -> Remote | None:
        """Return the published file that it is downloaded from; None for a local one."""

    def parts(self) -> tuple[Source, ...]:
        """Return the packages that are judged together under this name; empty for a single one."""

"""Interfaces between sources, trees, kinds of packages and object readers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from binary_checks.model.objects import Format, MalformedObject, ObjectFile, UnreadObject
from binary_checks.model.packages import Member, Package
from binary_checks.model.published import Provenance

ReadObject: TypeAlias = ObjectFile | MalformedObject | UnreadObject


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


class ObjectReader(Protocol):
    """A reader of object files from byte sources (implemented by ``binary_checks.objects``)."""

    def recognise(self, head: bytes) -> Format | None:
        """Return the format that the first bytes (64 are enough) show, or None."""

    def announce(self, path: str, head: bytes) -> Format | None:
        """Return the format shown by the first bytes, else by the file name, or None."""

    def read_objects(
        self, path: str, source: ByteSource
    ) -> tuple[ObjectFile | MalformedObject | UnreadObject, ...]:
        """Return every object of the file, and each slice of a fat one.

        Never raises because of the file's contents.
        """


class TreeEntry(Protocol):
    """A member as listed by its tree, before it is read."""

    @property
    def name(self) -> str:
        """The name in the tree's list; two members may have the same name."""

    @property
    def stored(self) -> str:
        """The name in the tree's storage; differs from `name` if `name` leaves the folder."""

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
"""A function that takes a member's name and returns a callback for pieces of its content, or
None.
"""


class ContentRequest(NamedTuple):
    """Members whose contents a fact will ask for, chosen before a package is read.

    This only avoids reading the members twice: a fact may ask for other members, too.
    """

    chooses: Callable[[TreeEntry], bool]
    longest: int  # largest size of a member, bytes
    only_with: Callable[[TreeEntry], bool] | None = None
    """A condition on some member of the tree, such as being an object file; if no member meets it,
    nothing is kept.
    """


class ContentRequests(tuple[ContentRequest, ...]):
    """The content requests of all facts of a run."""

    __slots__ = ()


class ContentStore(Protocol):
    """A store for the contents that facts ask for, filled while every member is read once."""

    def expect(self, entries: Sequence[TreeEntry]) -> None:
        """Choose contents to keep; called only if the members to be read are known beforehand."""

    def wants(self, entry: TreeEntry) -> bool:
        """Return whether the content of a member will be kept."""

    @property
    def size(self) -> int:
        """Number of bytes kept."""

    def keep(self, entry: TreeEntry, content: bytes) -> None:
        """Store the content; called from several threads."""

    def find(self, stored: str) -> bytes | None:
        """Return the content of the last member stored under that name; None if not kept."""

    def close(self) -> None:
        """Drop all contents."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VisitRequest:
    """The facts about a tree's members that a kind of package needs."""

    place: Callable[[str], str] = str  # name in the tree -> path of the member and of its objects
    # contents to return: name -> largest size in bytes
    texts: Mapping[str, int] = field(default_factory=dict)
    may_keep: Callable[[bytes], bool] | None = None
    """Decides whether such a content is kept, called from several threads; None: each is kept."""
    watches: Sequence[Watch] = ()
    only: Sequence[TreeEntry] | None = None  # the members to visit; None: all
    hashed: bool = True  # False: the hashes are known from elsewhere, and may stay empty
    store: ContentStore | None = None  # stores contents for facts


class Visited(NamedTuple):
    """A member, the objects in the member, and its content if requested."""

    member: Member
    objects: tuple[ReadObject, ...] = ()
    content: bytes | None = None


class Tree(Protocol):
    """The opened container of one package's members; the opener must close it.

    Raises PackageError, one line that begins with the label, if the container cannot be read at
    all; faults of a single member are stored in ``faults`` of its entry.
    """

    @property
    def path(self) -> Path:
        """The package file or folder."""

    @property
    def label(self) -> str:
        """The package's name in messages."""

    @property
    def size(self) -> int:
        """Size of the package file in bytes."""

    @property
    def faults(self) -> tuple[str, ...]:
        """Faults of the whole file, such as bytes after its end."""

    @property
    def ambiguities(self) -> tuple[str, ...]:
        """Reasons why other tools may find other members, such as a second end of the directory."""

    def entries(self) -> Sequence[TreeEntry]:
        """Return all members, in the order of the tree."""

    def each_entry(self) -> Iterator[TreeEntry]:
        """Yield all members, reading no further than necessary if the file must be read in order.

        Raises PackageError if reading cannot continue.
        """

    def find(self, name: str) -> TreeEntry | None:
        """Return the last member of that name, or None.

        A folder has an entry for every name, possibly with faults.
        """

    def heads(self, entries: Iterable[TreeEntry]) -> Iterator[bytes]:
        """Yield the first 64 bytes of each of these members, b"" for an unreadable member."""

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

        Raises PackageError. A single content may raise BrokenDataError; the following ones can
        still be read.
        """

    def close(self) -> None:
        """Close the file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """Facts about a package that pytest's collection needs."""

    kind: type[Package]
    formats: frozenset[Format] = frozenset()


class PackageKind(Protocol):
    """One kind of package: recognising it in a tree, and reading it."""

    def recognises(self, label: str, look: Callable[[], Tree]) -> bool:
        """Return whether the package is of this kind, by the label if possible, else by the tree.

        ``look`` opens the file: call it only if the label may be the name of such a package.
        """

    def preview(self, tree: Tree, reader: ObjectReader) -> Preview:
        """Return the kind, and the objects' formats by the members' first bytes, quickly.

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
    """The result of one pass over a package; its owner must release the kept contents."""

    package: Package
    kept: ContentStore
    formats: frozenset[Format] = frozenset()  # found by the first bytes of the members

    @property
    def preview(self) -> Preview:
        """The preview that the package's source would have returned."""
        return Preview(kind=type(self.package), formats=self.formats)

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        self.kept.close()


Neighbours: TypeAlias = Callable[[str], Package | None]
"""A function that reads an installed distribution by name; it returns None if there is none."""


class RemoteFile(ByteSource, Protocol):
    """A file on a server that supports range requests.

    ``read`` requests exactly these bytes once, from any thread. It raises RemoteChanged if the file
    has changed since it was opened, GatherError if the network or the server failed.
    """

    def close(self) -> None:
        """Close the connections."""


class Remote(Protocol):
    """A published package file, before its download."""

    @property
    def file_name(self) -> str:
        """The file's name, which shows the kind of package."""

    @property
    def provenance(self) -> Provenance:
        """Statements about the file at its place of publication."""

    def open(self) -> RemoteFile:
        """Open the file for range requests.

        Raises Unavailable if the server does not support them, GatherError if opening fails.
        """

    def core_metadata(self) -> bytes | None:
        """Return the METADATA that the index serves next to the file (PEP 658), or None.

        Raises GatherError if METADATA is not available, or has a wrong hash.
        """

    def siblings(self) -> tuple[str, ...]:
        """Return the names of all files that the index has for the same project and version.

        Return () if no index was asked. Raises GatherError.
        """


class Source(Protocol):
    """The source of one package that the user named."""

    @property
    def path(self) -> Path:
        """The package's file; for a source without a file, a path made of its label."""

    @property
    def label(self) -> str:
        """The source's name in messages."""

    def identity(self) -> str:
        """Return ``sha256 …`` of the file, or ``record_sha256 …`` of an installed package.

        Raises PackageError or GatherError if the file cannot be read.
        """

    def open(self) -> Tree:
        """Open the tree of its members. Raises PackageError."""

    def preview(self, reader: ObjectReader) -> Preview:
        """Return the package's kind and the formats of its objects. Raises PackageError."""

    def read(
        self,
        reader: ObjectReader,
        progress: Progress | None = None,
        wants: Sequence[ContentRequest] = (),
    ) -> Reading:
        """Read every member once, and keep the contents that facts want. Raises PackageError."""

    def restate(self, package: Package) -> Package:
        """Return a package from a facts document, completed with facts read from the source."""

    def neighbours(self, reader: ObjectReader) -> Neighbours | None:
        """Return a function that reads packages installed in the same environment, or None."""

    def remote(self) -> Remote | None:
        """Return the published file of a package that is downloaded; None for a local package."""

    def parts(self) -> tuple[Source, ...]:
        """Return the packages that are judged together under this name; () for a single one."""

"""What sources, trees, kinds and object readers agree on, so that none knows another."""

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
    """Hears how far the reading of a package is."""

    def __call__(self, done: int, total: int, /) -> None:
        """Take the bytes read so far and the bytes that there are."""


class ByteSource(Protocol):
    """The bytes of one file, wherever they are kept."""

    @property
    def size(self) -> int:
        """The whole file's size in bytes."""

    def read(self, offset: int, length: int) -> bytes:
        """Exactly length bytes from offset; raises MalformedError when the file ends before."""


class Scanner(Protocol):
    """Scans a file while it streams by, for what its first bytes cannot tell."""

    def see(self, piece: bytes) -> Iterable[tuple[int, bytes]]:
        """Take the next piece; offsets and bytes, in rising order, that may be asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How to let a file stream by that is too large to be kept, by its first bytes.

    The ranges are a guess that is nearly always right: a reader may ask for others all the same.
    """

    ranges: tuple[tuple[int, int], ...] = ()  # (start, end): the bytes to keep
    scanners: tuple[Scanner, ...] = ()  # each is shown every piece, one after the other


@dataclass(frozen=True, slots=True)
class Observations:
    """What the scanners of a plan saw of a file, once all of it has streamed by."""

    scanners: tuple[Scanner, ...] = ()

    def of(self, kind: type[_ScannerT]) -> _ScannerT | None:
        """The scanner of that class; None where none was there, and a reader looks itself."""
        return next((each for each in self.scanners if isinstance(each, kind)), None)


NOTHING_SEEN: Final = Observations()
"""Of a file that can be read anywhere, and need not be scanned beforehand."""


class ObjectReader(Protocol):
    """Reads object files out of a byte source (``binary_checks.objects`` does)."""

    def recognise(self, head: bytes) -> Format | None:
        """The format that the first bytes (64 are enough) announce, None for anything else."""

    def announce(self, path: str, head: bytes) -> Format | None:
        """That format, or the one which a loader expects of a file of that name."""

    def plan(self, head: bytes, size: int) -> Plan:
        """What to keep of a large file, and what scans it; a longer head makes it keep less."""

    def read_objects(
        self, path: str, source: ByteSource, observations: Observations = NOTHING_SEEN
    ) -> tuple[ObjectFile | MalformedObject | UnreadObject, ...]:
        """Every object in the file, each slice of a fat one; never raises for its bytes."""


class TreeEntry(Protocol):
    """A member as its tree lists it, before it is read."""

    @property
    def name(self) -> str:
        """How whoever lists it spells it; two members may share a name."""

    @property
    def stored(self) -> str:
        """Where the tree holds it: its name, but where a list of a folder leads out of that."""

    @property
    def size(self) -> int:
        """The bytes that it is said to have."""

    @property
    def compressed_size(self) -> int:
        """The bytes that it takes in the package file."""

    @property
    def mode(self) -> int:
        """Its ``st_mode``."""

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with it by the list alone."""


Watch: TypeAlias = Callable[[str], Callable[[bytes], object] | None]
"""By a member's name what is shown its content piece by piece, None for those not watched."""


class Want(NamedTuple):
    """Members whose contents a fact is going to ask for, chosen before a package is read.

    It decides nothing but what need not be read twice: a fact may ask for other members, too.
    """

    chooses: Callable[[TreeEntry], bool]
    longest: int  # bytes of one member
    beside: Callable[[TreeEntry], bool] | None = None
    """Nothing is asked for where the tree lists no such member, as an object file."""


class Wants(tuple[Want, ...]):
    """All that the facts of a run want of the members of a package."""

    __slots__ = ()


class Keeper(Protocol):
    """Keeps the contents that facts have wanted, while every member is read once."""

    def expect(self, entries: Sequence[TreeEntry]) -> None:
        """Choose among all members that will be read, where they are known beforehand."""

    def wants(self, entry: TreeEntry) -> bool:
        """Whether the content of that member is kept."""

    @property
    def size(self) -> int:
        """The bytes that are kept."""

    def keep(self, entry: TreeEntry, content: bytes) -> None:
        """Keep it; called from several threads."""

    def find(self, stored: str) -> bytes | None:
        """The content of the last member that is stored by that name, None where it is not kept."""

    def close(self) -> None:
        """Let go of all contents."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What a kind of package wants of the members of a tree."""

    place: Callable[[str], str] = str  # name in the tree -> path of the member and its objects
    kept: Mapping[str, int] = field(default_factory=dict)  # wanted contents: name -> most bytes
    condense: Callable[[str, bytes], bytes] | None = None
    """Makes of a wanted content what is kept of it, by the member's name; None: all of it. Called
    from several threads."""
    watches: Sequence[Watch] = ()
    only: Sequence[TreeEntry] | None = None  # the members to visit; None: all
    hashed: bool = True  # False: their hashes are known from elsewhere, and may stay empty
    keeper: Keeper | None = None  # what facts want of them


class Visited(NamedTuple):
    """A member, the objects in it, and its content where that was wanted."""

    member: Member
    objects: tuple[ReadObject, ...] = ()
    content: bytes | None = None


class Tree(Protocol):
    """What holds the members of one package; whoever opened it closes it.

    Raises PackageError, one line that begins with the label, where it cannot be followed as a
    whole; what is wrong with one member becomes a fault of that.
    """

    @property
    def path(self) -> Path:
        """The file, or the folder, that holds them."""

    @property
    def label(self) -> str:
        """How messages name it."""

    @property
    def size(self) -> int:
        """The bytes of the package file."""

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with the whole: bytes that follow its end, ..."""

    @property
    def ambiguities(self) -> tuple[str, ...]:
        """What lets other tools read the file as another archive: a second end, ..."""

    def entries(self) -> Sequence[TreeEntry]:
        """Every member, in the order of the tree."""

    def each_entry(self) -> Iterator[TreeEntry]:
        """The same as they come: of what must be read from its start, no more than is asked for.

        Raises PackageError where it cannot be followed any further.
        """

    def find(self, name: str) -> TreeEntry | None:
        """The last member of that name; a folder has any, maybe one with faults."""

    def heads(self, entries: Iterable[TreeEntry]) -> Iterator[bytes]:
        """The first 64 bytes of each of those members, none of one that cannot be read."""

    def visit(
        self, reader: ObjectReader, wanted: Wanted, progress: Progress | None = None
    ) -> list[Visited]:
        """Read every member once, in bounded memory: verified, hashed, and as an object.

        They come in the order of the entries. The reader is called from several threads,
        ``progress`` in the calling one.
        """

    def pieces(self, entry: TreeEntry) -> Iterator[bytes]:
        """The content of one member alone. Raises BrokenDataError or PackageError."""

    def contents(self, entries: Sequence[TreeEntry]) -> Iterator[tuple[TreeEntry, Iterator[bytes]]]:
        """Those members and their contents, in one pass, each to be read before the next.

        Raises PackageError; a content alone may raise BrokenDataError, and the others go on.
        """

    def close(self) -> None:
        """Let go of the file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """What collection needs to know of a package."""

    kind: type[Package]
    formats: frozenset[Format] = frozenset()


class PackageKind(Protocol):
    """One kind of package: what a tree must have to be one, and how it is read."""

    def recognises(self, label: str, look: Callable[[], Tree]) -> bool:
        """Whether it is one: by the label if that says so, else by a look into the tree.

        A look opens the file: only at what may be a package by its name.
        """

    def preview(self, tree: Tree, reader: ObjectReader) -> Preview:
        """Look at the list of members and their first bytes: quick, and no verdict.

        Raises PackageError where ``read`` could not begin either.
        """

    def read(
        self,
        tree: Tree,
        reader: ObjectReader,
        progress: Progress | None = None,
        keeper: Keeper | None = None,
    ) -> Package:
        """Read every member once. Raises PackageError where it cannot be read as a whole."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What one pass over a package found; whoever has it lets go of what was kept."""

    package: Package
    kept: Keeper
    formats: frozenset[Format] = frozenset()  # that the first bytes of members announce

    @property
    def preview(self) -> Preview:
        """What a look at the package beforehand would have shown."""
        return Preview(kind=type(self.package), formats=self.formats)

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        self.kept.close()


Neighbours: TypeAlias = Callable[[str], Package | None]
"""Reads what is installed beside a package, by its name; None where there is none."""


class RemoteFile(Protocol):
    """A file on a server that sends parts of it."""

    @property
    def size(self) -> int:
        """Bytes."""

    def read(self, offset: int, length: int) -> bytes:
        """Ask once for exactly those bytes, from any thread.

        Raises RemoteChanged where the file is no longer the one that was opened, GatherError
        where the network or the server broke.
        """

    def close(self) -> None:
        """Let go of the connections."""


class Remote(Protocol):
    """A package file that is published, before it is downloaded."""

    @property
    def file_name(self) -> str:
        """The file's name, by which its kind is known."""

    @property
    def provenance(self) -> Provenance:
        """What is said of it there."""

    def open(self) -> RemoteFile:
        """Open it to be read by ranges.

        Raises Unavailable where the server sends none, GatherError where it breaks.
        """

    def core_metadata(self) -> bytes | None:
        """The METADATA that the index serves beside it (PEP 658); None where it serves none.

        Raises GatherError where it cannot be had, or is not what its hash says.
        """

    def siblings(self) -> tuple[str, ...]:
        """The names of all files that the index has of the same project and version.

        () where no index was asked. Raises GatherError.
        """


class Source(Protocol):
    """Where one package that the user named comes from."""

    @property
    def path(self) -> Path:
        """The file; of what has none, its label in the current folder."""

    @property
    def label(self) -> str:
        """How messages name it."""

    def identity(self) -> str:
        """By what it is known: ``sha256 …`` of the file or ``record_sha256 …``.

        Raises PackageError or GatherError where it cannot be read.
        """

    def open(self) -> Tree:
        """Open what holds its members. Raises PackageError."""

    def preview(self, reader: ObjectReader) -> Preview:
        """Say its kind and the formats of its objects. Raises PackageError."""

    def read(
        self, reader: ObjectReader, progress: Progress | None = None, wants: Sequence[Want] = ()
    ) -> Reading:
        """Read every member once, and keep the contents that are wanted. Raises PackageError."""

    def restate(self, package: Package) -> Package:
        """The package with facts that were stated of it before; only the others are read."""

    def neighbours(self, reader: ObjectReader) -> Neighbours | None:
        """How to find what is installed beside it; None where nothing is."""

    def remote(self) -> Remote | None:
        """The file where it is published; None of one that is here."""

    def parts(self) -> tuple[Source, ...]:
        """The packages that are judged together under this name; none of a single one."""

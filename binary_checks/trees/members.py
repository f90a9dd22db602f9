"""Members of any tree, one after another: watched, kept, and parsed if they are object files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from hashlib import sha256
from typing import NamedTuple, TypeAlias

from binary_checks.errors import GatherError
from binary_checks.model import (
    ByteSource,
    Format,
    Member,
    ObjectReader,
    ReadObject,
    Tree,
    TreeEntry,
    UnreadObject,
    Visited,
    VisitRequest,
)
from binary_checks.trees.kept_bytes import ByteStore

# ansible has 40,000; an entry takes two kilobytes if each entry has a fault
MAXIMUM_ENTRIES = 150_000
MAXIMUM_SIZE = 64 << 30  # bytes of all members together, uncompressed
WHOLE = 512 << 10  # bytes; a member up to this size is read at once
FIRST = 64  # bytes that show a file's format
HEAD = 4096  # bytes that the first piece has at the least, or the whole member if it is shorter
SOURCE_CODE = (".py", ".pyi", ".h", ".hpp", ".cuh")
"""Suffixes of most members. The first look does not search these for objects; the full reading
reports an object with such a name as a fault of the member.
"""

Consume: TypeAlias = Callable[[bytes], object]


def find_formats(
    tree: Tree, entries: Iterable[TreeEntry], reader: ObjectReader
) -> frozenset[Format]:
    """Return which formats of object files occur among these members."""
    candidates = (each for each in entries if each.size and not each.name.endswith(SOURCE_CODE))
    found = (reader.recognise(head) for head in tree.heads(candidates) if head)
    return frozenset(each for each in found if each is not None)


class Streamed(NamedTuple):
    """The result of streaming a member's bytes."""

    sha256: str = ""  # "" if it could not be read completely
    faults: tuple[str, ...] = ()


def stream_pieces(pieces: Iterable[bytes], consume: Consume) -> Streamed:
    """Pass the pieces of a member to a callback, and hash them."""
    digest = sha256()
    for piece in join_head(iter(pieces)):
        digest.update(piece)
        consume(piece)
    return Streamed(digest.hexdigest())


def join_head(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Join the first pieces of a member up to HEAD bytes: they may be of any length, even empty."""
    head = b""
    for piece in pieces:
        head += piece
        if len(head) >= HEAD:
            break
    if head:
        yield head
    yield from pieces


Stream: TypeAlias = Callable[[Consume], Streamed]
"""Streams a member to a callback; the first piece has HEAD bytes, or all if there are fewer."""


class MemberReader:
    """Reads the requested facts of each member; several threads may call its methods."""

    def __init__(self, label: str, reader: ObjectReader, wanted: VisitRequest) -> None:
        self._label = label
        self._reader = reader
        self._wanted = wanted

    def expect(self, entries: Sequence[TreeEntry]) -> None:
        """Announce which members will be read, if they are known before the first one is read."""
        if self._wanted.store is not None:
            self._wanted.store.expect(entries)

    def refuse(self, entry: TreeEntry, *faults: str) -> Visited:
        """Return the description of a member whose bytes are not read."""
        return self._describe(entry, Streamed(faults=(*entry.faults, *faults)))

    def take_whole(self, entry: TreeEntry, content: bytes, outcome: Streamed) -> Visited:
        """Read a small member; if it is broken, ``content`` may be only its beginning."""
        with closing(ByteStore(content)) as source:
            objects = self._read(entry, content, outcome, source)
        store = self._wanted.store
        if store is not None and outcome.sha256 and store.wants(entry):
            store.keep(entry, content)
        kept = entry.name in self._wanted.texts and outcome.sha256
        wanted = self._limit(content) if kept else None
        self._watch(entry)(content)
        return self._describe(entry, outcome, objects, wanted)

    def take_stream(self, entry: TreeEntry, stream: Stream) -> Visited:
        """Read a large member; an object, which its first piece shows, is kept until it is read."""
        if entry.name in self._wanted.texts:
            return self._keep(entry, stream, self._wanted.texts[entry.name])
        show, head, is_object = self._watch(entry), b"", False
        with closing(ByteStore()) as kept:

            def consume(piece: bytes) -> None:
                nonlocal head, is_object
                if not head:
                    head = piece[:HEAD]
                    is_object = self._reader.announce(entry.name, head) is not None
                if is_object:
                    kept.append(piece)
                show(piece)

            try:
                outcome = self._pass_on(entry, stream, consume)
                return self._describe(entry, outcome, self._read(entry, head, outcome, kept))
            # The error is the temporary file's; errors of the package itself are PackageErrors.
            except OSError as error:
                path = self._wanted.place(entry.name)
                reason = f"{path} cannot be kept in a temporary file: {error.strerror}"
                raise GatherError(f"{self._label}: {reason}") from None

    def take_source(self, entry: TreeEntry, source: ByteSource, stream: Stream) -> Visited:
        """Read a member that allows random access; stream the member only to hash or watch it."""
        if entry.name in self._wanted.texts:
            return self._keep(entry, stream, self._wanted.texts[entry.name])
        show = self._watch(entry)
        passes = show is not _drop or self._wanted.hashed
        outcome = self._pass_on(entry, stream, show) if passes else Streamed()
        found = self._reader.announce(entry.name, source.read(0, min(HEAD, source.size)))
        path = self._wanted.place(entry.name)
        objects = () if found is None else self._reader.read_objects(path, source)
        return self._describe(entry, outcome, objects)

    def _pass_on(self, entry: TreeEntry, stream: Stream, consume: Consume) -> Streamed:
        """Stream a member, and keep its content if a fact requests it."""
        store = self._wanted.store
        if store is None or not store.wants(entry):
            return stream(consume)
        pieces: list[bytes] = []

        def take(piece: bytes) -> None:
            pieces.append(piece)
            consume(piece)

        outcome = stream(take)
        if outcome.sha256:
            store.keep(entry, b"".join(pieces))
        return outcome

    def _watch(self, entry: TreeEntry) -> Consume:
        """Return a callback that passes a member's pieces to all watchers of the member."""
        watching = [watch(entry.name) for watch in self._wanted.watches]
        seeing = [see for see in watching if see is not None]
        if not seeing:
            return _drop

        def show(piece: bytes) -> None:
            for see in seeing:
                see(piece)

        return show

    def _describe(
        self,
        entry: TreeEntry,
        outcome: Streamed,
        objects: tuple[ReadObject, ...] = (),
        content: bytes | None = None,
    ) -> Visited:
        faults = outcome.faults
        if objects and entry.name.endswith(SOURCE_CODE):
            found = objects[0].format
            faults = (*faults, f"its name is that of source code, but its first bytes are {found}")
        member = Member(
            path=self._wanted.place(entry.name),
            archive_name=entry.stored,
            size=entry.size,
            compressed_size=entry.compressed_size,
            mode=entry.mode,
            sha256=outcome.sha256,
            faults=faults,
        )
        return Visited(member, objects, content)

    def _read(
        self, entry: TreeEntry, head: bytes, outcome: Streamed, content: ByteSource
    ) -> tuple[ReadObject, ...]:
        """Read the objects in a member that begins with ``head`` and is whole if it has a hash."""
        found, path = self._reader.announce(entry.name, head[:HEAD]), self._wanted.place(entry.name)
        if found is None:
            return ()
        if not outcome.sha256:  # the archive is broken
            reason = f"it cannot be extracted: {outcome.faults[-1]}"
            return (UnreadObject(path=path, format=found, reason=reason),)
        return self._reader.read_objects(path, content)

    def _keep(self, entry: TreeEntry, stream: Stream, most: int) -> Visited:
        pieces: list[bytes] = []
        outcome = self._pass_on(entry, stream, pieces.append if entry.size <= most else _drop)
        if entry.size > most:
            too_large = f"it has {entry.size} bytes; at most {most} are read"
            outcome = Streamed(outcome.sha256, (*outcome.faults, too_large))
        kept = pieces and outcome.sha256
        content = self._limit(b"".join(pieces)) if kept else None
        return self._describe(entry, outcome, (), content)

    def _limit(self, content: bytes) -> bytes:
        may_keep = self._wanted.may_keep
        return content if may_keep is None or may_keep(content) else b""


def _drop(_: bytes) -> None:
    pass

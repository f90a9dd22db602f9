"""Contents of a package's members; most are kept from the time when the package was read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing

from binary_checks.errors import BrokenDataError, GatherError, PackageError, Unavailable
from binary_checks.model import (
    ByteSource,
    ContentStore,
    Layout,
    Member,
    Package,
    Tree,
    TreeEntry,
)
from binary_checks.trees.kept_bytes import ByteStore

LARGEST = 96 << 20
"""Bytes of a content that is read into memory; all of torch 2.15's own code has 33 MiB.

This protects processes whose memory the watchdog cannot limit: pytest's, and those on other systems
than Linux.
"""


class MemberContents:
    """The contents of a package's members.

    Contents that facts requested were kept while the package was read. To read other contents, or
    any contents of a package that was stated in a document, the package is opened again; it then
    stays open until `close`.
    """

    def __init__(self, package: Package, kept: ContentStore, open_tree: Callable[[], Tree]) -> None:
        self._package = package
        self._kept = kept
        self._open_tree = open_tree
        self._tree: Tree | None = None  # the tree, once the package is opened again

    def __enter__(self) -> MemberContents:
        return self

    def __exit__(self, *_: object) -> None:
        if self._tree is not None:
            self._tree.close()

    def read(self, member: Member) -> bytes:
        """Return the content of one member.

        Raises PackageError, or Unavailable for a broken member.
        """
        for _, content in self.each((member,)):
            if isinstance(content, Unavailable):
                raise content
            return content
        raise AssertionError

    def each(self, members: Iterable[Member]) -> Iterator[tuple[Member, bytes | Unavailable]]:
        """Yield each member with its content, or why it cannot be read, in any order.

        Raises PackageError if the package has to be opened again, and that fails.
        """
        for member, source in self.sources(members):
            if isinstance(source, Unavailable):
                yield member, source
            elif source.size > LARGEST:
                reason = f"it has {source.size} bytes; more than {LARGEST} are not read"
                yield member, Unavailable(reason)
            else:
                yield member, source.read(0, source.size)

    def sources(
        self, members: Iterable[Member]
    ) -> Iterator[tuple[Member, ByteSource | Unavailable]]:
        """Yield each member with its bytes, or why they cannot be read, in any order.

        A large member is in a temporary file, which is closed when the next one is requested.
        Raises the same errors as `each`, and GatherError if the disk is full.
        """
        left: list[Member] = []
        for member in members:
            kept = self._kept.find(member.archive_name)
            if kept is not None:
                yield member, ByteStore(kept)
            elif member.faults and not member.sha256:
                yield member, Unavailable(f"it cannot be read: {member.faults[-1]}")
            else:
                left.append(member)
        if not left:
            return
        if self._tree is None:
            self._tree = self._open_tree()
        for found, pieces in read_again(self._tree, self._package.layout, left):
            with closing(ByteStore()) as store:
                source = pieces if isinstance(pieces, Unavailable) else self._keep(pieces, store)
                yield from ((member, source) for member in found)

    def _keep(self, pieces: Iterator[bytes], store: ByteStore) -> ByteSource | Unavailable:
        try:
            for piece in pieces:
                store.append(piece)
        except (BrokenDataError, PackageError) as error:
            return Unavailable(f"it cannot be read: {error}")
        except OSError as error:
            reason = f"a member cannot be kept in a temporary file: {error.strerror}"
            raise GatherError(f"{self._package.file_name}: {reason}") from None
        return store


def read_again(
    tree: Tree, layout: Layout, members: Iterable[Member]
) -> Iterator[tuple[Sequence[Member], Iterator[bytes] | Unavailable]]:
    """Yield the bytes of members in pieces, in the order in which this tree is read fastest.

    Members that the tree has once are yielded together; of others, why they cannot be read. The
    pieces must be read before the next members are requested.
    """
    missing = Unavailable("it no longer exists")
    waiting: dict[int, tuple[TreeEntry, list[Member]]] = {}
    for member in members:
        entry = find_entry(tree, member, layout)
        if entry is None:
            yield [member], missing
        else:
            waiting.setdefault(id(entry), (entry, []))[1].append(member)
    try:
        for entry, pieces in tree.contents([entry for entry, _ in waiting.values()]):
            yield waiting.pop(id(entry))[1], pieces
    except PackageError as error:
        missing = Unavailable(f"it cannot be read again: {error}")
    yield from ((found, missing) for _, found in waiting.values())


def find_entry(tree: Tree, member: Member, layout: Layout) -> TreeEntry | None:
    """Return the tree's entry for a member; for installed files, find it by its path in RECORD."""
    found = (tree.find(name) for name in (member.archive_name, layout.shorten(member.path)))
    same = (each for each in found if each and not each.faults)
    return next((each for each in same if each.stored == member.archive_name), None)

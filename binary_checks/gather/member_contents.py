"""Contents of a package's members; most are kept from the time when the package was read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from binary_checks.errors import BrokenDataError, Unavailable
from binary_checks.model import ContentStore, Layout, Member, Package, Tree, TreeEntry


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
        left: list[Member] = []
        for member in members:
            kept = self._kept.find(member.archive_name)
            if kept is not None:
                yield member, kept
            elif member.faults and not member.sha256:
                yield member, Unavailable(f"it cannot be read: {member.faults[-1]}")
            else:
                left.append(member)
        if left:
            if self._tree is None:
                self._tree = self._open_tree()
            yield from self._read_again(self._tree, left)

    def _read_again(
        self, tree: Tree, members: Sequence[Member]
    ) -> Iterator[tuple[Member, bytes | Unavailable]]:
        """Read members from the tree, in the order in which this tree is read fastest."""
        found: dict[int, tuple[TreeEntry, list[Member]]] = {}
        for member in members:
            entry = find_entry(tree, member, self._package.layout)
            if entry is None:
                yield member, Unavailable("it cannot be read")
            else:
                found.setdefault(id(entry), (entry, []))[1].append(member)
        for entry, pieces in tree.contents([entry for entry, _ in found.values()]):
            content: bytes | Unavailable
            try:
                content = b"".join(pieces)
            except BrokenDataError as error:
                content = Unavailable(f"it cannot be read: {error}")
            for member in found[id(entry)][1]:
                yield member, content


def find_entry(tree: Tree, member: Member, layout: Layout) -> TreeEntry | None:
    """Return the tree's entry for a member; for installed files, find it by its path in RECORD."""
    found = (tree.find(name) for name in (member.archive_name, layout.shorten(member.path)))
    same = (each for each in found if each and not each.faults)
    return next((each for each in same if each.stored == member.archive_name), None)

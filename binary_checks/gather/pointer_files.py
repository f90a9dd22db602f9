"""Files of a package that are pointers of git-lfs instead of the content that they stand for."""

from __future__ import annotations

from binary_checks.declaring import gathers
from binary_checks.errors import Unavailable
from binary_checks.gather.member_contents import MemberContents
from binary_checks.model import ContentRequest, Package, PointerFiles, TreeEntry

# The first line of every pointer, up to the version (git-lfs docs/spec.md), and of pointers from
# before git-lfs had its name.
_BEGINNINGS = (
    b"version https://git-lfs.github.com/spec/",
    b"version https://hawser.github.com/spec/",
)
_SHORTEST = 115  # bytes: the first line, an oid in SHA-256, and a size of one digit
_LONGEST = 200  # bytes: room for a size of any length, and for the line of an extension


def _may_be_pointer(entry: TreeEntry) -> bool:
    return _SHORTEST <= entry.size <= _LONGEST


SMALL_FILES = ContentRequest(chooses=_may_be_pointer, longest=_LONGEST)


@gathers(PointerFiles, wants=(SMALL_FILES,))
def find_pointers(package: Package, contents: MemberContents) -> PointerFiles:
    """Find the pointers among the package's small files. Raises PackageError."""
    small = [each for each in package.members if _SHORTEST <= each.size <= _LONGEST]
    paths, unread = list[str](), list[tuple[str, str]]()
    for member, content in contents.each(small):
        if isinstance(content, Unavailable):
            unread.append((member.path, str(content)))
        elif content.startswith(_BEGINNINGS):
            paths.append(member.path)
    return PointerFiles(paths=tuple(sorted(paths)), unread=tuple(sorted(unread)))

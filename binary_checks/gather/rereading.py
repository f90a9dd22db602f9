"""Readings of every object of a package by other libraries, each from a temporary file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

from binary_checks.crosscheck.library_process import Libraries
from binary_checks.crosscheck.opinion import Copied, group_by_path, seek_opinion
from binary_checks.declaring import gathers
from binary_checks.errors import BrokenDataError, GatherError, PackageError, Unavailable
from binary_checks.gather.member_contents import read_again
from binary_checks.model import Member, Package, SecondOpinion, Source, Tree

_SHOWN = 3  # reasons shown if no library can read any object


@gathers(SecondOpinion)
def gather_opinion(package: Package, source: Source) -> SecondOpinion:
    """Return other libraries' readings of the package's objects.

    Raises Unavailable if no library can read any object, PackageError if the package cannot be
    opened again, GatherError if the disk is full.
    """
    try:
        with (
            tempfile.TemporaryDirectory(prefix="binary_checks-") as folder,
            closing(source.open()) as tree,
            closing(Libraries(Path(folder))) as libraries,
        ):
            copies = _copy_members(package, tree, Path(folder) / "object")
            opinion = seek_opinion(package.objects, copies, libraries)
    except OSError as error:
        reason = f"its objects cannot be read again: {error.strerror or error}"
        raise GatherError(f"{package.file_name}: {reason}") from None
    if opinion.missing and not opinion.objects:
        reasons = dict.fromkeys(f"{each.library}: {each.reason}" for each in opinion.missing)
        raise Unavailable(f"second opinion unavailable: {', '.join(islice(reasons, _SHOWN))}")
    return opinion


def _copy_members(package: Package, tree: Tree, target: Path) -> Iterator[Copied]:
    """Write each object to the same file, one after another, in one pass over the tree."""
    members: dict[str, list[Member]] = {}
    for member in package.members:
        members.setdefault(member.path, []).append(member)
    single: list[Member] = []
    for path in group_by_path(package.objects):
        if len(members[path]) == 1:
            single += members[path]
        else:
            yield path, Unavailable(f"{len(members[path])} members are installed there")
    for (member, *_), pieces in read_again(tree, package.layout, single):
        yield member.path, pieces if isinstance(pieces, Unavailable) else _copy(pieces, target)


def _copy(pieces: Iterator[bytes], target: Path) -> Path | Unavailable:
    try:
        with target.open("wb") as copy:
            copy.writelines(pieces)
    except (BrokenDataError, PackageError) as error:
        return Unavailable(f"it cannot be read again: {error}")
    return target

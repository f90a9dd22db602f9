"""Readings of every object of a package by other libraries, each from a temporary file."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

from binary_checks.crosscheck.library_process import Libraries
from binary_checks.crosscheck.opinion import Copied, group_by_path, seek_opinion
from binary_checks.declaring import gathers
from binary_checks.errors import BrokenDataError, GatherError, PackageError, Unavailable
from binary_checks.gather.member_contents import find_entry
from binary_checks.model import Package, SecondOpinion, Source, Tree, TreeEntry

_SHOWN = 3  # reasons shown if no library can read any object


@gathers(SecondOpinion)
def gather_opinion(package: Package, source: Source) -> SecondOpinion:
    """Return other libraries' readings of the package's objects.

    Raises Unavailable if no library can read any object, PackageError if the package cannot be
    opened again, GatherError if the disk is full.
    """
    opinion = _seek(package, source.open)
    if opinion.missing and not opinion.objects:
        reasons = dict.fromkeys(f"{each.library}: {each.reason}" for each in opinion.missing)
        raise Unavailable(f"second opinion unavailable: {', '.join(islice(reasons, _SHOWN))}")
    return opinion


def _seek(package: Package, open_tree: Callable[[], Tree]) -> SecondOpinion:
    try:
        with (
            tempfile.TemporaryDirectory(prefix="binary_checks-") as folder,
            closing(open_tree()) as tree,
            closing(Libraries(Path(folder))) as libraries,
        ):
            copies = _copy_members(package, tree, Path(folder) / "object")
            return seek_opinion(package.objects, copies, libraries)
    except OSError as error:
        reason = f"its objects cannot be read again: {error.strerror or error}"
        raise GatherError(f"{package.file_name}: {reason}") from None


def _copy_members(package: Package, tree: Tree, target: Path) -> Iterator[Copied]:
    """Write each object to the same file, one after another, in one pass over the tree."""
    members = {member.path: member for member in package.members}
    times = Counter(member.path for member in package.members)
    waiting: dict[int, tuple[str, TreeEntry]] = {}
    for path in group_by_path(package.objects):
        entry = find_entry(tree, members[path], package.layout) if times[path] == 1 else None
        if entry is not None:
            waiting[id(entry)] = path, entry
        elif times[path] == 1:
            yield path, Unavailable("it no longer exists")
        else:
            yield path, Unavailable(f"{times[path]} members are installed there")
    missing = Unavailable("it no longer exists")
    try:
        for entry, pieces in tree.contents([entry for _, entry in waiting.values()]):
            path, _ = waiting.pop(id(entry))
            yield path, _copy(pieces, target)
    except PackageError as error:
        missing = Unavailable(f"it cannot be read again: {error}")
    yield from ((path, missing) for path, _ in waiting.values())


def _copy(pieces: Iterator[bytes], target: Path) -> Path | Unavailable:
    try:
        with target.open("wb") as copy:
            copy.writelines(pieces)
    except (BrokenDataError, PackageError) as error:
        return Unavailable(f"it cannot be read again: {error}")
    return target

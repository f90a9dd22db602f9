"""Has other libraries read every object of a package again, from a file of its own."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from itertools import islice
from pathlib import Path

from binary_checks.crosscheck.asking import Libraries
from binary_checks.crosscheck.opinion import seek_opinion
from binary_checks.errors import BrokenDataError, GatherError, PackageError, Unavailable
from binary_checks.model import Member, Package, SecondOpinion
from binary_checks.model.protocols import Tree, TreeEntry

_SHOWN = 3  # reasons why there is no reading at all


def gather_opinion(package: Package, open_tree: Callable[[], Tree]) -> SecondOpinion:
    """What other libraries read in the objects of a package, whose members that tree has.

    Raises Unavailable where no library says anything of any object, PackageError where the package
    cannot be opened again, GatherError where there is no room.
    """
    opinion = _seek(package, open_tree)
    if opinion.missing and not opinion.objects:
        reasons = dict.fromkeys(f"{each.library}: {each.reason}" for each in opinion.missing)
        raise Unavailable(f"second opinion unavailable: {', '.join(islice(reasons, _SHOWN))}")
    return opinion


def _seek(package: Package, open_tree: Callable[[], Tree]) -> SecondOpinion:
    try:
        with (
            tempfile.TemporaryDirectory(prefix="binary_checks-") as folder,
            closing(open_tree()) as tree,
            Libraries(Path(folder)) as libraries,
        ):
            copies = _Copies(package, tree, Path(folder) / "object")
            return seek_opinion(package.objects, copies.extract, libraries)
    except OSError as error:
        reason = f"its objects cannot be read once more: {error.strerror or error}"
        raise GatherError(f"{package.file_name}: {reason}") from None


class _Copies:
    """Writes one member after the other into the same file."""

    def __init__(self, package: Package, tree: Tree, target: Path) -> None:
        self._tree, self._target = tree, target
        self._members = {member.path: member for member in package.members}
        self._places = Counter(member.path for member in package.members)

    def extract(self, path: str) -> Path:
        """Put the member of that path there. Raises Unavailable."""
        if self._places[path] != 1:
            raise Unavailable(f"{self._places[path]} members are installed there")
        entry = self._find(self._members[path])
        try:
            with self._target.open("wb") as copy:
                copy.writelines(self._tree.pieces(entry))
        except (BrokenDataError, PackageError) as error:
            raise Unavailable(f"it cannot be read again: {error}") from None
        return self._target

    def _find(self, member: Member) -> TreeEntry:
        """The entry that the member was read from; of installed files RECORD spells the name."""
        for name in (member.archive_name, member.path):
            entry = self._tree.find(name)
            if entry is not None and not entry.faults and entry.stored == member.archive_name:
                return entry
        raise Unavailable("it is not there any more")

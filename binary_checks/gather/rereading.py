"""Has other libraries read every object of a package again, from a file of its own."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from binary_checks.crosscheck.asking import Libraries
from binary_checks.crosscheck.opinion import Extract, seek_opinion
from binary_checks.errors import BrokenDataError, GatherError, Unavailable
from binary_checks.model import Package, Wheel
from binary_checks.model.second_opinion import SecondOpinion
from binary_checks.trees.file_bytes import open_bytes
from binary_checks.trees.zip.directory import read_archive
from binary_checks.trees.zip.inflate import expand_again


def gather_opinion(package: Package) -> SecondOpinion:
    """What other libraries read in the objects of a package.

    Raises Unavailable where its objects cannot be read again, GatherError where there is no room.
    """
    try:
        with (
            tempfile.TemporaryDirectory(prefix="binary_checks-") as folder,
            _open_members(package, Path(folder)) as extract,
            Libraries(Path(folder)) as libraries,
        ):
            return seek_opinion(package.objects, extract, libraries)
    except OSError as error:
        reason = f"its objects cannot be read once more: {error.strerror or error}"
        raise GatherError(f"{package.file_name}: {reason}") from None


@contextmanager
def _open_members(package: Package, folder: Path) -> Iterator[Extract]:
    """A function that writes one member after the other into the same file of the folder."""
    if not isinstance(package, Wheel):
        raise Unavailable(f"a second opinion of a {type(package).__name__} is not asked for")
    names = {member.path: member.archive_name for member in package.members}
    places = Counter(member.path for member in package.members)
    with open_bytes(package.path) as file:
        entries = {entry.name: entry for entry in read_archive(file).entries}

        def extract(path: str) -> Path:
            if places[path] != 1:
                raise Unavailable(f"{places[path]} members of the archive are installed there")
            target = folder / "object"
            try:
                with target.open("wb") as copy:
                    copy.writelines(expand_again(file, entries[names[path]]))
            except BrokenDataError as error:
                raise Unavailable(f"the archive does not yield it again: {error}") from None
            return target

        yield extract

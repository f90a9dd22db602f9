"""Asks every library about every object of a package, and sums up what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path

from binary_checks.crosscheck.asking import Libraries, LibraryAnswer
from binary_checks.crosscheck.comparing import compare_readings
from binary_checks.crosscheck.declaration import Library, libraries_of
from binary_checks.errors import Unavailable
from binary_checks.model import ObjectFile
from binary_checks.model.second_opinion import Disagreement, NoOpinion, SecondOpinion

_INSTALL = "install binary-checks[crosscheck]"
Extract = Callable[[str], Path]
"""Puts the file of that path on disk, until it is called again; raises Unavailable."""


def seek_opinion(
    objects: Iterable[ObjectFile], extract: Extract, libraries: Libraries
) -> SecondOpinion:
    """Read each file again, by each library of its format. Raises OSError, GatherError."""
    inquiry = _Inquiry(libraries)
    known = sorted((item for item in objects if libraries_of(item.format)), key=_path_of)
    for path, items in groupby(known, key=_path_of):
        inquiry.ask_about(path, tuple(items), extract)
    return inquiry.sum_up()


def _path_of(item: ObjectFile) -> str:
    return item.path


class _Inquiry:
    """What was said so far."""

    def __init__(self, libraries: Libraries) -> None:
        self._libraries = libraries
        self._answering: set[str] = set()
        self._absent: dict[str, NoOpinion] = {}  # by distribution
        self._disagreements: list[Disagreement] = []
        self._missing: list[NoOpinion] = []
        self._objects = self._compared = 0

    def ask_about(self, path: str, items: tuple[ObjectFile, ...], extract: Extract) -> None:
        """Have every library read one file, whose objects are given."""
        wanted = libraries_of(items[0].format)
        names = " and ".join(library.name for library in wanted)
        try:
            place = extract(path)
        except Unavailable as error:
            self._missing.append(NoOpinion(path=path, library=names, reason=str(error)))
            return
        answers = [
            (library, self._libraries.ask(library, place))
            for library in wanted
            if library.distribution not in self._absent
        ]
        spoken = [self._hear(path, items, library, answer) for library, answer in answers]
        self._objects += len(items) * any(spoken)

    def _hear(
        self, path: str, items: tuple[ObjectFile, ...], library: Library, answer: LibraryAnswer
    ) -> bool:
        """Hold an answer against our own; whether there is one."""
        if answer.absent:
            reason = f"{answer.reason}; {_INSTALL}"
            absent = NoOpinion(library=answer.library, reason=reason)
            self._absent[library.distribution] = absent
            return False
        if answer.reason:
            missing = NoOpinion(path=path, library=answer.library, reason=answer.reason)
            self._missing.append(missing)
            return False
        self._answering.add(answer.library)
        for said in self._compare(items, library, answer):
            if isinstance(said, NoOpinion):
                self._missing.append(said)
                continue
            self._compared += 1
            if isinstance(said, Disagreement):
                self._disagreements.append(said)
        return True

    def _compare(
        self, items: tuple[ObjectFile, ...], library: Library, answer: LibraryAnswer
    ) -> Iterator[Disagreement | NoOpinion | str]:
        for item in items:
            try:
                yield from compare_readings(item, library, answer.library, answer.reading)
            except Unavailable as error:  # our own symbols are not known
                yield NoOpinion(path=item.path, library=answer.library, reason=str(error))

    def sum_up(self) -> SecondOpinion:
        """All of it."""
        return SecondOpinion(
            libraries=tuple(sorted(self._answering)),
            objects=self._objects,
            compared=self._compared,
            disagreements=tuple(self._disagreements),
            missing=(*self._absent.values(), *self._missing),
        )

"""Have every library read every object of a package, and compare the answers with our facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from binary_checks.crosscheck.fact_tables import Library
from binary_checks.crosscheck.library_process import Libraries, LibraryAnswer
from binary_checks.crosscheck.tables import libraries_of, our_facts
from binary_checks.errors import Unavailable
from binary_checks.model import Disagreement, MachOFile, NoOpinion, ObjectFile, SecondOpinion
from binary_checks.safe_text import one_line

_INSTALL = "install binary-checks[crosscheck]"
_PATIENCE = 3  # number of a package's files for which one library may exceed the time limit
_SHOWN = 3  # items that a message shows of those that only one side has
_LONGEST = 120  # characters of an answer, or of one name in it
Copied = tuple[str, Path | Unavailable]
"""The path of a member, and its copy on disk (valid until the next copy is requested), or why there
is none.
"""


def seek_opinion(
    objects: Iterable[ObjectFile], copies: Iterable[Copied], libraries: Libraries
) -> SecondOpinion:
    """Have each file read by each library of its format. Raises OSError, GatherError."""
    inquiry = _Inquiry(libraries)
    found = group_by_path(objects)
    for path, place in copies:
        inquiry.ask_about(path, found[path], place)
    return inquiry.sum_up()


def group_by_path(objects: Iterable[ObjectFile]) -> dict[str, list[ObjectFile]]:
    """Group the objects that some library reads by file; slices of a fat file are one group."""
    found: dict[str, list[ObjectFile]] = {}
    for item in objects:
        if libraries_of(item.format):
            found.setdefault(item.path, []).append(item)
    return found


class _Inquiry:
    """Collects the answers of all libraries."""

    def __init__(self, libraries: Libraries) -> None:
        self._libraries = libraries
        self._answering: set[str] = set()
        self._absent: dict[str, NoOpinion] = {}  # by distribution
        self._late: Counter[str] = Counter()
        self._disagreements: list[Disagreement] = []
        self._missing: list[NoOpinion] = []
        self._objects = self._compared = 0

    def ask_about(self, path: str, items: Sequence[ObjectFile], place: Path | Unavailable) -> None:
        """Have every library read one file, which contains these objects."""
        wanted = libraries_of(items[0].format)
        if isinstance(place, Unavailable):
            names = " and ".join(library.name for library in wanted)
            self._missing.append(NoOpinion(path=path, library=names, reason=str(place)))
            return
        answers = [
            (library, self._libraries.ask(library, place))
            for library in wanted
            if library.distribution not in self._absent
        ]
        spoken = [self._take_answer(path, items, library, answer) for library, answer in answers]
        self._objects += len(items) * any(spoken)

    def _take_answer(
        self, path: str, items: Sequence[ObjectFile], library: Library, answer: LibraryAnswer
    ) -> bool:
        """Compare an answer with our own facts; return False if the library gave none."""
        if answer.absent:
            reason = f"{answer.reason}; {_INSTALL}"
            absent = NoOpinion(library=answer.library, reason=reason)
            self._absent[library.distribution] = absent
            return False
        if answer.reason:
            missing = NoOpinion(path=path, library=answer.library, reason=answer.reason)
            self._missing.append(missing)
            self._late[library.distribution] += answer.late
            if self._late[library.distribution] >= _PATIENCE:
                reason = f"not asked any more after {_PATIENCE} files without an answer"
                given_up = NoOpinion(library=answer.library, reason=reason)
                self._absent[library.distribution] = given_up
            return False
        self._answering.add(answer.library)
        for result in self._compare(items, library, answer):
            if isinstance(result, NoOpinion):
                self._missing.append(result)
                continue
            self._compared += 1
            if isinstance(result, Disagreement):
                self._disagreements.append(result)
        return True

    def _compare(
        self, items: Sequence[ObjectFile], library: Library, answer: LibraryAnswer
    ) -> Iterator[Disagreement | NoOpinion | str]:
        for item in items:
            try:
                yield from compare_readings(item, library, answer.library, answer.reading)
            except Unavailable as error:  # our own symbols are unknown
                yield NoOpinion(path=item.path, library=answer.library, reason=str(error))

    def sum_up(self) -> SecondOpinion:
        """Return all results."""
        return SecondOpinion(
            libraries=tuple(sorted(self._answering)),
            objects=self._objects,
            compared=self._compared,
            disagreements=tuple(sorted(self._disagreements, key=lambda item: item.path)),
            missing=(*self._absent.values(), *sorted(self._missing, key=lambda item: item.path)),
        )


def compare_readings(
    item: ObjectFile, library: Library, version: str, reading: Mapping[str, Mapping[str, Any]]
) -> Iterator[Disagreement | NoOpinion | str]:
    """Yield the name of each fact on which both agree, else a Disagreement or NoOpinion."""
    place = format_place(item)
    theirs = reading.get(item.architecture if isinstance(item, MachOFile) else "")
    if theirs is None:
        slices = ", ".join(sorted(reading)) or "nothing"
        yield Disagreement(
            path=place,
            library=version,
            fact="architecture",
            ours=item.architecture,
            theirs=one_line(slices),
        )
        return
    ours = our_facts(item)
    for fact, mine in ours.items():
        if fact in library.unknown:
            continue
        other = theirs[fact]
        if isinstance(other, Mapping):
            yield NoOpinion(path=place, library=version, fact=fact, reason=str(other["silent"]))
        elif _narrow(library, fact, mine) == _narrow(library, fact, other):
            yield fact
        else:
            shown, answer = _describe(_narrow(library, fact, mine), _narrow(library, fact, other))
            yield Disagreement(path=place, library=version, fact=fact, ours=shown, theirs=answer)


def _narrow(library: Library, fact: str, value: Any) -> Any:
    """Return the part of a fact that is compared."""
    allowance = library.allowances.get(fact)
    return value if allowance is None else allowance.narrow(value)


def format_place(item: ObjectFile) -> str:
    """Return the path; for a slice, with its architecture."""
    return f"{item.path} ({item.architecture})" if isinstance(item, MachOFile) else item.path


def _describe(ours: Any, theirs: Any) -> tuple[str, str]:
    """Return both values for a message; lists only with the items that one side lacks."""
    if not isinstance(ours, list) or not isinstance(theirs, list):
        return _shorten(ours), _shorten(theirs)
    mine, other = Counter(ours) - Counter(theirs), Counter(theirs) - Counter(ours)
    if not mine and not other:
        place = next(n for n, pair in enumerate(zip(ours, theirs, strict=True)) if len({*pair}) > 1)
        return f"{_shorten(ours[place])} as number {place + 1}", _shorten(theirs[place])
    return _enumerate(list(mine.elements())), _enumerate(list(other.elements()))


def _enumerate(names: Sequence[str]) -> str:
    if not names:
        return "nothing more"
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(map(_shorten, names[:_SHOWN])) + more


def _shorten(value: Any) -> str:
    """Return the value as one line, without its middle if it is too long."""
    spelled = one_line(value if isinstance(value, str) else repr(value)) or "nothing"
    half = _LONGEST // 2
    return spelled if len(spelled) <= _LONGEST else f"{spelled[:half]}…{spelled[-half:]}"

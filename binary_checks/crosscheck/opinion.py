"""Have every library read every object of a package, and compare the answers with our facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from binary_checks.crosscheck import elf_table, macho_table, pe_table
from binary_checks.crosscheck.fact_tables import Facts, Library, Table
from binary_checks.crosscheck.library_process import Libraries
from binary_checks.errors import Unavailable
from binary_checks.model import (
    Disagreement,
    Format,
    MachOFile,
    NoOpinion,
    ObjectFile,
    SecondOpinion,
)
from binary_checks.safe_text import one_line
from binary_checks.wording.sentences import name_first

TABLES: Mapping[Format, Table] = {
    Format.ELF: elf_table.TABLE,
    Format.MACHO: macho_table.TABLE,
    Format.PE: pe_table.TABLE,
}
"""The tables of all formats, from which docs/evidence/readers.md is written."""
_PATIENCE = 3  # number of a package's files for which one library may exceed the time limit
_SHOWN = 3  # items that a message shows of those that only one side has
_LONGEST = 120  # characters of an answer, or of one name in it
Copied = tuple[str, Path | Unavailable]
"""The path of a member, and its copy on disk (valid until the next copy is requested), or why there
is none.
"""


def libraries_of(found: Format) -> tuple[Library, ...]:
    """Return the libraries that read a format; () for device code and archives."""
    return TABLES[found].libraries if found in TABLES else ()


def our_facts(item: ObjectFile) -> Facts:
    """Return our facts about an object by name; {} for formats that no other library reads.

    Raises Unavailable if the object's symbols are unknown.
    """
    facts = TABLES[item.format].facts if item.format in TABLES else ()
    return {
        fact.name: getattr(item, fact.name) if fact.ours is None else fact.ours(item)
        for fact in facts
        if item.kind in fact.kinds
    }


def group_by_path(objects: Iterable[ObjectFile]) -> dict[str, list[ObjectFile]]:
    """Group the objects that some library reads by file; slices of a fat file are one group."""
    found: dict[str, list[ObjectFile]] = {}
    for item in objects:
        if libraries_of(item.format):
            found.setdefault(item.path, []).append(item)
    return found


def seek_opinion(
    objects: Iterable[ObjectFile], copies: Iterable[Copied], libraries: Libraries
) -> SecondOpinion:
    """Have each file read by each library of its format. Raises OSError, GatherError."""
    found = group_by_path(objects)
    absent: dict[str, NoOpinion] = {}  # by distribution
    late: Counter[str] = Counter()
    answering: set[str] = set()
    results: list[Disagreement | NoOpinion | str] = []
    read = 0
    for path, place in copies:
        wanted = libraries_of(found[path][0].format)
        if isinstance(place, Unavailable):
            names = " and ".join(library.name for library in wanted)
            results.append(NoOpinion(path=path, library=names, reason=str(place)))
            continue
        asked = [library for library in wanted if library.distribution not in absent]
        answers = [(library, libraries.ask(library, place)) for library in asked]
        read += len(found[path]) * any(not answer.reason for _, answer in answers)
        for library, answer in answers:
            name, reason = answer.library, answer.reason
            if not reason:
                answering.add(name)
                for item in found[path]:
                    results += compare_readings(item, library, name, answer.reading)
                continue
            if answer.absent:
                reason = f"{reason}; install binary-checks[crosscheck]"
            else:
                results.append(NoOpinion(path=path, library=name, reason=reason))
                late[library.distribution] += answer.late
                if late[library.distribution] < _PATIENCE:
                    continue
                reason = f"not asked any more after {_PATIENCE} files without an answer"
            absent[library.distribution] = NoOpinion(library=name, reason=reason)
    disagreements = [each for each in results if isinstance(each, Disagreement)]
    missing = [each for each in results if isinstance(each, NoOpinion)]
    return SecondOpinion(
        libraries=tuple(sorted(answering)),
        objects=read,
        compared=len(results) - len(missing),
        disagreements=tuple(sorted(disagreements, key=lambda item: item.path)),
        missing=(*absent.values(), *sorted(missing, key=lambda item: item.path)),
    )


def compare_readings(
    item: ObjectFile, library: Library, version: str, reading: Mapping[str, Facts]
) -> Iterator[Disagreement | NoOpinion | str]:
    """Yield the name of each fact on which both agree, else a Disagreement or NoOpinion."""
    place = f"{item.path} ({item.architecture})" if isinstance(item, MachOFile) else item.path
    theirs = reading.get(item.architecture if isinstance(item, MachOFile) else "")
    if theirs is None:
        yield Disagreement(
            path=place,
            library=version,
            fact="architecture",
            ours=item.architecture,
            theirs=one_line(", ".join(sorted(reading)) or "nothing"),
        )
        return
    try:
        ours = our_facts(item)
    except Unavailable as error:  # our own symbols are unknown
        yield NoOpinion(path=item.path, library=version, reason=str(error))
        return
    for fact in [name for name in ours if name not in library.unknown]:
        mine, other = ours[fact], theirs[fact]
        if isinstance(other, Mapping):
            yield NoOpinion(path=place, library=version, fact=fact, reason=str(other["silent"]))
            continue
        if fact in library.allowances:
            narrow = library.allowances[fact].narrow
            mine, other = narrow(mine), narrow(other)
        if mine == other:
            yield fact
        else:
            shown, answer = _describe(mine, other)
            yield Disagreement(path=place, library=version, fact=fact, ours=shown, theirs=answer)


def _describe(ours: Any, theirs: Any) -> tuple[str, str]:
    """Return both values for a message; lists only with the items that one side lacks."""
    if not isinstance(ours, list) or not isinstance(theirs, list):
        return _shorten(ours), _shorten(theirs)
    mine, other = Counter(ours) - Counter(theirs), Counter(theirs) - Counter(ours)
    if not mine and not other:
        place = next(n for n, pair in enumerate(zip(ours, theirs, strict=True)) if len({*pair}) > 1)
        return f"{_shorten(ours[place])} as number {place + 1}", _shorten(theirs[place])
    shown, answer = (
        name_first([*map(_shorten, side.elements())], _SHOWN) for side in (mine, other)
    )
    return shown or "nothing more", answer or "nothing more"


def _shorten(value: Any) -> str:
    """Return the value as one line, without its middle if it is too long."""
    spelled = one_line(value if isinstance(value, str) else repr(value)) or "nothing"
    half = _LONGEST // 2
    return spelled if len(spelled) <= _LONGEST else f"{spelled[:half]}…{spelled[-half:]}"

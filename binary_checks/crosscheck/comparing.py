"""Holds what a library reads in a file against what we read in it, fact by fact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from binary_checks.crosscheck.declaration import Library
from binary_checks.crosscheck.elf_facts import elf_facts
from binary_checks.crosscheck.macho_facts import macho_facts
from binary_checks.crosscheck.pe_facts import pe_facts
from binary_checks.lines import one_line
from binary_checks.model import ElfFile, MachOFile, ObjectFile, PeFile
from binary_checks.model.second_opinion import Disagreement, NoOpinion

_SHOWN = 3  # of what one of the two has alone
_LONGEST = 120  # characters of an answer, or of one name in it


def our_facts(item: ObjectFile) -> dict[str, Any]:
    """What we read in an object, by the names of facts; nothing of formats with one reader.

    Raises Unavailable where its symbols are not known.
    """
    if isinstance(item, ElfFile):
        return elf_facts(item)
    if isinstance(item, MachOFile):
        return macho_facts(item)
    return pe_facts(item) if isinstance(item, PeFile) else {}


def compare_readings(
    item: ObjectFile, library: Library, version: str, reading: Mapping[str, Mapping[str, Any]]
) -> Iterator[Disagreement | NoOpinion | str]:
    """For each fact its name where both say the same, else what they say."""
    place = spell_place(item)
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
    for fact in library.facts:
        if fact not in ours:
            continue
        mine, other = ours[fact], theirs[fact]
        if isinstance(other, Mapping):
            yield NoOpinion(path=place, library=version, fact=fact, reason=str(other["silent"]))
        elif _narrow(library, fact, mine) == _narrow(library, fact, other):
            yield fact
        else:
            shown, answer = _describe(_narrow(library, fact, mine), _narrow(library, fact, other))
            yield Disagreement(path=place, library=version, fact=fact, ours=shown, theirs=answer)


def _narrow(library: Library, fact: str, value: Any) -> Any:
    """What is compared of a fact."""
    allowance = library.allowances.get(fact)
    return value if allowance is None else allowance.narrow(value)


def spell_place(item: ObjectFile) -> str:
    """The path, of a slice with its architecture."""
    return f"{item.path} ({item.architecture})" if isinstance(item, MachOFile) else item.path


def _describe(ours: Any, theirs: Any) -> tuple[str, str]:
    """Both as a sentence can hold them: of lists what one of the two has alone."""
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
    """One line; what is long loses its middle."""
    spelled = one_line(value if isinstance(value, str) else repr(value)) or "nothing"
    half = _LONGEST // 2
    return spelled if len(spelled) <= _LONGEST else f"{spelled[:half]}…{spelled[-half:]}"

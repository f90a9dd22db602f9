"""Changes of kinds that several differences find: names that are gone or new, and properties."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from binary_checks.model import Change, Severity

_NAMES: dict[str, tuple[Severity, str, str, str, str]] = {
    "CMake packages": (
        *(Severity.BREAK, "find_package no longer finds it", "are gone"),
        *("is new to find_package", "are new"),
    ),
    "commands": (
        *(Severity.BREAK, "the command is gone", "are gone"),
        *("is a new command", "are new"),
    ),
    "entry points": (Severity.BREAK, "is gone", "are gone", "is new", "are new"),
    "extension modules": (Severity.CHANGE, "is gone", "are gone", "is new", "are new"),
    "extras": (Severity.BREAK, "the extra is gone", "are gone", "is a new extra", "are new"),
    "headers": (Severity.CHANGE, "the header is gone", "are gone", "is a new header", "are new"),
    "libraries": (Severity.BREAK, "the library is gone", "are gone", "is a new library", "are new"),
    "modules": (
        *(Severity.BREAK, "cannot be imported any more", "cannot be imported any more"),
        *("can be imported now", "can be imported now"),
    ),
}
"""Sets of names by their noun: how severe it is if a name is gone, and what is then said about one
name and about several; and what is said about new names, which are only worth knowing.
"""


def compare_names(
    noun: str, gone: Iterable[str], new: Iterable[str], severity: Severity | None = None
) -> Iterator[Change]:
    """Yield the names that are gone and new; ``severity`` overrides that of the table."""
    usual, lost, all_lost, found, all_found = _NAMES[noun]
    yield from list_names(noun, gone, severity or usual, lost, all_lost)
    yield from list_names(noun, new, Severity.INFO, found, all_found)


def list_names(
    noun: str, names: Iterable[str], severity: Severity, sentence: str, together: str
) -> Iterator[Change]:
    """Yield a change for each name, in order."""
    for name in sorted(names):
        yield Change(
            severity=severity, subject=name, sentence=sentence, together=together, noun=noun
        )


def describe(severity: Severity, verb: str, phrase: str, detail: str = "") -> Change:
    """Return a change of one object; ``verb`` is a plural, whose singular one object gets."""
    singular = {"have": "has"}.get(verb, f"{verb}s")
    return Change(
        severity=severity,
        sentence=f"{singular} {phrase}",
        together=f"{verb} {phrase}",
        detail=detail,
    )


def format_version(version: Collection[int]) -> str:
    """Return a version with dots."""
    return ".".join(map(str, version))

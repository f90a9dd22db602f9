"""What a run found: an entry for each check on each package, and what holds of the whole run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any

from binary_checks.model.binary_configuration import BinaryConfiguration, LinkedLibraries
from binary_checks.model.linkage import Linkage
from binary_checks.model.outcomes import (
    VERDICTS,
    Fitness,
    Level,
    Note,
    NotInspected,
    Outcome,
    Problem,
)
from binary_checks.model.packages import Package
from binary_checks.model.published import Provenance

UNREADABLE = "unreadable-package"
"""What stands in place of a check's id, and is the reason, where a package cannot be read."""


NATIVE_FAMILIES = frozenset({"linkage", "symbols"})
"""The families of checks that judge how native code is loaded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Accepted:
    """A problem that the profile knows of."""

    problem: Problem
    reason: str
    expires: str = ""  # the last day on which it is accepted, as 2027-01-31; "" for ever


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """What one check says of one package."""

    check: str  # id
    family: str
    place: str = ""  # in which of several it ran: "image:oldest"; "" where there is one, or none
    system: str = ""  # of that place: "image bullseye (glibc 2.31)"
    level: Level = Level.ERROR  # of the check, as the profile has it
    outcome: Outcome
    reason: str = ""  # why it was not applicable, not inspected or broke; one line
    inspected: int = 0  # objects judged, or 1 for the package as a whole
    problems: tuple[Problem, ...] = ()  # errors that nobody accepted
    warnings: tuple[Problem, ...] = ()  # the same of the level warning
    accepted: tuple[Accepted, ...] = ()
    not_inspected: tuple[NotInspected, ...] = ()
    notes: tuple[Note, ...] = ()

    def result(self) -> dict[str, Any]:
        """Its fields by name, without what a kind of result has besides."""
        return {each.name: getattr(self, each.name) for each in fields(CheckResult)}

    @property
    def item(self) -> str:
        """What of the package's node it is: the check, and of several places which one."""
        return f"{self.check}[{self.place}]" if self.place else self.check

    @property
    def has_gap(self) -> bool:
        """Whether there is something that it could not inspect."""
        return self.outcome is Outcome.NOT_INSPECTED or bool(self.not_inspected)

    @property
    def is_gap_of_host(self) -> bool:
        """Whether something could not be inspected, and this host is to blame for all of that."""
        return bool(self.not_inspected) and all(each.by_host for each in self.not_inspected)

    @property
    def shown_check(self) -> str:
        """What its problems are shown under: of an unreadable package that, and no check."""
        return UNREADABLE if self.reason == UNREADABLE else self.check


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry(CheckResult):
    """What a run notes of one check on one package: its result, and how long that took."""

    seconds: float = 0.0  # gathering included, for the check that asked first; not installing


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageIdentity:
    """Which package it is; what is not known, for it was never read, is empty."""

    node: str  # pytest's id of it, in characters that may be shown
    file_name: str
    parts: int = 0  # how many packages are judged together under this name; 0: it is one itself
    uri: str  # its path as the user named it, a relative reference (RFC 3986)
    name: str = ""
    version: str = ""
    size: int = 0  # bytes, of what is installed those of all its files
    sha256: str = ""  # of the file; it is read for that only where a report needs it
    record_sha256: str = ""  # of an installed package, in its place
    objects: int | None = None  # object files in it
    expected_objects: int = 0  # how many the profile calls for
    unjudged: str = ""  # why none of its native code could be judged; "" where some was, or is none
    unrun: str = ""  # why it was not run as asked: with what the user named it cannot be
    configuration: BinaryConfiguration | None = None  # once it was read, for reports
    linked_libraries: LinkedLibraries | None = None  # likewise
    ran_on: str = ""  # the interpreter that it was installed for and ran on: "CPython 3.11.7"
    roots: tuple[
        str, ...
    ] = ()  # the images that it ran in, each with its digest: "debian@sha256:f313…"
    installing: float = 0.0  # seconds that its environment and its installation took
    provenance: Provenance | None = None  # where it is published; None of what was here

    @property
    def is_hashed(self) -> bool:
        """Whether its bytes are known by a hash."""
        return bool(self.sha256 or self.record_sha256)

    @property
    def lacks_objects(self) -> bool:
        """Whether it has fewer object files than the profile calls for."""
        return self.objects is not None and self.objects < self.expected_objects


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageResult(PackageIdentity):
    """What a run found out about one package."""

    verdict: Outcome
    stopped: str = ""  # why not all of its checks came to their end; "" where they did
    entries: tuple[Entry, ...]  # by check

    @property
    def fitness(self) -> Fitness:
        """The verdict as people read it: what broke leaves the package as little judged."""
        return VERDICTS[self.verdict].fitness


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckText:
    """What a check's declaration says of it, for reports that explain their rules."""

    id: str
    family: str
    title: str
    why: str
    fix: str
    runs_package: bool = False  # whether it needs the package installed and run


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileIdentity:
    """Which profile was held against the packages: hashes of all that it says, in any order."""

    source: str  # how the header names it
    sha256: str  # without its known problems
    known_problems_sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownListIdentity:
    """Which list of known problems was held against the packages, or why none of it was."""

    source: str  # its path as the user named it, or its URL without what may be secret
    sha256: str = ""  # of its bytes; "" where there are none
    issued: str = ""  # as the list says it: 2026-11-22 or 2026-11-22T04:00:00+00:00
    valid_until: str = ""  # likewise
    cached: bool = False  # whether these bytes are a copy that an earlier run kept
    remark: str = ""  # why its server's own answer is not what holds, where a copy does
    complaint: str = ""  # why none of its entries holds; "" where they do


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """A run that has ended: all that a report may say of it; result documents leave `facts` out."""

    exit_code: int
    profile: ProfileIdentity
    versions: Mapping[str, str] = field(default_factory=dict)  # of what took part, by name
    ended: str = ""  # RFC 3339, UTC, by the clock of the host; "" where an older version wrote it
    places: tuple[str, ...] = ()  # where packages were to run, as named; none: static checks only
    selected: str = ""  # by what only some checks of a family were chosen: "-k import"; "" for all
    complaints: tuple[str, ...] = ()  # what must not stay green although no check failed
    remarks: tuple[str, ...] = ()  # what was left out of it on purpose
    known_lists: tuple[KnownListIdentity, ...] = ()  # in the order in which they were named
    checks: tuple[CheckText, ...] = ()  # those that the profile selects, by family and id
    packages: tuple[PackageResult, ...] = ()  # by node
    facts: Mapping[str, Path] = field(default_factory=dict)  # documents written meanwhile, by node

    def entries(self) -> Iterator[tuple[PackageResult, Entry]]:
        """Every entry, with its package."""
        for package in self.packages:
            for entry in package.entries:
                yield package, entry


# Two builds of one project, and what differs between them: the values of a diff.


class Severity(str, Enum):
    """How much a difference matters to the users of a package, the gravest first."""

    BREAK = "break"  # something that worked with the old build may fail with the new one
    CHANGE = "change"  # to be looked at before it is published
    INFO = "info"


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """What is known of one build."""

    label: str  # how lines call it
    package: Package
    sha256: str = ""  # of the package file; "" where it is none, or not known
    linkage: Linkage | None = None  # None: no loader was simulated
    configuration: BinaryConfiguration | None = None
    linked: LinkedLibraries | None = None
    results: PackageResult | None = None  # of a run over it
    is_known: bool = True  # its package is its facts; else only its name is known
    gaps: tuple[str, ...] = ()  # what is not known of all of it, and why: each a sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One thing that a difference found; those of one ``together`` become one line."""

    severity: Severity
    sentence: str  # "now needs libz.so.1"
    together: str = ""  # the same of several subjects, "now need libz.so.1"; "": the sentence
    subject: str = ""  # a path, a module, a requirement; of an object the object's own
    detail: str = ""  # of this one, where several are one line
    noun: str = "objects"  # what several subjects are


@dataclass(frozen=True, kw_only=True, slots=True)
class NotCompared:
    """Something of which nobody knows whether it differs: never a pass."""

    difference: str = ""  # the difference that could not look; "": all that concern the subject
    subject: str = ""
    reason: str
    accepted: str = ""  # the reason of the known problem that accepts it


@dataclass(frozen=True, kw_only=True, slots=True)
class DifferenceLine:
    """What one line says, of one subject or of several."""

    difference: str  # its id
    severity: Severity
    text: str  # "9 objects: now need libnvJitLink.so.12 (a.so, b.so, c.so and 6 more)"
    subjects: tuple[str, ...] = ()  # sorted; () is the package itself
    details: tuple[str, ...] = ()  # of each subject, where they differ
    accepted: str = ""  # the reason of the known problem that accepts it


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildComparison:
    """All that differs between two builds."""

    old: str  # the file names
    new: str
    old_sha256: str = ""
    new_sha256: str = ""
    lines: tuple[DifferenceLine, ...] = ()  # the gravest first
    not_compared: tuple[NotCompared, ...] = ()
    complaints: tuple[str, ...] = ()  # about entries of the known list

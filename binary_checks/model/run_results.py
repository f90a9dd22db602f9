"""The results of a run: an entry for each check on each package, and facts of the whole run."""

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
from binary_checks.options import Program

UNREADABLE = "unreadable-package"
"""Replaces a check's id, and is the reason, if a package cannot be read."""


NATIVE_FAMILIES = frozenset({"linkage", "symbols"})
"""The families of checks that judge how native code is loaded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Accepted:
    """A problem that the profile lists as known."""

    problem: Problem
    reason: str
    expires: str = ""  # the last day on which it is accepted, as 2027-01-31; "" for no limit


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """The result of one check on one package."""

    check: str  # id
    family: str
    place: str = ""  # the place it ran in, if there are several: "image:oldest"; else ""
    system: str = ""  # of that place: "image bullseye (glibc 2.31)"
    level: Level = Level.ERROR  # of the check, as the profile sets it
    outcome: Outcome
    reason: str = ""  # why it was not applicable, not inspected or broke; one line
    inspected: int = 0  # objects judged, or 1 for the package as a whole
    problems: tuple[Problem, ...] = ()  # errors that are not accepted
    warnings: tuple[Problem, ...] = ()  # warnings that are not accepted
    accepted: tuple[Accepted, ...] = ()
    not_inspected: tuple[NotInspected, ...] = ()
    notes: tuple[Note, ...] = ()

    def result(self) -> dict[str, Any]:
        """Return the fields of `CheckResult` by name, without those of a subclass."""
        return {each.name: getattr(self, each.name) for each in fields(CheckResult)}

    @property
    def item(self) -> str:
        """The last part of the item's node id: the check, and the place if there are several."""
        return f"{self.check}[{self.place}]" if self.place else self.check

    @property
    def has_gap(self) -> bool:
        """Whether it could not inspect something."""
        return self.outcome is Outcome.NOT_INSPECTED or bool(self.not_inspected)

    @property
    def is_gap_of_host(self) -> bool:
        """Whether there are gaps and this host is to blame for all of them."""
        return bool(self.not_inspected) and all(each.by_host for each in self.not_inspected)

    @property
    def shown_check(self) -> str:
        """The name under which its problems are shown: the check, or "unreadable-package"."""
        return UNREADABLE if self.reason == UNREADABLE else self.check


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry(CheckResult):
    """A check's result on one package, with its duration."""

    seconds: float = 0.0  # including gathering, for the check that asked first; without installing


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageIdentity:
    """Which package it is; fields are empty if it was never read."""

    node: str  # pytest's node id, made printable
    file_name: str
    parts: int = 0  # number of packages judged together under this name; 0 for a single package
    uri: str  # the path given by the user as a relative reference (RFC 3986)
    name: str = ""
    version: str = ""
    size: int = 0  # bytes; for an installed package, of all its files
    sha256: str = ""  # of the file; computed only if a report needs it
    record_sha256: str = ""  # used instead for an installed package
    objects: int | None = None  # object files in it
    expected_objects: int = 0  # the number that the profile calls for
    # why none of its native code could be judged; "" if some was, or there is none
    unjudged: str = ""
    unrun: str = ""  # why it was not run as asked, if that is impossible with what the user named
    configuration: BinaryConfiguration | None = None  # for reports, once it was read
    linked_libraries: LinkedLibraries | None = None  # for reports, once it was read
    ran_on: str = ""  # the interpreter that it was installed for and ran on: "CPython 3.11.7"
    # the images that it ran in, each with its digest: "debian@sha256:f313…"
    roots: tuple[str, ...] = ()
    installing: float = 0.0  # seconds for creating its environment and installing it
    provenance: Provenance | None = None  # where it is published; None for a local package

    @property
    def is_hashed(self) -> bool:
        """Whether its bytes are identified by a hash."""
        return bool(self.sha256 or self.record_sha256)

    @property
    def lacks_objects(self) -> bool:
        """Whether it has fewer object files than the profile calls for."""
        return self.objects is not None and self.objects < self.expected_objects


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageResult(PackageIdentity):
    """The results of a run for one package."""

    verdict: Outcome
    stopped: str = ""  # why some checks did not finish; "" if all did
    entries: tuple[Entry, ...]  # by check

    @property
    def fitness(self) -> Fitness:
        """The verdict for people; a failure of ours counts as not judged."""
        return VERDICTS[self.verdict].fitness


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckText:
    """The documentation of a check, for reports that explain their rules."""

    id: str
    family: str
    title: str
    why: str
    fix: str
    runs_package: bool = False  # whether it needs the package installed


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileIdentity:
    """The profile of a run: hashes that do not depend on the order of its entries."""

    source: str  # its name in the header
    sha256: str  # without its known problems
    known_problems_sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownListIdentity:
    """The identity of a list of known problems, or why it was not used."""

    source: str  # the path given by the user, or the URL without secrets
    sha256: str = ""  # of its bytes; "" if there are none
    issued: str = ""  # as the list states it: 2026-11-22 or 2026-11-22T04:00:00+00:00
    valid_until: str = ""  # in the same format
    cached: bool = False  # whether a copy from an earlier run was used
    remark: str = ""  # why a copy is used instead of the server's answer
    complaint: str = ""  # why none of its entries applies; "" if they do


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """A completed run with everything that reports show.

    Result documents leave out `facts` and `program`.
    """

    exit_code: int
    profile: ProfileIdentity
    versions: Mapping[str, str] = field(default_factory=dict)  # of the programs involved, by name
    ended: str = ""  # RFC 3339, UTC, by the clock of the host; "" if an older version wrote it
    places: tuple[str, ...] = ()  # where packages were to run, as named; empty: static checks only
    # the options that selected single checks of a family: "-k import"; "" for all
    selected: str = ""
    complaints: tuple[str, ...] = ()  # what must not stay green although no check failed
    remarks: tuple[str, ...] = ()  # what was left out on purpose
    known_lists: tuple[KnownListIdentity, ...] = ()  # in the order in which they were given
    checks: tuple[CheckText, ...] = ()  # the checks that the profile selects, by family and id
    packages: tuple[PackageResult, ...] = ()  # by node
    # facts documents written in the run, by node
    facts: Mapping[str, Path] = field(default_factory=dict)
    program: Program = Program.COMMAND  # which names the options in reports

    def entries(self) -> Iterator[tuple[PackageResult, Entry]]:
        """Yield every entry with its package."""
        for package in self.packages:
            for entry in package.entries:
                yield package, entry


# Two builds of one project, and their differences.


class Severity(str, Enum):
    """The severity of a difference to the users of a package, the gravest first."""

    BREAK = "break"  # something that worked with the old build may fail with the new one
    CHANGE = "change"  # to be reviewed before publishing
    INFO = "info"


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """The facts of one build."""

    label: str  # its name in lines
    package: Package
    sha256: str = ""  # of the package file; "" if there is none, or it is unknown
    linkage: Linkage | None = None  # None: no loader was simulated
    configuration: BinaryConfiguration | None = None
    linked: LinkedLibraries | None = None
    results: PackageResult | None = None  # of a run on it
    is_known: bool = True  # its package contains facts; False: only its name is known
    gaps: tuple[str, ...] = ()  # which facts are missing or incomplete, and why: each a sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One difference; changes with the same ``together`` are shown as one line."""

    severity: Severity
    sentence: str  # "now needs libz.so.1"
    # the sentence for several subjects, "now need libz.so.1"; "": the sentence itself
    together: str = ""
    subject: str = ""  # a path, a module, a requirement; defaults to the path for objects
    detail: str = ""  # shown for this subject if several share a line
    noun: str = "objects"  # what several subjects are called


@dataclass(frozen=True, kw_only=True, slots=True)
class NotCompared:
    """Something that could not be compared: never a pass."""

    # the difference that could not be judged; "": all that concern the subject
    difference: str = ""
    subject: str = ""
    reason: str
    accepted: str = ""  # the reason of the known problem that accepts it


@dataclass(frozen=True, kw_only=True, slots=True)
class DifferenceLine:
    """One line of a comparison, about one subject or several."""

    difference: str  # its id
    severity: Severity
    text: str  # "9 objects: now need libnvJitLink.so.12 (a.so, b.so, c.so and 6 more)"
    subjects: tuple[str, ...] = ()  # sorted; () for the package itself
    details: tuple[str, ...] = ()  # for each subject, if they differ
    accepted: str = ""  # the reason of the known problem that accepts it


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildComparison:
    """All differences between two builds."""

    old: str  # the file names
    new: str
    old_sha256: str = ""
    new_sha256: str = ""
    lines: tuple[DifferenceLine, ...] = ()  # the gravest first
    not_compared: tuple[NotCompared, ...] = ()
    complaints: tuple[str, ...] = ()  # about entries of the known list

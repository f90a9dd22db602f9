"""The results of a run: an entry for each check on each package, and facts about the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any

from binary_checks.model.binary_configuration import BinaryConfiguration, LinkedLibraries
from binary_checks.model.linkage import Linkage
from binary_checks.model.outcomes import (
    BROKE,
    VERDICTS,
    Fitness,
    Level,
    Note,
    NotInspected,
    Outcome,
    Problem,
    sum_up,
)
from binary_checks.model.packages import Package
from binary_checks.model.published import Provenance
from binary_checks.options import Program

UNREADABLE = "unreadable-package"
"""The name of the check, and the reason, in the result for a package that cannot be read."""


NATIVE_FAMILIES = frozenset({"linkage", "symbols"})
"""The families of checks that judge how native code is loaded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Accepted:
    """A problem that the profile accepts as known."""

    problem: Problem
    reason: str
    # the last day on which the problem is accepted, as 2027-01-31; "" for no limit
    expires: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """The result of one check on one package."""

    check: str  # id
    family: str
    place: str = ""  # the place of the run, if there are several: "image:oldest"; else ""
    system: str = ""  # the place's system: "image bullseye (glibc 2.31)"
    level: Level = Level.ERROR  # the check's level, as the profile sets it
    outcome: Outcome
    reason: str = ""  # why the check was not applicable, did not inspect, or broke; one line
    inspected: int = 0  # objects judged, or 1 for the package as a whole
    problems: tuple[Problem, ...] = ()  # errors, without accepted ones
    warnings: tuple[Problem, ...] = ()  # warnings, without accepted ones
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
        """Whether the check could not inspect something."""
        return self.outcome is Outcome.NOT_INSPECTED or bool(self.not_inspected)

    @property
    def is_gap_of_host(self) -> bool:
        """Whether the check has gaps, and this host is to blame for all of them."""
        return bool(self.not_inspected) and all(each.by_host for each in self.not_inspected)

    @property
    def shown_check(self) -> str:
        """The name under which the problems are shown: the check's id, or "unreadable-package"."""
        return UNREADABLE if self.reason == UNREADABLE else self.check


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry(CheckResult):
    """A check's result on one package, with its duration."""

    # time for gathering and judging, without installing; shared facts count for the first check
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageIdentity:
    """The identity of a package; its facts are empty if it was never read."""

    node: str  # pytest's node id, made printable
    file_name: str
    # its file name and as many folders as tell it from a package of the same name in the run; "" if
    # the file name alone does
    label: str = ""
    parts: int = 0  # number of packages judged together under this name; 0 for a single package
    uri: str  # the path given by the user as a relative reference (RFC 3986)
    name: str = ""
    version: str = ""
    size: int = 0  # bytes; for an installed package, of all its files
    sha256: str = ""  # of the file; computed only if a report needs it
    record_sha256: str = ""  # identifies an installed package, which has no file
    objects: int | None = None  # number of object files
    expected_objects: int = 0  # number of object files that the profile requires
    # why none of its native code could be judged; "" if some was, or the package has none
    unjudged: str = ""
    # why the package was not run as requested, if the user's arguments make that impossible
    unrun: str = ""
    configuration: BinaryConfiguration | None = None  # for reports; None before it was read
    linked_libraries: LinkedLibraries | None = None  # for reports; None before they were read
    # the interpreter that ran code of the package: "CPython 3.11.7"; "" if none did
    ran_on: str = ""
    # the systems on which it ran, by their own names: "Debian GNU/Linux 12 (bookworm)"
    operating_systems: tuple[str, ...] = ()
    # the images in which the package ran, each with its digest: "debian@sha256:f313…"
    roots: tuple[str, ...] = ()
    # seconds for creating the package's environment and installing the package
    installing: float = 0.0
    provenance: Provenance | None = None  # where the package is published; None for a local package

    @property
    def shown_name(self) -> str:
        """The package's name in reports, different from those of the run's other packages."""
        return self.label or self.file_name

    @property
    def lacks_objects(self) -> bool:
        """Whether the package has fewer object files than the profile requires."""
        return self.objects is not None and self.objects < self.expected_objects


def conclude(package: PackageIdentity, outcomes: Iterable[Outcome], stopped: str = "") -> Outcome:
    """Return the verdict on a package, the same for every document, exit code and night.

    Without a problem the verdict is `NOT_JUDGED` in four cases: no check inspected anything, none
    of the native code could be judged, the package was not run as requested, or its checks were
    ``stopped``.
    """
    found = sum_up(outcomes)
    if found is Outcome.FAILED or package.lacks_objects:
        return Outcome.FAILED
    gap = found is Outcome.NOT_INSPECTED or package.unjudged or package.unrun or stopped
    return Outcome.NOT_JUDGED if gap and found not in BROKE else found


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageResult(PackageIdentity):
    """The results of a run for one package."""

    verdict: Outcome
    stopped: str = ""  # why some checks did not finish; "" if all did
    entries: tuple[Entry, ...]  # by check

    @property
    def fitness(self) -> Fitness:
        """The verdict shown to people; a failure of ours counts as not judged."""
        return VERDICTS[self.verdict].fitness


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckText:
    """The documentation of a check, for reports that explain their rules."""

    id: str
    family: str
    title: str
    why: str
    fix: str
    runs_package: bool = False  # whether the check needs the package installed
    level: Level = Level.ERROR  # of its problems, unless one is less severe


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileIdentity:
    """The profile of a run: hashes that do not depend on the order of the profile's entries."""

    source: str  # the profile's name in the report header
    sha256: str  # hash of the profile without its known problems
    known_problems_sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownListIdentity:
    """The identity of a list of known problems, or why it was not used."""

    source: str  # the path given by the user, or the URL without secrets
    sha256: str = ""  # of the list's bytes; "" if the list could not be read
    issued: str = ""  # date or time stated in the list: 2026-11-22 or 2026-11-22T04:00:00+00:00
    valid_until: str = ""  # in the same format
    cached: bool = False  # whether a copy from an earlier run was used
    remark: str = ""  # why a copy is used instead of the server's answer
    complaint: str = ""  # why no entry of the list applies; "" if the entries apply


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """A completed run, with all contents of reports.

    Result documents leave out `facts` and `program`.
    """

    exit_code: int
    profile: ProfileIdentity
    # versions of the programs involved, by name
    versions: Mapping[str, str] = field(default_factory=dict)
    # end of the run by the host's clock, in UTC (RFC 3339); "" if written by an older version
    ended: str = ""
    places: tuple[str, ...] = ()  # places named for running packages; empty: only static checks
    # the options that selected some of the checks: "-k import"; "" if all were selected
    selected: str = ""
    complaints: tuple[str, ...] = ()  # reasons to fail the run although no check failed
    remarks: tuple[str, ...] = ()  # parts that were left out on purpose
    known_lists: tuple[KnownListIdentity, ...] = ()  # in the order in which they were given
    checks: tuple[CheckText, ...] = ()  # the checks that the profile selects, by family and id
    packages: tuple[PackageResult, ...] = ()  # by node
    # facts documents written in the run, by node
    facts: Mapping[str, Path] = field(default_factory=dict)
    program: Program = Program.COMMAND  # determines the names of options in reports

    def entries(self) -> Iterator[tuple[PackageResult, Entry]]:
        """Yield every entry with its package."""
        for package in self.packages:
            for entry in package.entries:
                yield package, entry


# Two builds of one project, and their differences.


class Severity(str, Enum):
    """The severity of a difference for the users of a package, the gravest first."""

    BREAK = "break"  # something that worked with the old build may fail with the new one
    CHANGE = "change"  # to be reviewed before publishing
    INFO = "info"


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """The facts of one build."""

    label: str  # the build's name in messages
    package: Package
    sha256: str = ""  # of the package file; "" if there is no file, or its hash is unknown
    linkage: Linkage | None = None  # None: the loader was not simulated
    configuration: BinaryConfiguration | None = None
    linked: LinkedLibraries | None = None
    results: PackageResult | None = None  # results of a run on the build
    is_known: bool = True  # whether facts of the package are known; False: only its name is known
    gaps: tuple[str, ...] = ()  # sentences on missing or incomplete facts, each with the reason


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One difference; differences with the same ``together`` are shown as one line."""

    severity: Severity
    sentence: str  # "now needs libz.so.1"
    # the sentence for several subjects, "now need libz.so.1"; "": the sentence above
    together: str = ""
    subject: str = ""  # a path, a module, a requirement; for objects the path by default
    detail: str = ""  # shown with this subject if several subjects share a line
    noun: str = "objects"  # the plural for several subjects


@dataclass(frozen=True, kw_only=True, slots=True)
class NotCompared:
    """A part that could not be compared: never a pass."""

    # the difference that could not be judged; "": all differences of the subject
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
    details: tuple[str, ...] = ()  # one for each subject, if they differ
    accepted: str = ""  # the reason of the known problem that accepts it


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildComparison:
    """All differences between two builds."""

    old: str  # file name of the old build
    new: str
    old_sha256: str = ""
    new_sha256: str = ""
    lines: tuple[DifferenceLine, ...] = ()  # the gravest first
    not_compared: tuple[NotCompared, ...] = ()
    complaints: tuple[str, ...] = ()  # complaints about entries of the list of known problems

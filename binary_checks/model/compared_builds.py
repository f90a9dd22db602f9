"""Two builds of one project, and what differs between them: the values of a diff."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from binary_checks.model.binary_configuration import BinaryConfiguration
from binary_checks.model.linkage import Linkage
from binary_checks.model.linking import LinkedLibraries
from binary_checks.model.packages import Package
from binary_checks.model.run_results import PackageResult


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

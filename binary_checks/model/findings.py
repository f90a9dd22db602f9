"""What a check says: a problem, that it could not look, or what is only worth knowing."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Level(str, Enum):
    """How much a problem matters, the gravest first."""

    ERROR = "error"  # it fails the check
    WARNING = "warning"  # it is reported, and fails nothing
    OFF = "off"  # it is not reported

    def milder(self, other: Level) -> Level:
        """That of the two which matters less."""
        return self if self is other else max(self, other, key=list(Level).index)


NOT_SEEN = "not inspected: "
"""The cause of a problem begins so where a required check could not look."""


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Problem:
    """One thing that is wrong with one file of a package (or with the package: path "").

    Its level may be milder than that of its check; a graver one counts for nothing. Problems of
    one package with the same cause are one fault to its users: reports show them as one line,
    and lead with one that is no consequence.
    """

    path: str = ""
    sentence: str
    level: Level = Level.ERROR
    cause: str = ""  # what went wrong, in the same words in every check, as "library libx.so.1"
    consequence: bool = False  # whether another check's problem of that cause says it better
    # What mends it in a shell, {path} and {package} filled in by reports; it is no other problem.
    command: str = field(default="", compare=False)

    @property
    def is_gap(self) -> bool:
        """Whether it says only that a required check could not look."""
        return self.cause.startswith(NOT_SEEN)


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class NotInspected:
    """One place where a check could not look, and why: never a pass.

    What is ``too_large`` for us to look at is a problem. A required family fails for any other
    place, but for one where this host is to blame.
    """

    path: str = ""
    sentence: str
    too_large: bool = False
    by_host: bool = False  # whether the host's own evidence says that it is the host's fault


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Note:
    """One thing that is worth knowing and right as it is: never a problem, never a gap."""

    path: str = ""
    sentence: str


Finding = str | Problem | NotInspected | Note
"""What a check may yield; a plain sentence is a problem of the object being judged."""

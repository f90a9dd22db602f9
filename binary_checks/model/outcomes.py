"""The words for how a check, a package, a run and a cell of a night ended, and how they follow.

The table in docs/results.md says the same. Everything that shows, counts or stores one of these
words takes it from here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from binary_checks.exit_codes import FIT, INTERRUPTED, OUR_BUG, PROBLEMS, TRY_AGAIN

if TYPE_CHECKING:  # it has outcomes itself
    from binary_checks.model.run_results import PackageIdentity


# What a check says: a problem, that it could not look, or what is only worth knowing.


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


class Outcome(str, Enum):
    """How one check ended on one package; and in `conclude`'s words, how the package did."""

    FAILED = "failed"  # it has problems
    BROKEN = "broken"  # the check itself broke: a bug of whoever wrote it
    ERROR = "error"  # we, the network or the machine broke: try again
    NOT_JUDGED = "not judged"  # a package, never a check: see `conclude`
    ACCEPTED = "accepted"  # all its problems are known ones
    WARNED = "warned"  # it has problems of the level warning alone
    PASSED = "passed"
    NOT_INSPECTED = "not inspected"
    NOT_APPLICABLE = "not applicable"


BROKE: Final = frozenset({Outcome.BROKEN, Outcome.ERROR})
"""Something else than the package is to blame."""
GOOD_OUTCOMES: Final = frozenset({Outcome.PASSED, Outcome.WARNED, Outcome.ACCEPTED})
"""After which a package may ship."""
JUDGED: Final = GOOD_OUTCOMES | {Outcome.FAILED}
"""Of a check that came to a judgement."""
GAPS: Final = BROKE | {Outcome.NOT_INSPECTED}
"""With which nobody knows whether the check would have failed."""


class Fitness(str, Enum):
    """What a run says of a package, in the order of its closing line."""

    FIT = "fit"
    UNFIT = "unfit"
    NOT_JUDGED = "not judged"


class CellState(str, Enum):
    """Of one attempt, and of the cell, whose last attempt decides but where it is flaky."""

    PASSED = "passed"
    KNOWN = "known"  # problems, and all of them accepted
    FAILED = "failed"
    FLAKY = "flaky"  # failed, then passed on the same bytes; counts as neither
    NOT_JUDGED = "not judged"  # too little is known of it, and another attempt knows no more
    INFRA = "infra"  # the network, the disk or the host broke: tried again
    LOST = "lost"  # no result: out of memory, killed, disk full
    BLOCKED = "blocked"  # a GPU stage without a passing CPU stage of the same bytes
    STALE = "stale"  # what is published is older than the source allows
    MISSING = "missing"  # nothing is published


LABELS = UNTESTED, FAILING, PASSING = "untested", "failing", "passed"
"""What is shown of a file in a channel without a gate."""


class Words(NamedTuple):
    """What follows from the verdict on a package."""

    fitness: Fitness  # in what people read
    word: str  # in policies, and on pages of artifacts
    label: str  # of its file in a channel without a gate


VERDICTS: Final[Mapping[Outcome, Words]] = {
    Outcome.FAILED: Words(Fitness.UNFIT, "failed", FAILING),
    Outcome.BROKEN: Words(Fitness.NOT_JUDGED, "broken", UNTESTED),
    Outcome.ERROR: Words(Fitness.NOT_JUDGED, "error", UNTESTED),
    Outcome.NOT_JUDGED: Words(Fitness.NOT_JUDGED, "not judged", UNTESTED),
    Outcome.ACCEPTED: Words(Fitness.FIT, "known", PASSING),
    Outcome.WARNED: Words(Fitness.FIT, "warned", PASSING),
    Outcome.PASSED: Words(Fitness.FIT, "passed", PASSING),
}
"""By the verdict on a package, the gravest first."""


def sum_up(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the gravest of some checks' outcomes; where nothing was inspected, that is no pass."""
    found = {*outcomes}
    if found <= {Outcome.NOT_APPLICABLE, Outcome.NOT_INSPECTED}:
        return Outcome.NOT_INSPECTED
    return next(outcome for outcome in Outcome if outcome in found)


def conclude(package: PackageIdentity, outcomes: Iterable[Outcome], stopped: str = "") -> Outcome:
    """Return the verdict on a package, the same for every document, exit code and night.

    Without a problem it is `NOT_JUDGED` where no check inspected anything, where none of its native
    code could be judged, where it was not run as asked, and where its checks were ``stopped``.
    """
    found = sum_up(outcomes)
    if found is Outcome.FAILED or package.lacks_objects:
        return Outcome.FAILED
    gap = found is Outcome.NOT_INSPECTED or package.unjudged or package.unrun or stopped
    return Outcome.NOT_JUDGED if gap and found not in BROKE else found


def choose_exit_code(
    outcomes: Collection[Outcome], *, unfit: bool, in_doubt: bool, broke: bool
) -> int:
    """Return the exit code of a run that came to its end, from the outcomes of all its checks.

    ``unfit``: it must not pass for another reason than a problem. ``in_doubt``: none of the
    problems counts, for a list that may accept them could not be had. ``broke``: the network, the
    disk, the host or a report failed.
    """
    if unfit or (Outcome.FAILED in outcomes and not in_doubt):
        return PROBLEMS
    if Outcome.BROKEN in outcomes:
        return OUR_BUG
    return TRY_AGAIN if broke or in_doubt or Outcome.ERROR in outcomes else FIT


def choose_cell_state(exit_code: int, verdict: Outcome, *, accepts: bool) -> CellState:
    """Return the state of an attempt whose process ended with that code, and left that verdict.

    ``accepts``: some problems are known ones. An exit code of 0 beside a verdict that is no pass
    is a contradiction, and the attempt is lost.
    """
    if exit_code == TRY_AGAIN:
        return CellState.INFRA
    if exit_code == INTERRUPTED:
        return CellState.LOST
    if verdict is Outcome.NOT_JUDGED:
        return CellState.NOT_JUDGED
    if exit_code != FIT:
        return CellState.FAILED
    if verdict not in GOOD_OUTCOMES:
        return CellState.LOST
    return CellState.KNOWN if accepts else CellState.PASSED

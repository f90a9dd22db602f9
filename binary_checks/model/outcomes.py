"""The outcomes of checks, packages, runs and cells of a night, and how they follow from each other.

docs/results.md has the same table. All code that shows, counts or stores these outcomes uses this
module.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from binary_checks.errors import FIT, INTERRUPTED, OUR_BUG, PROBLEMS, TRY_AGAIN

# Findings of a check: a problem, a gap, or a note.


class Level(str, Enum):
    """The severity of a problem, from error to off."""

    ERROR = "error"  # fails the check
    WARNING = "warning"  # reported, fails nothing
    OFF = "off"  # not reported

    def less_severe(self, other: Level) -> Level:
        """Return the less severe of both levels."""
        return self if self is other else max(self, other, key=list(Level).index)


NOT_SEEN = "not inspected: "
"""Beginning of the cause of a problem that reports a gap in a required check."""


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Problem:
    """One thing that is wrong with one file of a package, or with the package (path "").

    A problem may be less severe than the level of its check; a more severe level has no effect.
    Problems of one package with the same cause are one fault to its users: reports show such
    problems as one line, and begin with a problem that is not a consequence.

    Check, path and facts identify a problem in every build, however the sentence is worded: lists
    of known problems match them, and reports compute fingerprints from them. Facts are names that
    the package, its file format or the profile defines, in the order of the sentence: a library, a
    symbol, a tag, a requirement, an option. Facts exclude everything that changes from build to
    build: offsets, sizes, counts, the package's own version. A long list of names is cut to the
    first few. A check with at most one problem for each path needs no facts.
    """

    path: str = ""
    sentence: str
    level: Level = Level.ERROR
    # the reason for the problem, in the same words in every check: "library libx.so.1"
    cause: str = ""
    consequence: bool = False  # whether another check explains a problem with that cause better
    # Not compared: the sentence already distinguishes problems within a run.
    facts: tuple[str, ...] = field(default=(), compare=False)
    # A shell command that fixes the problem; reports fill in {path} and {package}. Not compared
    # either.
    command: str = field(default="", compare=False)
    # What to do, in the form of a check's ``Fix:``, if that of its check does not fit. Not compared
    # either.
    fix: str = field(default="", compare=False)

    @property
    def is_gap(self) -> bool:
        """Whether the problem only reports a gap in a required check."""
        return self.cause.startswith(NOT_SEEN)


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class NotInspected:
    """A part of the package that a check could not inspect, and why: never a pass.

    If ``too_large``, a limit of ours was exceeded, which is a problem. Other gaps fail a family
    that the user requires, unless the host is to blame.
    """

    path: str = ""
    sentence: str
    too_large: bool = False
    by_host: bool = False  # whether evidence of the host shows that it is to blame


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Note:
    """Information about the package that is neither a problem nor a gap."""

    path: str = ""
    sentence: str


Finding = str | Problem | NotInspected | Note
"""A result that a check may yield; a plain string is a problem of the object being judged."""


class Outcome(str, Enum):
    """The result of one check on one package, or of all checks on a package: see `conclude`."""

    FAILED = "failed"  # it has problems
    BROKEN = "broken"  # the check itself failed: a bug of its author
    ERROR = "error"  # we, the network or the host failed: try again
    NOT_JUDGED = "not judged"  # for a package, never for a check: see `conclude`
    ACCEPTED = "accepted"  # all its problems are known
    WARNED = "warned"  # its problems are all warnings
    PASSED = "passed"
    NOT_INSPECTED = "not inspected"
    NOT_APPLICABLE = "not applicable"


BROKE: Final = frozenset({Outcome.BROKEN, Outcome.ERROR})
"""Something other than the package is to blame."""
GOOD_OUTCOMES: Final = frozenset({Outcome.PASSED, Outcome.WARNED, Outcome.ACCEPTED})
"""The package may ship."""
JUDGED: Final = GOOD_OUTCOMES | {Outcome.FAILED}
"""The check reached a verdict."""
GAPS: Final = BROKE | {Outcome.NOT_INSPECTED}
"""It is unknown whether the check would have failed."""


class Fitness(str, Enum):
    """A run's verdict on a package; its closing line counts the verdicts in this order."""

    FIT = "fit"
    UNFIT = "unfit"
    NOT_JUDGED = "not judged"


class CellState(str, Enum):
    """The state of an attempt or a cell.

    A cell has the state of its last attempt, unless it is flaky.
    """

    PASSED = "passed"
    KNOWN = "known"  # has problems, all accepted
    FAILED = "failed"
    FLAKY = "flaky"  # failed, then passed on the same bytes; counts as neither
    NOT_JUDGED = "not judged"  # too little is known, and another attempt would not change that
    INFRA = "infra"  # the network, the disk or the host failed: to be tried again
    LOST = "lost"  # no result: out of memory, killed, disk full
    BLOCKED = "blocked"  # its CPU stage passed, and no host ran its GPU stage
    STALE = "stale"  # the published package is older than the source allows
    MISSING = "missing"  # nothing is published


LABELS = UNTESTED, FAILING, PASSING = "untested", "failing", "passed"
"""Labels of files in a channel without a gate."""


class Words(NamedTuple):
    """Words for the verdict on a package."""

    fitness: Fitness  # shown to people
    word: str  # in policies, and on pages of artifacts
    label: str  # label of the package's file in a channel without a gate


VERDICTS: Final[Mapping[Outcome, Words]] = {
    Outcome.FAILED: Words(Fitness.UNFIT, "failed", FAILING),
    Outcome.BROKEN: Words(Fitness.NOT_JUDGED, "broken", UNTESTED),
    Outcome.ERROR: Words(Fitness.NOT_JUDGED, "error", UNTESTED),
    Outcome.NOT_JUDGED: Words(Fitness.NOT_JUDGED, "not judged", UNTESTED),
    Outcome.ACCEPTED: Words(Fitness.FIT, "known", PASSING),
    Outcome.WARNED: Words(Fitness.FIT, "warned", PASSING),
    Outcome.PASSED: Words(Fitness.FIT, "passed", PASSING),
}
"""Words for each verdict on a package, the gravest first."""


def sum_up(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the gravest of the outcomes of checks; NOT_INSPECTED if nothing was inspected."""
    found = {*outcomes}
    if found <= {Outcome.NOT_APPLICABLE, Outcome.NOT_INSPECTED}:
        return Outcome.NOT_INSPECTED
    return next(outcome for outcome in Outcome if outcome in found)


def choose_exit_code(
    outcomes: Collection[Outcome], *, unfit: bool, in_doubt: bool, broke: bool
) -> int:
    """Return the exit code of a completed run from the outcomes of all its checks.

    ``unfit``: the run must fail for a reason other than a problem. ``in_doubt``: problems do not
    count, because a list that may accept them was not available. ``broke``: the network, the disk,
    the host or a report failed.
    """
    if unfit or (Outcome.FAILED in outcomes and not in_doubt):
        return PROBLEMS
    if Outcome.BROKEN in outcomes:
        return OUR_BUG
    return TRY_AGAIN if broke or in_doubt or Outcome.ERROR in outcomes else FIT


def choose_cell_state(exit_code: int, verdict: Outcome, *, accepts: bool) -> CellState:
    """Return the state of an attempt whose process ended with that exit code and verdict.

    ``accepts``: some problems are known. Exit code 0 with a verdict other than a pass is a
    contradiction, and the attempt counts as lost.
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

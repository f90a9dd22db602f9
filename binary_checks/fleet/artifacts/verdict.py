"""What one run says of one package, as the repository keeps it: read out of a result, purely."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from binary_checks.exit_codes import EMPTY, MISUSED
from binary_checks.lines import cut, one_line
from binary_checks.model import GOOD_OUTCOMES, Entry, Outcome, PackageResult, RunResult, sum_up
from binary_checks.model.outcomes import VERDICTS, Words

VERDICT_SCHEMA = "binary-checks/verdict/1"
GOOD_WORDS = tuple(
    VERDICTS[each].word for each in (Outcome.PASSED, Outcome.WARNED, Outcome.ACCEPTED)
)
"""The words after which a package may ship."""
_VOID = {MISUSED, EMPTY}  # runs that did not do as they were told, or had nothing to do
_MOST_LINES = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class FamilyVerdict:
    """What the checks of one family say, in one place."""

    family: str
    place: str = ""  # "" of a run in one place, or for what no place matters
    outcome: Outcome
    gap: str = ""  # the first thing that could not be inspected; "" where all was
    gapped: tuple[str, ...] = ()  # the checks that could not inspect something


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedField:
    """What a verdict states of its file besides how it was judged: a field of artifact.json."""

    name: str  # variant, system, project, …
    value: str = ""  # "" where the run found that nothing states one
    by_hand: bool = False  # whether the person or the job that attested it set the value


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageVerdict:
    """A run's word on one file, and all that a policy asks of it."""

    sha256: str
    file_name: str
    outcome: Outcome
    ended: str  # RFC 3339, UTC, by the clock of the host that ran it
    exit_code: int  # of the run, which other packages may share
    profile: str  # its name
    profile_sha256: str
    known_problems_sha256: str
    families: tuple[FamilyVerdict, ...]
    places: tuple[str, ...] = ()  # as they were named; none: static checks only, or not known
    roots: tuple[str, ...] = ()  # images, each with its digest
    ran_on: str = ""  # "" where nothing of it ran
    passed: tuple[str, ...] = ()  # family/check, with the place where there are several
    warned: tuple[str, ...] = ()  # of warnings alone, or problems that are all known
    failed: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()  # not inspected, or broken
    problems: tuple[str, ...] = ()  # lines as reports have them; the first twenty
    faults: tuple[str, ...] = ()  # complaints: why it is no pass although no check failed
    unjudged: str = ""  # why none of its native code could be judged
    stopped: str = ""  # why not all of its checks came to their end
    selected: str = ""  # by what only some checks of a family were chosen
    versions: Mapping[str, str] = field(default_factory=dict)
    stated: tuple[StatedField, ...] = ()  # which build the file is; () in older verdicts
    night: str = ""  # of an attempt in a night: 2026-11-20
    cell: str = ""
    stage: str = ""

    @property
    def is_decisive(self) -> bool:
        """Whether it says something of the package, and not of the host or the network.

        That nothing can judge the package's native code is said of the package: an older pass of
        the same bytes, by somebody who did not see that, counts no more.
        """
        if self.outcome is Outcome.FAILED:
            return True
        whole = not self.stopped and not self.selected and self.exit_code not in _VOID
        unjudged = self.outcome is Outcome.NOT_JUDGED and bool(self.unjudged)
        return whole and (self.outcome in GOOD_OUTCOMES or unjudged)

    @property
    def word(self) -> str:
        """What it comes to, as policies and pages say it: passed, warned, known, failed, …."""
        return self._words.word

    @property
    def label(self) -> str:
        """What it makes of its file in a channel without a gate: untested, failing, passed."""
        return self._words.label

    @property
    def _words(self) -> Words:
        complained = self.faults and self.outcome in GOOD_OUTCOMES
        return VERDICTS[Outcome.FAILED if complained else self.outcome]

    def told(self) -> str:
        """Why it is no pass, in one line; "" where nothing says so."""
        partly = f"only some checks were selected ({self.selected})" if self.selected else ""
        reasons = (*self.problems, self.unjudged, *self.faults, self.stopped, partly)
        return next(filter(None, reasons), "")


def _list_faults(run: RunResult, package: PackageResult) -> Iterator[str]:
    """What the run complains of, but of its other packages."""
    others = {each.file_name for each in run.packages} - {package.file_name}
    for line in run.complaints:
        if line.partition(": ")[0] not in others:
            yield cut(one_line(line))


def make_verdict(run: RunResult, package: PackageResult, *, ended: str) -> PackageVerdict:
    """What a run says of one of its packages; ``ended`` stands in where it does not say when."""
    return PackageVerdict(
        sha256=package.sha256,
        file_name=package.file_name,
        outcome=package.verdict,
        ended=run.ended or ended,
        exit_code=run.exit_code,
        profile=run.profile.source,
        profile_sha256=run.profile.sha256,
        known_problems_sha256=run.profile.known_problems_sha256,
        families=tuple(_judge_families(package.entries)),
        places=run.places,
        roots=package.roots,
        ran_on=package.ran_on,
        passed=_name_checks(package.entries, Outcome.PASSED),
        warned=_name_checks(package.entries, Outcome.WARNED, Outcome.ACCEPTED),
        failed=_name_checks(package.entries, Outcome.FAILED),
        undecided=_name_checks(
            package.entries, Outcome.NOT_INSPECTED, Outcome.BROKEN, Outcome.ERROR
        ),
        problems=tuple(_list_problems(package.entries))[:_MOST_LINES],
        faults=tuple(_list_faults(run, package))[:_MOST_LINES],
        unjudged=cut(one_line(package.unjudged)),
        stopped=one_line(package.stopped),
        selected=cut(one_line(run.selected)),
        versions=dict(run.versions),
    )


def _judge_families(entries: Sequence[Entry]) -> Iterator[FamilyVerdict]:
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.family, entry.place), []).append(entry)
    for (family, place), found in sorted(groups.items()):
        gaps = [entry for entry in found if entry.has_gap]
        yield FamilyVerdict(
            family=family,
            place=place,
            outcome=_sum_up_family(found),
            gap=next(map(_tell_gap, gaps), ""),
            gapped=tuple(sorted(entry.check for entry in gaps)),
        )


def _sum_up_family(entries: Iterable[Entry]) -> Outcome:
    """The same as of a package, but that a family of which nothing applies is no gap."""
    found = {entry.outcome for entry in entries}
    return Outcome.NOT_APPLICABLE if found == {Outcome.NOT_APPLICABLE} else sum_up(found)


def _tell_gap(entry: Entry) -> str:
    told = [entry.reason, *(each.sentence for each in entry.not_inspected)]
    return cut(one_line(f"{entry.check}: {next(filter(None, told), 'not inspected')}"))


def _name_checks(entries: Iterable[Entry], *outcomes: Outcome) -> tuple[str, ...]:
    return tuple(
        sorted(f"{entry.family}/{entry.item}" for entry in entries if entry.outcome in outcomes)
    )


def _list_problems(entries: Sequence[Entry]) -> Iterator[str]:
    """The lines of its problems; what the network or the host broke is said only without one."""
    failed = any(entry.problems for entry in entries)
    broken = (Outcome.BROKEN,) if failed else (Outcome.BROKEN, Outcome.ERROR)
    for entry in entries:
        where = f" [{entry.place}]" if entry.place else ""
        for problem in entry.problems:
            parts = (entry.shown_check, problem.path, problem.sentence)
            yield cut(one_line(": ".join(filter(None, parts)) + where))
        if entry.outcome in broken:
            yield cut(one_line(f"{entry.check}: {entry.reason}{where}"))

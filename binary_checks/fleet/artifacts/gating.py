"""Holds the verdicts on a file against a gate: may it pass, and if not, why; purely.

Of each family that the gate asks for, in each place, the newest verdict decides that could judge
it. What broke on the way there (network, disk, a host without a GPU) decides nothing, and an older
failure counts no more once a newer verdict on the same bytes passed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from fnmatch import fnmatchcase

from binary_checks.documents.json_values import OddityError, decode_fields, dump, encode_fields
from binary_checks.errors import ProfileError, RecordError
from binary_checks.fleet.artifacts.artifact import Artifact
from binary_checks.fleet.artifacts.matching import FIELDS, is_itself
from binary_checks.fleet.artifacts.signatures import PublicKey
from binary_checks.fleet.artifacts.verdict import (
    FamilyVerdict,
    PackageVerdict,
    read_object,
    read_time,
)
from binary_checks.fleet.stored_nights import demand_digest
from binary_checks.lines import cut, one_line
from binary_checks.model import Outcome
from binary_checks.model.outcomes import GAPS
from binary_checks.profile.known import read_condition

AHEAD = timedelta(minutes=5)
"""By which the clocks of two hosts may differ."""
_SEVERITY = tuple(Outcome)


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptVerdict:
    """A verdict that the store has, and who of those that the gate trusts signed it."""

    verdict: PackageVerdict
    digests: tuple[str, ...]  # of the objects that say it: each signer may have made one
    signers: frozenset[str] = frozenset()  # names


@dataclass(frozen=True, kw_only=True, slots=True)
class GateRefusal:
    """One thing that a file lacks, and what to do about it."""

    what: str  # linkage; runtime at image:oldest; "" for the whole file
    why: str
    advice: str

    def spell(self) -> str:
        """As a line has it."""
        return (
            f"{self.what}: {self.why}; {self.advice}" if self.what else f"{self.why}; {self.advice}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class GateDecision:
    """Whether a file may pass, by which verdicts, and despite what."""

    refusals: tuple[GateRefusal, ...] = ()
    verdicts: tuple[str, ...] = ()  # digests of those that decided
    waived: tuple[str, ...] = ()  # a line each
    notes: tuple[str, ...] = ()  # what was found on the way, and decided nothing

    @property
    def passes(self) -> bool:
        """Whether the gate lets it through."""
        return not self.refusals


def decide(
    gate: Gate,
    artifact: Artifact,
    kept: Iterable[KeptVerdict],
    now: datetime,
    *,
    promoted: datetime | None = None,
) -> GateDecision:
    """Hold the verdicts on a file against what the gate asks of it (see `narrow`).

    ``promoted`` is when the file was let in, which ages and waivers are held against; None: now.
    """
    case = _Case(gate, artifact, now, promoted or now)
    counted = [each for each in kept if case.counts(each)]
    for family in gate.families:
        for place in _places_of(gate, family):
            case.judge(family, place, counted)
    return case.conclude()


def _places_of(gate: Gate, family: str) -> Sequence[str]:
    """Where a family must have been judged: one that runs the package in each place."""
    return gate.places if gate.places and family in PLACED_FAMILIES else ("",)


def choose_believed(
    gate: Gate, artifact: Artifact, kept: Iterable[KeptVerdict], now: datetime
) -> list[KeptVerdict]:
    """Return the verdicts whose statements about the file a gate believes, whatever they judged."""
    return [each for each in kept if not any(_find_doubts(gate, artifact, each, now))]


def _find_doubts(
    gate: Gate, artifact: Artifact, kept: KeptVerdict, now: datetime
) -> Iterator[tuple[str, str]]:
    """Yield why a gate believes nothing that a verdict states, and what to do about that."""
    verdict = kept.verdict
    if verdict.file_name != artifact.file_name:  # somebody renamed it in the store
        yield f"it is on {cut(one_line(verdict.file_name), 120)}, of the same bytes", _AGAIN
    if read_time(verdict.ended) > now + AHEAD:
        yield "it is from the future; the clock of that host, or of this one, is wrong", _AGAIN
    if len(kept.signers) < gate.threshold:
        found = _count(len(kept.signers), "trusted signature")
        yield f"{found}, and {gate.threshold} wanted", _SIGN


_AGAIN = "judge it again"
_SIGN = "sign it with a key that the policy lists: `artifact attest --key FILE`"


class _Case:
    """One file before one gate."""

    def __init__(self, gate: Gate, artifact: Artifact, now: datetime, promoted: datetime) -> None:
        self._gate, self._artifact, self._now, self._promoted = gate, artifact, now, promoted
        self._refusals: list[GateRefusal] = []
        self._deciding: dict[str, None] = {}
        self._waived: dict[str, None] = {}
        self._notes: list[str] = []
        self._unheard: list[tuple[str, str]] = []  # verdicts that do not count, and the remedy

    def conclude(self) -> GateDecision:
        return GateDecision(
            refusals=tuple(_merge(self._refusals)),
            verdicts=tuple(sorted(self._deciding)),
            waived=tuple(self._waived),
            notes=tuple(self._notes),
        )

    def counts(self, kept: KeptVerdict) -> bool:
        """Whether a verdict is one that this gate listens to; else a note says why not."""
        objection = next(self._objections(kept), None)
        if objection is None:
            return True
        reason, advice = objection
        note = f"the verdict of {_name_run(kept.verdict)} does not count: {reason}"
        self._notes.append(note)
        self._unheard.append((note, advice))
        return False

    def _objections(self, kept: KeptVerdict) -> Iterator[tuple[str, str]]:
        """Why it does not count, and what to do about that."""
        gate, verdict = self._gate, kept.verdict
        yield from _find_doubts(gate, self._artifact, kept, self._now)
        if gate.profile and gate.profile not in (verdict.profile, verdict.profile_sha256):
            yield f"it used the profile {verdict.profile}, and not {gate.profile}", _AGAIN
        wanted = gate.known_problems_sha256
        if wanted and wanted != verdict.known_problems_sha256:
            yield "it is by another list of known problems", _AGAIN
        if not verdict.is_decisive:
            yield f"{verdict.word}: {verdict.told() or 'it says nothing of the package'}", _AGAIN

    def judge(self, family: str, place: str, counted: Sequence[KeptVerdict]) -> None:
        """Let the newest verdict decide that judged a family in a place."""
        where = f"{family} at {place}" if place else family
        about = [(each, said) for each in counted for said in _find(each.verdict, family, place)]
        judged = [(each, said) for each, said in about if said.outcome not in GAPS]
        if not judged:
            self._refuse_unjudged(where, family, [said for _, said in about])
            return
        kept, said = max(judged, key=lambda pair: _rank(pair[0].verdict, pair[1]))
        self._deciding.update(dict.fromkeys(kept.digests))
        self._hold(where, kept.verdict, said, place)

    def _refuse_unjudged(self, where: str, family: str, about: Sequence[FamilyVerdict]) -> None:
        if self._waives(family):
            return
        gaps = [said.gap for said in about if said.gap]
        if gaps:
            self._refuse(where, f"not inspected: {gaps[0]}", "run it where that can be inspected")
        elif self._unheard:
            note, advice = self._unheard[0]
            self._refuse(where, f"no verdict that counts: {note}", advice)
        else:
            self._refuse(where, "no verdict", "judge it there, and `artifact attest` the result")

    def _hold(self, where: str, verdict: PackageVerdict, said: FamilyVerdict, place: str) -> None:
        told = _name_run(verdict)
        if self._is_too_old(verdict):
            limit = f"{self._gate.max_age:g} days"
            self._refuse(where, f"the verdict of {told} is older than {limit}", _AGAIN)
        if verdict.word not in self._gate.accept and not self._waives_all(verdict):
            advice = "no gate lets that pass" if verdict.unjudged else "mend it, or waive it"
            self._refuse("", f"{verdict.word} ({told}): {verdict.told()}", advice)
        ungapped = [check for check in said.gapped if not self._waives(check)]
        wanted = said.gap and ungapped and place not in self._gate.gaps
        if wanted and not self._waives(said.family):
            advice = "run it where that can be inspected"
            advice += f", or name {place} under gaps" if place else ""
            self._refuse(where, f"not inspected: {said.gap}", advice)

    def _is_too_old(self, verdict: PackageVerdict) -> bool:
        age = self._gate.max_age
        return age is not None and self._promoted - read_time(verdict.ended) > timedelta(days=age)

    def _waives_all(self, verdict: PackageVerdict) -> bool:
        """Whether each check that failed is waived, or the family of each."""
        if verdict.word != "failed" or not verdict.failed:
            return False
        named = [each.partition("[")[0].partition("/") for each in verdict.failed]
        waived = [self._waives(check) or self._waives(family) for family, _, check in named]
        return all(waived)  # after every one was asked: all that is waived is recorded

    def _waives(self, named: str) -> bool:
        for waiver in self._gate.waivers:
            if waiver.covers(named, self._artifact.file_name):
                if not waiver.has_expired(self._promoted.date()):
                    self._waived[_spell_waiver(waiver)] = None
                    return True
                self._notes.append(f"the waiver of {named} expired on {waiver.expires}")
        return False

    def _refuse(self, what: str, why: str, advice: str) -> None:
        self._refusals.append(GateRefusal(what=what, why=why, advice=advice))


def _find(verdict: PackageVerdict, family: str, place: str) -> Iterator[FamilyVerdict]:
    """What a verdict says of a family in that place, or in any where none is asked for.

    Of a run in one place, or of checks that run nothing, an entry names none: it holds for each
    place of its run.
    """
    for said in verdict.families:
        if said.family != family:
            continue
        if not place or said.place == place or (not said.place and place in verdict.places):
            yield said


def _rank(verdict: PackageVerdict, said: FamilyVerdict) -> tuple[datetime, int, int, bool]:
    """The newest last; of equal times the worse."""
    worse = -_SEVERITY.index(verdict.outcome), -_SEVERITY.index(said.outcome)
    return read_time(verdict.ended), *worse, bool(said.gap)


def _merge(refusals: Iterable[GateRefusal]) -> Iterator[GateRefusal]:
    """One for all families that lack the same."""
    groups: dict[tuple[str, str], list[str]] = {}
    for each in refusals:
        groups.setdefault((each.why, each.advice), []).append(each.what)
    for (why, advice), what in groups.items():
        yield GateRefusal(what=", ".join(dict.fromkeys(filter(None, what))), why=why, advice=advice)


def _name_run(verdict: PackageVerdict) -> str:
    cell = f", {verdict.cell}" if verdict.cell else ""
    return f"{verdict.ended}{cell}"


def _spell_waiver(waiver: GateWaiver) -> str:
    return f"{waiver.despite}: {waiver.reason} ({waiver.owner}, until {waiver.expires})"


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


# What a channel asks of a file before it lets it in: as a policy says it, and as it is kept.

GATE_SCHEMA = "binary-checks/gate/1"
PLACED_FAMILIES = ("runtime", "consumer")
"""Families that run the package, and so speak of one place; ``gpu`` runs where there is one."""
MOST_DAYS = 3650.0
"""Of an age that a gate may allow."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GateRule:
    """What a gate asks instead of files that meet a condition; None and "" leave it as it is."""

    when: str  # variant=cu* system=linux
    reason: str = ""  # required where it asks for less
    families: tuple[str, ...] | None = None
    places: tuple[str, ...] | None = None
    gaps: tuple[str, ...] | None = None
    accept: tuple[str, ...] | None = None
    profile: str = ""
    max_age: float | None = None
    gpu: bool | None = None  # the family gpu, whatever the other families are

    @property
    def globs(self) -> tuple[tuple[str, str], ...]:
        """What it is about, by field."""
        return read_condition(self.when, "when", dict.fromkeys(FIELDS, str)).globs

    def meets(self, artifact: Artifact) -> bool:
        """Whether it speaks of that file: of what it is itself, not of all that it would serve.

        So a rule that asks less of Windows asks no less of a wheel for any system.
        """
        return all(is_itself(artifact, field, glob) for field, glob in self.globs)


@dataclass(frozen=True, kw_only=True, slots=True)
class GateWaiver:
    """A check or a family despite which files may pass, for some time."""

    despite: str  # absolute-search-path; runtime
    reason: str
    owner: str
    expires: str  # the last day on which it holds: 2027-01-31
    package: str = "*"  # glob on the file's name

    def covers(self, named: str, file_name: str) -> bool:
        """Whether it speaks of that check or family of that file, whatever day it is."""
        return self.despite == named and fnmatchcase(file_name, self.package)

    def has_expired(self, today: date) -> bool:
        """Whether it holds no more."""
        return today > date.fromisoformat(self.expires)


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """What one channel asks, keys and all, so that its digest says everything."""

    channel: str
    families: tuple[str, ...]  # that must have been judged
    places: tuple[str, ...] = ()  # in each of which those that run the package must have been
    gaps: tuple[str, ...] = ()  # places where some checks of a family may not have inspected all
    sources: tuple[str, ...] = ()  # channels that files may come from; none: all
    accept: tuple[str, ...] = ("passed", "warned", "known")
    profile: str = ""  # its name, or the SHA-256 of what it says; "" for any
    known_problems_sha256: str = ""
    max_age: float | None = None  # days, of a verdict
    threshold: int = 0  # keys that must have signed a verdict; 0: it need not be signed
    keys: tuple[PublicKey, ...] = ()
    promoters: tuple[PublicKey, ...] = ()  # one of whom must sign a promotion
    rules: tuple[GateRule, ...] = ()
    waivers: tuple[GateWaiver, ...] = ()

    @property
    def read_fields(self) -> frozenset[str]:
        """The fields of artifact.json that its rules read."""
        parts = (each.globs for each in self.rules)
        return frozenset(name for globs in parts for name, _ in globs)

    @property
    def digest(self) -> str:
        """By which it is recorded."""
        return hashlib.sha256(write_gate(self)).hexdigest()


def narrow(gate: Gate, artifact: Artifact, *, has_gpu_cell: bool = False) -> Gate:
    """What a gate asks of one file: of each key the last rule that meets it holds.

    A cell of the matrix that has a GPU stage asks for ``gpu``, unless a rule says otherwise.
    """
    gpu = True if has_gpu_cell else None
    for rule in gate.rules:
        if rule.meets(artifact):
            said = {
                name: value
                for name in ("families", "places", "gaps", "accept", "max_age")
                if (value := getattr(rule, name)) is not None
            }
            gate = replace(gate, **said, profile=rule.profile or gate.profile)
            gpu = gpu if rule.gpu is None else rule.gpu
    if gpu is None:
        return gate
    others = tuple(each for each in gate.families if each != "gpu")
    return replace(gate, families=(*others, "gpu") if gpu else others)


def write_gate(gate: Gate) -> bytes:
    """The document of a gate: of equal gates the same bytes."""
    return f"{dump({'schema': GATE_SCHEMA, **encode_fields(gate)})}\n".encode("ascii")


def read_gate(content: bytes, named: str) -> Gate:
    """Read a gate that a promotion recorded. Raises RecordError."""
    try:
        row = read_object(content)
        if row.pop("schema", None) != GATE_SCHEMA:
            raise OddityError(f"not a document {GATE_SCHEMA}")
        gate = Gate(**decode_fields(Gate, row))
        for key in (*gate.keys, *gate.promoters):
            demand_digest(f"keys: {key.name!r:.40}", key.public)
        for waiver in gate.waivers:
            date.fromisoformat(waiver.expires)
        for age in (gate.max_age, *(rule.max_age for rule in gate.rules)):
            if age is not None and not 0 < age <= MOST_DAYS:
                raise OddityError(f"max_age: {age:g} days")
        for rule in gate.rules:
            read_condition(rule.when, "when", dict.fromkeys(FIELDS, str))
        if write_gate(gate) != content:
            raise OddityError("not as binary-checks writes it")
    except (OddityError, ProfileError, ValueError) as error:
        raise RecordError(f"{named}: {error}") from None
    return gate

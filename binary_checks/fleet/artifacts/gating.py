"""Gates: decide from the verdicts on a file whether it may enter a channel, and if not, why.

For each family and place that the gate asks for, the decision rests on the newest verdict that
could judge the family there. Verdicts of runs that broke (network, disk, a host without a
GPU) decide nothing. An older failure no longer counts once a newer verdict on the same bytes has
passed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from binary_checks.documents.json_values import DocumentError, dump, encode_fields
from binary_checks.errors import ProfileError
from binary_checks.fleet.artifacts.artifact import Artifact, hash_record
from binary_checks.fleet.artifacts.matching import FIELDS, is_itself
from binary_checks.fleet.artifacts.signatures import PublicKey
from binary_checks.fleet.artifacts.verdict import (
    FamilyVerdict,
    PackageVerdict,
    read_back,
    read_object,
    read_time,
)
from binary_checks.fleet.stored_nights import require_digest
from binary_checks.model import GAPS, Outcome, read_place
from binary_checks.profile import read_condition
from binary_checks.safe_text import cut, one_line

AHEAD = timedelta(minutes=5)
"""How far the clocks of two hosts may differ."""
_SEVERITY = tuple(Outcome)


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptVerdict:
    """A stored verdict, with the names of the trusted keys that signed it."""

    verdict: PackageVerdict
    digests: tuple[str, ...]  # of the objects that contain it: each signer may have stored one
    signers: frozenset[str] = frozenset()  # names of keys


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """An artifact, and what the store states about it."""

    artifact: Artifact
    verdicts: tuple[KeptVerdict, ...] = ()
    pushers: frozenset[str] = frozenset()  # names of the trusted keys that signed artifact.json
    faults: tuple[str, ...] = ()  # invalid statements, a line each


@dataclass(frozen=True, kw_only=True, slots=True)
class GateRefusal:
    """A reason for which a gate refuses a file, and what to do about it."""

    what: str  # linkage; runtime at image:oldest; "" for the whole file
    why: str
    advice: str

    def format(self) -> str:
        """Return the refusal as one line."""
        return (
            f"{self.what}: {self.why}; {self.advice}" if self.what else f"{self.why}; {self.advice}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class GateDecision:
    """A gate's decision about a file, with the verdicts and waivers on which it rests."""

    refusals: tuple[GateRefusal, ...] = ()
    verdicts: tuple[str, ...] = ()  # digests of the verdicts that decided
    waived: tuple[str, ...] = ()  # a line each
    notes: tuple[str, ...] = ()  # why verdicts do not count

    @property
    def passes(self) -> bool:
        """Whether the gate lets the file in."""
        return not self.refusals


def decide(
    gate: Gate, evidence: Evidence, now: datetime, *, promoted: datetime | None = None
) -> GateDecision:
    """Decide from the evidence on a file whether a gate lets the file in.

    ``gate`` contains the conditions for this file, as `apply_rules` returns them. ``promoted`` is
    the time at which the file was let in, or None for now; ages and waivers are compared with that
    time.
    """
    case = _GateEvaluation(gate, evidence.artifact, now, promoted or now)
    case.require_pushers(evidence.pushers)
    counted = [each for each in evidence.verdicts if case.counts(each)]
    for family in gate.families:
        # "" is any place
        for place in gate.places if gate.places and family in PLACED_FAMILIES else ("",):
            case.judge(family, place, counted)
    return case.conclude()


_AGAIN = "judge it again"
_TAMPERED = "somebody tampered with the store"
_SIGN = "sign it with a key that the policy lists: `artifact attest --key FILE`"


class _GateEvaluation:
    """The decision about one file at one gate, while it is being made."""

    def __init__(self, gate: Gate, artifact: Artifact, now: datetime, promoted: datetime) -> None:
        self._gate, self._artifact, self._now, self._promoted = gate, artifact, now, promoted
        self._record = hash_record(artifact)
        self._refusals: list[GateRefusal] = []
        self._deciding: dict[str, None] = {}
        self._waived: dict[str, None] = {}
        self._ignored: list[tuple[str, str]] = []  # (why a verdict does not count, the remedy)

    def conclude(self) -> GateDecision:
        return GateDecision(
            refusals=tuple(_merge(self._refusals)),
            verdicts=tuple(sorted(self._deciding)),
            waived=tuple(self._waived),
            notes=tuple(note for note, _ in self._ignored),
        )

    def require_pushers(self, names: Collection[str]) -> None:
        """Refuse the file unless enough keys vouch for its artifact.json, which rules read."""
        if len(names) < self._gate.threshold:
            found = _count(len(names), "trusted signature")
            why = f"artifact.json has {found}, but the gate requires {self._gate.threshold}"
            self._refuse("", why, "push the same file with `artifact push --key FILE`")

    def counts(self, kept: KeptVerdict) -> bool:
        """Return whether the gate accepts the verdict as evidence; if not, note why."""
        objection = next(self._objections(kept), None)
        if objection is None:
            return True
        reason, advice = objection
        note = f"the verdict of {_name_run(kept.verdict)} does not count: {reason}"
        self._ignored.append((note, advice))
        return False

    def _objections(self, kept: KeptVerdict) -> Iterator[tuple[str, str]]:
        """Yield reasons why the verdict does not count, each with a remedy."""
        gate, verdict = self._gate, kept.verdict
        if verdict.file_name != self._artifact.file_name:  # the file was renamed in the store
            name = cut(one_line(verdict.file_name), 120)
            yield f"it is about {name}, a file with the same bytes", _AGAIN
        if verdict.artifact_json_sha256 != self._record:
            yield "it is about another artifact.json", _TAMPERED
        if read_time(verdict.ended) > self._now + AHEAD:
            clocks = "the clock of its host or of this host is wrong"
            yield f"its time is in the future: {clocks}", _AGAIN
        if len(kept.signers) < gate.threshold:
            found = _count(len(kept.signers), "trusted signature")
            yield f"{found}, but the gate requires {gate.threshold}", _SIGN
        if gate.profile and gate.profile not in (verdict.profile, verdict.profile_sha256):
            yield f"it used the profile {verdict.profile} instead of {gate.profile}", _AGAIN
        if not verdict.is_decisive:
            reason = verdict.format_reason() or "it states nothing about the package"
            yield f"{verdict.word}: {reason}", _AGAIN

    def judge(self, family: str, place: str, counted: Sequence[KeptVerdict]) -> None:
        """Decide about the family in the place by the newest verdict that judged it there."""
        where = f"{family} at {place}" if place else family
        about = [
            (each, result) for each in counted for result in _find(each.verdict, family, place)
        ]
        judged = [(each, result) for each, result in about if result.outcome not in GAPS]
        if not judged:
            self._refuse_unjudged(where, family, [result for _, result in about])
            return
        kept, result = max(judged, key=lambda pair: _rank(pair[0].verdict, pair[1]))
        self._deciding.update(dict.fromkeys(kept.digests))
        self._check_deciding(where, kept.verdict, result, place)

    def _refuse_unjudged(self, where: str, family: str, about: Sequence[FamilyVerdict]) -> None:
        if self._waives(family):
            return
        gaps = [result.gap for result in about if result.gap]
        if gaps:
            self._refuse(
                where, f"not inspected: {gaps[0]}", "run the check on a host that can inspect it"
            )
        elif self._ignored:
            note, advice = self._ignored[0]
            self._refuse(where, f"no verdict counts: {note}", advice)
        else:
            self._refuse(
                where, "no verdict", "judge it there and run `artifact attest` on the result"
            )

    def _check_deciding(
        self, where: str, verdict: PackageVerdict, result: FamilyVerdict, place: str
    ) -> None:
        run = _name_run(verdict)
        age = self._gate.max_age
        if age is not None and self._promoted - read_time(verdict.ended) > timedelta(days=age):
            self._refuse(where, f"the verdict of {run} is older than {age:g} days", _AGAIN)
        if verdict.word not in self._gate.accept and not self._waives_all(verdict):
            advice = (
                "no gate accepts a file that cannot be judged"
                if verdict.unjudged
                else "fix the package, or waive the check"
            )
            self._refuse("", f"{verdict.word} ({run}): {verdict.format_reason()}", advice)
        ungapped = [check for check in result.gapped if not self._waives(check)]
        wanted = result.gap and ungapped and place not in self._gate.gaps
        if wanted and not self._waives(result.family):
            advice = "run the check on a host that can inspect it"
            advice += f", or name {place} under gaps" if place else ""
            self._refuse(where, f"not inspected: {result.gap}", advice)

    def _waives_all(self, verdict: PackageVerdict) -> bool:
        """Return whether each check that failed, or its family, is waived."""
        if verdict.word != "failed" or not verdict.failed:
            return False
        named = [each.partition("[")[0].partition("/") for each in verdict.failed]
        waived = [self._waives(check) or self._waives(family) for family, _, check in named]
        return all(waived)  # a list, not a generator, so that every waiver used is recorded

    def _waives(self, named: str) -> bool:
        for waiver in self._gate.waivers:
            file_name = self._artifact.file_name
            covers = waiver.despite == named and fnmatchcase(file_name, waiver.package)
            if covers and not waiver.has_expired(self._promoted.date()):
                until = f"{waiver.owner}, until {waiver.expires}"
                self._waived[f"{waiver.despite}: {waiver.reason} ({until})"] = None
                return True
        return False

    def _refuse(self, what: str, why: str, advice: str) -> None:
        self._refusals.append(GateRefusal(what=what, why=why, advice=advice))


def _find(verdict: PackageVerdict, family: str, place: str) -> list[FamilyVerdict]:
    """Return the results in a verdict for a family in a place, or anywhere if ``place`` is "".

    A result names no place if the run had only one place, or if the family's checks run no code of
    the package. It then holds for each place of the run.
    """
    return [
        each
        for each in verdict.families
        if each.family == family
        and (not place or each.place == place or (not each.place and place in verdict.places))
    ]


def _rank(verdict: PackageVerdict, result: FamilyVerdict) -> tuple[datetime, int, int, bool]:
    """Return a sort key: the newest verdict is last; of equally new verdicts, the worse one."""
    worse = -_SEVERITY.index(verdict.outcome), -_SEVERITY.index(result.outcome)
    return read_time(verdict.ended), *worse, bool(result.gap)


def _merge(refusals: Iterable[GateRefusal]) -> Iterator[GateRefusal]:
    """Merge refusals for the same reason into one refusal that names all their families."""
    groups: dict[tuple[str, str], list[str]] = {}
    for each in refusals:
        groups.setdefault((each.why, each.advice), []).append(each.what)
    for (why, advice), what in groups.items():
        yield GateRefusal(what=", ".join(dict.fromkeys(filter(None, what))), why=why, advice=advice)


def _name_run(verdict: PackageVerdict) -> str:
    cell = f", {verdict.cell}" if verdict.cell else ""
    return f"{verdict.ended}{cell}"


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


# The conditions of a channel for its files, as a policy states and the store records them.

GATE_SCHEMA = "binary-checks/gate/2"
PLACED_FAMILIES = ("runtime", "consumer")
"""Families that run the package, each in one place; ``gpu`` runs where there is a GPU."""
_MOST_DAYS = 3650.0


@dataclass(frozen=True, kw_only=True, slots=True)
class GateRule:
    """A gate's exception for files that match a condition; None and "" leave a field as it is."""

    when: str  # variant=cu* system=linux
    reason: str = ""  # required if the rule asks for less
    families: tuple[str, ...] | None = None
    places: tuple[str, ...] | None = None
    gaps: tuple[str, ...] | None = None
    accept: tuple[str, ...] | None = None
    profile: str = ""
    max_age: float | None = None
    gpu: bool | None = None  # whether the family gpu is required, whatever the other families are


@dataclass(frozen=True, kw_only=True, slots=True)
class GateWaiver:
    """A check or a family that may fail, until a date."""

    despite: str  # absolute-search-path; runtime
    reason: str
    owner: str
    expires: str  # the last day on which it holds: 2027-01-31
    package: str = "*"  # glob on the file's name

    def has_expired(self, today: date) -> bool:
        """Return whether the waiver is no longer valid."""
        return today > date.fromisoformat(self.expires)


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """The conditions of one channel, including the keys, so that the digest covers everything."""

    channel: str
    families: tuple[str, ...]  # the families that must have been judged
    # places where each family that runs the package must have been judged
    places: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()  # places where some checks of a family may be incomplete
    sources: tuple[str, ...] = ()  # channels that files may come from; empty: any
    accept: tuple[str, ...] = ("passed", "warned", "known")
    profile: str = ""  # the profile's name, or the SHA-256 of its content; "" for any
    max_age: float | None = None  # greatest age of a verdict in days
    threshold: int = 0  # how many keys must have signed a verdict; 0: it need not be signed
    keys: tuple[PublicKey, ...] = ()
    promoters: tuple[PublicKey, ...] = ()  # keys; one of them must sign a promotion
    rules: tuple[GateRule, ...] = ()
    waivers: tuple[GateWaiver, ...] = ()
    relabel: bool = False  # whether wheels enter without their local version
    upload_rules: str = ""  # the profile by which files are judged, as the policy names it

    def require_sound(self) -> None:
        """Raise DocumentError for conditions that no file can meet, or that every file meets."""
        for key in (*self.keys, *self.promoters):
            require_digest(f"keys: {key.name!r:.40}", key.public)
        try:
            for waiver in self.waivers:
                date.fromisoformat(waiver.expires)
            for rule in self.rules:
                read_condition(rule.when, "when", dict.fromkeys(FIELDS, str))
            for place in (
                *self.places,
                *(each for rule in self.rules for each in rule.places or ()),
            ):
                read_place(place)
        except (ProfileError, ValueError) as error:
            raise DocumentError(str(error)) from None
        if self.places and not {*self.families} & {*PLACED_FAMILIES}:
            known = ", ".join(PLACED_FAMILIES)
            fault = "none of the families runs the package there"
            raise DocumentError(f"places: {self.places[0]}: {fault}; add one of: {known}")
        if unknown := {*self.gaps} - {*self.places}:
            raise DocumentError(f"gaps: {min(unknown)!r:.80} is not one of the places")
        self._require_possible()
        for rule in self.rules:
            changed = _change(self, rule)
            changed._require_possible()
            less = sorted({*self.families} - {*changed.families}) or ["gpu"] * (rule.gpu is False)
            if less and not rule.reason.strip():
                message = f"'reason' is missing: state why these files need no {', '.join(less)}"
                raise DocumentError(f"{rule.when}: {message}")

    def _require_possible(self) -> None:
        if not self.families:
            raise DocumentError("families: name at least one; otherwise every file would pass")
        if "passed" not in self.accept:
            reason = "otherwise packages without problems are refused"
            raise DocumentError(f"accept: add 'passed'; {reason}")
        if self.max_age is not None and not 0 < self.max_age <= _MOST_DAYS:
            bounds = f"expected more than 0 and at most {_MOST_DAYS:g}"
            raise DocumentError(f"max_age: {self.max_age:g} days: {bounds}")

    @property
    def digest(self) -> str:
        """The SHA-256 of the gate's document, by which promotions name the gate."""
        return hashlib.sha256(write_gate(self)).hexdigest()


def apply_rules(gate: Gate, artifact: Artifact, *, has_gpu_cell: bool = False) -> Gate:
    """Return a gate's conditions for one file: for each key, the last rule that matches wins.

    Only the file's own fields match, not values that it merely supports: a wheel for any system
    does not match a rule for Windows, which may ask for less. A cell of the matrix that has a GPU
    stage requires ``gpu``, unless a rule says otherwise.
    """
    gpu = True if has_gpu_cell else None
    for rule in gate.rules:
        condition = read_condition(rule.when, "when", dict.fromkeys(FIELDS, str))
        if all(is_itself(artifact, field, glob) for field, glob in condition.globs):
            gate = _change(gate, rule)
            gpu = gpu if rule.gpu is None else rule.gpu
    if gpu is None:
        return gate
    others = tuple(each for each in gate.families if each != "gpu")
    return replace(gate, families=(*others, "gpu") if gpu else others)


def _change(gate: Gate, rule: GateRule) -> Gate:
    names = ("families", "places", "gaps", "accept", "max_age")
    asked = {name: getattr(rule, name) for name in names if getattr(rule, name) is not None}
    return replace(gate, **asked, profile=rule.profile or gate.profile)


def write_gate(gate: Gate) -> bytes:
    """Return the gate's document; equal gates give the same bytes."""
    return f"{dump({'schema': GATE_SCHEMA, **encode_fields(gate)})}\n".encode("ascii")


def read_gate(content: bytes, named: str) -> Gate:
    """Read a gate that a promotion recorded. Raises RecordError."""
    return read_back(Gate, _find_gate, write_gate, content, named)


def _find_gate(content: bytes) -> Mapping[str, Any]:
    row = read_object(content)
    if row.pop("schema", None) != GATE_SCHEMA:
        raise DocumentError(f"not a document {GATE_SCHEMA}")
    return row

"""What a channel asks of a file before it lets it in: as a policy says it, and as it is kept."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import date
from fnmatch import fnmatchcase

from binary_checks.documents.decoding import OddityError, decode_fields
from binary_checks.documents.encoding import dump, encode_fields
from binary_checks.errors import ProfileError, RecordError
from binary_checks.fleet.artifacts.artifact import Artifact
from binary_checks.fleet.artifacts.matching import FIELDS, is_itself
from binary_checks.fleet.artifacts.signatures import PublicKey
from binary_checks.fleet.artifacts.statements import read_object
from binary_checks.fleet.records import demand_digest
from binary_checks.profile.known import read_condition

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

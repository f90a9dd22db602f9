"""Promote artifacts from channel to channel, each through the gate of its new channel.

The gate and the record are written first. The last object written makes the file a member of the
channel, so that a promotion that is killed leaves no channel half-changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from binary_checks import __version__
from binary_checks.documents.json_values import DocumentError, encode_fields
from binary_checks.errors import (
    ArtifactRefusedError,
    RecordError,
)
from binary_checks.fleet.artifacts.artifact import Artifact
from binary_checks.fleet.artifacts.channels import join_channel, list_withdrawn, require_free
from binary_checks.fleet.artifacts.gating import (
    Gate,
    GateDecision,
    GateRefusal,
    apply_rules,
    decide,
    read_gate,
    write_gate,
)
from binary_checks.fleet.artifacts.kept_artifacts import fetch_object
from binary_checks.fleet.artifacts.kept_verdicts import (
    collect_evidence,
    hash_bytes,
    open_signed,
)
from binary_checks.fleet.artifacts.signatures import SignedStatement, SigningKey, write_envelope
from binary_checks.fleet.artifacts.uploading import Upload, UploadFolder
from binary_checks.fleet.artifacts.verdict import (
    LARGEST_STATEMENT,
    open_statement,
    read_back,
    read_time,
    seal,
)
from binary_checks.fleet.store import (
    POLICIES,
    Store,
    ask_at_once,
    origin_name,
    package_name,
    policy_name,
    promotion_name,
)
from binary_checks.fleet.stored_nights import require_digest

_IMMUTABLE = "in a channel, a file name always means the same file"
_UPLOADED = "correct it, and build again"


@dataclass(frozen=True, kw_only=True, slots=True)
class PromotionCandidate:
    """A file that is to be promoted, and its gate's decision."""

    artifact: Artifact
    decision: GateDecision = field(default_factory=GateDecision)
    faults: tuple[str, ...] = ()  # invalid verdicts, a line each
    is_member: bool = False  # whether the channel contains it already
    has_gpu_cell: bool = False
    upload: Upload | None = None

    @property
    def entering(self) -> Artifact:
        """The file that enters the channel: the artifact, or the one that was made of it."""
        return self.upload.artifact if self.upload else self.artifact


@dataclass(frozen=True, kw_only=True, slots=True)
class PromotionSettings:
    """The settings that all promotions of one command share."""

    gate: Gate
    source: str
    now: datetime
    by: str = ""
    keys: Sequence[SigningKey] = ()


def decide_promotions(
    store: Store,
    settings: PromotionSettings,
    artifacts: Iterable[Artifact],
    *,
    members: Collection[str],
    with_gpu: Collection[str] = (),
) -> list[PromotionCandidate]:
    """Decide about each artifact; ``members`` are the SHA-256 of files already in the channel."""
    by_digest = {each.sha256: each for each in artifacts}
    withdrawn = list_withdrawn(store, settings.source)

    def decide_one(digest: str) -> PromotionCandidate:
        artifact = by_digest[digest]
        if digest in members:
            return PromotionCandidate(artifact=artifact, is_member=True)
        if digest in withdrawn:
            why = f"withdrawn from {settings.source}: {withdrawn[digest]}"
            refusal = GateRefusal(what="", why=why, advice="promote another build")
            return PromotionCandidate(artifact=artifact, decision=GateDecision(refusals=(refusal,)))
        return _decide_promotion(store, settings, artifact, has_gpu_cell=digest in with_gpu)

    return [*ask_at_once(decide_one, by_digest)]


def _decide_promotion(
    store: Store, settings: PromotionSettings, artifact: Artifact, *, has_gpu_cell: bool
) -> PromotionCandidate:
    faults: tuple[str, ...] = ()
    gate = apply_rules(settings.gate, artifact, has_gpu_cell=has_gpu_cell)
    try:
        require_free(store, settings.gate.channel, artifact)
        evidence = collect_evidence(store, artifact, gate.keys)
        faults = evidence.faults
        decision = decide(gate, evidence, settings.now)
    except ArtifactRefusedError as error:
        decision = GateDecision(refusals=(GateRefusal(what="", why=str(error), advice=_IMMUTABLE),))
    except RecordError as error:
        advice = "somebody tampered with the store"
        decision = GateDecision(refusals=(GateRefusal(what="", why=str(error), advice=advice),))
    return PromotionCandidate(
        artifact=artifact, decision=decision, faults=faults, has_gpu_cell=has_gpu_cell
    )


def apply_upload(
    store: Store, settings: PromotionSettings, candidate: PromotionCandidate, upload: Upload
) -> PromotionCandidate:
    """Return a candidate with the file that enters, or with the refusals of the index."""
    refusals = [GateRefusal(what="", why=why, advice=_UPLOADED) for why in upload.refusals]
    try:
        require_free(store, settings.gate.channel, upload.artifact)
    except ArtifactRefusedError as error:
        refusals.append(GateRefusal(what="", why=str(error), advice=_IMMUTABLE))
    decision = replace(candidate.decision, refusals=tuple(refusals))
    return replace(candidate, decision=decision, upload=None if refusals else upload)


def promote(
    store: Store,
    settings: PromotionSettings,
    candidate: PromotionCandidate,
    uploads: UploadFolder,
) -> bool:
    """Let a file into the channel and record why; return False if another process did so first.

    A file that is made of the artifact is stored first. Raises ArtifactRefusedError if another file
    took the name meanwhile.
    """
    gate = write_gate(settings.gate)
    digest = hash_bytes(gate)
    store.create(policy_name(digest), gate)
    artifact, origin = candidate.entering, ""
    if candidate.upload is not None and artifact != candidate.artifact:
        origin = candidate.artifact.sha256
        uploads.keep(candidate.upload)
    record = write_promotion(
        Promotion(
            sha256=artifact.sha256,
            file_name=artifact.file_name,
            project=artifact.project,
            origin=origin,
            source=settings.source,
            channel=settings.gate.channel,
            at=settings.now.isoformat(timespec="seconds"),
            by=settings.by,
            gate=digest,
            verdicts=candidate.decision.verdicts,
            waived=candidate.decision.waived,
            gpu_cell=candidate.has_gpu_cell,
            versions={"binary_checks": __version__},
        )
    )
    content = write_envelope(record, settings.keys)
    if origin:  # under a name that states it, by which pruning keeps the origin
        store.create(origin_name(artifact.sha256, origin, hash_bytes(content)), content)
    store.create(promotion_name(artifact.sha256, hash_bytes(content)), content)
    return join_channel(store, settings.gate.channel, artifact)


# Restoring: a stored file returns to a channel without a gate, so that it is tested again.


def list_gated(store: Store) -> frozenset[str]:
    """Return the channels into which a gate has let a file. Raises RecordError."""

    def read(name: str) -> str:
        content = store.read(name, LARGEST_STATEMENT) or b""
        return read_gate(content, f"{store.url}: {name}").channel

    return frozenset(ask_at_once(read, [each.name for each in store.names(POLICIES)]))


def restore(store: Store, channel: str, artifact: Artifact, *, dry: bool = False) -> bool:
    """Put a stored file into a channel; return False if the channel has it.

    With ``dry`` nothing is written. Raises ArtifactRefusedError if the channel has other bytes
    under that name, or if the store no longer has these bytes.
    """
    require_free(store, channel, artifact)
    name = package_name(artifact.sha256, artifact.file_name)
    try:
        fetch_object(store, name, artifact.sha256, artifact.size)
    except RecordError as error:
        raise ArtifactRefusedError(f"{artifact.file_name}: {error}") from None
    return dry or join_channel(store, channel, artifact)


# Records of promotions: in-toto statements with a verification summary (VSA) as predicate.
#
# A record contains the digests of the gate and of the verdicts that decided. Anyone who has the
# store and the public keys can therefore repeat the decision.

PROMOTION_SCHEMA = "binary-checks/promotion/2"
SUMMARY = "https://slsa.dev/verification_summary/v1"
_VERIFIER = "https://pypi.org/project/binary-checks"


@dataclass(frozen=True, kw_only=True, slots=True)
class Promotion:
    """The record that a gate let a file into its channel: when, by whom, and by which verdicts."""

    sha256: str
    file_name: str
    project: str
    origin: str = ""  # SHA-256 of the file that this one is, without its local version
    source: str  # the channel that it was in before
    channel: str
    at: str  # RFC 3339, UTC
    by: str = ""  # the name that the user gave
    gate: str  # digest of the gate
    verdicts: tuple[str, ...]  # digests of the verdicts that decided
    waived: tuple[str, ...] = ()  # waivers used, a line each
    gpu_cell: bool = False  # whether the matrix has a GPU stage for it
    versions: Mapping[str, str] = field(default_factory=dict)

    def require_sound(self) -> None:
        """Raise DocumentError for digests and times that are none."""
        for digest in (self.sha256, self.gate, *self.verdicts):
            require_digest("digest", digest)
        read_time(self.at)


def write_promotion(promotion: Promotion) -> bytes:
    """Return a promotion's statement; equal promotions give the same bytes."""
    predicate = {
        "verifier": {"id": _VERIFIER, "version": {**promotion.versions}},
        "timeVerified": promotion.at,
        "resourceUri": f"channel:{promotion.channel}/{promotion.project}/{promotion.file_name}",
        "policy": {
            "uri": f"channel:{promotion.channel}",
            "digest": {"sha256": promotion.gate},
        },
        "inputAttestations": [{"digest": {"sha256": each}} for each in promotion.verdicts],
        "verificationResult": "PASSED",
        "verifiedLevels": [],
        PROMOTION_SCHEMA: encode_fields(promotion),  # readers of summaries ignore unknown keys
    }
    return seal(promotion.sha256, promotion.file_name, SUMMARY, predicate)


def read_promotion(content: bytes, named: str) -> Promotion:
    """Return the promotion in a statement. Raises RecordError with a message of one line."""
    return read_back(Promotion, _find_record, write_promotion, content, named)


def open_promotion(store: Store, name: str, sha256: str) -> tuple[SignedStatement, Promotion]:
    """Return the record in an object. Raises RecordError if it is not a record of these bytes."""
    signed = open_signed(store, name)
    record = read_promotion(signed.payload, f"{store.url}: {name}")
    if record.sha256 != sha256:
        raise RecordError(f"{store.url}: {name}: a record for other bytes: {record.sha256}")
    return signed, record


def _find_record(content: bytes) -> Any:
    predicate = open_statement(content, SUMMARY)
    if PROMOTION_SCHEMA not in predicate:
        raise DocumentError(f"its predicate has no {PROMOTION_SCHEMA}")
    return predicate[PROMOTION_SCHEMA]

"""Promote artifacts from channel to channel, each through the gate of its new channel.

The gate and the record are written first. The last object written makes the file a member of the
channel, so that a promotion that is killed leaves no channel half-changed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any

from binary_checks import __version__
from binary_checks.documents.json_values import DocumentError, decode_fields, encode_fields
from binary_checks.errors import (
    ArtifactRefusedError,
    BrokenDataError,
    PackageError,
    ProfileError,
    RecordError,
    StoreError,
)
from binary_checks.fleet.artifacts.artifact import Artifact
from binary_checks.fleet.artifacts.axis_claims import find_contradiction_in_name
from binary_checks.fleet.artifacts.channels import join_channel, list_withdrawn, require_free
from binary_checks.fleet.artifacts.deriving import (
    StatedArtifact,
    StatedCommit,
    derive,
    inspect_file,
    read_texts,
)
from binary_checks.fleet.artifacts.gating import (
    Gate,
    GateDecision,
    GateRefusal,
    KeptVerdict,
    apply_rules,
    decide,
    select_believed,
    write_gate,
)
from binary_checks.fleet.artifacts.kept_artifacts import hash_file, hash_pieces
from binary_checks.fleet.artifacts.kept_verdicts import hash_bytes, list_verdicts
from binary_checks.fleet.artifacts.relabelling import FileOrigin, keep_origin
from binary_checks.fleet.artifacts.signatures import SigningKey, write_envelope
from binary_checks.fleet.artifacts.uploading import JudgedUploads, Upload, UploadFolder
from binary_checks.fleet.artifacts.verdict import (
    open_statement,
    read_time,
    seal,
)
from binary_checks.fleet.store import (
    Store,
    artifact_name,
    ask_at_once,
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
    upload: Upload | None = None  # the file that enters instead of the artifact


@dataclass(frozen=True, kw_only=True, slots=True)
class PromotionSettings:
    """The settings that all promotions of one command share."""

    gate: Gate
    source: str
    now: datetime
    by: str = ""
    keys: Sequence[SigningKey] = ()
    # fields of artifact.json that decide whether the matrix has a GPU stage for a file
    fields: frozenset[str] = frozenset()


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
    faults: list[str] = []
    gate = apply_rules(settings.gate, artifact, has_gpu_cell=has_gpu_cell)
    try:
        require_free(store, settings.gate.channel, artifact)
        if lie := find_contradiction_in_name(artifact):
            raise RecordError(f"{store.url}: {artifact_name(artifact.sha256)}: {lie}")
        kept = list_verdicts(store, artifact.sha256, gate.keys, faults)
        decision = decide(gate, artifact, kept, settings.now)
        believed = select_believed(gate, artifact, kept, settings.now)
        names = gate.read_fields | settings.fields
        if decision.passes and (found := find_unproven_field(store, artifact, believed, names)):
            decision = GateDecision(refusals=(found,))
    except ArtifactRefusedError as error:
        decision = GateDecision(refusals=(GateRefusal(what="", why=str(error), advice=_IMMUTABLE),))
    except RecordError as error:
        advice = "somebody tampered with the store"
        decision = GateDecision(refusals=(GateRefusal(what="", why=str(error), advice=advice),))
    return PromotionCandidate(
        artifact=artifact, decision=decision, faults=tuple(faults), has_gpu_cell=has_gpu_cell
    )


def apply_upload_rules(
    store: Store, candidates: Sequence[PromotionCandidate], judged: JudgedUploads, channel: str
) -> list[PromotionCandidate]:
    """Return the candidates with the files that enter, and with the refusals of the index."""
    return [_apply_one(store, each, judged, channel) for each in candidates]


def _apply_one(
    store: Store, candidate: PromotionCandidate, judged: JudgedUploads, channel: str
) -> PromotionCandidate:
    digest = candidate.artifact.sha256
    upload = judged.uploads.get(digest)
    if candidate.is_member or not candidate.decision.passes:
        return candidate
    refusals = [
        GateRefusal(what="", why=why, advice=_UPLOADED) for why in judged.refusals.get(digest, ())
    ]
    if upload is not None and upload.is_relabelled:
        try:
            require_free(store, channel, upload.artifact)
        except ArtifactRefusedError as error:
            refusals.append(GateRefusal(what="", why=str(error), advice=_IMMUTABLE))
    if refusals:
        return replace(candidate, decision=replace(candidate.decision, refusals=tuple(refusals)))
    return replace(candidate, upload=upload)


def promote(
    store: Store,
    settings: PromotionSettings,
    candidate: PromotionCandidate,
    uploads: UploadFolder | None = None,
) -> bool:
    """Let a file into the channel and record why; return False if another process did so first.

    A file that is made of the artifact is stored first, with a statement of its origin. Raises
    ArtifactRefusedError if another file took the name meanwhile.
    """
    if not candidate.decision.passes:
        raise StoreError(f"{candidate.artifact.file_name}: refused by its gate")
    gate = write_gate(settings.gate)
    digest = hash_bytes(gate)
    store.create(policy_name(digest), gate)
    artifact = candidate.artifact
    if candidate.upload is not None and candidate.upload.is_relabelled and uploads is not None:
        artifact = candidate.upload.artifact
        uploads.keep(candidate.upload)
        keep_origin(store, _describe_origin(settings, candidate.upload), settings.keys)
    record = write_promotion(
        Promotion(
            sha256=artifact.sha256,
            file_name=artifact.file_name,
            project=artifact.project,
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
    store.create(promotion_name(artifact.sha256, hash_bytes(content)), content)
    return join_channel(store, settings.gate.channel, artifact)


def _describe_origin(settings: PromotionSettings, upload: Upload) -> FileOrigin:
    return FileOrigin(
        sha256=upload.artifact.sha256,
        file_name=upload.artifact.file_name,
        origin_sha256=upload.origin.sha256,
        origin_file_name=upload.origin.file_name,
        at=settings.now.isoformat(timespec="seconds"),
        by=settings.by,
        versions={"binary_checks": __version__},
    )


# Records of promotions: in-toto statements with a verification summary (VSA) as predicate.
#
# A record contains the digests of the gate and of the verdicts that decided. Anyone who has the
# store and the public keys can therefore repeat the decision.

PROMOTION_SCHEMA = "binary-checks/promotion/1"
SUMMARY = "https://slsa.dev/verification_summary/v1"
_VERIFIER = "https://pypi.org/project/binary-checks"


@dataclass(frozen=True, kw_only=True, slots=True)
class Promotion:
    """The record that a gate let a file into its channel: when, by whom, and by which verdicts."""

    sha256: str
    file_name: str
    project: str
    source: str  # the channel that it was in before
    channel: str
    at: str  # RFC 3339, UTC
    by: str = ""  # the name that the user gave
    gate: str  # digest of the gate
    verdicts: tuple[str, ...]  # digests of the verdicts that decided
    waived: tuple[str, ...] = ()  # waivers used, a line each
    gpu_cell: bool = False  # whether the matrix has a GPU stage for it
    versions: Mapping[str, str] = field(default_factory=dict)


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
    try:
        promotion = Promotion(**decode_fields(Promotion, _find_record(content)))
        for digest in (promotion.sha256, promotion.gate, *promotion.verdicts):
            require_digest("digest", digest)
        read_time(promotion.at)
        if write_promotion(promotion) != content:
            raise DocumentError("its parts contradict each other")
    except DocumentError as error:
        raise RecordError(f"{named}: {error}") from None
    return promotion


def _find_record(content: bytes) -> Any:
    predicate = open_statement(content, SUMMARY)
    if PROMOTION_SCHEMA not in predicate:
        raise DocumentError(f"its predicate has no {PROMOTION_SCHEMA}")
    return predicate[PROMOTION_SCHEMA]


# Proving the unsigned fields of artifact.json that a gate reads, from verdicts and bytes.
#
# A signed verdict states which build its file is. A field that no verdict states is derived from
# the bytes again, as when the file was pushed.

_STORED = "artifact.json"
_TURN = Lock()
"""Held while a file is on the disk for inspection, so that only one file is there at a time."""
_TAMPERED = "somebody tampered with the store"


def find_unproven_field(
    store: Store, artifact: Artifact, believed: Sequence[KeptVerdict], names: Collection[str]
) -> GateRefusal | None:
    """Return a refusal if one of the named fields of artifact.json cannot be believed, else None.

    ``believed`` are the verdicts that the gate believes. Raises StoreError if the store fails, and
    GatherError if the bytes cannot be inspected here.
    """
    stated = {name: _choose(name, believed) for name in sorted(names)}
    unproven = [name for name in stated if stated[name] != {getattr(artifact, name)}]
    for name in unproven:
        if values := stated[name] - {""}:
            return _contradict(name, getattr(artifact, name), values)
    if not unproven:
        return None
    try:
        derived = _derive_again(store, artifact)
    except (RecordError, PackageError, BrokenDataError, DocumentError) as error:
        return GateRefusal(what="", why=str(error), advice=_TAMPERED)
    except (ArtifactRefusedError, ProfileError) as error:
        return GateRefusal(what="", why=str(error), advice="push another build")
    for name in unproven:
        value, found = getattr(artifact, name), getattr(derived, name)
        if value != found:
            return _refuse_unsigned(name, value, found)
    return None


def _choose(name: str, kept: Iterable[KeptVerdict]) -> set[str]:
    """Return the values of a field in the newest verdicts; values set by hand take precedence.

    There are several values if verdicts of the same time disagree, and none if no verdict states
    the field.
    """
    found: dict[tuple[bool, datetime], set[str]] = {}
    for each in kept:
        for stated in each.verdict.stated:
            if stated.name == name:
                rank = stated.by_hand, read_time(each.verdict.ended)
                found.setdefault(rank, set()).add(stated.value)
    newest = found[max(found)] if found else set[str]()
    return newest - {""} or newest


def _contradict(name: str, value: str, stated: Collection[str]) -> GateRefusal:
    if len(stated) > 1:
        values = " and ".join(sorted(stated))
        why = f"verdicts that ended at the same time disagree on {name}: {values}"
        return GateRefusal(
            what="", why=why, advice="judge the file again, and attest the new result"
        )
    (signed,) = stated
    why = f"{_STORED} says {_format_field(name, value)}, but its verdict states {name} {signed}"
    advice = f"if {name} {value} is right, state it: `artifact attest RESULT --set {name}={value}`"
    return GateRefusal(what="", why=why, advice=advice if value else _TAMPERED)


def _refuse_unsigned(name: str, value: str, found: str) -> GateRefusal:
    message = f"{_STORED} says {_format_field(name, value)}"
    if found:
        return GateRefusal(
            what="", why=f"{message}, but its bytes {name} {found}", advice=_TAMPERED
        )
    why = f"{message}, which neither its bytes nor any verdict confirm"
    advice = f"if the value is right, state it: `artifact attest RESULT --set {name}={value}`"
    return GateRefusal(what="", why=why, advice=advice)


def _format_field(name: str, value: str) -> str:
    return f"{name} {value}" if value else f"no {name}"


def _derive_again(store: Store, artifact: Artifact) -> Artifact:
    """Derive the record only from the bytes in the store and their file name."""
    name = package_name(artifact.sha256, artifact.file_name)
    with _TURN, tempfile.TemporaryDirectory(prefix="gate-") as folder:
        path = Path(folder) / artifact.file_name
        with path.open("xb") as file:
            if hash_pieces(store.pieces(name), file, artifact.size) != artifact.sha256:
                raise RecordError(f"{store.url}: {name}: its bytes do not match its name")
        with inspect_file(path) as inspected:
            statement = inspected.statement
            texts = read_texts(path, statement.package)
            stated = StatedArtifact(project="" if statement.package.name else artifact.project)
            derived = derive(hash_file(path), statement, texts, StatedCommit("", ""), stated)
            return derived if statement.package.name else replace(derived, project="")

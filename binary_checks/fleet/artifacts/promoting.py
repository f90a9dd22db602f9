"""Promotes artifacts from channel to channel: each is held against the gate, and joins last.

A promotion that is killed has put nothing half into a channel: gate and record come first, and a
file is a member once its one object is there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from binary_checks import __version__
from binary_checks.errors import ArtifactRefusedError, RecordError, StoreError
from binary_checks.fleet.artifacts.artifact import Artifact
from binary_checks.fleet.artifacts.channel_members import demand_free, join_channel
from binary_checks.fleet.artifacts.gates import Gate, narrow, write_gate
from binary_checks.fleet.artifacts.gating import GateDecision, GateRefusal, choose_believed, decide
from binary_checks.fleet.artifacts.kept_verdicts import hash_bytes, list_verdicts
from binary_checks.fleet.artifacts.named_axes import find_lie
from binary_checks.fleet.artifacts.promotions import Promotion, write_promotion
from binary_checks.fleet.artifacts.proven_fields import find_unproven
from binary_checks.fleet.artifacts.signatures import SigningKey, write_envelope
from binary_checks.fleet.artifacts.withdrawals import list_withdrawn
from binary_checks.fleet.store import Store, ask_at_once
from binary_checks.fleet.store.store_names import artifact_name, policy_name, promotion_name

_IMMUTABLE = "a file name means one file in a channel, for ever"


@dataclass(frozen=True, kw_only=True, slots=True)
class PromotionCandidate:
    """A file that is to be promoted, and what its gate says of it."""

    artifact: Artifact
    decision: GateDecision = field(default_factory=GateDecision)
    faults: tuple[str, ...] = ()  # verdicts that count for nothing, a line each
    is_member: bool = False  # of the channel, already
    has_gpu_cell: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Occasion:
    """What holds for all promotions of one command."""

    gate: Gate
    source: str
    now: datetime
    by: str = ""
    keys: Sequence[SigningKey] = ()
    fields: frozenset[str] = frozenset()  # of artifact.json, which the matrix's GPU stages read


def weigh(
    store: Store,
    occasion: Occasion,
    artifacts: Iterable[Artifact],
    *,
    members: Collection[str],
    with_gpu: Collection[str] = (),
) -> list[PromotionCandidate]:
    """Hold each artifact against the gate; ``members`` are the SHA-256 that are in already."""
    by_digest = {each.sha256: each for each in artifacts}
    withdrawn = list_withdrawn(store, occasion.source)

    def weigh_one(digest: str) -> PromotionCandidate:
        artifact = by_digest[digest]
        if digest in members:
            return PromotionCandidate(artifact=artifact, is_member=True)
        if digest in withdrawn:
            why = f"withdrawn from {occasion.source}: {withdrawn[digest]}"
            refusal = GateRefusal(what="", why=why, advice="promote another build")
            return PromotionCandidate(artifact=artifact, decision=GateDecision(refusals=(refusal,)))
        return _weigh(store, occasion, artifact, has_gpu_cell=digest in with_gpu)

    return [*ask_at_once(weigh_one, by_digest)]


def _weigh(
    store: Store, occasion: Occasion, artifact: Artifact, *, has_gpu_cell: bool
) -> PromotionCandidate:
    faults: list[str] = []
    gate = narrow(occasion.gate, artifact, has_gpu_cell=has_gpu_cell)
    try:
        demand_free(store, occasion.gate.channel, artifact)
        if lie := find_lie(artifact):
            raise RecordError(f"{store.url}: {artifact_name(artifact.sha256)}: {lie}")
        kept = list_verdicts(store, artifact.sha256, gate.keys, faults)
        decision = decide(gate, artifact, kept, occasion.now)
        believed = choose_believed(gate, artifact, kept, occasion.now)
        names = gate.read_fields | occasion.fields
        if decision.passes and (found := find_unproven(store, artifact, believed, names)):
            decision = GateDecision(refusals=(found,))
    except ArtifactRefusedError as error:
        decision = GateDecision(refusals=(GateRefusal(what="", why=str(error), advice=_IMMUTABLE),))
    except RecordError as error:
        advice = "somebody tampered with the store"
        decision = GateDecision(refusals=(GateRefusal(what="", why=str(error), advice=advice),))
    return PromotionCandidate(
        artifact=artifact, decision=decision, faults=tuple(faults), has_gpu_cell=has_gpu_cell
    )


def promote(store: Store, occasion: Occasion, candidate: PromotionCandidate) -> bool:
    """Let a file into the channel, with the record of why; False where another just did.

    Raises ArtifactRefusedError where another file of that name was quicker.
    """
    if not candidate.decision.passes:
        raise StoreError(f"{candidate.artifact.file_name}: refused by its gate")
    gate = write_gate(occasion.gate)
    digest = hash_bytes(gate)
    store.create(policy_name(digest), gate)
    artifact = candidate.artifact
    record = write_promotion(
        Promotion(
            sha256=artifact.sha256,
            file_name=artifact.file_name,
            project=artifact.project,
            source=occasion.source,
            channel=occasion.gate.channel,
            at=occasion.now.isoformat(timespec="seconds"),
            by=occasion.by,
            gate=digest,
            verdicts=candidate.decision.verdicts,
            waived=candidate.decision.waived,
            gpu_cell=candidate.has_gpu_cell,
            versions={"binary_checks": __version__},
        )
    )
    content = write_envelope(record, occasion.keys)
    store.create(promotion_name(artifact.sha256, hash_bytes(content)), content)
    return join_channel(store, occasion.gate.channel, artifact)

"""Holds each member of a gated channel against its gate once more, from the store alone.

The record of a promotion states the gate that let the file in, and the verdicts that it went by.
These must have let it in at the time, and the newest verdicts in the store must let it in still,
whether the record names them or not: nobody need have signed the record. The keys that count are
those of the verifier's own policy, because a store that was tampered with could name any. Without
a policy the store is held against itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from binary_checks.errors import RecordError
from binary_checks.fleet.artifacts.artifact import Artifact
from binary_checks.fleet.artifacts.channel_members import ChannelMember
from binary_checks.fleet.artifacts.choosing_members import find_with_gpu, list_gpu_fields
from binary_checks.fleet.artifacts.gates import Gate, narrow, read_gate
from binary_checks.fleet.artifacts.gating import AHEAD, choose_believed, decide
from binary_checks.fleet.artifacts.kept_artifacts import find_artifact
from binary_checks.fleet.artifacts.kept_verdicts import demand_digest_of, list_verdicts
from binary_checks.fleet.artifacts.named_axes import find_lie
from binary_checks.fleet.artifacts.policy_file import GatePolicy
from binary_checks.fleet.artifacts.promotions import Promotion, read_promotion
from binary_checks.fleet.artifacts.proven_fields import find_unproven
from binary_checks.fleet.artifacts.signatures import (
    SignedStatement,
    find_signers,
    read_envelope,
)
from binary_checks.fleet.artifacts.statements import LARGEST_STATEMENT, read_time
from binary_checks.fleet.cell import Cell
from binary_checks.fleet.store import Store, ask_at_once
from binary_checks.fleet.store.store_names import policy_name, promotion_prefix
from binary_checks.lines import cut, one_line

_MOST_RECORDS = 20  # of one file in one channel, which are held against its gate


@dataclass(frozen=True, kw_only=True, slots=True)
class Verifier:
    """What the person who verifies brings along; nothing of it: the store's own word counts."""

    policy: GatePolicy | None = None
    cells: tuple[Cell, ...] = ()  # of a matrix, which say what has a GPU stage

    def find_gate(self, channel: str) -> Gate | None:
        """The gate of a channel, if the policy has one."""
        return self.policy.gates.get(channel) if self.policy else None


def verify_promotions(
    store: Store, channel: str, members: Iterable[ChannelMember], by: Verifier
) -> Iterator[str]:
    """A line for each member that no gate let in, or that its gate would not let in.

    A channel that the policy does not name, and into which nothing was ever promoted, has no gate.
    """
    own = by.find_gate(channel)
    verifier = _ChannelVerifier(store, channel, by)
    by_name = {each.stored.name: each for each in members}
    found = [*ask_at_once(lambda name: verifier.verify(by_name[name]), by_name)]
    if own is None and all(not recorded for recorded, _ in found):
        return
    for _, fault in found:
        if fault:
            yield fault


def open_promotion(store: Store, name: str, sha256: str) -> tuple[SignedStatement, Promotion]:
    """The record of those bytes that an object is. Raises RecordError for anything else."""
    named = f"{store.url}: {name}"
    content = store.read(name, LARGEST_STATEMENT)
    demand_digest_of(content, named)
    signed = read_envelope(content or b"", named)
    record = read_promotion(signed.payload, named)
    if record.sha256 != sha256:
        raise RecordError(f"{named}: the record of other bytes: {record.sha256}")
    return signed, record


class _ChannelVerifier:
    """One channel, with the verifier's own gate and keys; None where there are none."""

    def __init__(self, store: Store, channel: str, by: Verifier) -> None:
        self._store, self._channel, self._own = store, channel, by.find_gate(channel)
        self._trusted = by.policy.keys if by.policy and self._own else None
        self._cells, self._gpu_fields = by.cells, list_gpu_fields(by.cells)
        self._now = datetime.now(timezone.utc)

    def verify(self, member: ChannelMember) -> tuple[bool, str]:
        """Whether a promotion was recorded, and what is wrong with the member; "" for nothing.

        The records of other channels, from which it came or to which it went on, say nothing of it.
        """
        faults: list[str] = []
        recorded = 0
        for name in self._record_names(member):
            try:
                signed, record = open_promotion(self._store, name, member.sha256)
                if record.channel != self._channel:
                    continue
                recorded += 1
                self._hold(f"{self._store.url}: {name}", member, signed, record)
            except RecordError as error:
                faults.append(str(error))
            else:
                return True, ""
            if recorded == _MOST_RECORDS:
                break
        none = "no record says that it was promoted: it bypassed the gate"
        return bool(recorded), f"{member.file_name}: {next(iter(faults), none)}"

    def _record_names(self, member: ChannelMember) -> list[str]:
        return [each.name for each in self._store.names(promotion_prefix(member.sha256))]

    def _hold(
        self, named: str, member: ChannelMember, signed: SignedStatement, record: Promotion
    ) -> None:
        """Raise RecordError unless the record is of this member, and its gate holds."""
        if (record.project, record.file_name) != (member.project, member.file_name):
            shown = cut(one_line(f"{record.project}/{record.file_name}"), 120)
            raise RecordError(f"{named}: the record of another file: {shown}")
        if read_time(record.at) > self._now + AHEAD:
            raise RecordError(f"{named}: it is from the future ({record.at})")
        artifact = find_artifact(self._store, member.sha256)
        if artifact is None:
            raise RecordError(f"{named}: nothing is known of {member.sha256}")
        if lie := find_lie(artifact):
            raise RecordError(lie)
        gate = self._read_gate(record)
        promoters = self._own.promoters if self._own else gate.promoters
        if promoters:
            who = find_signers(signed, promoters)
            if not who.names:
                reason = next(iter(who.faults), "nobody signed it")
                raise RecordError(f"{named}: {reason}")
        self._demand_passes(gate, artifact, record, "its gate refuses it", recorded=True)
        if self._own and self._own.digest != record.gate and not promoters:
            said = "another policy than yours let it in, and yours refuses it"
            self._demand_passes(self._own, artifact, record, said, recorded=False)

    def _read_gate(self, record: Promotion) -> Gate:
        name = policy_name(record.gate)
        content = self._store.read(name, LARGEST_STATEMENT)
        demand_digest_of(content, f"{self._store.url}: {name}")
        gate = read_gate(content or b"", f"{self._store.url}: {name}")
        if gate.channel != self._channel:
            raise RecordError(f"{self._store.url}: {name}: the gate of the channel {gate.channel}")
        return gate

    def _demand_passes(
        self, gate: Gate, artifact: Artifact, record: Promotion, said: str, *, recorded: bool
    ) -> None:
        """Raise RecordError unless the gate lets the file in by the newest verdicts of the store.

        With ``recorded`` the verdicts that the record names must have let it in at the time, too.
        A verdict's age counts from the promotion, which it need not outlive.
        """
        if self._trusted is not None:
            publics = {key.public for key in self._trusted}
            gate = replace(gate, keys=tuple(key for key in gate.keys if key.public in publics))
        has_gpu_cell = record.gpu_cell or bool(find_with_gpu(self._cells, [artifact]))
        gate = narrow(gate, artifact, has_gpu_cell=has_gpu_cell)
        faults: list[str] = []
        promoted = read_time(record.at)
        kept = list_verdicts(self._store, artifact.sha256, gate.keys, faults)
        decisions = [decide(gate, artifact, kept, self._now, promoted=promoted)]
        if recorded:
            named = [each for each in kept if not {*record.verdicts}.isdisjoint(each.digests)]
            decisions.insert(0, decide(gate, artifact, named, promoted))
        believed = choose_believed(gate, artifact, kept, self._now)
        names = gate.read_fields | self._gpu_fields
        if unproven := find_unproven(self._store, artifact, believed, names):
            raise RecordError(f"{said}: {unproven.spell()}")
        for decision in decisions:
            if not decision.passes:
                why = next(iter(faults), "") or decision.refusals[0].spell()
                raise RecordError(f"{said}: {why}")

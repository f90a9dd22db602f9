"""Verify a repository, using only its store: hashes, signatures, and the decisions of gates.

Anything that cannot be read is reported, and never counts as verified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial

from binary_checks.errors import ProfileError, RecordError, StoreError
from binary_checks.fleet.artifacts.artifact import Artifact, hash_record
from binary_checks.fleet.artifacts.channel_index import (
    ChannelView,
    find_differences,
    is_indexed,
    view_known_channel,
)
from binary_checks.fleet.artifacts.channels import ChannelMember, list_channels
from binary_checks.fleet.artifacts.deriving import LONGEST_TEXT
from binary_checks.fleet.artifacts.gating import AHEAD, Gate, apply_rules, decide, read_gate
from binary_checks.fleet.artifacts.kept_artifacts import fetch_object, list_artifacts
from binary_checks.fleet.artifacts.kept_verdicts import (
    collect_evidence,
    open_push,
    open_verdict,
    read_named,
)
from binary_checks.fleet.artifacts.matching import find_with_gpu
from binary_checks.fleet.artifacts.policy_file import GatePolicy
from binary_checks.fleet.artifacts.promoting import Promotion, open_promotion
from binary_checks.fleet.artifacts.relabelling import find_origin
from binary_checks.fleet.artifacts.signatures import SignedStatement, find_signers
from binary_checks.fleet.artifacts.verdict import read_time
from binary_checks.fleet.night import Cell
from binary_checks.fleet.store import (
    DERIVED,
    Store,
    ask_at_once,
    is_safe_part,
    package_folder,
    policy_name,
    promotion_prefix,
)
from binary_checks.safe_text import cut, one_line


@dataclass(frozen=True, kw_only=True, slots=True)
class Remark:
    """A fault, or something that could not be verified."""

    about: str  # a file name or a channel
    text: str
    looked: bool = True  # False if it is unknown whether there is a fault


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifyScope:
    """The extent of a verification: some channels with their members, or the whole store."""

    store: Store
    channels: Mapping[str, ChannelView]
    artifacts: Mapping[str, Artifact]  # by SHA-256
    faults: tuple[Remark, ...] = ()  # found while the store was read
    policy: GatePolicy | None = None  # of the person who verifies; None: the store's gates count
    cells: tuple[Cell, ...] = ()  # of a matrix, which decide which files need a GPU verdict


def read_scope(
    store: Store,
    channels: Sequence[str],
    policy: GatePolicy | None = None,
    cells: tuple[Cell, ...] = (),
) -> VerifyScope:
    """Read the extent of a verification: the channels, or the whole store if none is named.

    Raises ProfileError for an unknown channel, and StoreError if the store fails.
    """
    views = {each: view_known_channel(store, each) for each in channels or _list_known(store)}
    faults = [Remark(about=name, text=text) for name, view in views.items() for text in view.faults]
    artifacts = {k: v for view in views.values() for k, v in view.artifacts.items()}
    if not channels:
        broken: list[str] = []
        artifacts = {each.sha256: each for each in list_artifacts(store, broken=broken)}
        seen = {each.text for each in faults}
        faults += [Remark(about="packages", text=each) for each in broken if each not in seen]
        if not (artifacts or faults or views):
            raise ProfileError(f"{store.url}: it contains neither artifacts nor channels")
    return VerifyScope(
        store=store,
        channels=views,
        artifacts=artifacts,
        faults=tuple(faults),
        policy=policy,
        cells=cells,
    )


def _list_known(store: Store) -> list[str]:
    """Return every channel that has members or an index.

    An index without members is included, because it may still list files.
    """
    folders = (name for prefix in DERIVED for name in store.folders(prefix))
    indexed = {name.split("/")[1] for name in folders}
    return sorted({*list_channels(store), *filter(is_safe_part, indexed)})


def verify(scope: VerifyScope) -> Iterator[Remark]:
    """Yield all faults, and everything that could not be verified."""
    yield from scope.faults
    files = scope.artifacts
    ordered = sorted(files, key=lambda digest: files[digest].file_name)
    for found in ask_at_once(lambda digest: _verify_file(scope.store, files[digest]), ordered):
        yield from found
    for channel, view in scope.channels.items():
        yield from _guard(channel, partial(_verify_index, scope.store, channel, view))
        yield from _guard(channel, partial(_verify_gate, scope, channel, view))


def _guard(about: str, find: Callable[[], Iterator[str] | None]) -> Iterator[Remark]:
    """Yield the faults that a function finds, and the fault that makes it fail."""
    try:
        for text in find() or ():
            yield Remark(about=about, text=text)
    except RecordError as error:
        yield Remark(about=about, text=str(error))
    except (StoreError, OSError) as error:
        yield Remark(about=about, text=str(error), looked=False)


def _verify_file(store: Store, artifact: Artifact) -> list[Remark]:
    """Verify the bytes of a file, of what belongs to it, and of all statements about it."""
    steps: list[Callable[[], Iterator[str] | None]] = [
        partial(fetch_object, store, *each) for each in _list_objects(artifact)
    ]
    steps.append(partial(_verify_statements, store, artifact))
    return [remark for step in steps for remark in _guard(artifact.label, step)]


def _list_objects(artifact: Artifact) -> Iterator[tuple[str, str, int]]:
    """Yield the name, the SHA-256 and the greatest size of each object of an artifact."""
    yield artifact.object_name, artifact.sha256, artifact.size
    if artifact.metadata_sha256:
        yield artifact.metadata_name, artifact.metadata_sha256, LONGEST_TEXT
    for each in artifact.companions:
        yield artifact.name_companion(each), each.sha256, each.size


def _verify_statements(store: Store, artifact: Artifact) -> Iterator[str]:
    """Yield a line for each invalid verdict or record, even if nothing rests on it."""
    folder = package_folder(artifact.sha256)
    for each in store.names(folder):
        try:
            match each.name.removeprefix(folder).partition("/")[0]:
                case "pushes":
                    open_push(store, each.name, artifact)
                case "verdicts":
                    _, verdict = open_verdict(store, each.name, artifact.sha256)
                    if verdict.artifact_json_sha256 != hash_record(artifact):
                        yield f"{store.url}: {each.name}: it is about another artifact.json"
                case "promotions" | "origins":
                    open_promotion(store, each.name, artifact.sha256)
        except RecordError as error:
            yield str(error)


def _verify_index(store: Store, channel: str, view: ChannelView) -> Iterator[str]:
    """Verify that a channel's index equals the index derived from its members."""
    index = view.derive(channel)
    yield from index.faults
    if not is_indexed(store, channel):
        return
    differing = find_differences(store, index)
    if differing:  # a member may have joined meanwhile: read the channel again
        index = view_known_channel(store, channel).derive(channel)
        differing = find_differences(store, index)
    if differing:
        hint = "run `binary-checks artifact index`"
        yield f"its index does not match its members ({hint}): {', '.join(differing)}"
    for name in sorted(index.files.keys() - {*differing}):
        file = index.files[name]
        fetch_object(store, name, file.sha256, file.size)


def _verify_gate(scope: VerifyScope, channel: str, view: ChannelView) -> Iterator[str]:
    """Yield a line for each member that no gate let in, or that its gate would now refuse.

    A channel that the policy does not name, and into which nothing was ever promoted, has no gate.
    """
    own = scope.policy.gates.get(channel) if scope.policy else None
    members = {
        each.stored.name: (each, view.artifacts[each.sha256])
        for each in view.members
        if each.sha256 in view.artifacts
    }
    found = [*ask_at_once(lambda name: _verify_member(scope, own, *members[name]), members)]
    if own is not None or any(recorded for recorded, _ in found):
        yield from filter(None, (fault for _, fault in found))


def _verify_member(
    scope: VerifyScope, own: Gate | None, member: ChannelMember, artifact: Artifact
) -> tuple[bool, str]:
    """Return whether a promotion was recorded, and the member's fault, or "".

    The file's records for other channels are ignored.
    """
    faults: list[str] = []
    recorded = False
    for each in scope.store.names(promotion_prefix(member.sha256)):
        named = f"{scope.store.url}: {each.name}"
        try:
            signed, record = open_promotion(scope.store, each.name, member.sha256)
            if record.channel != member.channel:
                continue
            recorded = True
            if (record.project, record.file_name) != (artifact.project, member.file_name):
                shown = cut(one_line(f"{record.project}/{record.file_name}"), 120)
                raise RecordError(f"{named}: a record for another file: {shown}")
            _require_pass(scope, own, artifact, signed, record)
        except RecordError as error:
            faults.append(str(error))
        else:
            return True, ""
    none = "it has no promotion record: it bypassed the gate"
    return recorded, f"{artifact.label}: {next(iter(faults), none)}"


def _require_pass(
    scope: VerifyScope,
    own: Gate | None,
    artifact: Artifact,
    signed: SignedStatement,
    record: Promotion,
) -> None:
    """Raise RecordError unless the gate accepts the file by the verdicts in the store.

    The gate is that of the verifier's own policy, or else the one that the record names. The age of
    verdicts is counted up to the promotion, but a verdict that is newer counts, too.
    """
    store, now, promoted = scope.store, datetime.now(timezone.utc), read_time(record.at)
    if promoted > now + AHEAD:
        raise RecordError(f"the time of its promotion is in the future ({record.at})")
    gate = own or _read_gate(store, record)
    if gate.promoters:
        who = find_signers(signed, gate.promoters)
        if not who.names:
            raise RecordError(f"its promotion: {next(iter(who.faults), 'nobody signed it')}")
    if gate.relabel:
        artifact = find_origin(store, artifact) or artifact  # whose bytes were tested
    has_gpu_cell = record.gpu_cell or bool(find_with_gpu(scope.cells, [artifact]))
    gate = apply_rules(gate, artifact, has_gpu_cell=has_gpu_cell)
    evidence = collect_evidence(store, artifact, gate.keys)
    decision = decide(gate, evidence, now, promoted=promoted)
    if not decision.passes:
        why = next(iter(evidence.faults), "") or decision.refusals[0].format()
        raise RecordError(f"its gate refuses the file: {why}")
    named = [each for each in evidence.verdicts if not {*record.verdicts}.isdisjoint(each.digests)]
    if not named or any(read_time(each.verdict.ended) > promoted + AHEAD for each in named):
        raise RecordError("its promotion does not name verdicts that were there before it")


def _read_gate(store: Store, record: Promotion) -> Gate:
    name = policy_name(record.gate)
    gate = read_gate(read_named(store, name), f"{store.url}: {name}")
    if gate.channel != record.channel:
        raise RecordError(f"{store.url}: {name}: it is the gate of the channel {gate.channel}")
    return gate

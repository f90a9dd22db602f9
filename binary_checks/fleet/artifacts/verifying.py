"""Verify a repository, using only its store: bytes, documents, channels and their indexes.

Anything that cannot be read is reported, and never counts as verified.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import IO, Any

from packaging.utils import canonicalize_name

from binary_checks.documents.json_values import DocumentError, read_json
from binary_checks.errors import (
    BrokenDataError,
    PackageError,
    ProfileError,
    RecordError,
    StoreError,
)
from binary_checks.fleet.artifacts.artifact import Artifact
from binary_checks.fleet.artifacts.axis_claims import find_contradiction_in_name
from binary_checks.fleet.artifacts.channel_index import (
    ChannelView,
    find_differences,
    is_indexed,
    view_known_channel,
)
from binary_checks.fleet.artifacts.channels import ChannelMember, list_channels
from binary_checks.fleet.artifacts.derived_index import DerivedIndex
from binary_checks.fleet.artifacts.deriving import join_text, open_texts
from binary_checks.fleet.artifacts.gating import (
    AHEAD,
    Gate,
    apply_rules,
    decide,
    read_gate,
    select_believed,
)
from binary_checks.fleet.artifacts.kept_artifacts import find_artifact, list_artifacts
from binary_checks.fleet.artifacts.kept_verdicts import (
    list_verdicts,
    open_verdict,
    require_digest_of,
)
from binary_checks.fleet.artifacts.matching import find_with_gpu, list_gpu_fields
from binary_checks.fleet.artifacts.policy_file import GatePolicy
from binary_checks.fleet.artifacts.promoting import Promotion, find_unproven_field, read_promotion
from binary_checks.fleet.artifacts.relabelling import find_origin, open_origin
from binary_checks.fleet.artifacts.signatures import (
    SignedStatement,
    find_signers,
    read_envelope,
)
from binary_checks.fleet.artifacts.verdict import LARGEST_STATEMENT, read_time
from binary_checks.fleet.night import Cell
from binary_checks.fleet.store import (
    DERIVED,
    FACTS,
    PACKAGES,
    Store,
    artifact_name,
    ask_at_once,
    companion_name,
    expired_name,
    is_safe_part,
    metadata_name,
    package_name,
    policy_name,
    promotion_prefix,
)
from binary_checks.fleet.store.kept_facts import require_facts
from binary_checks.knowledge.configurations import same_version
from binary_checks.safe_text import cut, one_line

# Repeating the decisions of gates for the members of channels, only from the store.
#
# The record of a promotion contains the digests of the gate and of the verdicts that decided. These
# verdicts must have let the file in at the time, and the newest verdicts in the store must still
# let it in, whether the record names them or not: records need not be signed. Only keys of the
# verifier's own policy count, because a store that was tampered with could name any keys. Without a
# policy the store's own gates and keys are used.

_MOST_RECORDS = 20  # records of one file in one channel that are verified at most


@dataclass(frozen=True, kw_only=True, slots=True)
class Verifier:
    """The policy and cells of the person who verifies; by default the store's gates count."""

    policy: GatePolicy | None = None
    cells: tuple[Cell, ...] = ()  # of a matrix, which decide which files need a GPU verdict

    def find_gate(self, channel: str) -> Gate | None:
        """Return the channel's gate in the policy, or None."""
        return self.policy.gates.get(channel) if self.policy else None


def verify_promotions(
    store: Store, channel: str, members: Iterable[ChannelMember], by: Verifier
) -> Iterator[str]:
    """Yield a line for each member that no gate let in, or that its gate would now refuse.

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
    """Return the record in an object. Raises RecordError if it is not a record of these bytes."""
    named = f"{store.url}: {name}"
    content = store.read(name, LARGEST_STATEMENT)
    require_digest_of(content, named)
    signed = read_envelope(content or b"", named)
    record = read_promotion(signed.payload, named)
    if record.sha256 != sha256:
        raise RecordError(f"{named}: a record for other bytes: {record.sha256}")
    return signed, record


class _ChannelVerifier:
    """The verifier of one channel, with the gate and the keys in the verifying person's policy."""

    def __init__(self, store: Store, channel: str, by: Verifier) -> None:
        self._store, self._channel, self._own = store, channel, by.find_gate(channel)
        self._trusted = by.policy.keys if by.policy and self._own else None
        self._cells, self._gpu_fields = by.cells, list_gpu_fields(by.cells)
        self._now = datetime.now(timezone.utc)

    def verify(self, member: ChannelMember) -> tuple[bool, str]:
        """Return whether a promotion was recorded, and the member's fault, or "".

        The file's records for other channels are ignored.
        """
        faults: list[str] = []
        recorded = 0
        for name in self._record_names(member):
            try:
                signed, record = open_promotion(self._store, name, member.sha256)
                if record.channel != self._channel:
                    continue
                recorded += 1
                self._verify_record(f"{self._store.url}: {name}", member, signed, record)
            except RecordError as error:
                faults.append(str(error))
            else:
                return True, ""
            if recorded == _MOST_RECORDS:
                break
        none = "it has no promotion record: it bypassed the gate"
        return bool(recorded), f"{member.file_name}: {next(iter(faults), none)}"

    def _record_names(self, member: ChannelMember) -> list[str]:
        return [each.name for each in self._store.names(promotion_prefix(member.sha256))]

    def _verify_record(
        self, named: str, member: ChannelMember, signed: SignedStatement, record: Promotion
    ) -> None:
        """Raise RecordError unless the record is for this member, and its gate accepts the file."""
        if (record.project, record.file_name) != (member.project, member.file_name):
            shown = cut(one_line(f"{record.project}/{record.file_name}"), 120)
            raise RecordError(f"{named}: a record for another file: {shown}")
        if read_time(record.at) > self._now + AHEAD:
            raise RecordError(f"{named}: its time is in the future ({record.at})")
        artifact = find_artifact(self._store, member.sha256)
        if artifact is None:
            raise RecordError(f"{named}: there is no artifact {member.sha256}")
        if lie := find_contradiction_in_name(artifact):
            raise RecordError(lie)
        gate = self._read_gate(record)
        if gate.relabel and (origin := find_origin(self._store, artifact)) is not None:
            if self._own and not self._own.relabel:
                raise RecordError(f"{named}: your policy does not relabel files for this channel")
            artifact = origin  # its verdicts are about the bytes that were tested
        promoters = self._own.promoters if self._own else gate.promoters
        if promoters:
            who = find_signers(signed, promoters)
            if not who.names:
                reason = next(iter(who.faults), "nobody signed it")
                raise RecordError(f"{named}: {reason}")
        self._require_passes(gate, artifact, record, "its gate refuses the file", recorded=True)
        if self._own and self._own.digest != record.gate and not promoters:
            refusal = "another policy let the file in, but yours refuses it"
            self._require_passes(self._own, artifact, record, refusal, recorded=False)

    def _read_gate(self, record: Promotion) -> Gate:
        name = policy_name(record.gate)
        content = self._store.read(name, LARGEST_STATEMENT)
        require_digest_of(content, f"{self._store.url}: {name}")
        gate = read_gate(content or b"", f"{self._store.url}: {name}")
        if gate.channel != self._channel:
            raise RecordError(
                f"{self._store.url}: {name}: it is the gate of the channel {gate.channel}"
            )
        return gate

    def _require_passes(
        self, gate: Gate, artifact: Artifact, record: Promotion, refusal: str, *, recorded: bool
    ) -> None:
        """Raise RecordError unless the gate accepts the file by the newest verdicts in the store.

        With ``recorded``, the gate must also have accepted the file at the promotion, by the
        verdicts that the record names. The age of verdicts is counted up to the promotion.
        """
        if self._trusted is not None:
            publics = {key.public for key in self._trusted}
            gate = replace(gate, keys=tuple(key for key in gate.keys if key.public in publics))
        has_gpu_cell = record.gpu_cell or bool(find_with_gpu(self._cells, [artifact]))
        gate = apply_rules(gate, artifact, has_gpu_cell=has_gpu_cell)
        faults: list[str] = []
        promoted = read_time(record.at)
        kept = list_verdicts(self._store, artifact.sha256, gate.keys, faults)
        decisions = [decide(gate, artifact, kept, self._now, promoted=promoted)]
        if recorded:
            named = [each for each in kept if not {*record.verdicts}.isdisjoint(each.digests)]
            decisions.insert(0, decide(gate, artifact, named, promoted))
        believed = select_believed(gate, artifact, kept, self._now)
        names = gate.read_fields | self._gpu_fields
        if unproven := find_unproven_field(self._store, artifact, believed, names):
            raise RecordError(f"{refusal}: {unproven.format()}")
        for decision in decisions:
            if not decision.passes:
                why = next(iter(faults), "") or decision.refusals[0].format()
                raise RecordError(f"{refusal}: {why}")


# Comparing one artifact's document with its bytes: hash, size and the package's own metadata.

_INDEX = "info/index.json"
_KINDS = {"whl": "wheel", "conda": "conda"}


def verify_artifact(
    store: Store, artifact: Artifact, names: Mapping[str, int], facts: Sequence[str]
) -> Iterator[str]:
    """Yield a sentence for each difference between a document and its file.

    ``names`` are the stored objects with their sizes, ``facts`` the names of the objects with
    facts. Raises StoreError if an existing object cannot be read.
    """
    name = package_name(artifact.sha256, artifact.file_name)
    suffix = artifact.file_name.rpartition(".")[2]
    if _KINDS.get(suffix, artifact.kind) != artifact.kind:
        yield f"its document states the kind {artifact.kind}"
    elif lie := find_contradiction_in_name(artifact):
        yield lie
    if name not in names:
        yield "its file is missing"
    else:
        with _fetched(artifact) as (file, path):
            digest, size = hash_object(store, name, file, most=artifact.size)
            if size > artifact.size:
                stated = artifact.size
                yield f"it has more than {stated} bytes, but its document states {stated}"
            elif digest == artifact.sha256 and size == artifact.size:
                yield from _verify_texts(store, artifact, path, names)
            elif digest == artifact.sha256:
                yield f"it has {size} bytes, but its document states {artifact.size}"
            else:
                yield f"its sha256 is {digest}"
    yield from _verify_companions(store, artifact, names)
    yield from _verify_facts(store, artifact, facts)


@contextmanager
def _fetched(artifact: Artifact) -> Iterator[tuple[IO[bytes] | None, Path]]:
    """Yield a temporary file for packages that must be opened; only one file exists at a time."""
    if artifact.kind not in _OWN_TEXTS:
        yield None, Path()
        return
    with tempfile.TemporaryDirectory(prefix="verify-") as folder:
        path = Path(folder) / artifact.file_name
        with path.open("wb") as file:
            yield file, path


def hash_object(
    store: Store, name: str, file: IO[bytes] | None = None, *, most: int | None = None
) -> tuple[str, int]:
    """Return SHA-256 and size of an object, and write it to ``file`` if given.

    Reading stops after more than ``most`` bytes, because a server might never stop sending.
    """
    digest, size = hashlib.sha256(), 0
    for piece in store.pieces(name):
        digest.update(piece)
        size += len(piece)
        if most is not None and size > most:
            break
        if file is not None:
            file.write(piece)
    if file is not None:
        file.flush()
    return digest.hexdigest(), size


def _verify_texts(
    store: Store, artifact: Artifact, path: Path, names: Mapping[str, int]
) -> Iterator[str]:
    if artifact.kind in _OWN_TEXTS:
        try:
            yield from _OWN_TEXTS[artifact.kind](store, artifact, path, names)
        except (PackageError, BrokenDataError, DocumentError, UnicodeDecodeError) as error:
            yield f"cannot be read: {error}"


def _verify_wheel(
    store: Store, artifact: Artifact, path: Path, names: Mapping[str, int]
) -> Iterator[str]:
    """Compare METADATA in the wheel, next to it and in the document."""
    own = _read_members(path, _is_metadata)
    if len(own) != 1:
        yield f"it has {len(own)} METADATA files"
        return
    yield from _verify_metadata(store, artifact, own[0], names)
    headers = BytesHeaderParser().parsebytes(own[0])
    name, version = str(headers["Name"] or ""), str(headers["Version"] or "")
    requires = str(headers["Requires-Python"] or "")
    if canonicalize_name(name) != artifact.project:
        yield f"its document states the project {artifact.project}, its METADATA {name}"
    if not same_version(version, artifact.version):
        yield f"its document states the version {artifact.version}, its METADATA {version}"
    if requires.split() != artifact.requires_python.split():
        stated = artifact.requires_python or "nothing"
        yield f"its document states that it requires Python {stated}, its METADATA {requires!r}"


def _is_metadata(name: str) -> bool:
    folder, _, rest = name.partition("/")
    return folder.endswith(".dist-info") and rest == "METADATA"


def _verify_metadata(
    store: Store, artifact: Artifact, own: bytes, names: Mapping[str, int]
) -> Iterator[str]:
    name = metadata_name(artifact.sha256, artifact.file_name)
    digest = hashlib.sha256(own).hexdigest()
    if artifact.metadata_sha256 and digest != artifact.metadata_sha256:
        yield f"its METADATA has the sha256 {digest}, but its document states another"
    if name in names:
        if names[name] != len(own) or store.read(name) != own:
            yield (
                "the separate METADATA, which installers read first, differs from the METADATA in "
                "the wheel"
            )
    elif artifact.metadata_sha256:
        yield "the separate METADATA, which its document names, is missing"


def _verify_conda(_: Store, artifact: Artifact, path: Path, __: object) -> Iterator[str]:
    """Compare index.json with the document, from which repodata.json is made."""
    own = _read_members(path, _INDEX.__eq__, in_part=True)
    if len(own) != 1:
        yield f"it has {len(own)} files {_INDEX}"
        return
    record: Any = read_json(own[0].decode("utf-8-sig"))
    if record != artifact.record:
        yield "its index.json differs from its document"
        return
    for key, value in (
        ("name", artifact.project),
        ("version", artifact.version),
        ("subdir", artifact.subdir),
    ):
        if (record.get(key) or value) != value:
            yield f"its document states {key} {value}, its index.json {record[key]}"


def _read_members(
    path: Path, wanted: Callable[[str], bool], *, in_part: bool = False
) -> list[bytes]:
    with ExitStack() as files:
        tree = open_texts(path, files, in_part=in_part)
        listed = [entry for entry in tree.entries() if wanted(entry.name)]
        return [join_text(tree.pieces(entry)) for entry in listed]


def _verify_companions(store: Store, artifact: Artifact, names: Mapping[str, int]) -> Iterator[str]:
    for each in artifact.companions:
        name = companion_name(artifact.sha256, each.sha256, each.path)
        if name not in names:
            yield f"{each.path}, which belongs to it, is missing"
        elif hash_object(store, name, most=each.size) != (each.sha256, each.size):
            yield f"{each.path}, which belongs to it, has other bytes than its document states"


def _verify_facts(store: Store, artifact: Artifact, facts: Sequence[str]) -> Iterator[str]:
    for name in facts:
        try:
            require_facts(store, name, artifact.sha256)
        except RecordError as error:
            yield f"its facts: {error}"


_OWN_TEXTS: Mapping[str, Callable[[Store, Artifact, Path, Mapping[str, int]], Iterator[str]]] = {
    "wheel": _verify_wheel,
    "conda": _verify_conda,
}
"""Kind -> the function that compares its metadata; other kinds have none."""


# Verifying a store: its files, indexes, records and gates.

_AT_ONCE = 4  # files at the same time; two cores hash faster than most disks and networks read
_FEW = 3  # pages that a line lists
_DIGEST = re.compile(rf"{PACKAGES}[0-9a-f]{{2}}/([0-9a-f]{{64}})/(.+)")
_APPENDED = ("verdicts/", "promotions/", "origins/")
"""Objects that are added next to an artifact after its document, which does not list them."""


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
    names: Mapping[str, int]  # sizes of all objects below packages/ by name
    facts: Mapping[str, tuple[str, ...]]  # SHA-256 -> objects below facts/
    whole: bool  # whether all channels are verified, and objects that are in no channel
    indexed: frozenset[str] = frozenset()  # channels that have an index
    faults: tuple[Remark, ...] = ()  # found while the store was read
    by: Verifier = field(default_factory=Verifier)  # policy and matrix of the person who verifies

    @property
    def size(self) -> int:
        """The size of all files in bytes."""
        return sum(each.size for each in self.artifacts.values())

    @property
    def unfinished(self) -> frozenset[str]:
        """SHA-256 of pushes that are unfinished or still running; they do not count."""
        digests = {found[1] for name in self.names if (found := _DIGEST.fullmatch(name))}
        return frozenset(each for each in digests if artifact_name(each) not in self.names)


VerifyStep = Callable[[VerifyScope], Iterator[Remark]]


def read_scope(store: Store, channels: Sequence[str]) -> VerifyScope:
    """Read the extent of a verification: the channels, or the whole store if none is named.

    Raises ProfileError for an unknown channel, and StoreError if the store fails.
    """
    known = _list_known(store)
    views = {each: view_known_channel(store, each) for each in [*channels] or known}
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
        # Listed after the documents: a push writes its bytes before its document.
        names={each.name: each.size for each in store.names(PACKAGES)},
        facts=_list_facts(store),
        whole=not channels,
        indexed=frozenset(each for each in views if is_indexed(store, each)),
        faults=tuple(faults),
    )


def _list_known(store: Store) -> list[str]:
    """Return every channel that has members or an index.

    An index without members is included, because it may still list files.
    """
    folders = (name for prefix in DERIVED for name in store.folders(prefix))
    indexed = {name.split("/")[1] for name in folders}
    return sorted({*list_channels(store), *(each for each in indexed if is_safe_part(each))})


def _list_facts(store: Store) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for each in store.names(FACTS):
        digest = each.name.rpartition("/")[2].partition(".")[0]
        found[digest] = (*found.get(digest, ()), each.name)
    return found


def verify(scope: VerifyScope) -> Iterator[Remark]:
    """Yield all faults, and everything that could not be verified."""
    yield from scope.faults
    for verifier in VERIFIERS:
        try:
            yield from verifier(scope)
        except RecordError as error:
            yield Remark(about=scope.store.url, text=str(error))
        except StoreError as error:
            yield Remark(about=scope.store.url, text=str(error), looked=False)


def verify_files(scope: VerifyScope) -> Iterator[Remark]:
    """Verify all files, several at the same time, each as a stream."""
    workers = min(_AT_ONCE, max(2, os.cpu_count() or 1))
    with ThreadPoolExecutor(workers) as pool:
        ordered = sorted(scope.artifacts.values(), key=lambda each: each.file_name)
        for found in pool.map(lambda each: _verify_file(scope, each), ordered):
            yield from found


def _verify_file(scope: VerifyScope, artifact: Artifact) -> list[Remark]:
    found: list[Remark] = []
    try:
        facts = scope.facts.get(artifact.sha256, ())
        for text in verify_artifact(scope.store, artifact, scope.names, facts):
            found.append(Remark(about=artifact.file_name, text=text))
    except (StoreError, OSError) as error:
        found.append(Remark(about=artifact.file_name, text=str(error), looked=False))
    return found


def verify_indexes(scope: VerifyScope) -> Iterator[Remark]:
    """Verify that each index equals the index derived from its members."""
    for channel, view in scope.channels.items():
        index = view.derive(channel)
        for fault in index.faults:
            yield Remark(about=channel, text=fault)
        if channel not in scope.indexed:
            continue
        # a member may have joined meanwhile: read the channel again
        if differing := find_differences(scope.store, index):
            index = view_known_channel(scope.store, channel).derive(channel)
            differing = find_differences(scope.store, index)
        for text in _verify_index(scope.store, index, differing):
            yield Remark(about=channel, text=text)


def _verify_index(store: Store, index: DerivedIndex, differing: Sequence[str]) -> Iterator[str]:
    if differing:
        more = f" and {len(differing) - _FEW:,} more" if len(differing) > _FEW else ""
        names = ", ".join(differing[:_FEW])
        hint = "run `binary-checks artifact index`"
        yield f"its index does not match its members: {names}{more}; {hint}"
    for name in sorted(index.files.keys() - {*differing}):
        file = index.files[name]
        if hash_object(store, name, most=file.size) != (file.sha256, file.size):
            yield f"{name}: its bytes differ from those of the package that it copies"


def verify_leftovers(scope: VerifyScope) -> Iterator[Remark]:
    """Verify that each object below packages/ belongs to an artifact."""
    if not scope.whole:
        return
    belonging = {name for each in scope.artifacts.values() for name in _list_own(each)}
    for name in sorted(scope.names.keys() - belonging):
        found = _DIGEST.fullmatch(name)
        if found is None:
            yield Remark(about=name, text="its name is not valid for an object of a store")
        elif found[1] in scope.artifacts and not found[2].startswith(_APPENDED):
            yield Remark(about=name, text="it belongs to no artifact")


def _list_own(artifact: Artifact) -> Iterator[str]:
    """Yield the names of an artifact's document, its files and their companions."""
    yield artifact_name(artifact.sha256)
    yield package_name(artifact.sha256, artifact.file_name)
    yield metadata_name(artifact.sha256, artifact.file_name)
    yield expired_name(artifact.sha256)
    for each in artifact.companions:
        yield companion_name(artifact.sha256, each.sha256, each.path)


def verify_gates(scope: VerifyScope) -> Iterator[Remark]:
    """Verify that each member of a gated channel still passes its gate."""
    for channel, view in scope.channels.items():
        for text in verify_promotions(scope.store, channel, view.members, scope.by):
            yield Remark(about=channel, text=text)


def verify_statements(scope: VerifyScope) -> Iterator[Remark]:
    """Verify that all verdicts and records, even unused ones, are valid and about their file."""
    for name in sorted(scope.names):
        found = _DIGEST.fullmatch(name)
        if found is None or found[1] not in scope.artifacts:
            continue
        about = scope.artifacts[found[1]].file_name
        try:
            if found[2].startswith("verdicts/"):
                open_verdict(scope.store, name, found[1])
            elif found[2].startswith("promotions/"):
                open_promotion(scope.store, name, found[1])
            elif found[2].startswith("origins/"):
                open_origin(scope.store, name, found[1])
        except RecordError as error:
            yield Remark(about=about, text=str(error))
        except StoreError as error:
            yield Remark(about=about, text=str(error), looked=False)


VERIFIERS: tuple[VerifyStep, ...] = (
    verify_files,
    verify_indexes,
    verify_leftovers,
    verify_statements,
    verify_gates,
)
"""The verifications, in order."""

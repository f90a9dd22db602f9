"""Promote artifacts from channel to channel, each through the gate of its new channel.

The gate and the record are written first. The last object written makes the file a member of the
channel, so that a promotion that is killed leaves no channel half-changed.
"""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from binary_checks import __version__
from binary_checks.documents.json_values import encode_fields
from binary_checks.documents.result import read_results
from binary_checks.errors import (
    MISUSED,
    TRY_AGAIN,
    GatherError,
    ProfileError,
    RecordError,
    StoreError,
)
from binary_checks.fleet.artifacts.artifact import Artifact, ArtifactRefusedError
from binary_checks.fleet.artifacts.channels import (
    ChannelMember,
    join_channel,
    list_withdrawn,
    require_free,
)
from binary_checks.fleet.artifacts.deriving import INSPECT_LIMIT, LONGEST_TEXT
from binary_checks.fleet.artifacts.gating import (
    Gate,
    GateDecision,
    GateRefusal,
    apply_rules,
    decide,
    read_gate,
    write_gate,
)
from binary_checks.fleet.artifacts.kept_artifacts import (
    HashedFile,
    Incoming,
    fetch_object,
    find_artifact,
    hash_file,
    keep_artifact,
    list_artifacts,
)
from binary_checks.fleet.artifacts.kept_verdicts import collect_evidence, hash_bytes, open_signed
from binary_checks.fleet.artifacts.limited_process import run_limited
from binary_checks.fleet.artifacts.relabelling import (
    describe_relabelled,
    fetch_file,
    list_origins,
    read_metadata,
    relabel_wheel,
)
from binary_checks.fleet.artifacts.signatures import SignedStatement, SigningKey, write_envelope
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
    policy_name,
    promotion_name,
)
from binary_checks.fleet.stored_nights import require_digest
from binary_checks.model import GOOD_OUTCOMES, Outcome, PackageResult
from binary_checks.safe_text import cut, one_line

_CORRECT = "correct it, and build again"


@dataclass(frozen=True, kw_only=True, slots=True)
class PromotionCandidate:
    """A file that is to be promoted, and its gate's decision."""

    artifact: Artifact
    decision: GateDecision = field(default_factory=GateDecision)
    faults: tuple[str, ...] = ()  # invalid verdicts, a line each
    is_member: bool = False  # whether the channel contains it already
    has_gpu_cell: bool = False
    made: Artifact | None = None  # the file without its local version, which enters instead

    @property
    def entering(self) -> Artifact:
        """The file that enters the channel: the artifact, or the one that was made of it."""
        return self.made or self.artifact

    def refuse(self, advice: str, *reasons: str) -> PromotionCandidate:
        """Return the candidate, refused for these reasons if there are any."""
        refusals = (GateRefusal(what="", why=why, advice=advice) for why in reasons)
        decision = replace(self.decision, refusals=(*self.decision.refusals, *refusals))
        return replace(self, decision=decision)


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
        has_gpu_cell = digest in with_gpu
        candidate = PromotionCandidate(
            artifact=by_digest[digest], is_member=digest in members, has_gpu_cell=has_gpu_cell
        )
        if candidate.is_member:
            return candidate
        if digest in withdrawn:
            why = f"withdrawn from {settings.source}: {withdrawn[digest]}"
            return candidate.refuse("promote another build", why)
        return _decide_promotion(store, settings, candidate)

    return [*ask_at_once(decide_one, by_digest)]


def _decide_promotion(
    store: Store, settings: PromotionSettings, candidate: PromotionCandidate
) -> PromotionCandidate:
    artifact = candidate.artifact
    gate = apply_rules(settings.gate, artifact, has_gpu_cell=candidate.has_gpu_cell)
    try:
        require_free(store, gate.channel, artifact)
        evidence = collect_evidence(store, artifact, gate.keys)
    except ArtifactRefusedError as error:
        return candidate.refuse(
            "in a channel, a name of one variant always means the same file", str(error)
        )
    except RecordError as error:
        return candidate.refuse("somebody tampered with the store", str(error))
    decision = decide(gate, evidence, settings.now)
    return replace(candidate, decision=decision, faults=evidence.faults)


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
    if candidate.made is not None:
        origin = candidate.artifact.sha256
        uploads.keep(candidate)
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


# Files for an index: without local versions, and judged by the index's own rules.
#
# The rules are a profile, and `binary-checks` judges all files of a release by it in a process.
# Files that the channel already has are represented by their METADATA, which the store has apart.

FAMILIES = ("upload", "metadata", "release")
"""The families by which files are judged: what an index refuses, and what it takes for granted."""
_REQUIRED = ("upload", "metadata")
"""The families that must be able to inspect a file: an index inspects everything."""


class UploadFolder:
    """An empty folder of this host for the files of one promotion."""

    def __init__(self, store: Store, gate: Gate, folder: Path) -> None:
        self._store, self._gate, self._folder = store, gate, folder

    def prepare(
        self,
        candidates: Sequence[PromotionCandidate],
        members: Sequence[ChannelMember],
        rules: str,
    ) -> list[PromotionCandidate]:
        """Return the candidates with the files that enter, or with the refusals of the index.

        ``members`` are those of the channel, ``rules`` the name or the path of a profile, or "".
        Raises StoreError, ProfileError and GatherError if the store, the rules or the process
        failed.
        """
        going = [each for each in candidates if each.decision.passes and not each.is_member]
        made = [self._make(each, judged=bool(rules)) for each in going]
        fetched = [each for each in made if each.decision.passes]
        if rules and fetched:
            made += self._judge(fetched, self._write_stubs(fetched, members), rules)
        by_digest = {each.artifact.sha256: each for each in made}
        return [by_digest.get(each.artifact.sha256, each) for each in candidates]

    def _make(self, candidate: PromotionCandidate, *, judged: bool) -> PromotionCandidate:
        artifact = candidate.artifact
        wheel = artifact.kind == "wheel"
        relabelled = self._gate.relabel and wheel and "+" in artifact.version
        if judged and not wheel:
            return candidate.refuse(_CORRECT, "the index has only wheels")
        if not (judged or relabelled):
            return candidate
        folder = self._folder / artifact.sha256
        folder.mkdir()
        path = fetch_file(self._store, artifact, folder)
        if not relabelled:
            return candidate
        try:
            made = describe_relabelled(artifact, relabel_wheel(path, folder))
            require_free(self._store, self._gate.channel, made)
        except ArtifactRefusedError as error:
            return candidate.refuse(_CORRECT, str(error))
        path.unlink()
        return replace(candidate, made=made)

    def _write_stubs(
        self, candidates: Iterable[PromotionCandidate], members: Sequence[ChannelMember]
    ) -> list[Path]:
        """Write a wheel with only METADATA for each file of these releases in the channel."""
        entering = [each.entering for each in candidates]
        wanted = {(each.project, each.version) for each in entering}
        own = {each.file_name for each in entering}
        digests = [each.sha256 for each in members if each.file_name.endswith(".whl")]
        found = []
        for artifact in list_artifacts(self._store, dict.fromkeys(digests)):
            if (artifact.project, artifact.version) not in wanted or artifact.file_name in own:
                continue
            content = self._store.read(artifact.metadata_name, LONGEST_TEXT)
            if content is None:
                raise RecordError(f"{self._store.url}: {artifact.metadata_name}: missing")
            folder = self._folder / artifact.sha256
            folder.mkdir(exist_ok=True)
            path = folder / artifact.file_name
            stem = "-".join(artifact.file_name.split("-")[:2])
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr(f"{stem}.dist-info/METADATA", content)
            found.append(path)
        return found

    def _judge(
        self, candidates: Sequence[PromotionCandidate], stubs: Sequence[Path], rules: str
    ) -> Iterator[PromotionCandidate]:
        files = [
            *(self._folder / each.artifact.sha256 / each.entering.file_name for each in candidates),
            *stubs,
        ]
        document = self._folder / "result.json"
        end = run_limited(
            (
                *("--static", "--profile", rules, "-m", " or ".join(FAMILIES)),
                *(word for family in _REQUIRED for word in ("--require", family)),
                *("--report", f"json:{document}"),
                *map(str, files),
            ),
            self._folder / "output",
            INSPECT_LIMIT * len(files),
            "upload rules",
        )
        told = cut(one_line(end.complaint or f"it ended with {end.status}"))
        if end.status == MISUSED:
            raise ProfileError(f"upload rules: {told}")
        if end.status not in (0, 1) or not document.is_file():
            kind = StoreError if end.status == TRY_AGAIN else GatherError
            raise kind(f"upload rules: the files could not be judged: {told}")
        run = read_results(document, "upload rules")
        by_name = {each.file_name: each for each in run.packages}
        together = [
            line for each in run.packages if each.parts for line in _list_problems(each, "release")
        ]
        for each in candidates:
            name = each.entering.file_name
            yield each.refuse(_CORRECT, *_list_problems(by_name.get(name), name), *together)

    def keep(self, candidate: PromotionCandidate) -> None:
        """Store the file that was made for a candidate, with what belongs to it.

        Raises StoreError, ArtifactRefusedError.
        """
        made = candidate.entering
        path = self._folder / candidate.artifact.sha256 / made.file_name
        with zipfile.ZipFile(path) as archive:
            metadata = read_metadata(archive)
        companions = dict(self._fetch_companions(candidate.artifact))
        incoming = Incoming(file=hash_file(path), companions=companions, metadata=metadata)
        keep_artifact(self._store, made, incoming)
        if find_artifact(self._store, made.sha256) != made:
            message = f"{self._store.url} has another artifact.json for the same bytes"
            raise ArtifactRefusedError(f"{made.file_name}: {message}")

    def _fetch_companions(self, origin: Artifact) -> Iterator[tuple[str, HashedFile]]:
        for number, each in enumerate(origin.companions):
            path = self._folder / origin.sha256 / f"companion{number}"
            name = origin.name_companion(each)
            with path.open("wb") as file:
                fetch_object(self._store, name, each.sha256, each.size, file)
            yield each.path, hash_file(path)


def _list_problems(package: PackageResult | None, named: str) -> Iterator[str]:
    """Yield a line for each reason to refuse a package."""
    if package is None:
        yield f"{named}: it was not judged"
        return
    failed = [each for each in package.entries if each.outcome is Outcome.FAILED]
    for entry in failed:
        errors = [each for each in entry.problems if each.level.value == "error"]
        for each in errors:
            about = f"{each.path}: " if entry.family == "release" and each.path else ""
            yield f"{entry.check}: {about}{each.sentence}"
        if not errors:
            yield f"{entry.check}: {entry.reason or 'not inspected'}"
    if not failed and package.verdict not in GOOD_OUTCOMES:
        yield package.stopped or f"its verdict is {package.verdict.value}"


def find_relabelled(
    store: Store, members: Iterable[ChannelMember], projects: Iterable[str]
) -> frozenset[str]:
    """Return the SHA-256 of the files of which members of a channel are made."""
    wanted = {canonicalize_name(each) for each in projects}
    return frozenset(
        origin
        for each in members
        if canonicalize_name(each.project) in wanted
        for origin in list_origins(store, each.sha256)
    )


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
    try:
        fetch_object(store, artifact.object_name, artifact.sha256, artifact.size)
    except RecordError as error:
        raise ArtifactRefusedError(f"{artifact.label}: {error}") from None
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

    def find(statement: bytes) -> Any:
        return open_statement(statement, SUMMARY).get(PROMOTION_SCHEMA)

    return read_back(Promotion, find, write_promotion, content, named)


def open_promotion(store: Store, name: str, sha256: str) -> tuple[SignedStatement, Promotion]:
    """Return the record in an object. Raises RecordError if it is not a record of these bytes."""
    signed = open_signed(store, name)
    record = read_promotion(signed.payload, f"{store.url}: {name}")
    if record.sha256 != sha256:
        raise RecordError(f"{store.url}: {name}: a record for other bytes: {record.sha256}")
    return signed, record

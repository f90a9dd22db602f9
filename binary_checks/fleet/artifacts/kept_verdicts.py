"""Store verdicts on artifacts under their own digests, read them back and verify them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from binary_checks.errors import RecordError
from binary_checks.fleet.artifacts.artifact import Artifact, hash_record
from binary_checks.fleet.artifacts.gating import Evidence, KeptVerdict
from binary_checks.fleet.artifacts.signatures import (
    PublicKey,
    Signed,
    SignedStatement,
    SigningKey,
    find_signers,
    read_envelope,
    write_envelope,
)
from binary_checks.fleet.artifacts.verdict import (
    LARGEST_STATEMENT,
    PackageVerdict,
    read_statement,
    read_time,
    seal,
    write_statement,
)
from binary_checks.fleet.store import (
    Store,
    ask_at_once,
    push_name,
    push_prefix,
    verdict_name,
    verdict_prefix,
)
from binary_checks.model import FAILING, PASSING, UNTESTED

_AT_ONCE = 64  # the most verdicts read at the same time
_MOST_OF_ALL = 512 << 20  # bytes of all verdicts on one artifact


def keep_verdict(store: Store, verdict: PackageVerdict, keys: Sequence[SigningKey] = ()) -> bool:
    """Sign and store a verdict with its artifact; return False if it was stored already."""
    content = write_envelope(write_statement(verdict), keys)
    return store.create(verdict_name(verdict.sha256, hash_bytes(content)), content)


def list_verdicts(
    store: Store,
    sha256: str,
    keys: Collection[PublicKey] = (),
    broken: list[str] | None = None,
) -> list[KeptVerdict]:
    """Return all verdicts on an artifact, each once, with the keys that signed it.

    A verdict that is truncated, tampered with, about another file or signed by an unknown key
    counts for nothing, and adds a line to ``broken``. Raises RecordError if the verdicts are too
    large to hold in memory.
    """
    listed = {each.name: each.size for each in store.names(verdict_prefix(sha256))}
    total = sum(size for size in listed.values() if size <= LARGEST_STATEMENT)
    if total > _MOST_OF_ALL:
        raise RecordError(
            f"{store.url}: {verdict_prefix(sha256)}: {total:,} bytes of verdicts; at "
            f"most {_MOST_OF_ALL:,} are allowed"
        )
    faults: list[str] = []
    found: dict[str, KeptVerdict] = {}
    names = [*listed]
    for start in range(0, len(names), _AT_ONCE):
        part = names[start : start + _AT_ONCE]
        for content in ask_at_once(lambda name: _try(store, name, sha256), part):
            if isinstance(content, RecordError):
                faults.append(str(content))
                continue
            who = find_signers(content.signed, keys) if keys else Signed()
            where = f"{store.url}: {verdict_name(sha256, content.digest)}"
            faults += (f"{where}: {fault}" for fault in who.faults)
            _add(found, content, who.names)
    if broken is not None:
        broken += faults
    return [*found.values()]


class _OpenedVerdict(NamedTuple):
    """One object that contains a verdict."""

    digest: str
    signed: SignedStatement
    verdict: PackageVerdict


def _try(store: Store, name: str, sha256: str) -> _OpenedVerdict | RecordError:
    try:
        return open_verdict(store, name, sha256)
    except RecordError as error:
        return error


def open_verdict(store: Store, name: str, sha256: str) -> _OpenedVerdict:
    """Return the verdict in an object. Raises RecordError if it is not a verdict on these bytes."""
    where = f"{store.url}: {name}"
    signed, digest = open_signed(store, name)
    verdict = read_statement(signed.payload, where)
    if verdict.sha256 != sha256:
        raise RecordError(f"{where}: a verdict for other bytes: {verdict.sha256}")
    return _OpenedVerdict(digest, signed, verdict)


def open_signed(store: Store, name: str) -> tuple[SignedStatement, str]:
    """Return the statement in an object, and the object's digest.

    Raises RecordError if the object is not named by its digest, or is no statement.
    """
    where = f"{store.url}: {name}"
    content = store.read(name, LARGEST_STATEMENT)
    digest = require_digest_of(content, where)
    return read_envelope(content or b"", where), digest


def _add(found: dict[str, KeptVerdict], opened: _OpenedVerdict, names: frozenset[str]) -> None:
    """Add a verdict; if the same statement was added before, add only its signers and digest."""
    key = hash_bytes(opened.signed.payload)
    known = found.get(key, KeptVerdict(verdict=opened.verdict, digests=()))
    digests = tuple(sorted((*known.digests, opened.digest)))
    found[key] = replace(known, digests=digests, signers=known.signers | names)


def require_digest_of(content: bytes | None, named: str) -> str:
    """Return the content's digest. Raises RecordError unless the object is named by the digest."""
    digest = "" if content is None else hash_bytes(content)
    if not named.endswith(f"/{digest}.json"):
        raise RecordError(f"{named}: its bytes do not match its name")
    return digest


def hash_bytes(content: bytes) -> str:
    """Return the SHA-256 by which an object is named."""
    return hashlib.sha256(content).hexdigest()


# Statements about pushes: each vouches for one artifact.json.
#
# A verdict states the SHA-256 of artifact.json, but a run cannot know which commit its package was
# built from. Only the push can state that artifact.json is as it should be.

PUSH_SCHEMA = "binary-checks/push/1"


def keep_push(store: Store, artifact: Artifact, keys: Sequence[SigningKey]) -> None:
    """Sign and store the statement that a push made this artifact.json."""
    content = write_envelope(_state_push(artifact), keys)
    store.create(push_name(artifact.sha256, hash_bytes(content)), content)


def _state_push(artifact: Artifact) -> bytes:
    document = {"name": "artifact.json", "digest": {"sha256": hash_record(artifact)}}
    return seal(artifact.sha256, artifact.file_name, PUSH_SCHEMA, {"byproducts": [document]})


def open_push(store: Store, name: str, artifact: Artifact) -> SignedStatement:
    """Return the statement in an object.

    Raises RecordError if it is about another artifact.json.
    """
    signed, _ = open_signed(store, name)
    if signed.payload != _state_push(artifact):
        raise RecordError(f"{store.url}: {name}: it is about another artifact.json")
    return signed


def collect_evidence(store: Store, artifact: Artifact, keys: Collection[PublicKey]) -> Evidence:
    """Return all that the store states about an artifact, and which of the keys signed it.

    Raises RecordError if the verdicts are too large to hold in memory.
    """
    faults: list[str] = []
    verdicts = list_verdicts(store, artifact.sha256, keys, faults)
    names = set[str]()
    for each in store.names(push_prefix(artifact.sha256)) if keys else ():
        try:
            who = find_signers(open_push(store, each.name, artifact), keys)
        except RecordError as error:
            faults.append(str(error))
            continue
        names |= who.names
        faults += who.faults
    return Evidence(
        artifact=artifact,
        verdicts=tuple(verdicts),
        pushers=frozenset(names),
        faults=tuple(faults),
    )


# Labels: one word on each file of a channel without a gate.


def label_artifacts(store: Store, digests: Iterable[str]) -> Mapping[str, str]:
    """Return SHA-256 -> label, from the newest verdicts in every place and for every profile.

    Signatures are not verified, because a label informs and decides nothing.
    """
    wanted = [*dict.fromkeys(digests)]

    def label(sha256: str) -> str:
        return label_verdicts(each.verdict for each in list_verdicts(store, sha256))

    return dict(zip(wanted, ask_at_once(label, wanted), strict=True))


def label_verdicts(verdicts: Iterable[PackageVerdict]) -> str:
    """Return the label of a file with these verdicts."""
    newest: dict[tuple[object, ...], PackageVerdict] = {}
    for each in verdicts:
        if each.is_decisive:
            about = (each.places, each.profile_sha256, each.stage)
            known = newest.get(about)
            if known is None or _rank(known) < _rank(each):
                newest[about] = each
    labels = {each.label for each in newest.values()}
    if FAILING in labels:
        return FAILING
    return PASSING if labels == {PASSING} else UNTESTED


def _rank(verdict: PackageVerdict) -> tuple[datetime, bool]:
    """Return a sort key: the newest verdict is last; of equally new verdicts, the failed one."""
    return read_time(verdict.ended), verdict.label == FAILING

"""Store verdicts on artifacts under their own digests, read them back and verify them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

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

_MOST_OF_ALL = 128 << 20  # bytes of all verdicts on one artifact


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
    faults = [] if broken is None else broken
    found: dict[bytes, KeptVerdict] = {}
    contents = ask_at_once(lambda name: _try(store, name, sha256), listed)
    for name, opened in zip(listed, contents, strict=True):
        if isinstance(opened, RecordError):
            faults.append(str(opened))
            continue
        signed, verdict = opened
        who = find_signers(signed, keys) if keys else Signed()
        faults += (f"{store.url}: {name}: {fault}" for fault in who.faults)
        # each signer may have stored the same statement
        known = found.get(signed.payload, KeptVerdict(verdict=verdict, digests=()))
        digests = (*known.digests, name.rpartition("/")[2].removesuffix(".json"))
        found[signed.payload] = replace(known, digests=digests, signers=known.signers | who.names)
    return [*found.values()]


def _try(
    store: Store, name: str, sha256: str
) -> tuple[SignedStatement, PackageVerdict] | RecordError:
    try:
        return open_verdict(store, name, sha256)
    except RecordError as error:
        return error


def open_verdict(store: Store, name: str, sha256: str) -> tuple[SignedStatement, PackageVerdict]:
    """Return the verdict in an object. Raises RecordError if it is not a verdict on these bytes."""
    signed = open_signed(store, name)
    verdict = read_statement(signed.payload, f"{store.url}: {name}")
    if verdict.sha256 != sha256:
        raise RecordError(f"{store.url}: {name}: a verdict for other bytes: {verdict.sha256}")
    return signed, verdict


def open_signed(store: Store, name: str) -> SignedStatement:
    """Return the statement in an object.

    Raises RecordError if the object is not named by its digest, or is no statement.
    """
    return read_envelope(read_named(store, name), f"{store.url}: {name}")


def read_named(store: Store, name: str) -> bytes:
    """Return an object's bytes. Raises RecordError unless the object is named by their digest."""
    content = store.read(name, LARGEST_STATEMENT)
    if content is None or not name.endswith(f"/{hash_bytes(content)}.json"):
        raise RecordError(f"{store.url}: {name}: its bytes do not match its name")
    return content


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
    signed = open_signed(store, name)
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
    decisive = [each for each in verdicts if each.is_decisive]
    # the newest is last; of equally new verdicts, the failed one
    decisive.sort(key=lambda each: (read_time(each.ended), each.words.label == FAILING))
    newest = {(each.places, each.profile_sha256, each.stage): each for each in decisive}
    labels = {each.words.label for each in newest.values()}
    if FAILING in labels:
        return FAILING
    return PASSING if labels == {PASSING} else UNTESTED

"""The verdicts that a store has on its artifacts: created once by their own digest, read anew."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence

from binary_checks.errors import RecordError
from binary_checks.fleet.artifacts.gating import KeptVerdict
from binary_checks.fleet.artifacts.signatures import (
    PublicKey,
    SignedStatement,
    SigningKey,
    find_signers,
    read_envelope,
    write_envelope,
)
from binary_checks.fleet.artifacts.statements import read_statement, write_statement
from binary_checks.fleet.artifacts.verdict import PackageVerdict
from binary_checks.fleet.store import Store, ask_at_once
from binary_checks.fleet.store.store_names import verdict_name, verdict_prefix


def keep_verdict(store: Store, verdict: PackageVerdict, keys: Sequence[SigningKey] = ()) -> bool:
    """Keep a verdict beside its artifact, signed by these keys; whether it was not there yet."""
    content = write_envelope(write_statement(verdict), keys)
    return store.create(verdict_name(verdict.sha256, hash_bytes(content)), content)


def list_verdicts(
    store: Store,
    sha256: str,
    keys: Collection[PublicKey] = (),
    broken: list[str] | None = None,
    digests: Collection[str] | None = None,
) -> list[KeptVerdict]:
    """All verdicts on an artifact, each once, with those of the keys that signed it.

    With ``digests`` those alone. Of one that is cut, tampered with, of another file or signed by a
    stranger ``broken`` gets a line; none of that counts for anything.
    """
    names = [each.name for each in store.names(verdict_prefix(sha256))]
    if digests is not None:
        wanted = {verdict_name(sha256, digest) for digest in digests}
        names = [name for name in names if name in wanted]
    faults: list[str] = []
    found: dict[bytes, list[tuple[str, SignedStatement]]] = {}
    for name, content in zip(names, ask_at_once(store.read, names), strict=True):
        try:
            digest = demand_digest_of(content, f"{store.url}: {name}")
            signed = read_envelope(content or b"", f"{store.url}: {name}")
        except RecordError as error:
            faults.append(str(error))
            continue
        found.setdefault(signed.payload, []).append((digest, signed))
    kept = [*_open(store, sha256, found, keys, faults)]
    if broken is not None:
        broken += faults
    return kept


def _open(
    store: Store,
    sha256: str,
    found: dict[bytes, list[tuple[str, SignedStatement]]],
    keys: Collection[PublicKey],
    faults: list[str],
) -> Iterator[KeptVerdict]:
    for payload, every in found.items():
        digests = [digest for digest, _ in every]
        where = f"{store.url}: {verdict_name(sha256, digests[0])}"
        try:
            verdict = read_statement(payload, where)
            if verdict.sha256 != sha256:
                raise RecordError(f"{where}: a verdict on other bytes: {verdict.sha256}")
        except RecordError as error:
            faults.append(str(error))
            continue
        signers = set[str]()
        for digest, signed in every:
            who = find_signers(signed, keys) if keys else None
            if who is not None:
                signers |= who.names
                faults += (
                    f"{store.url}: {verdict_name(sha256, digest)}: {fault}" for fault in who.faults
                )
        yield KeptVerdict(
            verdict=verdict, digests=tuple(sorted(digests)), signers=frozenset(signers)
        )


def demand_digest_of(content: bytes | None, named: str) -> str:
    """The digest of an object that is named by it. Raises RecordError for other bytes, or none."""
    digest = "" if content is None else hash_bytes(content)
    if not named.endswith(f"/{digest}.json"):
        raise RecordError(f"{named}: other bytes than those that its name promises")
    return digest


def hash_bytes(content: bytes) -> str:
    """By which an object is named."""
    return hashlib.sha256(content).hexdigest()

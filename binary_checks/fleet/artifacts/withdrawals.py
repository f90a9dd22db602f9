"""Files that a channel advises against: installers pass over them unless they are pinned (PEP 592).

They stay where they are, so that whoever depends on one still gets it; a withdrawal is for ever.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from binary_checks.documents.decoding import OddityError, decode_fields
from binary_checks.documents.encoding import dump, encode_fields
from binary_checks.errors import RecordError
from binary_checks.fleet.artifacts.artifact import Artifact
from binary_checks.fleet.artifacts.statements import read_object
from binary_checks.fleet.store import Store, ask_at_once
from binary_checks.fleet.store.store_names import withdrawn_name, withdrawn_prefix
from binary_checks.lines import cut, one_line

WITHDRAWAL_SCHEMA = "binary-checks/withdrawal/1"
_LARGEST = 64 << 10  # bytes of one
_NAME = re.compile(r"withdrawn/[^/]+/[^/]+/([0-9a-f]{64})\.json")


@dataclass(frozen=True, kw_only=True, slots=True)
class Withdrawal:
    """That a channel advises against a file, and why."""

    sha256: str
    file_name: str
    channel: str
    reason: str  # one line
    at: str  # RFC 3339, UTC
    by: str = ""


def withdraw(store: Store, artifact: Artifact, withdrawal: Withdrawal) -> bool:
    """Advise against a file from now on; False where the channel did so already."""
    row = {"schema": WITHDRAWAL_SCHEMA, **encode_fields(withdrawal)}
    name = withdrawn_name(withdrawal.channel, artifact.project, artifact.sha256)
    return store.create(name, f"{dump(row)}\n".encode("ascii"))


def list_withdrawn(store: Store, channel: str) -> Mapping[str, str]:
    """The SHA-256 of all files that a channel advises against, and why. Raises RecordError."""
    listed = (each.name for each in store.names(withdrawn_prefix(channel)))
    names = {found[1]: name for name in listed if (found := _NAME.fullmatch(name))}
    contents = ask_at_once(lambda name: store.read(name, _LARGEST), names.values())
    return {
        digest: _read(content or b"", f"{store.url}: {name}", digest).reason
        for (digest, name), content in zip(names.items(), contents, strict=True)
    }


def _read(content: bytes, named: str, digest: str) -> Withdrawal:
    try:
        row = read_object(content)
        if row.pop("schema", None) != WITHDRAWAL_SCHEMA:
            raise OddityError(f"not a document {WITHDRAWAL_SCHEMA}")
        found = Withdrawal(**decode_fields(Withdrawal, row))
        if found.sha256 != digest:
            raise OddityError(f"it is of other bytes: {found.sha256!r:.80}")
        if not found.reason or found.reason != cut(one_line(found.reason)):
            raise OddityError("its reason is not one line")
    except OddityError as error:
        raise RecordError(f"{named}: {error}") from None
    return found

"""Bring a stored file back into a channel without a gate: a release candidate, to test it again."""

from __future__ import annotations

from binary_checks.errors import ArtifactRefusedError
from binary_checks.fleet.artifacts.artifact import Artifact
from binary_checks.fleet.artifacts.channels import join_channel, require_free
from binary_checks.fleet.artifacts.gating import read_gate
from binary_checks.fleet.artifacts.kept_artifacts import hash_pieces
from binary_checks.fleet.artifacts.verdict import LARGEST_STATEMENT
from binary_checks.fleet.store import POLICIES, Store, ask_at_once, package_name


def list_gated(store: Store) -> frozenset[str]:
    """Return the channels into which a gate has let a file. Raises RecordError."""
    names = [each.name for each in store.names(POLICIES)]

    def read(name: str) -> str:
        content = store.read(name, LARGEST_STATEMENT) or b""
        return read_gate(content, f"{store.url}: {name}").channel

    return frozenset(ask_at_once(read, names))


def restore(store: Store, channel: str, artifact: Artifact, *, dry: bool = False) -> bool:
    """Put a stored file into a channel; return False if the channel has it.

    With ``dry`` nothing is written. Raises ArtifactRefusedError if the channel has other bytes
    under that name, or if the store no longer has these bytes.
    """
    require_free(store, channel, artifact)
    name = package_name(artifact.sha256, artifact.file_name)
    if not any(each.name == name for each in store.names(name)):
        raise ArtifactRefusedError(f"{artifact.file_name}: retention has deleted its bytes")
    if hash_pieces(store.pieces(name), most=artifact.size) != artifact.sha256:
        raise ArtifactRefusedError(f"{artifact.file_name}: its bytes do not match its name")
    return dry or join_channel(store, channel, artifact)

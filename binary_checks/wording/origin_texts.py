"""Says in a few words where a published package comes from, and what its index says of it."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.model.published import Provenance


def describe_origin(provenance: Provenance) -> str:
    """One line: the index or the URL, the hash that was taken, and what is unusual."""
    return "; ".join(_list_origin(provenance))


def _list_origin(provenance: Provenance) -> Iterator[str]:
    yield f"from {provenance.index or provenance.url}"
    if provenance.sha256_taken:
        checked = "" if provenance.sha256 else ", which nobody states"
        yield f"sha256 {provenance.sha256_taken}{checked}"
    elif provenance.sha256:
        yield f"not downloaded, sha256 {provenance.sha256} by the index"
    if provenance.metadata in ("PEP 658", "ranges"):
        yield f"metadata by {provenance.metadata}"
    if provenance.attestation:
        yield f"attestation {provenance.attestation}"
    if provenance.yanked is not None:
        yield f"yanked: {provenance.yanked}" if provenance.yanked else "yanked"

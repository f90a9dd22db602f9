"""Records of promotions: in-toto statements with the predicate of a verification summary (VSA).

A record names the gate by its digest and the verdicts that decided by theirs, so that whoever has
the store and the public keys can hold the same verdicts against the same gate again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from binary_checks.documents.decoding import OddityError, decode_fields
from binary_checks.documents.encoding import encode_fields
from binary_checks.errors import RecordError
from binary_checks.fleet.artifacts.statements import (
    open_statement,
    read_time,
    seal,
)
from binary_checks.fleet.records import demand_digest

PROMOTION_SCHEMA = "binary-checks/promotion/1"
SUMMARY = "https://slsa.dev/verification_summary/v1"
_VERIFIER = "https://pypi.org/project/binary-checks"


@dataclass(frozen=True, kw_only=True, slots=True)
class Promotion:
    """That a gate let a file into its channel: when, by whom, and by which verdicts."""

    sha256: str
    file_name: str
    project: str
    source: str  # the channel that it came from
    channel: str
    at: str  # RFC 3339, UTC
    by: str = ""  # who did it, as they say
    gate: str  # the digest of what the channel asked
    verdicts: tuple[str, ...]  # the digests of those that decided
    waived: tuple[str, ...] = ()  # despite what, a line each
    gpu_cell: bool = False  # whether the matrix has a GPU stage for it
    versions: Mapping[str, str] = field(default_factory=dict)


def write_promotion(promotion: Promotion) -> bytes:
    """The statement of a promotion: of equal ones the same bytes."""
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
        PROMOTION_SCHEMA: encode_fields(
            promotion
        ),  # readers of summaries ignore what is not theirs
    }
    return seal(promotion.sha256, promotion.file_name, SUMMARY, predicate)


def read_promotion(content: bytes, named: str) -> Promotion:
    """The promotion that a statement is of. Raises RecordError, one line."""
    try:
        promotion = Promotion(**decode_fields(Promotion, _find_record(content)))
        for digest in (promotion.sha256, promotion.gate, *promotion.verdicts):
            demand_digest("digest", digest)
        read_time(promotion.at)
        if write_promotion(promotion) != content:
            raise OddityError("its parts contradict each other")
    except OddityError as error:
        raise RecordError(f"{named}: {error}") from None
    return promotion


def _find_record(content: bytes) -> Any:
    predicate = open_statement(content, SUMMARY)
    if PROMOTION_SCHEMA not in predicate:
        raise OddityError(f"its predicate has no {PROMOTION_SCHEMA}")
    return predicate[PROMOTION_SCHEMA]

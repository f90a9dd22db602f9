"""Where a package that is published comes from, and what is said of it there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """What an index, a channel or a server says of one file; what it does not say is empty."""

    asked: str = ""  # how the user named it: "numpy==2.4.6"
    kind: str  # "index", "url" or "channel"
    url: str = ""  # of the file, without credentials
    index: str = ""  # the URL of the index or the channel, without credentials
    sha256: str = ""  # that the index states, hexadecimal
    size: int | None = None  # bytes, that the index states (PEP 700)
    uploaded: str = ""  # when, as the index states it (PEP 700): "2026-11-21T03:12:45.123Z"
    modified: str = ""  # Last-Modified of the answer, as HTTP spells it
    requires_python: str | None = None  # that the index states; None: it states none
    yanked: str | None = None  # the reason, maybe ""; None: it is not yanked (PEP 592)
    metadata_hash: str = ""  # of the METADATA that the index serves (PEP 658), "sha256=<hex>"
    metadata: str = ""  # how METADATA came before the download: "PEP 658" or "ranges"; "": not
    attestation: str = ""  # "present, not verified" (PEP 740)
    serial: str = ""  # of the index's page, where it has one
    sha256_taken: str = ""  # of the file as it was downloaded; "" before that

"""What went wrong with a request to an object store: worth another try or not, in a few words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from binary_checks.fleet.store.bucket_settings import BucketSettings

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>|\(code: (\w{1,60})\)")
_KIND = re.compile(r"kind: (\w{1,20}),")
_BUSY = {
    "SlowDown",
    "InternalError",
    "ServiceUnavailable",
    "RequestTimeout",
    # Two writers at once, neither of which may have won:
    "ConditionalRequestConflict",
}
_NO_BUCKET = {"NoSuchBucket", "ContainerNotFound"}
_TAKEN = "BlobAlreadyExists"  # what Azure answers with 409, where others answer 412
# What a cloud's own machines ask for credentials:
_METADATA = re.compile(r"169\.254\.169\.254|metadata\.google\.internal|http://metadata/")


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """What came instead of an answer."""

    reason: str
    again: bool = False  # whether it may be otherwise next time
    missing: bool = False  # there is no such object
    taken: bool = False  # there is one already


def read_refusal(error: Exception, settings: BucketSettings) -> Refusal:
    """Read an error of obstore's, whose text may repeat keys and signatures: of it only codes."""
    text = str(error)
    status = int(found[1]) if (found := _STATUS.search(text)) else 0
    code = (found[1] or found[2]) if (found := _CODE.search(text)) else ""
    if _METADATA.search(text):
        return Refusal(reason=f"no credentials: set {settings.provider.credentials}")
    if not status and not code:
        return _read_broken(text, settings.host or settings.provider.name)
    missing = isinstance(error, FileNotFoundError) and code not in _NO_BUCKET
    conflict = status == 409 and code != _TAKEN
    busy = status >= 500 or status in (408, 429) or conflict or code in _BUSY
    words = " ".join(filter(None, (str(status or ""), code)))
    explained = ": there is no such bucket" if code in _NO_BUCKET else ""
    return Refusal(
        reason=f"the server answers {words}{explained}",
        again=busy,
        missing=missing,
        taken=type(error).__name__ == "AlreadyExistsError" and not busy,
    )


def _read_broken(text: str, server: str) -> Refusal:
    kind = found[1].lower() if (found := _KIND.search(text)) else ""
    if "HTTP error" in text or kind:
        words = {"connect": "no connection to", "timeout": "too slow an answer of"}
        return Refusal(reason=f"{words.get(kind, 'a broken connection to')} {server}", again=True)
    return Refusal(reason=f"{server} gave no answer that can be read")

"""What went wrong with a request to an object store: worth another try or not, in a few words."""

from __future__ import annotations

import re
from dataclasses import dataclass

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>|\(code: (\w{1,60})\)")
_KIND = re.compile(r"kind: (\w{1,20}),")
_BUSY = {"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout"}
_HALF_DONE = "ConditionalRequestConflict"  # two writers at once, neither of which may have won
_METADATA = "169.254.169.254"  # which a cloud's own machines ask for credentials


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """What came instead of an answer."""

    reason: str
    again: bool = False  # whether it may be otherwise next time
    missing: bool = False  # there is no such object
    taken: bool = False  # there is one already


def read_refusal(error: Exception, host: str) -> Refusal:
    """Read an error of obstore's, whose text may repeat keys and signatures: of it only codes."""
    text = str(error)
    status = int(found[1]) if (found := _STATUS.search(text)) else 0
    code = (found[1] or found[2]) if (found := _CODE.search(text)) else ""
    if _METADATA in text:
        return Refusal(reason="no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    if not status and not code:
        return _read_broken(text, host)
    missing = isinstance(error, FileNotFoundError) and code != "NoSuchBucket"
    busy = status >= 500 or status in (408, 409, 429) or code in _BUSY or code == _HALF_DONE
    words = " ".join(filter(None, (str(status or ""), code)))
    return Refusal(
        reason=f"the server answers {words}{_explain(code)}",
        again=busy,
        missing=missing,
        taken=type(error).__name__ == "AlreadyExistsError" and not busy,
    )


def _read_broken(text: str, host: str) -> Refusal:
    server = host or "Amazon S3"
    kind = found[1].lower() if (found := _KIND.search(text)) else ""
    if "HTTP error" in text or kind:
        words = {"connect": "no connection to", "timeout": "too slow an answer of"}
        return Refusal(reason=f"{words.get(kind, 'a broken connection to')} {server}", again=True)
    return Refusal(reason=f"{server} gave no answer that can be read")


def _explain(code: str) -> str:
    return ": there is no such bucket" if code == "NoSuchBucket" else ""

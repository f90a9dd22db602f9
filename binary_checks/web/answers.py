"""What a server answered: the body in bounded pieces, and what the head says of the file."""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

from binary_checks.errors import GatherError
from binary_checks.web.addresses import show
from binary_checks.web.transport import Transient, explain

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

_PIECE = 1 << 16  # bytes
_SLOWEST = 1024  # bytes a second, on average over a window: slower is no download but a trap
_WINDOW = 60.0  # seconds
_LONGEST_PAGE = 300.0  # seconds for a page of an index, of 10 MB for the longest projects
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_HTML = re.compile(rb"<(?:!doctype\s+html|html|head|script|body)\b", re.I)
AS_IT_IS: Final = {"Accept": "*/*", "Accept-Encoding": "identity"}
"""The header for files: their hashes are of the bytes that lie on the server."""
_LONGEST_HEADER = 300  # characters of one that is kept


@dataclass(frozen=True, kw_only=True, slots=True)
class WebAnswer:
    """A whole answer that was wanted."""

    url: str  # where it came from in the end, without credentials
    content: bytes
    content_type: str = ""  # "text/html", in small letters, without parameters
    headers: Mapping[str, str] = field(default_factory=dict)  # names in small letters


@dataclass(frozen=True, kw_only=True, slots=True)
class Validator:
    """By what a server tells one state of a file from another."""

    etag: str = ""
    last_modified: str = ""

    @property
    def for_ranges(self) -> str:
        """What to send as If-Range: a strong ETag, else the date (RFC 9110, 13.1.5)."""
        strong = self.etag if self.etag and not self.etag.startswith("W/") else ""
        return strong or self.last_modified

    def differs(self, other: Validator) -> bool:
        """Whether the file is surely another one by now."""
        if self.etag and other.etag:
            return self.etag != other.etag
        dates = self.last_modified, other.last_modified
        return all(dates) and dates[0] != dates[1]


class Reply:
    """An answer whose body was not read yet."""

    def __init__(self, url: str, response: BaseHTTPResponse) -> None:
        self.url = url
        self.status = response.status
        self.headers = {
            name.lower(): value[:_LONGEST_HEADER] for name, value in response.headers.items()
        }
        self.location = response.headers.get("location", "")
        self._response = response

    @property
    def content_type(self) -> str:
        """The type of the body, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def validator(self) -> Validator:
        """By what the file is known there."""
        return Validator(
            etag=self.headers.get("etag", ""), last_modified=self.headers.get("last-modified", "")
        )

    @property
    def length(self) -> int | None:
        """The bytes of the body, None where the server does not say."""
        text = self.headers.get("content-length", "")
        return int(text) if text.isdecimal() and len(text) < 19 else None

    @property
    def part(self) -> tuple[int, int, int] | None:
        """Of a part of a file: its first byte, the byte behind it, and the whole's size."""
        found = _RANGE.fullmatch(self.headers.get("content-range", ""))
        if self.status != 206 or found is None:
            return None
        first, last, size = (int(group[:19]) for group in found.groups())
        return (first, last + 1, size) if first <= last < size else None

    @property
    def wait(self) -> float:
        """The seconds for which the server wants to be left alone."""
        text = self.headers.get("retry-after", "")
        if text.isdecimal():
            return float(text[:9])
        try:
            return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
        except (ValueError, TypeError, IndexError, OverflowError):
            return 0.0

    def pieces(self, most: int) -> Iterator[bytes]:
        """The body as it is sent. Raises Transient for a cut, GatherError for too many bytes."""
        if self.length is not None and self.length > most:
            raise GatherError(f"{show(self.url)}: {self.length:,} bytes, of at most {most:,}")
        started, seen, marked = time.monotonic(), 0, 0
        while True:
            piece = self._next()
            if not piece:
                return
            seen += len(piece)
            if seen > most:
                raise GatherError(f"{show(self.url)}: more than {most:,} bytes")
            if (now := time.monotonic()) - started >= _WINDOW:
                if seen - marked < _SLOWEST * _WINDOW:
                    raise GatherError(f"{show(self.url)}: sends {seen - marked:,} bytes a minute")
                started, marked = now, seen
            yield piece

    def _next(self) -> bytes:
        import urllib3.exceptions

        try:
            return self._response.read1(_PIECE, decode_content=False)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise explain(self.url, error) from None

    def read(self, most: int, within: float | None = None) -> bytes:
        """The whole body, inflated where it is sent compressed; so many bytes at most."""
        pieces = self._in_time(self.pieces(most), within or _LONGEST_PAGE)
        how = self.headers.get("content-encoding", "identity").strip().lower()
        if how in ("", "identity"):
            return b"".join(pieces)
        if how not in ("gzip", "x-gzip", "deflate"):
            raise GatherError(f"{show(self.url)}: is sent in an unknown encoding")
        return self._inflate(pieces, most)

    def _in_time(self, pieces: Iterator[bytes], within: float) -> Iterator[bytes]:
        """The pieces, as long as they come within the time for a page, however slowly."""
        started = time.monotonic()
        for piece in pieces:
            if time.monotonic() - started > within:
                raise GatherError(f"{show(self.url)}: not whole after {within:.0f} s")
            yield piece

    def _inflate(self, pieces: Iterator[bytes], most: int) -> bytes:
        inflater: Any = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib, by its head
        found = bytearray()
        try:
            for piece in pieces:
                found += inflater.decompress(piece, most + 1 - len(found))
                if len(found) > most:
                    raise GatherError(f"{show(self.url)}: inflates to more than {most:,} bytes")
        except zlib.error:
            raise GatherError(f"{show(self.url)}: what it sends does not inflate") from None
        if not inflater.eof:
            raise Transient("the connection was cut")
        return bytes(found)

    def drop(self) -> None:
        """Read no more of it; a short rest is read, so that the connection can serve again."""
        if self.length is not None and self.length <= _PIECE and self.status != 200:
            try:
                for _ in self.pieces(_PIECE):
                    pass
            except (Transient, GatherError):
                pass
            else:
                self._response.release_conn()
                return
        self._response.close()

    def done(self) -> None:
        """All was read."""
        self._response.release_conn()


def is_html(head: bytes) -> bool:
    """Whether a file begins as a web page does."""
    text = head[:1024].lstrip()
    while text.startswith(b"<!--"):  # not in the pattern, which would try every division of them
        text = text[4:].partition(b"-->")[2].lstrip()
    return bool(_HTML.match(text))

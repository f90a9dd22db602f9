"""A file on a server, read in parts, and refused as soon as it is not the same file any more."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from binary_checks.errors import GatherError, MalformedError, RemoteChanged, Unavailable
from binary_checks.web.addresses import file_name, show
from binary_checks.web.answers import AS_IT_IS, Reply, is_html
from binary_checks.web.transport import Transient

if TYPE_CHECKING:
    from binary_checks.web.client import Client

_TAIL = 1 << 18  # bytes at the end that the first request asks for: there zip archives are listed
_LARGEST = 64 << 20  # bytes of one part


class WebFile:
    """Its end is there from the start; every other part is one request."""

    def __init__(self, client: Client, url: str, reply: Reply) -> None:
        self._client = client
        self._asked = url  # with what the server is to see
        self._url = url  # the same, or where it led to
        self.url = show(url)
        self.name = file_name(url)
        self.validator = reply.validator
        self.size = 0
        self.ranges = False
        self.transferred = 0  # bytes of bodies
        self.requests = 1
        self.headers = reply.headers
        self._tail = (0, b"")
        self._counting = threading.Lock()  # parts are asked for from several threads

    @classmethod
    def begin(cls, client: Client, url: str) -> WebFile:
        """Ask for its end; a server that sends it all is not listened to. Raises GatherError."""

        def ask(wanted: str) -> WebFile:
            reply = client.open(url, {**AS_IT_IS, "Range": wanted})
            try:
                file = cls(client, url, reply)
                file._take_first(reply, suffix=wanted.startswith("bytes=-"))
                return file
            finally:
                reply.drop()

        try:
            return client.insist(url, lambda: ask(f"bytes=-{_TAIL}"))
        except _NoSuffix:  # some servers know no range that counts from the end
            return client.insist(url, lambda: ask("bytes=0-0"))

    def _take_first(self, reply: Reply, *, suffix: bool) -> None:
        self._url = reply.url
        part = reply.part
        if reply.status == 206 and part is not None:
            start, end, self.size = part
            content = b"".join(reply.pieces(_TAIL))
            if len(content) != end - start or (suffix and end != self.size):
                raise Transient("sends another part than was asked for")
            self.ranges, self._tail = True, (start, content)
            self.transferred += len(content)
        elif reply.status == 200:
            demand_file(reply, b"")
            self.size = reply.length if reply.length is not None else -1
        elif suffix:
            raise _NoSuffix
        else:
            raise GatherError(f"{self.url}: answers {reply.status} to a question for its bytes")

    @property
    def etag(self) -> str:
        """The server's mark of this state of the file."""
        return self.validator.etag

    @property
    def last_modified(self) -> str:
        """When it last changed, as the server says it."""
        return self.validator.last_modified

    def read(self, offset: int, length: int) -> bytes:
        """Exactly those bytes, with one request where they are not there yet.

        Raises MalformedError where the file ends before, RemoteChanged where it is another one by
        now, Unavailable where the server sends no parts, GatherError where the network broke.
        """
        if not self.ranges:
            raise Unavailable("the server sends no parts of files")
        if offset < 0 or length < 0 or offset + length > self.size:
            raise MalformedError("the file ends before", offset)
        start, tail = self._tail
        if start <= offset and offset + length <= start + len(tail):
            return tail[offset - start : offset - start + length]
        if length > _LARGEST:
            raise GatherError(f"{self.url}: {length:,} bytes at once, of at most {_LARGEST:,}")
        return self._client.insist(self.url, lambda: self._ask(offset, length)) if length else b""

    def _ask(self, offset: int, length: int) -> bytes:
        with self._counting:
            self.requests += 1
        headers = {**AS_IT_IS, "Range": f"bytes={offset}-{offset + length - 1}"}
        if mark := self.validator.for_ranges:
            headers["If-Range"] = mark
        reply = self._open(headers)
        try:
            self._demand_same(reply)
            if reply.part != (offset, offset + length, self.size):
                raise GatherError(f"{self.url}: sends another part than was asked for")
            content = b"".join(reply.pieces(length))
        except BaseException:
            reply.drop()
            raise
        with self._counting:
            self.transferred += len(content)
        if len(content) != length:
            raise Transient("the connection was cut")
        reply.done()
        return content

    def _open(self, headers: dict[str, str]) -> Reply:
        """Where the first request led to; from the beginning where that address has expired."""
        if self._url == self._asked:
            return self._client.open(self._asked, headers)
        try:
            return self._client.open(self._url, headers)
        except Transient:
            raise
        except GatherError:
            self._url = self._asked
            return self._client.open(self._asked, headers)

    def _demand_same(self, reply: Reply) -> None:
        """Raise RemoteChanged unless it is a part of the file that was begun with."""
        part = reply.part
        other = part is not None and part[2] != self.size
        if reply.status != 206 or other or self.validator.differs(reply.validator):
            raise RemoteChanged(f"{self.url}: the file changed while it was read: try again")

    def close(self) -> None:
        """Nothing is held open between two requests."""


class _NoSuffix(Exception):
    """The server does not know ranges that count from the end."""


def demand_file(reply: Reply, head: bytes) -> None:
    """Raise GatherError for a web page in the place of a file: a login, an error, a portal."""
    if reply.content_type in ("text/html", "application/xhtml+xml") and (not head or is_html(head)):
        raise GatherError(f"{show(reply.url)}: a web page (HTML) instead of the file")

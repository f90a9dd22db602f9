"""The HTTP client: requests with retries and redirects, downloads, and range requests."""

from __future__ import annotations

import shutil
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urljoin, urlsplit

from binary_checks import __version__
from binary_checks.errors import (
    GatherError,
    MalformedError,
    NotThere,
    ProfileError,
    RemoteChanged,
    Unavailable,
)
from binary_checks.model import Progress
from binary_checks.watchdog import ask
from binary_checks.web.addresses import (
    LONGEST,
    PORTS,
    Credentials,
    WebOrigin,
    origin_of,
    show,
    take_credentials,
)
from binary_checks.web.transport import (
    AS_IT_IS,
    Reply,
    Transient,
    Transport,
    Validator,
    WebAnswer,
    is_html,
)
from binary_checks.web.web_settings import WebSettings

_T = TypeVar("_T")
PAGE: Final = 32 << 20
"""Largest size in bytes of an index page; PyPI's longest pages have about 10 MB."""
LARGEST: Final = 16 << 30
"""Largest size in bytes of a downloaded file."""
_MOST_REDIRECTS = 10
_LONGEST_WAIT = 60.0  # longest pause in seconds that a server may request
_STEP = 1 << 20  # bytes of a download that must have arrived to try once more
_TAIL = 1 << 18  # bytes at the end that are read first: zip archives have their directory there
_LARGEST_PART = 64 << 20  # bytes


class Client:
    """A client for pages, files, and parts of files; `close` closes its connections."""

    def __init__(
        self,
        settings: WebSettings | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        keeps_tls: bool = False,
    ) -> None:
        """With ``keeps_tls``, refuse redirects from https to http: an attacker could answer."""
        self._settings = settings or WebSettings()
        self._transport = Transport(self._settings)
        self._known: dict[WebOrigin, Credentials] = {}
        self._sleep, self._keeps_tls = sleep, keeps_tls
        self.close = self._transport.close

    def get(self, url: str, *, accept: str = "*/*", limit: int = PAGE) -> WebAnswer:
        """Return the complete answer, decompressed. Raises NotThere or GatherError."""
        if _is_file(url):
            return _read_file_url(url, limit)
        answer = self.get_changed(url, Validator(), limit=limit, accept=accept)
        assert answer is not None, "an answer is None only for a known state"
        return answer

    def get_changed(
        self,
        url: str,
        known: Validator,
        *,
        limit: int,
        within: float | None = None,
        accept: str = "*/*",
    ) -> WebAnswer | None:
        """Return the complete answer, or None if the file still has the known state.

        Raises NotThere, or GatherError if the answer is not complete in ``within`` seconds.
        """
        headers = {"Accept": accept, "Accept-Encoding": "gzip"}
        headers |= {"If-None-Match": known.etag} if known.etag else {}
        headers |= {"If-Modified-Since": known.last_modified} if known.last_modified else {}

        def request() -> WebAnswer | None:
            with closing(self.open(url, headers)) as reply:
                if reply.status == 304 and known == Validator():
                    raise GatherError(f"{show(url)}: answers 304")
                if reply.status == 304:
                    return None
                return WebAnswer(
                    url=reply.url,
                    content=reply.read(limit, within),
                    content_type=reply.content_type,
                    headers=reply.headers,
                )

        return self.retry(url, request)

    def open_remote(self, url: str) -> WebFile | DiskFile:
        """Open a file, and read its end. Other parts can be read if ``ranges`` is True.

        Raises NotThere or GatherError.
        """
        return DiskFile(url) if _is_file(url) else WebFile(self, url)

    def download(  # noqa: PLR0913 - all that may be known of a file beforehand
        self,
        url: str,
        path: Path,
        *,
        size: int | None = None,
        progress: Progress | None = None,
        limit: int = LARGEST,
        hashed: bool = False,
    ) -> None:
        """Write the complete file to that path; continue an earlier download of the same state.

        A note in a second file records the state. ``hashed`` states that the caller will compare
        the file's hash. Raises NotThere or GatherError.
        """
        try:
            if not _is_file(url):
                note = path.with_name(f"{path.name}.state")
                _Download(self, url, path, note, size, progress, limit, hashed).finish()
                return
            with closing(DiskFile(url)) as file, path.open("wb") as copy:
                shutil.copyfileobj(file.stream, copy)
            if progress is not None:
                progress(file.size, file.size)
        except OSError as error:
            raise GatherError(f"{path.parent}: {error.strerror}") from None

    def open(self, url: str, headers: Mapping[str, str]) -> Reply:
        """Send a GET, follow redirects, and return a successful answer, with its body unread.

        Only the server that the URL names receives its credentials, no target of a redirect.
        Raises Transient, NotThere or GatherError.
        """
        self.store_credentials(url)
        url = take_credentials(url)[0]
        first = origin_of(url)
        if first.scheme not in PORTS:
            raise ProfileError(f"{show(url)}: neither http, https nor file")
        known = self._known.get(first) or self._settings.find_credentials(first)
        for _ in range(_MOST_REDIRECTS + 1):
            own = {**headers, "User-Agent": f"binary-checks/{__version__}"}
            if known and origin_of(url) == first:
                own["Authorization"] = f"Basic {b64encode(':'.join(known).encode()).decode()}"
            reply = Reply(url, self._transport.ask(url, own))
            if reply.status not in (301, 302, 303, 307, 308) or not reply.location:
                return _require_good(reply)
            reply.close()
            url = self._follow(url, reply.location)
        raise GatherError(f"{show(url)}: redirects more than {_MOST_REDIRECTS} times")

    def _follow(self, url: str, location: str) -> str:
        """Return the target of a redirect, without credentials. Raises GatherError."""
        try:
            there = urljoin(url, location.encode("latin-1").decode("utf-8", "replace"))
            if len(there) > LONGEST:
                raise GatherError(f"{show(url)}: redirects to a URL that is too long")
            scheme = origin_of(there).scheme
        except (ValueError, ProfileError):
            raise GatherError(f"{show(url)}: redirects to an invalid URL") from None
        if scheme not in PORTS:
            raise GatherError(f"{show(url)}: redirects to a {scheme[:20]}: URL")
        if self._keeps_tls and origin_of(url).scheme == "https" != scheme:
            raise GatherError(f"{show(url)}: redirects from https to http")
        return take_credentials(there)[0]

    def store_credentials(self, url: str) -> None:
        """Store the credentials that a URL contains, for all requests to its server."""
        bare, given = take_credentials(url)
        if given is not None:
            self._known[origin_of(bare)] = given

    def retry(self, url: str, ask: Callable[[], _T]) -> _T:
        """Send a request; while it fails and a repetition may help, repeat it after a pause.

        The pauses grow. Raises GatherError instead of Transient.
        """
        number = 0
        while True:
            try:
                return ask()
            except Transient as error:
                if number == self._settings.retries:
                    tried = f" (asked {number + 1} times)" if number else ""
                    raise GatherError(f"{show(url)}: {error}{tried}") from None
                if error.wait > _LONGEST_WAIT:
                    asked = f"and asks to wait {error.wait:,.0f} s"
                    raise GatherError(f"{show(url)}: {error}, {asked}") from None
                self._sleep(max(min(0.25 * 2**number, 8.0), error.wait))
                number += 1


def _require_good(reply: Reply) -> Reply:
    if reply.status in (200, 206, 304, 416):
        return reply
    reply.close()
    message = f"answers {reply.status}"
    if reply.status in (408, 425, 429, 500, 502, 503, 504):
        raise Transient(message, reply.wait)
    if reply.status in (404, 410):
        raise NotThere(f"{show(reply.url)}: not there ({message})")
    if reply.status in (401, 407):
        message = f"asks for credentials ({message})"
    raise GatherError(f"{show(reply.url)}: {message}")


@dataclass(frozen=True)
class _Download:
    """A download to a file, which continues after cuts if the remote file is still the same."""

    client: Client
    url: str
    path: Path
    note: Path  # records the state of the remote file, for a later process
    size: int | None
    progress: Progress | None
    limit: int
    hashed: bool

    def finish(self) -> None:
        """Send requests until the file is complete; any progress resets the number of tries."""
        before = -1
        while True:
            try:
                return self.client.retry(self.url, self._try_once)
            except GatherError:
                there, state = self._find_earlier()
                if there < before + _STEP or not (state.for_ranges or self.hashed):
                    raise
                before = there

    def _find_earlier(self) -> tuple[int, Validator]:
        """Return how many bytes of the file are there, and of which state."""
        there = self.path.stat().st_size if self.path.is_file() else 0
        try:
            etag, date = self.note.read_text(encoding="utf-8").split("\n")
        except (OSError, ValueError):
            return there, Validator()
        return there, Validator(etag=etag, last_modified=date)

    def _try_once(self) -> None:
        headers = dict(AS_IT_IS)
        there, state = self._find_earlier()
        if there and (state.for_ranges or self.hashed):
            headers["Range"] = f"bytes={there}-"
        if there and state.for_ranges:
            headers["If-Range"] = state.for_ranges
        with closing(self.client.open(self.url, headers)) as reply:
            part, other = reply.part, state.differs(reply.validator)
            if reply.status == 200:
                self._write(reply, 0, reply.length)
            elif part is not None and part[0] == there and not other:
                self._write(reply, there, part[2])
            else:  # the partial file has another state, or is longer than the remote file
                self.path.unlink(missing_ok=True)
                raise Transient("the file changed while it was read")

    def _write(self, reply: Reply, done: int, size: int | None) -> None:
        expected = self.size if self.size is not None else size
        if size is not None and expected != size:
            message = f"{size:,} bytes, but the index states {expected:,}"
            raise GatherError(f"{show(self.url)}: {message}")
        state = reply.validator
        self.note.write_text(f"{state.etag}\n{state.last_modified}", encoding="utf-8")
        with self.path.open("ab" if done else "wb") as file:
            for piece in reply.pieces(self.limit - done):
                if not done and is_html(piece):
                    raise GatherError(f"{show(self.url)}: a web page (HTML), not the file")
                ask(len(piece))
                done += file.write(piece)
                if self.progress is not None:
                    self.progress(done, expected or 0)
        if size is not None and done != size:
            raise Transient("the connection was cut")
        self.note.unlink(missing_ok=True)


class WebFile:
    """A remote file. Its end is read when it is opened, any other part by one request."""

    def __init__(self, client: Client, url: str) -> None:
        self._client, self._asked = client, url
        self._url = url  # or the target of redirects
        self.url = show(url)
        self.size, self.ranges = -1, False
        self._tail = (0, b"")
        # some servers do not support ranges that count from the end
        if not client.retry(url, lambda: self._look(f"bytes=-{_TAIL}")):
            client.retry(url, lambda: self._look("bytes=0-0"))

    def _look(self, wanted: str) -> bool:
        """Read the file's state; return False if the server refuses the range."""
        with closing(self._client.open(self._asked, {**AS_IT_IS, "Range": wanted})) as reply:
            part, self._url, self.validator = reply.part, reply.url, reply.validator
            self.etag, self.last_modified = reply.validator.etag, reply.validator.last_modified
            if part is not None:
                start, end, self.size = part
                content = b"".join(reply.pieces(_TAIL))
                if len(content) != end - start:
                    raise Transient("the connection was cut")
                self.ranges, self._tail = True, (start, content)
            elif reply.status == 200:
                if reply.content_type in ("text/html", "application/xhtml+xml"):
                    raise GatherError(f"{self.url}: a web page (HTML) instead of the file")
                self.size = -1 if reply.length is None else reply.length
            elif wanted == "bytes=0-0":
                raise GatherError(f"{self.url}: answers {reply.status} to a request for its bytes")
            return self.ranges or reply.status == 200

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly these bytes; send one request unless the bytes were read before.

        Raises MalformedError if the file ends before these bytes, RemoteChanged if the file has
        changed, Unavailable if the server supports no ranges, GatherError if the network failed.
        """
        if not self.ranges:
            raise Unavailable("the server does not support range requests")
        if offset < 0 or length < 0 or offset + length > self.size:
            raise MalformedError("the file ends before the requested bytes", offset)
        start, tail = self._tail
        if start <= offset and offset + length <= start + len(tail):
            return tail[offset - start : offset - start + length]
        if length > _LARGEST_PART:
            raise GatherError(f"{self.url}: cannot read {length:,} bytes at once")
        return self._client.retry(self.url, lambda: self._ask(offset, length)) if length else b""

    def _ask(self, offset: int, length: int) -> bytes:
        headers = {**AS_IT_IS, "Range": f"bytes={offset}-{offset + length - 1}"}
        if mark := self.validator.for_ranges:
            headers["If-Range"] = mark
        with closing(self._open(headers)) as reply:
            part = reply.part
            if part is None or part[2] != self.size or self.validator.differs(reply.validator):
                raise RemoteChanged(f"{self.url}: the file changed while it was read: try again")
            if part[:2] != (offset, offset + length):
                raise GatherError(f"{self.url}: sends a range that was not requested")
            content = b"".join(reply.pieces(length))
        if len(content) != length:
            raise Transient("the connection was cut")
        return content

    def _open(self, headers: Mapping[str, str]) -> Reply:
        """Open the target of the first request's redirects; if it expired, the original URL."""
        try:
            return self._client.open(self._url, headers)
        except GatherError:
            if self._url == self._asked:
                raise
            self._url = self._asked
            return self._client.open(self._asked, headers)

    def close(self) -> None:
        """Do nothing: no connection is held between requests."""


# ``file:`` URLs.


def _is_file(url: str) -> bool:
    return url[:5].lower() == "file:"


def path_of(url: str) -> Path:
    """Return the path of a file URL. Raises GatherError for another host."""
    from urllib.request import url2pathname  # imports all of urllib's HTTP client

    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost"):
        raise GatherError(f"{show(url)}: a file: URL of another host")
    try:
        return Path(url2pathname(parts.path))
    except (OSError, ValueError):
        raise NotThere(f"{show(url)}: not a path") from None


def _read_file_url(url: str, most: int) -> WebAnswer:
    """Return the complete file, or a folder's index page. Raises NotThere or GatherError."""
    if path_of(url).is_dir():
        url = f"{url.rstrip('/')}/index.html"
    with closing(DiskFile(url)) as file:
        if file.size > most:
            raise GatherError(f"{show(url)}: more than {most:,} bytes")
        return WebAnswer(
            url=url,
            content=file.read(0, file.size),
            content_type="text/html" if url.lower().endswith((".html", ".htm")) else "",
        )


class DiskFile:
    """A file at a ``file:`` URL, read in parts."""

    ranges = True
    last_modified = ""

    def __init__(self, url: str) -> None:
        self.url, path = show(url), path_of(url)
        self._lock = threading.Lock()  # parts are read by several threads
        try:
            if not path.is_file():
                raise NotThere(f"{self.url}: no such file")
            self.stream = path.open("rb")
            self.size = path.stat().st_size
            self.etag = f'"{path.stat().st_mtime_ns}-{self.size}"'
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not a path"
            raise GatherError(f"{self.url}: cannot be read: {reason}") from None
        self.close = self.stream.close

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly these bytes. Raises MalformedError if the file ends before them."""
        with self._lock:
            self.stream.seek(offset)
            content = self.stream.read(length)
        if len(content) != length:
            raise MalformedError("the file ends before the requested bytes", offset)
        return content

"""The HTTP client: requests with retries and redirects, downloads, and range requests."""

from __future__ import annotations

import json
import shutil
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
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
    Credentials,
    WebOrigin,
    file_name,
    origin_of,
    quote_strange,
    require_web,
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
_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)
_ELSEWHERE = (301, 302, 303, 307, 308)
_NOT_MODIFIED = 304
_CONDITIONS = frozenset({"If-None-Match", "If-Modified-Since"})
_MOST_REDIRECTS = 10
_LONGEST_WAIT = 60.0  # longest pause in seconds that a server may request
_LONGEST_PAUSE = 8.0
LARGEST: Final = 16 << 30
"""Largest size in bytes of a downloaded file."""


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
        self._keeps_tls = keeps_tls
        self._settings = settings or WebSettings()
        self._transport = Transport(self._settings)
        self._known: dict[WebOrigin, Credentials] = {}
        self._sleep = sleep

    def get(self, url: str, *, accept: str = "*/*", limit: int = PAGE) -> WebAnswer:
        """Return the complete answer, decompressed. Raises NotThere or GatherError."""
        if _is_file(url):
            return read_file_url(url, limit)

        def ask() -> WebAnswer:
            return _read(self.open(url, {"Accept": accept, "Accept-Encoding": "gzip"}), limit)

        return self.retry(url, ask)

    def get_changed(
        self, url: str, known: Validator, *, limit: int, within: float
    ) -> WebAnswer | None:
        """Return the complete answer, or None if the file still has the known state.

        Raises NotThere, or GatherError if there is no answer in ``within`` seconds.
        """
        asked = {"If-None-Match": known.etag, "If-Modified-Since": known.last_modified}
        headers = {name: value for name, value in asked.items() if value}

        def ask() -> WebAnswer | None:
            reply = self.open(url, {"Accept": "*/*", "Accept-Encoding": "gzip", **headers})
            if reply.status == _NOT_MODIFIED:
                reply.drop()
                return None
            return _read(reply, limit, within)

        return self.retry(url, ask)

    def open_remote(self, url: str) -> WebFile | DiskFile:
        """Open a file, and read its end. Other parts can be read if ``ranges`` is True.

        Raises NotThere or GatherError.
        """
        return DiskFile(url) if _is_file(url) else WebFile.begin(self, url)

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
        if _is_file(url):
            copy(path_of(url), path, progress)
        else:
            download = Download(self, url, path, size=size, progress=progress, limit=limit)
            download.hashed = hashed
            download.finish()

    def open(self, url: str, headers: Mapping[str, str]) -> Reply:
        """Send a GET, follow redirects, and return a successful answer, with its body unread.

        Raises Transient, NotThere or GatherError.
        """
        url, credentials = self._take_credentials(url)
        first = origin_of(url)
        for _ in range(_MOST_REDIRECTS + 1):
            own = dict(headers, **{"User-Agent": f"binary-checks/{__version__}"})
            if credentials and origin_of(url) == first:
                own["Authorization"] = _format_credentials(credentials)
            reply = Reply(url, self._transport.ask(url, own))
            if reply.status not in _ELSEWHERE or not reply.location:
                return _require_good(reply, conditional=not _CONDITIONS.isdisjoint(headers))
            reply.drop()
            there = _follow(url, reply.location)
            if self._keeps_tls and origin_of(url).scheme == "https" != origin_of(there).scheme:
                raise GatherError(f"{show(url)}: redirects from https to http")
            url = there
        raise GatherError(f"{show(url)}: redirects more than {_MOST_REDIRECTS} times")

    def _take_credentials(self, url: str) -> tuple[str, Credentials | None]:
        """Return the URL without credentials, and the credentials for the URL's server."""
        url, given = take_credentials(quote_strange(url))
        origin = origin_of(url)
        if origin.scheme not in ("http", "https"):
            raise ProfileError(f"{show(url)}: neither http, https nor file")
        if given is not None:
            self._known[origin] = given
        known = self._known.get(origin)
        return url, known or self._settings.find_credentials(origin)

    def store_credentials(self, url: str) -> None:
        """Store the credentials that a URL contains, for all requests to its server."""
        bare, given = take_credentials(url)
        if given is not None:
            self._known[origin_of(bare)] = given

    def retry(self, url: str, ask: Callable[[], _T]) -> _T:
        """Send a request; while it fails and a repetition may help, repeat it after a pause.

        The pauses grow. Raises GatherError instead of Transient.
        """
        for pause in self._pauses():
            try:
                return ask()
            except Transient as error:
                self.wait_before_retry(url, error, pause)
        raise AssertionError  # `wait_before_retry` raises after the last pause, which is None

    def wait_before_retry(self, url: str, error: Transient, pause: float | None) -> None:
        """Wait before the next try.

        Raises GatherError if this was the last try, or if the pause would be too long.
        """
        if pause is None:
            times = self._settings.retries + 1
            tried = f" (asked {times} times)" if times > 1 else ""
            raise GatherError(f"{show(url)}: {error}{tried}") from None
        if error.wait > _LONGEST_WAIT:
            asked = f"and asks to wait {error.wait:,.0f} s"
            raise GatherError(f"{show(url)}: {error}, {asked}") from None
        self._sleep(max(pause, error.wait))

    def _pauses(self) -> Iterator[float | None]:
        for number in range(self._settings.retries):
            yield min(0.25 * 2**number, _LONGEST_PAUSE)
        yield None

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()


def _is_file(url: str) -> bool:
    return url[:5].lower() == "file:"


def _format_credentials(credentials: Credentials) -> str:
    pair = f"{credentials.user}:{credentials.password}".encode()
    return f"Basic {b64encode(pair).decode('ascii')}"


def _follow(url: str, location: str) -> str:
    """Return the target of a redirect. Credentials in the target are refused."""
    try:
        text = location.encode("latin-1").decode("utf-8", "replace")
        there = urljoin(url, quote_strange(text))
    except ValueError:
        raise GatherError(f"{show(url)}: redirects to an invalid URL") from None
    return take_credentials(require_web(there, show(url)))[0]


def _read(reply: Reply, limit: int, within: float | None = None) -> WebAnswer:
    """Return the complete answer, decompressed."""
    try:
        content = reply.read(limit, within)
    except BaseException:
        reply.drop()
        raise
    reply.done()
    return WebAnswer(
        url=take_credentials(reply.url)[0],
        content=content,
        content_type=reply.content_type,
        headers=reply.headers,
    )


def _require_good(reply: Reply, *, conditional: bool = False) -> Reply:
    if reply.status in (200, 206, 416) or (conditional and reply.status == _NOT_MODIFIED):
        return reply
    reply.drop()
    message = f"answers {reply.status}"
    if reply.status in _TRANSIENT:
        raise Transient(message, reply.wait)
    if reply.status in (404, 410):
        raise NotThere(f"{show(reply.url)}: not there ({message})")
    if reply.status in (401, 407):
        raise GatherError(f"{show(reply.url)}: asks for credentials ({message})")
    raise GatherError(f"{show(reply.url)}: {message}")


# Downloads; an interrupted download continues if the remote file is still the same.

_STEP = 1 << 20  # bytes that must have arrived to try once more


def copy(source: Path, path: Path, progress: Progress | None) -> None:
    """Copy a file of this host. Raises NotThere or GatherError."""
    try:
        if not source.is_file():
            raise NotThere(f"{source}: no such file")
        shutil.copyfile(source, path)
        if progress is not None:
            size = path.stat().st_size
            progress(size, size)
    except OSError as error:
        raise GatherError(f"{source}: cannot be copied: {error.strerror}") from None


class Download:
    """A download to a file, with a note that records the state of the remote file."""

    def __init__(  # noqa: PLR0913 - what the client was asked
        self,
        client: Client,
        url: str,
        path: Path,
        *,
        size: int | None,
        progress: Progress | None,
        limit: int,
    ) -> None:
        self._client, self._url, self._path = client, url, path
        self._size, self._progress, self._limit = size, progress, limit
        self.hashed = False  # whether the caller will compare the file's hash
        self._note = path.with_name(f"{path.name}.state")

    def finish(self) -> None:
        """Send requests until the file is complete; any progress resets the number of tries."""
        before = -1
        while True:
            try:
                self._client.retry(self._url, self._try_once)
                return
            except GatherError:
                there = self._there()
                if there < before + _STEP or not (self._state().for_ranges or self.hashed):
                    raise
                before = there
            except OSError as error:
                raise GatherError(f"{self._path.parent}: {error.strerror}") from None

    def _try_once(self) -> None:
        there, state = self._there(), self._state()
        headers = dict(AS_IT_IS)
        if there and (state.for_ranges or self.hashed):
            headers["Range"] = f"bytes={there}-"
        if there and state.for_ranges:
            headers["If-Range"] = state.for_ranges
        reply = self._client.open(self._url, headers)
        try:
            self._take(reply, there, state)
        except BaseException:
            reply.drop()
            raise
        reply.done()

    def _take(self, reply: Reply, there: int, state: Validator) -> None:
        part = reply.part
        if reply.status == 206 and part and part[0] == there and not state.differs(reply.validator):
            self._write(reply, there, part[2])
        elif reply.status == 200:
            self._write(reply, 0, reply.length)
        else:  # the partial file has another state, or is longer than the remote file
            self._path.unlink(missing_ok=True)
            raise Transient("the file changed while it was read")

    def _write(self, reply: Reply, offset: int, size: int | None) -> None:
        expected = self._size if self._size is not None else size
        if size is not None and expected != size:
            message = f"{size:,} bytes, but the index states {expected:,}"
            raise GatherError(f"{show(self._url)}: {message}")
        self._note_state(reply.validator)
        done = offset
        with self._path.open("r+b" if offset else "wb") as file:
            file.seek(offset)
            for piece in reply.pieces(self._limit - offset):
                if not done:
                    require_file(reply, piece)
                    if is_html(piece):
                        raise GatherError(f"{show(self._url)}: a web page (HTML), not the file")
                done += len(piece)
                ask(len(piece))
                file.write(piece)
                if self._progress is not None:
                    self._progress(done, expected or 0)
        if size is not None and done != size:
            raise Transient("the connection was cut")
        self._note.unlink(missing_ok=True)

    def _there(self) -> int:
        return self._path.stat().st_size if self._path.is_file() else 0

    def _state(self) -> Validator:
        try:
            found = json.loads(self._note.read_text(encoding="utf-8"))
            return Validator(etag=str(found["etag"]), last_modified=str(found["last_modified"]))
        except (OSError, ValueError, KeyError, TypeError):
            return Validator()

    def _note_state(self, state: Validator) -> None:
        row = {"etag": state.etag, "last_modified": state.last_modified}
        self._note.write_text(json.dumps(row), encoding="utf-8")


# Range requests to a file, which fail as soon as the file has changed.

# bytes at the end that the first request reads: zip archives have their directory there
_TAIL = 1 << 18
_LARGEST = 64 << 20  # bytes of one part


class WebFile:
    """A remote file. Its end is read when it is opened, any other part by one request."""

    def __init__(self, client: Client, url: str, reply: Reply) -> None:
        self._client = client
        self._asked = url  # the URL with credentials for the server
        self._url = url  # the same URL, or the target of redirects
        self.url = show(url)
        self.name = file_name(url)
        self.validator = reply.validator
        self.size = 0
        self.ranges = False
        self.transferred = 0  # bytes of bodies received
        self.requests = 1
        self.headers = reply.headers
        self._tail = (0, b"")
        self._counting = threading.Lock()  # parts are requested by several threads

    @classmethod
    def begin(cls, client: Client, url: str) -> WebFile:
        """Request the file's end; if the answer is the complete file, do not read it.

        Raises GatherError.
        """

        def ask(wanted: str) -> WebFile:
            reply = client.open(url, {**AS_IT_IS, "Range": wanted})
            try:
                file = cls(client, url, reply)
                file._take_first(reply, suffix=wanted.startswith("bytes=-"))
                return file
            finally:
                reply.drop()

        try:
            return client.retry(url, lambda: ask(f"bytes=-{_TAIL}"))
        except _NoSuffix:  # some servers do not support ranges that count from the end
            return client.retry(url, lambda: ask("bytes=0-0"))

    def _take_first(self, reply: Reply, *, suffix: bool) -> None:
        self._url = reply.url
        part = reply.part
        if reply.status == 206 and part is not None:
            start, end, self.size = part
            content = b"".join(reply.pieces(_TAIL))
            if len(content) != end - start or (suffix and end != self.size):
                raise Transient("sends a range that was not requested")
            self.ranges, self._tail = True, (start, content)
            self.transferred += len(content)
        elif reply.status == 200:
            require_file(reply, b"")
            self.size = reply.length if reply.length is not None else -1
        elif suffix:
            raise _NoSuffix
        else:
            raise GatherError(f"{self.url}: answers {reply.status} to a request for its bytes")

    @property
    def etag(self) -> str:
        """The server's ETag for this state of the file."""
        return self.validator.etag

    @property
    def last_modified(self) -> str:
        """The server's Last-Modified."""
        return self.validator.last_modified

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
        if length > _LARGEST:
            raise GatherError(
                f"{self.url}: cannot read {length:,} bytes at once; at most {_LARGEST:,}"
            )
        return self._client.retry(self.url, lambda: self._ask(offset, length)) if length else b""

    def _ask(self, offset: int, length: int) -> bytes:
        with self._counting:
            self.requests += 1
        headers = {**AS_IT_IS, "Range": f"bytes={offset}-{offset + length - 1}"}
        if mark := self.validator.for_ranges:
            headers["If-Range"] = mark
        reply = self._open(headers)
        try:
            self._require_same(reply)
            if reply.part != (offset, offset + length, self.size):
                raise GatherError(f"{self.url}: sends a range that was not requested")
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
        """Open the target of the first request's redirects; if it expired, the original URL."""
        if self._url == self._asked:
            return self._client.open(self._asked, headers)
        try:
            return self._client.open(self._url, headers)
        except Transient:
            raise
        except GatherError:
            self._url = self._asked
            return self._client.open(self._asked, headers)

    def _require_same(self, reply: Reply) -> None:
        """Raise RemoteChanged if the answer belongs to another state of the file."""
        part = reply.part
        other = part is not None and part[2] != self.size
        if reply.status != 206 or other or self.validator.differs(reply.validator):
            raise RemoteChanged(f"{self.url}: the file changed while it was read: try again")

    def close(self) -> None:
        """Do nothing: no connection is held between requests."""


class _NoSuffix(Exception):
    """Raised if the server does not support ranges that count from the end."""


def require_file(reply: Reply, head: bytes) -> None:
    """Raise GatherError if the answer is a web page, such as a login, instead of a file."""
    if reply.content_type in ("text/html", "application/xhtml+xml") and (not head or is_html(head)):
        raise GatherError(f"{show(reply.url)}: a web page (HTML) instead of the file")


# ``file:`` URLs.


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


def read_file_url(url: str, most: int) -> WebAnswer:
    """Return the complete file, or a folder as an index page. Raises NotThere or GatherError."""
    path = path_of(url)
    try:
        if path.is_dir():
            path, url = path / "index.html", f"{url.rstrip('/')}/index.html"
        with path.open("rb") as file:
            content = file.read(most + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise NotThere(f"{show(url)}: no such file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise GatherError(f"{show(url)}: cannot be read: {reason}") from None
    if len(content) > most:
        raise GatherError(f"{show(url)}: more than {most:,} bytes")
    html = path.suffix.lower() in (".html", ".htm")
    return WebAnswer(url=url, content=content, content_type="text/html" if html else "")


class DiskFile:
    """A file at a ``file:`` URL, read in parts."""

    ranges = True
    transferred = requests = 0

    def __init__(self, url: str) -> None:
        self.url = show(url)
        path = path_of(url)
        self.name = path.name
        self._lock = threading.Lock()  # parts are read by several threads
        try:
            if not path.is_file():
                raise NotThere(f"{self.url}: no such file")
            self._file = path.open("rb")
            self.size = path.stat().st_size
            self.validator = Validator(etag=f'"{path.stat().st_mtime_ns}-{self.size}"')
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not a path"
            raise GatherError(f"{self.url}: cannot be read: {reason}") from None

    @property
    def etag(self) -> str:
        """A validator for this state of the file."""
        return self.validator.etag

    @property
    def last_modified(self) -> str:
        """Return "": the ETag suffices."""
        return ""

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly these bytes. Raises MalformedError if the file ends before them."""
        with self._lock:
            self._file.seek(offset)
            content = self._file.read(length)
        if len(content) != length:
            raise MalformedError("the file ends before the requested bytes", offset)
        return content

    def close(self) -> None:
        """Close the file."""
        self._file.close()

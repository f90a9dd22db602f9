"""Single requests through urllib3, and short reasons for their failures."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from binary_checks.errors import GatherError, ProfileError
from binary_checks.web.addresses import WebOrigin, origin_of, show, take_credentials
from binary_checks.web.web_settings import WebSettings

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager


_PATIENCE = 60.0  # seconds until all headers of the answer must have arrived


class Transient(Exception):
    """A failure that may not occur again if the request is repeated.

    ``wait`` is the pause in seconds that the server requests.
    """

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


class Transport:
    """The connections of a client, opened on demand and kept."""

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        self._managers: dict[tuple[str, bool, bool], PoolManager] = {}

    def ask(self, url: str, headers: Mapping[str, str]) -> BaseHTTPResponse:
        """Return the answer to a GET, with its body unread, whatever its status.

        Raises Transient if there is no answer, GatherError if a repetition cannot succeed.
        """
        urllib3 = require_urllib3()
        origin = origin_of(url)
        try:
            return self._manager_of(origin).request(
                "GET",
                url,
                headers=dict(headers),
                redirect=False,
                retries=False,
                preload_content=False,
                decode_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError, UnicodeError, ValueError) as error:
            raise explain(url, error) from None

    def close(self) -> None:
        """Close all connections."""
        for manager in self._managers.values():
            manager.clear()
        self._managers.clear()

    def _manager_of(self, origin: WebOrigin) -> PoolManager:
        proxy = self._find_proxy(origin)
        encrypts = origin.scheme == "https" or proxy.startswith("https:")
        key = (proxy, encrypts, self._settings.trusts(origin))
        if key not in self._managers:
            self._managers[key] = self._connect(*key)
        return self._managers[key]

    def _find_proxy(self, origin: WebOrigin) -> str:
        spared = self._settings.reaches_directly(origin)
        return "" if spared else self._settings.proxies.get(origin.scheme, "")

    def _connect(self, proxy: str, encrypts: bool, trusted: bool) -> PoolManager:
        urllib3 = require_urllib3()
        timeout = urllib3.Timeout(connect=self._settings.timeout, read=self._settings.timeout)
        options: dict[str, Any] = {"num_pools": 16, "maxsize": 8, "timeout": timeout}
        if encrypts:
            options["ssl_context"] = _make_context(self._settings, trusted=trusted)
        if not proxy:
            manager: PoolManager = urllib3.PoolManager(**options)
        else:
            bare, known = take_credentials(proxy)
            if not bare.startswith(("http://", "https://")):
                raise ProfileError(f"{show(proxy)}: only proxies of http and https are supported")
            pair = f"{known.user}:{known.password}" if known else None
            own = urllib3.make_headers(proxy_basic_auth=pair) if pair else {}
            manager = urllib3.ProxyManager(bare, proxy_headers=own, **options)
        manager.pool_classes_by_scheme = _make_pools()
        return manager


def require_urllib3() -> Any:
    """Import urllib3. Raises ProfileError if it is not installed."""
    try:
        import urllib3
    except ImportError:
        raise ProfileError(
            "indexes and URLs need urllib3: pip install urllib3 (the extra published)"
        ) from None
    return urllib3


def _make_pools() -> dict[str, Any]:
    """Return connection pools that limit the time until all headers of an answer have arrived.

    The timeouts of sockets are not enough: they start again with every byte.
    """
    from urllib3.connection import HTTPConnection, HTTPSConnection
    from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

    class Hasty(HTTPConnection):
        def getresponse(self) -> Any:
            with _limit(self):
                return super().getresponse()

    class HastyTLS(HTTPSConnection):
        def getresponse(self) -> Any:
            with _limit(self):
                return super().getresponse()

    class Pool(HTTPConnectionPool):
        ConnectionCls = Hasty

    class PoolTLS(HTTPSConnectionPool):
        ConnectionCls = HastyTLS

    return {"http": Pool, "https": PoolTLS}


@contextlib.contextmanager
def _limit(connection: Any) -> Any:
    sock = connection.sock

    def cut() -> None:
        with contextlib.suppress(OSError, AttributeError):
            sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(_PATIENCE, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _make_context(settings: WebSettings, *, trusted: bool) -> ssl.SSLContext:
    named = settings.certificates
    folder = bool(named) and Path(named).is_dir()
    try:
        context = ssl.create_default_context(
            cafile=None if folder else named or None, capath=named if folder else None
        )
        if settings.client_certificate:
            context.load_cert_chain(settings.client_certificate)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or type(error).__name__
        which = named or settings.client_certificate
        raise ProfileError(f"certificates: {which}: cannot be read: {reason}") from None
    if trusted:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def explain(url: str, error: BaseException) -> Transient | GatherError:
    """Return the most specific reason why no answer arrived, or only a part of it."""
    chain = list(_causes(error))
    for each in chain:
        if isinstance(each, ssl.SSLCertVerificationError):
            message = f"its certificate is not trusted: {each.verify_message}"
            return GatherError(f"{show(url)}: {message}")
    if isinstance(error, (ValueError, UnicodeError)):
        return GatherError(f"{show(url)}: cannot be requested: {type(error).__name__}")
    return Transient(_describe_failure(origin_of(url).host, chain))


def _describe_failure(host: str, chain: list[BaseException]) -> str:
    if any(isinstance(each, socket.gaierror) for each in chain):
        return f"the name {host} cannot be resolved"
    if any(isinstance(each, TimeoutError) or "Timeout" in type(each).__name__ for each in chain):
        return "no answer in time"
    if any("Incomplete" in type(each).__name__ for each in chain):
        return "the connection was cut"
    known = (each.strerror for each in chain if isinstance(each, OSError) and each.strerror)
    return next(known, "") or f"no answer that can be read ({type(chain[-1]).__name__})"


def _causes(error: BaseException | None) -> Any:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        reason = getattr(error, "reason", None)
        args = [each for each in error.args if isinstance(each, BaseException)]
        inner = reason if isinstance(reason, BaseException) else next(iter(args), None)
        error = inner or error.__cause__ or error.__context__


# Answers: the body in bounded pieces, and the headers that describe the file.

_PIECE = 1 << 16  # bytes read at a time
# bytes a second, on average over a window; a slower answer is an attack, not a download
_SLOWEST = 1024
_WINDOW = 60.0  # seconds of a window
_LONGEST_PAGE = 300.0  # seconds for an index page; the longest pages have 10 MB
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_HTML = re.compile(rb"<(?:!doctype\s+html|html|head|script|body)\b", re.I)
AS_IT_IS: Final = {"Accept": "*/*", "Accept-Encoding": "identity"}
"""Headers for files: without compression, the hash of the bytes is the file's hash."""
_LONGEST_HEADER = 300  # characters of a header that is kept


@dataclass(frozen=True, kw_only=True, slots=True)
class WebAnswer:
    """A complete answer."""

    url: str  # URL after redirects, without credentials
    content: bytes
    content_type: str = ""  # "text/html", in lower case, without parameters
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case


@dataclass(frozen=True, kw_only=True, slots=True)
class Validator:
    """The values by which a server distinguishes states of a file."""

    etag: str = ""
    last_modified: str = ""

    @property
    def for_ranges(self) -> str:
        """Return the value for If-Range: a strong ETag, else the date (RFC 9110, 13.1.5)."""
        strong = self.etag if self.etag and not self.etag.startswith("W/") else ""
        return strong or self.last_modified

    def differs(self, other: Validator) -> bool:
        """Return whether the file has certainly changed."""
        if self.etag and other.etag:
            return self.etag != other.etag
        dates = self.last_modified, other.last_modified
        return all(dates) and dates[0] != dates[1]


class Reply:
    """An answer whose body is not read yet."""

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
        """The media type of the body, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def validator(self) -> Validator:
        """The validator that the answer states for the file."""
        return Validator(
            etag=self.headers.get("etag", ""), last_modified=self.headers.get("last-modified", "")
        )

    @property
    def length(self) -> int | None:
        """The length of the body in bytes, or None if the server does not state it."""
        text = self.headers.get("content-length", "")
        return int(text) if text.isdecimal() and len(text) < 19 else None

    @property
    def part(self) -> tuple[int, int, int] | None:
        """The range of a partial answer: first byte, end, and size of the whole file."""
        found = _RANGE.fullmatch(self.headers.get("content-range", ""))
        if self.status != 206 or found is None:
            return None
        first, last, size = (int(group[:19]) for group in found.groups())
        return (first, last + 1, size) if first <= last < size else None

    @property
    def wait(self) -> float:
        """The pause in seconds that the server requests."""
        text = self.headers.get("retry-after", "")
        if text.isdecimal():
            return float(text[:9])
        try:
            return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
        except (ValueError, TypeError, IndexError, OverflowError):
            return 0.0

    def pieces(self, most: int) -> Iterator[bytes]:
        """Yield the body as the server sends it.

        Raises Transient if the body is cut off, GatherError if it is too long.
        """
        if self.length is not None and self.length > most:
            raise GatherError(
                f"{show(self.url)}: {self.length:,} bytes; at most {most:,} are allowed"
            )
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
                    raise GatherError(
                        f"{show(self.url)}: sends only {seen - marked:,} bytes a minute"
                    )
                started, marked = now, seen
            yield piece

    def _next(self) -> bytes:
        import urllib3.exceptions

        try:
            return self._response.read1(_PIECE, decode_content=False)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise explain(self.url, error) from None

    def read(self, most: int, within: float | None = None) -> bytes:
        """Return the complete body, decompressed; it may have at most ``most`` bytes."""
        pieces = self._in_time(self.pieces(most), within or _LONGEST_PAGE)
        how = self.headers.get("content-encoding", "identity").strip().lower()
        if how in ("", "identity"):
            return b"".join(pieces)
        if how not in ("gzip", "x-gzip", "deflate"):
            raise GatherError(f"{show(self.url)}: is sent in an unknown encoding")
        return self._inflate(pieces, most)

    def _in_time(self, pieces: Iterator[bytes], within: float) -> Iterator[bytes]:
        """Yield the pieces while they arrive within the given time."""
        started = time.monotonic()
        for piece in pieces:
            if time.monotonic() - started > within:
                raise GatherError(f"{show(self.url)}: not complete after {within:.0f} s")
            yield piece

    def _inflate(self, pieces: Iterator[bytes], most: int) -> bytes:
        inflater: Any = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib, by the header
        found = bytearray()
        try:
            for piece in pieces:
                found += inflater.decompress(piece, most + 1 - len(found))
                if len(found) > most:
                    raise GatherError(f"{show(self.url)}: decompresses to more than {most:,} bytes")
        except zlib.error:
            raise GatherError(f"{show(self.url)}: its compressed data are broken") from None
        if not inflater.eof:
            raise Transient("the connection was cut")
        return bytes(found)

    def drop(self) -> None:
        """Stop reading. Read the end of a short body, so that the connection can be reused."""
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
        """Record that the complete body was read."""
        self._response.release_conn()


def is_html(head: bytes) -> bool:
    """Return whether a file begins like a web page."""
    text = head[:1024].lstrip()
    while text.startswith(b"<!--"):  # not part of the pattern, which would backtrack
        text = text[4:].partition(b"-->")[2].lstrip()
    return bool(_HTML.match(text))

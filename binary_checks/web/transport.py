"""Single requests through urllib3: connections, bounded answers, and reasons for failures."""

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
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from binary_checks.errors import GatherError, ProfileError
from binary_checks.web.addresses import origin_of, show, take_credentials
from binary_checks.web.web_settings import WebSettings

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager

_PATIENCE = 60.0  # seconds until all headers of the answer must have arrived
_PIECE = 1 << 16  # bytes read at a time
# bytes a second, on average over a window; a slower answer is an attack, not a download
_SLOWEST = 1024
_WINDOW = 60.0  # seconds of a window
_LONGEST_PAGE = 300.0  # seconds for an index page; the longest pages have 10 MB
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")
_HTML = re.compile(rb"<(?:!doctype\s+html|html|head|script|body)\b", re.I)
AS_IT_IS: Final = {"Accept": "*/*", "Accept-Encoding": "identity"}
"""Headers for files: without compression, the hash of the bytes is the file's hash."""
_LONGEST_HEADER = 300  # characters of a header that is kept


class Transient(Exception):
    """A failure that may not occur again; ``wait`` is the pause that the server requests."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


class _Hasty:
    """A connection that limits the time until all headers of an answer have arrived.

    The timeouts of sockets are not enough: they start again with every byte.
    """

    sock: socket.socket

    def getresponse(self) -> Any:
        timer = threading.Timer(_PATIENCE, self._cut)
        timer.daemon = True
        timer.start()
        try:
            return super().getresponse()  # type: ignore[misc]
        finally:
            timer.cancel()

    def _cut(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            self.sock.shutdown(socket.SHUT_RDWR)


class Transport:
    """The connections of a client, opened on demand and kept."""

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        self._managers: dict[tuple[str, str, bool], PoolManager] = {}

    def ask(self, url: str, headers: Mapping[str, str]) -> BaseHTTPResponse:
        """Return the answer to a GET, with its body unread, whatever its status.

        Raises Transient if there is no answer, GatherError if a repetition cannot succeed.
        """
        origin = origin_of(url)
        key = origin.scheme, self._settings.find_proxy(origin), self._settings.trusts(origin)
        if key not in self._managers:
            self._managers[key] = self._connect(*key)
        from urllib3.exceptions import HTTPError

        try:
            # urllib3 would read redirects' bodies without a limit, and obey any Retry-After
            return self._managers[key].request(
                "GET", url, headers=headers, redirect=False, retries=False, preload_content=False
            )
        except (HTTPError, OSError, ValueError) as error:
            raise explain(url, error) from None

    def _connect(self, scheme: str, proxy: str, trusted: bool) -> PoolManager:
        try:
            import urllib3
        except ImportError:
            raise ProfileError(
                "indexes and URLs need urllib3: pip install urllib3 (the extra published)"
            ) from None
        bare, known = take_credentials(proxy) if proxy else ("", None)
        if proxy and not bare.startswith(("http://", "https://")):
            raise ProfileError(f"{show(proxy)}: only proxies of http and https are supported")
        login = urllib3.make_headers(proxy_basic_auth=":".join(known)) if known else {}
        options: dict[str, Any] = {
            "num_pools": 16,
            "maxsize": 8,
            "timeout": self._settings.timeout,
        }
        if scheme == "https" or proxy.startswith("https:"):
            options["ssl_context"] = _make_context(self._settings, trusted=trusted)
        manager: PoolManager = (
            urllib3.ProxyManager(bare, proxy_headers=login, **options)
            if proxy
            else urllib3.PoolManager(**options)
        )
        pools: dict[str, Any] = dict(manager.pool_classes_by_scheme)
        for each, pool in pools.items():
            connection = type("Connection", (_Hasty, pool.ConnectionCls), {})
            pools[each] = type("Pool", (pool,), {"ConnectionCls": connection})
        manager.pool_classes_by_scheme = pools
        return manager

    def close(self) -> None:
        """Close all connections."""
        for manager in self._managers.values():
            manager.clear()


def _make_context(settings: WebSettings, *, trusted: bool) -> ssl.SSLContext:
    named = settings.certificates or None
    where = {"capath": named} if named and Path(named).is_dir() else {"cafile": named}
    try:
        context = ssl.create_default_context(**where)
        if settings.client_certificate:
            context.load_cert_chain(settings.client_certificate)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        which = named or settings.client_certificate
        raise ProfileError(f"certificates: {which}: cannot be read: {reason}") from None
    if trusted:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def explain(url: str, error: BaseException) -> Transient | GatherError:
    """Return why no answer arrived, or only a part of it: whether a repetition may help."""
    found: BaseException | None = error
    reason = f"no answer that can be read ({type(error).__name__})"
    while found is not None:  # the causes; the innermost that says something is the reason
        name = type(found).__name__
        if isinstance(found, ssl.SSLCertVerificationError):
            message = f"its certificate is not trusted: {found.verify_message}"
            return GatherError(f"{show(url)}: {message}")
        if isinstance(found, socket.gaierror):
            return Transient(f"the name {origin_of(url).host} cannot be resolved")
        if isinstance(found, TimeoutError) or "Timeout" in name:
            return Transient("no answer in time")
        if "Incomplete" in name:
            return Transient("the connection was cut")
        reason = getattr(found, "strerror", None) or reason
        found = found.__cause__ or found.__context__
    if isinstance(error, ValueError):
        return GatherError(f"{show(url)}: cannot be requested: {type(error).__name__}")
    return Transient(reason)


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
        known = bool(self.last_modified and other.last_modified)
        return known and self.last_modified != other.last_modified


class Reply:
    """An answer whose body is not read yet."""

    def __init__(self, url: str, response: BaseHTTPResponse) -> None:
        self.url = url
        self.status = response.status
        self.headers = {
            name.lower(): value[:_LONGEST_HEADER] for name, value in response.headers.items()
        }
        self.location = response.headers.get("location", "")
        self.content_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        self.validator = Validator(
            etag=self.headers.get("etag", ""), last_modified=self.headers.get("last-modified", "")
        )
        length = self.headers.get("content-length", "")
        self.length = int(length) if length.isdecimal() and len(length) < 19 else None
        self._response = response

    @property
    def part(self) -> tuple[int, int, int] | None:
        """The range of a partial answer: first byte, end, and size of the whole file."""
        found = _RANGE.fullmatch(self.headers.get("content-range", ""))
        if self.status != 206 or found is None:
            return None
        first, last, size = map(int, found.groups())
        return (first, last + 1, size) if first <= last < size else None

    @property
    def wait(self) -> float:
        """The pause in seconds that the server requests."""
        import urllib3

        try:
            return min(float(urllib3.Retry().get_retry_after(self._response) or 0), 1e9)
        except (urllib3.exceptions.InvalidHeader, ValueError, OverflowError):
            return 0.0

    def pieces(self, most: int, within: float = float("inf")) -> Iterator[bytes]:
        """Yield the body as the server sends it.

        Raises Transient if it is cut off, GatherError if it is too long or too slow.
        """
        where = show(self.url)
        if self.length is not None and self.length > most:
            raise GatherError(f"{where}: {self.length:,} bytes; at most {most:,} are allowed")
        begin = window = time.monotonic()
        seen = marked = 0
        while piece := self._next():
            seen, now = seen + len(piece), time.monotonic()
            if seen > most:
                raise GatherError(f"{where}: more than {most:,} bytes")
            if now - begin > within:
                raise GatherError(f"{where}: not complete after {within:.0f} s")
            if now - window >= _WINDOW:
                if seen - marked < _SLOWEST * _WINDOW:
                    raise GatherError(f"{where}: sends only {seen - marked:,} bytes a minute")
                window, marked = now, seen
            yield piece

    def _next(self) -> bytes:
        from urllib3.exceptions import HTTPError

        try:
            return self._response.read1(_PIECE, decode_content=False)
        except (HTTPError, OSError, ValueError) as error:
            raise explain(self.url, error) from None

    def close(self) -> None:
        """Stop reading. Read the end of a short body first, so that its connection is kept.

        Redirects and errors have short bodies. A connection whose body is read is kept anyway.
        """
        if self.status != 200 and self.length is not None and self.length <= _PIECE:
            with contextlib.suppress(Transient, GatherError):
                list(self.pieces(_PIECE))
        self._response.close()

    def read(self, most: int, within: float | None = None) -> bytes:
        """Return the complete body, decompressed; it may have at most ``most`` bytes."""
        pieces = self.pieces(most, within or _LONGEST_PAGE)
        how = self.headers.get("content-encoding", "identity").strip().lower()
        if how in ("", "identity"):
            return b"".join(pieces)
        if how not in ("gzip", "x-gzip", "deflate"):
            raise GatherError(f"{show(self.url)}: is sent in an unknown encoding")
        # with limits; urllib3 has none for compressed data without any content
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


def is_html(head: bytes) -> bool:
    """Return whether a file begins like a web page."""
    text = head[:1024].lstrip()
    while text.startswith(b"<!--"):  # not part of the pattern, which would backtrack
        text = text[4:].partition(b"-->")[2].lstrip()
    return bool(_HTML.match(text))

"""Sends one request through urllib3, and says in a few words why there is no answer."""

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


_PATIENCE = 60.0  # seconds for a request, until the head of its answer is whole


class Transient(Exception):
    """It may well work the next time; ``wait`` is how long the server wants to be left alone."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


class Transport:
    """The connections of one client; they are made when they are needed, and kept."""

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        self._managers: dict[tuple[str, bool, bool], PoolManager] = {}

    def ask(self, url: str, headers: Mapping[str, str]) -> BaseHTTPResponse:
        """The answer to a GET, its body not read, whatever its status.

        Raises Transient where there is none, GatherError where there never will be.
        """
        urllib3 = demand_urllib3()
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
        """Let go of the connections."""
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
        urllib3 = demand_urllib3()
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
        manager.pool_classes_by_scheme = _hasty_pools()
        return manager


def demand_urllib3() -> Any:
    """The library. Raises ProfileError where it is not installed."""
    try:
        import urllib3
    except ImportError:
        raise ProfileError(
            "indexes and URLs need urllib3: pip install 'binary-checks[published]'"
        ) from None
    return urllib3


def _hasty_pools() -> dict[str, Any]:
    """Connections on which a server has so long for the head of an answer, however slowly it sends.

    The timeouts of sockets count anew with every byte.
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
    """Why there was no answer, or no more of one, in the words of whoever knows it best."""
    chain = list(_causes(error))
    for each in chain:
        if isinstance(each, ssl.SSLCertVerificationError):
            said = f"its certificate is not trusted: {each.verify_message}"
            return GatherError(f"{show(url)}: {said}")
    if isinstance(error, (ValueError, UnicodeError)):
        return GatherError(f"{show(url)}: cannot be asked for: {type(error).__name__}")
    return Transient(_say(origin_of(url).host, chain))


def _say(host: str, chain: list[BaseException]) -> str:
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


# What a server answered: the body in bounded pieces, and what the head says of the file.

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

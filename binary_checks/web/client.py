"""The HTTP client: asks again where that may help, and shows credentials to nobody else."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urljoin

from binary_checks import __version__
from binary_checks.errors import GatherError, NotThere, ProfileError
from binary_checks.model.protocols import Progress
from binary_checks.web.addresses import (
    Credentials,
    WebOrigin,
    demand_web,
    origin_of,
    quote_strange,
    show,
    take_credentials,
)
from binary_checks.web.answers import Reply, Validator, WebAnswer
from binary_checks.web.file_urls import DiskFile, path_of, read_file_url
from binary_checks.web.transport import Transient, Transport
from binary_checks.web.web_file import WebFile
from binary_checks.web.web_settings import WebSettings

_T = TypeVar("_T")
PAGE: Final = 32 << 20
"""Bytes of a page of an index; the longest ones of PyPI have some 10 MB."""
_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)
_ELSEWHERE = (301, 302, 303, 307, 308)
_NOT_MODIFIED = 304
_CONDITIONS = frozenset({"If-None-Match", "If-Modified-Since"})
_MOST_REDIRECTS = 10
_LONGEST_WAIT = 60.0  # seconds for which a server may ask to be left alone
_LONGEST_PAUSE = 8.0
LARGEST: Final = 16 << 30
"""Bytes of a file that is downloaded."""


class Client:
    """Reads pages, files, and parts of files; its connections are kept until it is closed."""

    def __init__(
        self,
        settings: WebSettings | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        keeps_tls: bool = False,
    ) -> None:
        """With ``keeps_tls`` no redirect leads from https to http, where anybody may answer."""
        self._keeps_tls = keeps_tls
        self._settings = settings or WebSettings()
        self._transport = Transport(self._settings)
        self._known: dict[WebOrigin, Credentials] = {}
        self._sleep = sleep

    def get(self, url: str, *, accept: str = "*/*", limit: int = PAGE) -> WebAnswer:
        """The whole answer, inflated. Raises NotThere, or GatherError where there is none."""
        if _is_file(url):
            return read_file_url(url, limit)

        def ask() -> WebAnswer:
            return _read(self.open(url, {"Accept": accept, "Accept-Encoding": "gzip"}), limit)

        return self.insist(url, ask)

    def get_changed(
        self, url: str, known: Validator, *, limit: int, within: float
    ) -> WebAnswer | None:
        """The whole answer, None where the file is still in the state that is known.

        Raises NotThere, or GatherError where there is none in so many seconds.
        """
        asked = {"If-None-Match": known.etag, "If-Modified-Since": known.last_modified}
        headers = {name: value for name, value in asked.items() if value}

        def ask() -> WebAnswer | None:
            reply = self.open(url, {"Accept": "*/*", "Accept-Encoding": "gzip", **headers})
            if reply.status == _NOT_MODIFIED:
                reply.drop()
                return None
            return _read(reply, limit, within)

        return self.insist(url, ask)

    def open_remote(self, url: str) -> WebFile | DiskFile:
        """A file of which parts can be read, if ``ranges`` says so; its end is read at once.

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
        """Write the whole file to that path; one of the same state that was cut is completed.

        A note beside it says which state that is; ``hashed`` says that the caller knows by a hash
        whether it is the right one. Raises NotThere or GatherError.
        """
        from binary_checks.web.downloading import Download, copy

        if _is_file(url):
            copy(path_of(url), path, progress)
        else:
            download = Download(self, url, path, size=size, progress=progress, limit=limit)
            download.hashed = hashed
            download.finish()

    def open(self, url: str, headers: Mapping[str, str]) -> Reply:
        """The good answer to one GET, wherever that leads, its body not read.

        Raises Transient, NotThere or GatherError.
        """
        url, credentials = self._introduce(url)
        first = origin_of(url)
        for _ in range(_MOST_REDIRECTS + 1):
            own = dict(headers, **{"User-Agent": f"binary-checks/{__version__}"})
            if credentials and origin_of(url) == first:
                own["Authorization"] = _spell(credentials)
            reply = Reply(url, self._transport.ask(url, own))
            if reply.status not in _ELSEWHERE or not reply.location:
                return _demand_good(reply, conditional=not _CONDITIONS.isdisjoint(headers))
            reply.drop()
            there = _follow(url, reply.location)
            if self._keeps_tls and origin_of(url).scheme == "https" != origin_of(there).scheme:
                raise GatherError(f"{show(url)}: redirects from https to http")
            url = there
        raise GatherError(f"{show(url)}: redirects more than {_MOST_REDIRECTS} times")

    def _introduce(self, url: str) -> tuple[str, Credentials | None]:
        """The URL without credentials, and those that its server is to see."""
        url, given = take_credentials(quote_strange(url))
        origin = origin_of(url)
        if origin.scheme not in ("http", "https"):
            raise ProfileError(f"{show(url)}: neither http, https nor file")
        if given is not None:
            self._known[origin] = given
        known = self._known.get(origin)
        return url, known or self._settings.find_credentials(origin)

    def know(self, url: str) -> None:
        """Remember the credentials in a URL for its server."""
        bare, given = take_credentials(url)
        if given is not None:
            self._known[origin_of(bare)] = given

    def insist(self, url: str, ask: Callable[[], _T]) -> _T:
        """Ask again while that may help, with pauses that grow; no Transient leaves it."""
        for pause in self._pauses():
            try:
                return ask()
            except Transient as error:
                self.rest(url, error, pause)
        raise AssertionError  # the last pause is None, after which `rest` raises

    def rest(self, url: str, error: Transient, pause: float | None) -> None:
        """Wait until it may work again. Raises GatherError where that is too long, or enough."""
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
        """Let go of the connections."""
        self._transport.close()


def _is_file(url: str) -> bool:
    return url[:5].lower() == "file:"


def _spell(credentials: Credentials) -> str:
    pair = f"{credentials.user}:{credentials.password}".encode()
    return f"Basic {b64encode(pair).decode('ascii')}"


def _follow(url: str, location: str) -> str:
    """Where a redirect leads; nothing stands before the host there."""
    try:
        text = location.encode("latin-1").decode("utf-8", "replace")
        there = urljoin(url, quote_strange(text))
    except ValueError:
        raise GatherError(f"{show(url)}: redirects to what is no URL") from None
    return take_credentials(demand_web(there, show(url)))[0]


def _read(reply: Reply, limit: int, within: float | None = None) -> WebAnswer:
    """The whole answer, inflated."""
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


def _demand_good(reply: Reply, *, conditional: bool = False) -> Reply:
    if reply.status in (200, 206, 416) or (conditional and reply.status == _NOT_MODIFIED):
        return reply
    reply.drop()
    said = f"answers {reply.status}"
    if reply.status in _TRANSIENT:
        raise Transient(said, reply.wait)
    if reply.status in (404, 410):
        raise NotThere(f"{show(reply.url)}: not there ({said})")
    if reply.status in (401, 407):
        raise GatherError(f"{show(reply.url)}: asks for credentials ({said})")
    raise GatherError(f"{show(reply.url)}: {said}")

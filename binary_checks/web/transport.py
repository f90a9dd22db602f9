"""Sends one request through urllib3, and says in a few words why there is no answer."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

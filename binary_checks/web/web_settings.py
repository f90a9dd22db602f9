"""The user's settings for the web: certificates, proxies, timeouts, and credentials."""

from __future__ import annotations

import netrc
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from binary_checks.errors import GatherError
from binary_checks.web.addresses import Credentials, WebOrigin

_CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
_MOST_RETRIES = 10
_TIMEOUTS = (1.0, 600.0)  # seconds; values outside of this range are ignored


@dataclass(frozen=True, kw_only=True, slots=True)
class WebSettings:
    """The user's settings for a client."""

    certificates: str = ""  # a file or folder of certificate authorities; "" for the system's own
    client_certificate: str = ""  # a file with a key and its certificate
    # by scheme; "no": hosts without a proxy
    proxies: Mapping[str, str] = field(default_factory=dict)
    # "host" or "host:port", whose certificates are not verified
    trusted_hosts: tuple[str, ...] = ()
    timeout: float = 15.0  # seconds without any answer; pip's default
    retries: int = 5  # after the first try; pip's default
    netrc: Path | None = None

    def trusts(self, origin: WebOrigin) -> bool:
        """Return whether the user trusts this server without a valid certificate."""
        return bool({origin.host, f"{origin.host}:{origin.port}"} & set(self.trusted_hosts))

    def reaches_directly(self, origin: WebOrigin) -> bool:
        """Return whether NO_PROXY names the server or its domain."""
        names = {origin.host, f"{origin.host}:{origin.port}"}
        for spared in self.proxies.get("no", "").lower().replace(",", " ").split():
            domain = spared.lstrip("*").lstrip(".")
            if spared == "*" or any(n == domain or n.endswith(f".{domain}") for n in names):
                return True
        return False

    def find_credentials(self, origin: WebOrigin) -> Credentials | None:
        """Return the user's credentials for the server's host in netrc, or None.

        Raises GatherError for an invalid file.
        """
        if self.netrc is None or not self.netrc.is_file():
            return None
        try:
            found = netrc.netrc(str(self.netrc)).authenticators(origin.host)
        except (netrc.NetrcParseError, OSError, UnicodeDecodeError) as error:
            line = getattr(error, "lineno", None)
            where = f"line {line}" if line else type(error).__name__
            raise GatherError(f"{self.netrc}: cannot be read ({where})") from None
        return Credentials(found[0] or "", found[2] or "") if found else None


def read_web_settings(pip: Mapping[str, str], environ: Mapping[str, str]) -> WebSettings:
    """Return pip's settings, completed by environment variables that most programs read."""
    certificates = next((environ[name] for name in _CERTIFICATES if environ.get(name)), "")
    return WebSettings(
        certificates=pip.get("cert") or certificates,
        client_certificate=pip.get("client-cert", ""),
        proxies=_read_proxies(pip.get("proxy", ""), environ),
        trusted_hosts=tuple(pip.get("trusted-host", "").lower().split()),
        timeout=_read_number(pip.get("timeout") or pip.get("default-timeout"), 15.0, *_TIMEOUTS),
        retries=int(_read_number(pip.get("retries"), 5.0, 0.0, _MOST_RETRIES)),
        netrc=_find_netrc(environ),
    )


def _read_number(text: str | None, usual: float, least: float, most: float) -> float:
    try:
        return min(max(float(text or usual), least), most)
    except ValueError:
        return usual


def _read_proxies(given: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return proxies by scheme.

    Lower-case names win, because CGI sets HTTP_PROXY from a header of the request.
    """
    found = {"no": environ.get("no_proxy") or environ.get("NO_PROXY", "")}
    for scheme in ("http", "https"):
        names = (f"{scheme}_proxy", f"{scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY")
        spared = {"HTTP_PROXY"} if "REQUEST_METHOD" in environ else set()
        proxy = given or next((environ[n] for n in names if environ.get(n) and n not in spared), "")
        if proxy:
            found[scheme] = proxy if "://" in proxy else f"http://{proxy}"
    return found if found.keys() - {"no"} else _ask_system()


def _ask_system() -> dict[str, str]:
    """Return the proxies in the settings of Windows and macOS."""
    if os.name != "nt" and platform.system() != "Darwin":
        return {}
    from urllib.request import getproxies

    return {scheme: proxy for scheme, proxy in getproxies().items() if urlsplit(proxy).netloc}


def _find_netrc(environ: Mapping[str, str]) -> Path | None:
    if named := environ.get("NETRC"):
        return Path(named)
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or os.path.expanduser("~"))  # noqa: PTH111
    return next((home / name for name in (".netrc", "_netrc") if (home / name).is_file()), None)

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


@dataclass(frozen=True, kw_only=True, slots=True)
class WebSettings:
    """The user's settings for a client."""

    certificates: str = ""  # a file or folder of certificate authorities; "" for the system's own
    client_certificate: str = ""  # a file with a key and its certificate
    proxies: Mapping[str, str] = field(default_factory=dict)  # by scheme, "all" or "no"
    trusted_hosts: tuple[str, ...] = ()  # "host" or "host:port", not verified
    timeout: float = 15.0  # seconds without any answer; pip's default
    retries: int = 5  # after the first try; pip's default
    netrc: Path | None = None

    def trusts(self, origin: WebOrigin) -> bool:
        """Return whether the user trusts this server without a valid certificate."""
        return bool({origin.host, f"{origin.host}:{origin.port}"} & set(self.trusted_hosts))

    def find_proxy(self, origin: WebOrigin) -> str:
        """Return the URL of the proxy for a server, or "" if NO_PROXY names it or its domain."""
        from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

        # urllib separates names by commas alone, and knows no asterisk before a domain
        spared = self.proxies.get("no", "").replace("*.", ".").replace(",", " ").split()
        spares = {"no": "*" if "*" in spared else ",".join(spared)}
        if proxy_bypass_environment(f"{origin.host}:{origin.port}", spares):
            return ""
        proxy = self.proxies.get(origin.scheme) or self.proxies.get("all", "")
        return proxy if "://" in proxy or not proxy else f"http://{proxy}"

    def find_credentials(self, origin: WebOrigin) -> Credentials | None:
        """Return the credentials for the server's host in netrc, or None. Raises GatherError."""
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
    home = environ.get("HOME") or environ.get("USERPROFILE") or os.path.expanduser("~")  # noqa: PTH111
    usual = filter(Path.is_file, (Path(home, ".netrc"), Path(home, "_netrc")))
    return WebSettings(
        certificates=pip.get("cert") or certificates,
        client_certificate=pip.get("client-cert", ""),
        proxies=_read_proxies(pip.get("proxy", ""), environ),
        trusted_hosts=tuple(pip.get("trusted-host", "").lower().split()),
        timeout=_read_number(pip.get("timeout") or pip.get("default-timeout"), 15.0, 1.0, 600.0),
        retries=int(_read_number(pip.get("retries"), 5.0, 0.0, 10.0)),
        netrc=Path(environ["NETRC"]) if environ.get("NETRC") else next(usual, None),
    )


def _read_number(text: str | None, usual: float, least: float, most: float) -> float:
    try:
        return min(max(float(text or usual), least), most)
    except ValueError:
        return usual


def _read_proxies(given: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return proxies by scheme, of which lower-case names win.

    Under CGI, a header of the request sets HTTP_PROXY.
    """
    spared = {"HTTP_PROXY"} if "REQUEST_METHOD" in environ else set()
    found: dict[str, str] = {}
    for name in sorted(environ.keys() - spared):  # upper case is before lower case
        if name.lower().endswith("_proxy") and environ[name]:
            found[name.lower().removesuffix("_proxy")] = environ[name]
    if given:
        return {"all": given, "no": found.get("no", "")}
    if found.keys() & {"http", "https", "all"} or platform.system() not in ("Windows", "Darwin"):
        return found
    from urllib.request import getproxies

    # the settings of Windows or macOS
    return {scheme: proxy for scheme, proxy in getproxies().items() if urlsplit(proxy).netloc}

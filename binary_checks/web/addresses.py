"""Parts of URLs: the part that may be shown, the server, and credentials."""

from __future__ import annotations

import re
from posixpath import basename
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from binary_checks.errors import ProfileError
from binary_checks.safe_text import one_line

PORTS = {"http": 80, "https": 443}
LONGEST = 8192  # characters of a URL; web servers accept no more
_TOKEN = re.compile(r"(?<=/t/)[^/]+(?=/)")


class Credentials(NamedTuple):
    """The user name and password for a server."""

    user: str
    password: str

    def __repr__(self) -> str:
        return "<credentials>"


class WebOrigin(NamedTuple):
    """Scheme, host and port: URLs that agree in all three have the same server and credentials."""

    scheme: str
    host: str
    port: int


def split(url: str) -> SplitResult:
    """Return the parts of a URL. Raises ProfileError if it is invalid or cannot name a file."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ProfileError(f"{shorten(url)}: not a URL: {error}") from None
    if len(url) > LONGEST or not parts.scheme:
        raise ProfileError(f"{shorten(url)}: not a URL")
    if parts.scheme in PORTS and (not parts.hostname or port == 0):
        raise ProfileError(f"{shorten(url)}: not a URL: it names no host")
    return parts


def take_credentials(url: str) -> tuple[str, Credentials | None]:
    """Return the URL without the part before ``@``, and the credentials in that part."""
    parts = split(url)
    before, found, host = parts.netloc.rpartition("@")
    if not found:
        return url, None
    user, _, password = before.partition(":")
    bare = urlunsplit(parts._replace(netloc=host))
    return bare, Credentials(unquote(user), unquote(password)) if before else None


def origin_of(url: str) -> WebOrigin:
    """Return the server of a URL."""
    parts = split(url)
    port = parts.port or PORTS.get(parts.scheme, 0)
    return WebOrigin(parts.scheme, (parts.hostname or "").rstrip("."), port)


def show(url: str) -> str:
    """Return the URL without possible secrets, for messages and documents.

    Some servers accept signatures in the query; credentials are before the host; conda's tokens are
    in the path after ``/t/``.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "a URL that cannot be read"
    host = parts.netloc.rpartition("@")[2]
    return one_line(urlunsplit((parts.scheme, host, _TOKEN.sub("***", parts.path), "", "")))


def shorten(url: str) -> str:
    """Return the URL without secrets, shortened."""
    shown = show(url[:LONGEST])
    return shown if len(shown) <= 200 else f"{shown[:200]}…"


def file_name(url: str) -> str:
    """Return the last part of the URL's path, decoded, or "" if this part is not a file name."""
    name = unquote(basename(urlsplit(url).path))
    return name if is_plain(name) else ""


def is_plain(name: str) -> bool:
    """Return whether a name from a server is only a file name, also on Windows (not ``C:x``)."""
    return not ({"/", "\\", ":", "\0"} & set(name) or name in ("", ".", "..") or len(name) > 255)

"""Takes URLs apart: what of one may be shown, whose host it is, and the credentials in it."""

from __future__ import annotations

import re
from posixpath import basename
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from binary_checks.errors import GatherError, ProfileError
from binary_checks.lines import one_line

_PORTS = {"http": 80, "https": 443}
_LONGEST = 8192  # characters; web servers take no more
_TOKEN = re.compile(r"(?<=/t/)[^/]+(?=/)")
_STRANGE = re.compile(r"[\x00-\x20\x7f<>\"\\^`{|}]")


class Credentials(NamedTuple):
    """What a server is shown by whoever may read there."""

    user: str
    password: str

    def __repr__(self) -> str:
        return "<credentials>"


class WebOrigin(NamedTuple):
    """Scheme, host and port: who shares all three is one server, and may see the same secrets."""

    scheme: str
    host: str
    port: int


def split(url: str) -> SplitResult:
    """The parts of a URL. Raises ProfileError for what is none, or is no address of a file."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ProfileError(f"{shorten(url)}: not a URL: {error}") from None
    if len(url) > _LONGEST or not parts.scheme:
        raise ProfileError(f"{shorten(url)}: not a URL")
    if parts.scheme in _PORTS and (not parts.hostname or port == 0):
        raise ProfileError(f"{shorten(url)}: not a URL: it names no host")
    return parts


def take_credentials(url: str) -> tuple[str, Credentials | None]:
    """The URL without what stands before its ``@``, and that."""
    parts = split(url)
    before, found, host = parts.netloc.rpartition("@")
    if not found:
        return url, None
    user, _, password = before.partition(":")
    bare = urlunsplit(parts._replace(netloc=host))
    return bare, Credentials(unquote(user), unquote(password)) if before else None


def origin_of(url: str) -> WebOrigin:
    """Whose server it is."""
    parts = split(url)
    port = parts.port or _PORTS.get(parts.scheme, 0)
    return WebOrigin(parts.scheme, (parts.hostname or "").rstrip("."), port)


def show(url: str) -> str:
    """The URL as messages and documents have it: what may be a secret in it is left out.

    Some servers take signatures in the query, credentials stand before the host, and conda's tokens
    stand in the path, behind ``/t/``.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "a URL that cannot be read"
    host = parts.netloc.rpartition("@")[2]
    path = _TOKEN.sub("***", parts.path)
    return one_line(urlunsplit((parts.scheme, host, path, "", "")))


def shorten(url: str) -> str:
    """The same, of a URL of any length."""
    shown = show(url[:_LONGEST])
    return shown if len(shown) <= 200 else f"{shown[:200]}…"


def file_name(url: str) -> str:
    """The last part of its path, decoded; "" where that is no name of a file."""
    name = unquote(basename(urlsplit(url).path))
    return name if is_plain(name) else ""


def is_plain(name: str) -> bool:
    """Whether a server's name for a file names one in its folder, on Windows too (``C:x``)."""
    return not ({"/", "\\", ":", "\0"} & set(name) or name in ("", ".", "..") or len(name) > 255)


def quote_strange(url: str) -> str:
    """The URL with escapes for characters that none has; servers send them in redirects."""
    return _STRANGE.sub(lambda found: f"%{ord(found[0]):02X}", url)


def demand_web(url: str, whence: str) -> str:
    """The URL, where another server may send us to it. Raises GatherError."""
    if len(url) > _LONGEST:
        raise GatherError(f"{whence}: redirects to a URL of {len(url):,} characters")
    try:
        parts = split(url)
    except ProfileError as error:
        raise GatherError(f"{whence}: redirects to what is no URL: {error}") from None
    if parts.scheme not in _PORTS:
        raise GatherError(f"{whence}: redirects to a {one_line(parts.scheme)[:20]}: URL")
    return url

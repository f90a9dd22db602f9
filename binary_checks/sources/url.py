"""A package file named by its URL: ``https``, ``http`` or ``file``."""

from __future__ import annotations

import hashlib
import os
import re
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from binary_checks.errors import NotThere, ProfileError
from binary_checks.model.published import Provenance
from binary_checks.sources.remote import Found, RemoteSource, agree_on
from binary_checks.sources.surroundings import Surroundings

if TYPE_CHECKING:
    from binary_checks.web.client import Client

_SCHEME = re.compile(r"(?:https?|file):", re.IGNORECASE)
_HASH = re.compile(r"(sha256|sha384|sha512)=([0-9a-fA-F]{64,128})(?![^&])")
_ANY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def is_url(argument: str) -> bool:
    """Whether it is written as one."""
    return bool(_SCHEME.match(argument) or _ANY.match(argument))


def parse(argument: str, folder: Path) -> NamedUrl | None:
    """Anything with a scheme in front; what cannot be fetched says so when it is looked for."""
    return NamedUrl(url=argument, folder=folder) if is_url(argument) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedUrl:
    """A file that is said to be there."""

    url: str
    folder: Path  # the current one

    @property
    def path(self) -> Path:
        """The URL in the current folder, without what may be a secret in it."""
        from binary_checks.web.addresses import show

        return self.folder / show(self.url)

    def resolve(self, surroundings: Surroundings) -> RemoteSource:
        """Ask the server whether it is there. Raises ProfileError or GatherError."""
        from binary_checks.web.addresses import shorten

        if not _SCHEME.match(self.url):
            raise ProfileError(f"{shorten(self.url)}: only https, http and file URLs are followed")
        look = partial(_look, self.url, surroundings)
        return agree_on(self.path, f"url {self.url}", look, surroundings)


def _look(url: str, surroundings: Surroundings) -> Found:
    from binary_checks.web.addresses import file_name, show, split

    name, fragment = file_name(url), split(url).fragment
    if not name:
        raise ProfileError(f"{show(url)}: names no file")
    hashes = read_hashes(fragment)
    address = url.partition("#")[0]
    try:
        state = look_at(surroundings.connect(address), address)
    except NotThere as error:
        raise ProfileError(str(error)) from None
    provenance = Provenance(
        asked=show(url),
        kind="url",
        url=show(url),
        sha256=hashes.get("sha256", ""),
        size=state.size,
        modified=state.modified,
    )
    return Found(
        url=address,
        file_name=name,
        key=hashes.get("sha256") or state.key,
        hashes=hashes,
        provenance=asdict(provenance),
        pinned=bool(hashes),
    )


def read_hashes(fragment: str) -> dict[str, str]:
    """What a URL says behind its ``#`` of the file's hashes: ``sha256=…``."""
    return {found[1]: found[2].lower() for found in _HASH.finditer(fragment)}


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """What a server says of a file as it is now."""

    key: str  # another one for another state of it
    size: int | None
    modified: str


def look_at(client: Client, url: str) -> State:
    """Ask for the state of a file. Raises NotThere or GatherError.

    Without any mark of it the file is fetched anew in each run.
    """
    from binary_checks.web.addresses import take_credentials

    with closing(client.open_remote(url)) as file:
        mark = file.etag or file.last_modified or f"{time.time_ns()} {os.getpid()}"
        text = f"{take_credentials(url)[0]} {mark} {file.size}"
        return State(
            key=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
            size=file.size if file.size >= 0 else None,
            modified=file.last_modified,
        )

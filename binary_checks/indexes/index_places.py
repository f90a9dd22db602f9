"""The indexes in the user's settings, and the files of a project that they list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from binary_checks.errors import GatherError, NotThere, ProfileError
from binary_checks.indexes.simple_page import ACCEPT, ListedFile, read_page
from binary_checks.places.index_settings import is_true
from binary_checks.web.addresses import origin_of, show, split, take_credentials
from binary_checks.web.client import Client, path_of

PYPI = "https://pypi.org/simple"
_OF_PIP = ("index-url", "extra-index-url", "find-links", "no-index")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexPlaces:
    """The indexes and links in the user's settings."""

    indexes: tuple[str, ...] = (PYPI,)
    links: tuple[str, ...] = ()  # folders, pages and files that list packages or are packages
    prereleases: bool = False
    trusted_hosts: tuple[str, ...] = ()

    def name(self) -> str:
        """The URLs of all indexes and links, for messages."""
        return " and ".join(map(show, (*self.indexes, *self.links))) or "no index (no-index is set)"


def read_index_places(pip: Mapping[str, str], environ: Mapping[str, str]) -> IndexPlaces:
    """Read pip's settings; if they name no index, use uv's variables."""
    theirs = pip if any(pip.get(name) for name in _OF_PIP) else {**pip, **_read_uv(environ)}
    first = theirs.get("index-url") or PYPI
    indexes = (
        () if is_true(theirs.get("no-index", "")) else (first, *_words(theirs, "extra-index-url"))
    )
    return IndexPlaces(
        indexes=tuple(dict.fromkeys(map(_as_url, indexes))),
        links=tuple(dict.fromkeys(map(_as_url, _words(theirs, "find-links")))),
        prereleases=is_true(theirs.get("pre", "")) or ":all:" in _words(theirs, "all-releases"),
        trusted_hosts=tuple(theirs.get("trusted-host", "").lower().split()),
    )


def _words(settings: Mapping[str, str], name: str) -> list[str]:
    return settings.get(name, "").split()


def _read_uv(environ: Mapping[str, str]) -> dict[str, str]:
    """Read ``UV_INDEX``, in which an index may have a name: ``name=https://…``."""
    named = [
        word.rpartition("=")[2] if word.partition("=")[0].isidentifier() else word
        for word in environ.get("UV_INDEX", "").split()
    ]
    extra = " ".join((*named, environ.get("UV_EXTRA_INDEX_URL", "")))
    found = {
        "index-url": environ.get("UV_DEFAULT_INDEX") or environ.get("UV_INDEX_URL", ""),
        "extra-index-url": extra.strip(),
        "find-links": environ.get("UV_FIND_LINKS", "").replace(",", " "),
        "no-index": environ.get("UV_NO_INDEX", ""),
    }
    return {name: value for name, value in found.items() if value}


def _as_url(place: str) -> str:
    return place if "://" in place or place.startswith("file:") else Path(place).absolute().as_uri()


def list_files(client: Client, places: IndexPlaces, project: str) -> list[ListedFile]:
    """Return every file of a project in pip's order; if several have one name, the last counts.

    Raises GatherError if an index fails: the file that users get could be in that index.
    """
    loose: list[ListedFile] = []
    listed: list[ListedFile] = []
    for link in places.links:
        files, pages = _look_into(client, link)
        loose += files
        listed += pages
    for index in places.indexes:
        _require_safe(index, places)
        listed += _ask(client, f"{index.rstrip('/')}/{project}/", index)
    return [*sorted(loose, key=lambda each: each.url, reverse=True), *listed]


def _ask(client: Client, page: str, index: str) -> list[ListedFile]:
    try:
        return read_page(client.get(page, accept=ACCEPT), show(index))
    except NotThere:
        return []
    except GatherError as error:
        if show(index) in str(error):
            raise
        raise GatherError(f"{show(index)}: {error}") from None


def _require_safe(index: str, places: IndexPlaces) -> None:
    """Raise ProfileError for an index that pip ignores as insecure: an attacker could answer."""
    bare = take_credentials(index)[0]
    if split(bare).scheme != "http":
        return
    origin = origin_of(bare)
    named = {origin.host, f"{origin.host}:{origin.port}"} & set(places.trusted_hosts)
    if not named and origin.host not in _LOOPBACK and not origin.host.startswith("127."):
        raise ProfileError(
            f"{show(index)}: pip leaves out an index without https, unless it is a trusted-host"
        )


def _look_into(client: Client, link: str) -> tuple[list[ListedFile], list[ListedFile]]:
    """Return the files in a folder, and the files that its pages list.

    Both lists are empty if the folder is missing.
    """
    if not link.startswith("file:"):
        return [], _ask(client, link, link)
    path = path_of(link)
    try:
        found = sorted(path.iterdir()) if path.is_dir() else [path] if path.is_file() else []
    except OSError as error:
        raise GatherError(f"{show(link)}: cannot be read: {error.strerror}") from None
    pages = [each for each in found if each.suffix in (".html", ".htm")]
    loose = [
        ListedFile(
            file_name=each.name, url=each.as_uri(), index=show(link), size=each.stat().st_size
        )
        for each in found
        if each not in pages and each.is_file()
    ]
    return loose, [file for page in pages for file in _ask(client, page.as_uri(), link)]

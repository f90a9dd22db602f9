"""A package file on a server, found but not fetched: it is downloaded once somebody reads it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from binary_checks import trees
from binary_checks.errors import GatherError, NotThere, Unavailable
from binary_checks.model.objects import Format, object_kinds
from binary_checks.model.packages import CondaPackage, Package, Wheel
from binary_checks.model.protocols import (
    ObjectReader,
    Preview,
    Progress,
    RemoteFile,
    Tree,
)
from binary_checks.model.published import Provenance
from binary_checks.sources.download_store import Awaited, KeptFile, fetch, find_taken
from binary_checks.sources.opened import OpenedSource

if TYPE_CHECKING:
    from binary_checks.sources.surroundings import Surroundings
    from binary_checks.web.client import Client

_KINDS: dict[str, type[Package]] = {".whl": Wheel, ".conda": CondaPackage}
"""How the names of packages end whose kind needs no look into them."""
_LONGEST_METADATA = 16 << 20  # bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A file on a server, as it was found: in simple values, for other processes to take over."""

    url: str  # with what its server is to see
    file_name: str
    key: str  # by what the download is known here
    hashes: Mapping[str, str]
    provenance: Mapping[str, Any]  # of `Provenance`
    metadata_url: str = ""  # where METADATA is served beside it
    siblings: tuple[str, ...] = ()
    pinned: bool = False  # whether nothing of it is read before all of it has the stated hash

    def spell(self) -> dict[str, Any]:
        """It as simple values."""
        return asdict(self)

    @staticmethod
    def read(said: Mapping[str, Any]) -> Found:
        """What `spell` gave."""
        return Found(**{**said, "siblings": tuple(said["siblings"])})


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteSource(OpenedSource):
    """One package file on a server."""

    path: Path  # how the user named it, in the current folder
    found: Found
    connect: Callable[[str], Client]  # to the server of a URL
    progress: Progress | None = None

    @property
    def label(self) -> str:
        """The file's name."""
        return self.found.file_name

    def identity(self) -> str:
        """By what it is known: ``sha256 …`` of what was downloaded. Raises GatherError."""
        return f"sha256 {self.fetch().sha256}"

    def fetch(self) -> KeptFile:
        """Download it, if it was not. Raises GatherError."""
        return fetch(self.connect(self.found.url), _await(self.found), self.progress)

    def open(self) -> Tree:
        """Open the archive, once it is here."""
        return trees.open_tree(self.fetch().path)

    def preview(self, reader: ObjectReader) -> Preview:
        """Say by the name alone what it is, and that objects of every format may be in it.

        Nothing is fetched for that: there may be no check that wants the whole file.
        """
        kind = next((kind for end, kind in _KINDS.items() if self.label.endswith(end)), None)
        if kind is None:
            return OpenedSource.preview(self, reader)
        return Preview(kind=kind, formats=frozenset(map(Format, object_kinds())))

    def restate(self, package: Package) -> Package:
        """All of it is stated: the file is the same to the last bit."""
        return replace(package, path=self.fetch().path)

    def remote(self) -> PublishedPackage:
        """The file where it is published."""
        return PublishedPackage(found=self.found, connect=self.connect)


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedPackage:
    """A package file before it is downloaded."""

    found: Found
    connect: Callable[[str], Client]  # to the server of a URL

    @property
    def file_name(self) -> str:
        """The file's name."""
        return self.found.file_name

    @property
    def provenance(self) -> Provenance:
        """What is said of it there, and the hash of what was downloaded, once it was."""
        return read_provenance(self.found)

    def open(self) -> RemoteFile:
        """Open it to be read by ranges. Raises Unavailable, NotThere or GatherError."""
        client, url = self.connect(self.found.url), self.found.url
        if self.found.pinned:
            url = fetch(client, _await(self.found)).path.as_uri()
        file = client.open_remote(url)
        if not file.ranges:
            raise Unavailable(f"{file.url}: the server sends no parts of files")
        return file

    def core_metadata(self) -> bytes | None:
        """The METADATA that the index serves beside it; None where it serves none."""
        if not self.found.metadata_url:
            return None
        try:
            answer = self.connect(self.found.metadata_url).get(
                self.found.metadata_url, limit=_LONGEST_METADATA
            )
        except NotThere as error:
            raise GatherError(f"{error}, but the index says that it is") from None
        name, _, stated = str(self.found.provenance["metadata_hash"]).partition("=")
        if stated and hashlib.new(name, answer.content).hexdigest() != stated:
            raise GatherError(f"{answer.url}: its {name} is not what the index says")
        return answer.content

    def siblings(self) -> tuple[str, ...]:
        """All files that the index has of the same project and version."""
        return self.found.siblings


def read_provenance(found: Found) -> Provenance:
    """What was said of a file, with the hash of its bytes where they are here."""
    taken = find_taken(found.key, found.file_name, find_here(found.url))
    stated = Provenance(**found.provenance)
    how = "PEP 658" if found.metadata_url else "download" if taken else ""
    return replace(stated, sha256_taken=taken.sha256 if taken else "", metadata=how)


def _await(found: Found) -> Awaited:
    return Awaited(
        url=found.url,
        file_name=found.file_name,
        key=found.key,
        hashes=found.hashes,
        size=found.provenance["size"],
        stated_by=found.provenance["index"],
        here=find_here(found.url),
    )


def find_here(url: str) -> Path | None:
    """The file that a ``file:`` URL is about: it is read where it lies."""
    if not url.lower().startswith("file:"):
        return None
    from binary_checks.web.file_urls import path_of

    return path_of(url)


def agree_on(
    path: Path, key: str, find: Callable[[], Found], surroundings: Surroundings
) -> RemoteSource:
    """The source of what this run found under that key, in whichever of its processes."""
    found = Found.read(surroundings.agree(key, lambda: find().spell()))
    return RemoteSource(
        path=path,
        found=found,
        connect=surroundings.connect,
        progress=surroundings.watch(found.file_name),
    )

"""Package files on a server, which are downloaded when they are first read."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from binary_checks import trees
from binary_checks.errors import GatherError, NotThere, ProfileError, Unavailable
from binary_checks.files import name_cache_folder, remove_oldest, take_turns
from binary_checks.model import (
    CondaPackage,
    Format,
    ObjectReader,
    Package,
    PackageKind,
    Preview,
    Progress,
    Provenance,
    RemoteFile,
    Tree,
    Wheel,
    object_kinds,
)
from binary_checks.sources.file import OpenedSource, hash_file

if TYPE_CHECKING:
    from binary_checks.sources.run_environment import Surroundings
    from binary_checks.web.client import Client


_KINDS: dict[str, type[Package]] = {".whl": Wheel, ".conda": CondaPackage}
"""Kinds of packages that are recognised by their suffix only."""
_LONGEST_METADATA = 16 << 20  # bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A file found on a server, as simple values that other processes can read."""

    url: str  # with credentials for its server
    file_name: str
    key: str  # identifies the file on this host: a hash of its content, or of its URL and state
    hashes: Mapping[str, str]  # hashes that the index states, by algorithm
    size: int | None = None  # bytes, as the index states
    stated_by: str = ""  # name of the index in messages
    provenance: Mapping[str, Any] = field(default_factory=dict)  # fields of `Provenance`
    metadata_url: str = ""  # URL of METADATA, if the server provides it
    siblings: tuple[str, ...] = ()
    pinned: bool = False  # whether nothing may be read until the complete file is verified

    @property
    def here(self) -> Path | None:
        """The path of a ``file:`` URL, which is read without a copy; None for other URLs."""
        return find_local_path(self.url)


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteSource(OpenedSource):
    """A package file on a server."""

    path: Path  # the argument as a path in the current folder
    found: Found
    connect: Callable[[str], Client]  # returns the client for the server of a URL
    progress: Progress | None = None
    kinds: Sequence[PackageKind] = ()  # the project's own
    stated: Package | None = None

    @property
    def label(self) -> str:
        """The file's name."""
        return self.found.file_name

    def identity(self) -> str:
        """Return the ``sha256 …`` of the downloaded file. Raises GatherError."""
        return f"sha256 {self.fetch().sha256}"

    def fetch(self) -> StoredFile:
        """Download the file unless it was downloaded before. Raises GatherError."""
        return fetch(self.connect(self.found.url), self.found, self.progress)

    def open(self) -> Tree:
        """Open the archive; download it first if it is not stored."""
        return trees.open_tree(self.fetch().path)

    def preview(self, reader: ObjectReader) -> Preview:
        """Return the kind that the file's name shows, and all formats.

        Nothing is fetched: the selected checks may not need the complete file. The project's own
        kinds may have to look into it.
        """
        kind = next((kind for end, kind in _KINDS.items() if self.label.endswith(end)), None)
        if kind is None or self.kinds or self.stated is not None:
            return OpenedSource.preview(self, reader)
        return Preview(kind=kind, formats=frozenset(map(Format, object_kinds())))

    def restate(self, package: Package) -> Package:
        """Return the stated package unchanged: the file has the same hash."""
        return replace(package, path=self.fetch().path)

    def remote(self) -> PublishedPackage:
        """Return the published file."""
        return PublishedPackage(found=self.found, connect=self.connect)


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedPackage:
    """A package file that may not be downloaded yet."""

    found: Found
    connect: Callable[[str], Client]  # returns the client for the server of a URL

    @property
    def file_name(self) -> str:
        """The file's name."""
        return self.found.file_name

    @property
    def provenance(self) -> Provenance:
        """The published facts, and the file's hash once it was downloaded."""
        return read_provenance(self.found)

    def open(self) -> RemoteFile:
        """Open the file for range requests. Raises Unavailable, NotThere or GatherError."""
        client, url = self.connect(self.found.url), self.found.url
        if self.found.pinned:
            url = fetch(client, self.found).path.as_uri()
        file = client.open_remote(url)
        if not file.ranges:
            raise Unavailable(f"{file.url}: the server does not support range requests")
        return file

    def core_metadata(self) -> bytes | None:
        """Return the METADATA that the index provides separately, or None if it provides none."""
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
            raise GatherError(f"{answer.url}: its {name} is not the one that the index states")
        return answer.content

    def siblings(self) -> tuple[str, ...]:
        """Return all files that the index lists for the same project and version."""
        return self.found.siblings


def read_provenance(found: Found) -> Provenance:
    """Return the published facts of a file, with its hash if it was downloaded."""
    taken = find_stored(found.key, found.file_name, found.here)
    stated = Provenance(**found.provenance)
    how = "PEP 658" if found.metadata_url else "download" if taken else ""
    return replace(stated, sha256_taken=taken.sha256 if taken else "", metadata=how)


def find_local_path(url: str) -> Path | None:
    """Return the path of a ``file:`` URL, which is read without a copy; None for other URLs."""
    if not url.lower().startswith("file:"):
        return None
    from binary_checks.web.client import path_of

    return path_of(url)


def share_found(
    path: Path, key: str, find: Callable[[], Found], surroundings: Surroundings
) -> RemoteSource:
    """Return the source for a key; the first process of this run that needs the file finds it."""
    values = surroundings.compute_once(key, lambda: asdict(find()))
    found = Found(**{**values, "siblings": tuple(values["siblings"])})
    return RemoteSource(
        path=path,
        found=found,
        connect=surroundings.connect,
        progress=surroundings.watch(found.file_name),
    )


# Package files named by URL: ``https``, ``http`` or ``file``.

_SCHEME = re.compile(r"(?:https?|file):", re.IGNORECASE)
_HASH = re.compile(r"(sha256|sha384|sha512)=([0-9a-fA-F]{64,128})(?![^&])")
_ANY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def is_url(argument: str) -> bool:
    """Return whether the argument is written as a URL."""
    return bool(_SCHEME.match(argument) or _ANY.match(argument))


def parse(argument: str, folder: Path) -> NamedUrl | None:
    """Return the URL in an argument; `resolve` reports schemes that are not supported."""
    return NamedUrl(url=argument, folder=folder) if is_url(argument) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedUrl:
    """A file at a URL, as the user named it."""

    url: str
    folder: Path  # the current folder
    kinds: tuple[PackageKind, ...] = ()  # the project's own

    @property
    def path(self) -> Path:
        """The URL without secrets, as a path in the current folder."""
        from binary_checks.web.addresses import show

        return self.folder / show(self.url)

    def resolve(self, surroundings: Surroundings) -> RemoteSource:
        """Ask the server whether the file exists. Raises ProfileError or GatherError."""
        from binary_checks.web.addresses import shorten

        if not _SCHEME.match(self.url):
            raise ProfileError(f"{shorten(self.url)}: only https, http and file URLs are followed")
        look = partial(_look, self.url, surroundings)
        found = share_found(self.path, f"url {self.url}", look, surroundings)
        return replace(found, kinds=self.kinds)


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
        size=state.size,
        provenance=asdict(provenance),
        pinned=bool(hashes),
    )


def read_hashes(fragment: str) -> dict[str, str]:
    """Return the hashes in a URL's fragment: ``sha256=…``."""
    return {found[1]: found[2].lower() for found in _HASH.finditer(fragment)}


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """The state of a file on a server."""

    key: str  # a different key for each state
    size: int | None
    modified: str


def look_at(client: Client, url: str) -> State:
    """Ask for the state of a file. Raises NotThere or GatherError.

    If the server sends no validator, each run downloads the file again.
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


# Downloaded package files, stored by hash: each is fetched once for all runs and processes.

_MOST = 20 << 30  # bytes of all stored files; the least recently used are removed
_LONGEST = 6 * 3600.0  # seconds that another process may take to download the same file
_STRENGTHS = ("sha512", "sha384", "sha3_256", "sha256", "blake2b", "sha1", "md5")
_TAKEN, _PART = "taken.json", "part"


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredFile:
    """A downloaded file that has the stated hashes."""

    path: Path
    sha256: str
    size: int


def fetch(client: Client, wanted: Found, progress: Progress | None = None) -> StoredFile:
    """Return the file; download it first if it is not stored. Raises NotThere or GatherError."""
    folder = name_cache_folder() / "downloads" / wanted.key[:2] / wanted.key
    try:
        with take_turns(folder / ".lock", _LONGEST):
            path = _place(folder, wanted.file_name)
            path = wanted.here or path
            if (found := _find(folder, path)) is None:
                found = _take(client, wanted, folder, progress)
    except OSError as error:
        reason = error.strerror or str(error)
        raise GatherError(f"{wanted.file_name}: cannot be stored in {folder}: {reason}") from None
    return found


def find_stored(key: str, file_name: str, here: Path | None) -> StoredFile | None:
    """Return the file if it is stored on this host, or None."""
    folder = name_cache_folder() / "downloads" / key[:2] / key
    return _find(folder, here or _place(folder, file_name))


def store_by_hash(kept: StoredFile) -> None:
    """Store a download without a stated hash under its hash as well, without copying it."""
    folder = name_cache_folder() / "downloads" / kept.sha256[:2] / kept.sha256
    if folder == kept.path.parent or not kept.path.is_relative_to(name_cache_folder()):
        return  # a file: URL is read without a copy
    with contextlib.suppress(OSError), take_turns(folder / ".lock", _LONGEST):
        if _find(folder, folder / kept.path.name) is None:
            (folder / kept.path.name).unlink(missing_ok=True)
            os.link(kept.path, folder / kept.path.name)
            shutil.copyfile(kept.path.parent / _TAKEN, folder / _TAKEN)


def _place(folder: Path, file_name: str) -> Path:
    """Return the path for a file.

    Raises GatherError for an invalid name, or for a name that this store itself uses.
    """
    from binary_checks.web.addresses import is_plain

    if not is_plain(file_name) or file_name == _TAKEN or "." not in file_name.strip("."):
        raise GatherError(f"{file_name}: not the name of a package file")
    return folder / file_name


def _find(folder: Path, path: Path) -> StoredFile | None:
    """Return a file that was verified and has not changed since, or None."""
    note = folder / _TAKEN
    try:
        row = json.loads(note.read_text(encoding="utf-8"))
        found = path.stat()
        same = (row["size"], row["mtime_ns"]) == (found.st_size, found.st_mtime_ns)
        if not same:
            return None
        os.utime(folder)  # the folder's time orders files by their last use
        return StoredFile(path=path, sha256=str(row["sha256"]), size=found.st_size)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _take(client: Client, wanted: Found, folder: Path, progress: Progress | None) -> StoredFile:
    here, part = wanted.here, folder / _PART
    if here is not None and not here.is_file():
        where = wanted.stated_by or "its folder"
        raise NotThere(f"{wanted.file_name}: the file is missing, although {where} lists it")
    try:
        if here is None:
            client.download(
                wanted.url,
                part,
                size=wanted.size,
                progress=progress,
                hashed=bool(wanted.hashes),
            )
        digests = hash_file(here or part, (each for each in _STRENGTHS if each in wanted.hashes))
    except OSError:
        part.unlink(missing_ok=True)  # the disk may be full
        raise
    if fault := _find_other_hash(wanted, digests):
        part.unlink(missing_ok=True)
        raise GatherError(fault)
    path, note = here or folder / wanted.file_name, folder / _TAKEN
    if here is None:
        part.replace(path)
    found = path.stat()
    row = {"sha256": digests["sha256"], "size": found.st_size, "mtime_ns": found.st_mtime_ns}
    note.write_text(json.dumps(row), encoding="utf-8")
    taken = folder.parent.parent.glob(f"*/*/{_TAKEN}")
    remove_oldest((each.parent for each in taken), _MOST)
    return StoredFile(path=path, sha256=digests["sha256"], size=found.st_size)


def _find_other_hash(wanted: Found, found: Mapping[str, str]) -> str:
    """Return how the file differs from the index's statement, or "" if it does not.

    All hashes are compared because the file is stored by its SHA-256, and so used for other
    indexes, too.
    """
    for name in _STRENGTHS:
        stated = wanted.hashes.get(name)
        if stated is not None and stated != found[name]:
            since = "" if wanted.stated_by else ": the file on the server has changed"
            return (
                f"{wanted.file_name}: {wanted.stated_by or 'its URL'} says {name} {stated}, and "
                f"its server sent {found[name]}{since}"
            )
    return ""


# Packages that could not be resolved because the network or an index failed.


@dataclass(frozen=True, kw_only=True, slots=True)
class UnresolvedSource(OpenedSource):
    """A package that could not be resolved; every method raises the error."""

    path: Path
    reason: str

    @property
    def label(self) -> str:
        """The user's argument."""
        return self.path.name

    def identity(self) -> str:
        """Raise the error."""
        raise GatherError(self.reason)

    def open(self) -> Tree:
        """Raise the error."""
        raise GatherError(self.reason)

    def restate(self, package: Package) -> Package:
        """Raise the error."""
        del package
        raise GatherError(self.reason)

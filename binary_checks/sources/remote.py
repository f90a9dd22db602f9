"""A package file on a server, found but not fetched: it is downloaded once somebody reads it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from binary_checks import trees
from binary_checks.errors import GatherError, NotThere, ProfileError, Unavailable
from binary_checks.files import name_cache_folder, remove_oldest, take_turns
from binary_checks.model.objects import Format, object_kinds
from binary_checks.model.packages import CondaPackage, Package, Wheel
from binary_checks.model.protocols import (
    ObjectReader,
    Preview,
    Progress,
    Reading,
    RemoteFile,
    Tree,
    Want,
)
from binary_checks.model.published import Provenance
from binary_checks.sources.file import OpenedSource

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
    from binary_checks.web.client import path_of

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


# A package file named by its URL: ``https``, ``http`` or ``file``.

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


# Downloaded package files, kept by their hashes: fetched once for all runs and processes.

_MOST = 20 << 30  # bytes that are kept; what was used last goes last
_LONGEST = 6 * 3600.0  # seconds for which another process may be downloading the same file
_STRENGTHS = ("sha512", "sha384", "sha3_256", "sha256", "blake2b", "sha1", "md5")
_TAKEN, _PART = "taken.json", "part"


@dataclass(frozen=True, kw_only=True, slots=True)
class Awaited:
    """A file to be fetched."""

    url: str  # with what its server is to see
    file_name: str
    key: str  # by what it is known here: a hash of its bytes, or of its address and state
    hashes: Mapping[str, str]  # that the index states, by algorithm
    size: int | None = None  # that it states
    stated_by: str = ""  # the index, as messages name it
    here: Path | None = None  # of a file: URL: it is read where it lies


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptFile:
    """A file that was fetched, and is what its index says."""

    path: Path
    sha256: str
    size: int


def fetch(client: Client, wanted: Awaited, progress: Progress | None = None) -> KeptFile:
    """The file, downloaded unless it lies here. Raises NotThere or GatherError."""
    folder = name_cache_folder() / "downloads" / wanted.key[:2] / wanted.key
    try:
        with take_turns(folder / ".lock", _LONGEST):
            path = wanted.here or _place(folder, wanted.file_name)
            if (found := _find(folder, path)) is None:
                found = _take(client, wanted, folder, progress)
    except OSError as error:
        reason = error.strerror or str(error)
        raise GatherError(f"{wanted.file_name}: cannot be kept in {folder}: {reason}") from None
    return found


def find_taken(key: str, file_name: str, here: Path | None) -> KeptFile | None:
    """The same, if it lies here."""
    folder = name_cache_folder() / "downloads" / key[:2] / key
    return _find(folder, here or _place(folder, file_name))


def keep_by_hash(kept: KeptFile) -> None:
    """Let a download whose hash nobody stated be found by its hash too, without another copy."""
    folder = name_cache_folder() / "downloads" / kept.sha256[:2] / kept.sha256
    if folder == kept.path.parent or not kept.path.is_relative_to(name_cache_folder()):
        return  # a file: URL is read where it lies
    with contextlib.suppress(OSError), take_turns(folder / ".lock", _LONGEST):
        if _find(folder, folder / kept.path.name) is None:
            (folder / kept.path.name).unlink(missing_ok=True)
            os.link(kept.path, folder / kept.path.name)
            shutil.copyfile(kept.path.parent / _TAKEN, folder / _TAKEN)


def _place(folder: Path, file_name: str) -> Path:
    """Where it is kept. Raises GatherError for a name of a server's that is no file's, or ours."""
    from binary_checks.web.addresses import is_plain

    if not is_plain(file_name) or file_name == _TAKEN or "." not in file_name.strip("."):
        raise GatherError(f"{file_name}: not the name of a package file")
    return folder / file_name


def _find(folder: Path, path: Path) -> KeptFile | None:
    """A file that was verified, and that nobody wrote to since."""
    note = folder / _TAKEN
    try:
        said = json.loads(note.read_text(encoding="utf-8"))
        found = path.stat()
        same = (said["size"], said["mtime_ns"]) == (found.st_size, found.st_mtime_ns)
        if not same:
            return None
        os.utime(folder)  # it was used
        return KeptFile(path=path, sha256=str(said["sha256"]), size=found.st_size)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _take(client: Client, wanted: Awaited, folder: Path, progress: Progress | None) -> KeptFile:
    if wanted.here is not None and not wanted.here.is_file():
        where = wanted.stated_by or "its folder"
        raise NotThere(f"{wanted.file_name}: the file is not there, although {where} lists it")
    part = wanted.here or folder / _PART
    with _remove_refused(folder / _PART):
        if wanted.here is None:
            client.download(
                wanted.url,
                part,
                size=wanted.size,
                progress=progress,
                hashed=bool(wanted.hashes),
            )
        digests = _hash(part, wanted.hashes)
        _demand_hashes(wanted, digests)
    path, note = wanted.here or folder / wanted.file_name, folder / _TAKEN
    if wanted.here is None:
        part.replace(path)
    found = path.stat()
    row = {"sha256": digests["sha256"], "size": found.st_size, "mtime_ns": found.st_mtime_ns}
    note.write_text(json.dumps(row), encoding="utf-8")
    taken = folder.parent.parent.glob(f"*/*/{_TAKEN}")
    remove_oldest((each.parent for each in taken), _MOST)
    return KeptFile(path=path, sha256=digests["sha256"], size=found.st_size)


@contextmanager
def _remove_refused(part: Path) -> Iterator[None]:
    """Keep what a cut left, and nothing that is not the file that was asked for."""
    try:
        yield
    except _OtherBytes as error:
        part.unlink(missing_ok=True)
        raise GatherError(str(error)) from None
    except OSError:
        part.unlink(missing_ok=True)  # the disk may be full
        raise


class _OtherBytes(Exception):
    """The server sends other bytes than the index says."""


def _hash(path: Path, stated: Mapping[str, str]) -> dict[str, str]:
    names = {"sha256", *(name for name in stated if name in _STRENGTHS)}
    digests = {name: hashlib.new(name) for name in names}
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            for digest in digests.values():
                digest.update(block)
    return {name: digest.hexdigest() for name, digest in digests.items()}


def _demand_hashes(wanted: Awaited, found: Mapping[str, str]) -> None:
    """Compare each hash that the index states: neither side is the package's fault.

    One alone would not do: the file is kept by its SHA-256, for other indexes too.
    """
    for name in _STRENGTHS:
        stated = wanted.hashes.get(name)
        if stated is not None and stated != found[name]:
            since = "" if wanted.stated_by else ": the file there is another one by now"
            raise _OtherBytes(
                f"{wanted.file_name}: {wanted.stated_by or 'its URL'} says {name} {stated}, and "
                f"its server sent {found[name]}{since}"
            )


# A package that was named, and could not be found out about: the network or an index broke.


@dataclass(frozen=True, kw_only=True, slots=True)
class LostSource(OpenedSource):
    """Whatever is asked of it raises why it is lost: the package is not to blame."""

    path: Path
    reason: str

    @property
    def label(self) -> str:
        """How the user named it."""
        return self.path.name

    def _raise(self) -> NoReturn:
        raise GatherError(self.reason)

    def identity(self) -> str:
        """Nothing is known of it."""
        self._raise()

    def open(self) -> Tree:
        """There is nothing to open."""
        self._raise()

    def preview(self, reader: ObjectReader) -> Preview:
        """There is nothing to look at."""
        del reader
        self._raise()

    def read(
        self, reader: ObjectReader, progress: Progress | None = None, wants: Sequence[Want] = ()
    ) -> Reading:
        """There is nothing to read."""
        del reader, progress, wants
        self._raise()

    def restate(self, package: Package) -> Package:
        """Nobody knows whether it is the same."""
        del package
        self._raise()

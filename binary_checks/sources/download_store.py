"""Downloaded package files, kept by their hashes: fetched once for all runs and processes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from binary_checks.cache_folder import name_cache_folder, remove_oldest, take_turns
from binary_checks.errors import GatherError, NotThere
from binary_checks.model.protocols import Progress

if TYPE_CHECKING:
    from binary_checks.web.client import Client

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

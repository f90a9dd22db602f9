"""Copies of lists of known problems that were fetched, kept for when their server is not there.

Each is held against its own hash when it is read, and dropped where it is not what was written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from binary_checks.cache_folder import make_private, name_cache_folder, remove_oldest
from binary_checks.regular_files import open_regular, written_beside

_FOLDER = "known-lists"
_LARGEST_NOTE = 1 << 14  # bytes
_LARGEST_LIST = 4 << 20  # bytes
_MOST = 64 * _LARGEST_LIST  # bytes that are kept
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Note:
    """What is remembered of a URL, which is not: it may hold secrets."""

    sha256: str  # of the list
    fetched: str  # RFC 3339, UTC
    etag: str = ""
    last_modified: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptList:
    """A copy of a list, and how its server knows that state of it."""

    content: bytes
    sha256: str
    fetched: str = ""
    etag: str = ""
    last_modified: str = ""


def find_kept(url: str) -> KeptList | None:
    """The copy of the list at a URL; None where there is none that can be trusted."""
    path = _note_path(url)
    try:
        said = json.loads(_read(path, _LARGEST_NOTE))
        note = _Note(**said)
        if not all(isinstance(each, str) for each in asdict(note).values()):
            raise TypeError
    except OSError:
        return None
    except (ValueError, TypeError, RecursionError):
        _drop(path)
        return None
    content = find_content(note.sha256)
    if content is None:
        _drop(path)
        return None
    return KeptList(content=content, **asdict(note))


def find_content(sha256: str) -> bytes | None:
    """The list of that hash; None where no copy of it is here, or something else in its place."""
    if not _SHA256.fullmatch(sha256):
        return None
    path = _content_path(sha256)
    try:
        content = _read(path, _LARGEST_LIST)
    except OSError:
        return None
    if hashlib.sha256(content).hexdigest() != sha256:
        _drop(path)
        return None
    return content


def keep_list(kept: KeptList, url: str = "") -> None:
    """Keep a list by its hash, and as the newest state of a URL; a full disk keeps none."""
    note = _Note(
        sha256=kept.sha256, fetched=kept.fetched, etag=kept.etag, last_modified=kept.last_modified
    )
    with contextlib.suppress(OSError):
        _write(_content_path(kept.sha256), kept.content)
        if url:
            _write(_note_path(url), json.dumps(asdict(note)).encode("ascii"))
        remove_oldest(_content_path(kept.sha256).parent.iterdir(), _MOST)


def _note_path(url: str) -> Path:
    digest = hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()
    return name_cache_folder() / _FOLDER / f"{digest}.json"


def _content_path(sha256: str) -> Path:
    return name_cache_folder() / _FOLDER / f"{sha256}.toml"


def _read(path: Path, most: int) -> bytes:
    """A file that this user wrote. Raises OSError for any other."""
    with open_regular(path) as file:
        owner = os.fstat(file.fileno()).st_uid
        if hasattr(os, "geteuid") and owner != os.geteuid():
            raise PermissionError("owned by another user")
        return file.read(most + 1)


def _write(path: Path, content: bytes) -> None:
    """Write a file whole, which only this user may read."""
    make_private(path.parent)
    with written_beside(path) as file:
        file.write(content)


def _drop(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()

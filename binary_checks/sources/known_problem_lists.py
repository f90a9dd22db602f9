"""Lists of known problems: a file, or a URL whose last valid copy is stored.

A waiver applies only if its list is certainly the intended one and still valid. Otherwise none of
its entries apply, and the caller must report that.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from binary_checks.errors import GatherError, ProfileError
from binary_checks.files import (
    make_private,
    name_cache_folder,
    open_regular,
    read_named,
    remove_oldest,
    replace_file_when_complete,
)
from binary_checks.model import KnownListIdentity
from binary_checks.profile import LARGEST_LIST, LIST, KnownList, KnownProblem, read_known_list
from binary_checks.safe_text import one_line

if TYPE_CHECKING:
    from binary_checks.web.transport import WebAnswer


UNAVAILABLE = "known list unavailable"
_PIN = "sha256="
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LARGEST = 4 << 20  # bytes of a server's answer
_WITHIN = 60.0  # seconds for the complete answer of a server
_RETRIES = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedList:
    """A list, without entries if it is not valid."""

    identity: KnownListIdentity
    entries: tuple[KnownProblem, ...] = ()
    content: bytes = b""  # content of the valid list

    @property
    def complaint(self) -> str:
        """Why the list is not valid, in one line; "" for a valid list."""
        source, text = self.identity.source, self.identity.complaint
        where = f"{source}: " if source and source not in text else ""
        return one_line(f"{UNAVAILABLE}: {where}{text}") if text else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Named:
    """The user's argument: a path or a URL, and the hash that the content must have."""

    place: str
    sha256: str = ""

    @property
    def source(self) -> str:
        """The path or URL without secrets, which is shown and stored."""
        return _show(self.place)


def load_list(argument: str, folder: Path, now: datetime) -> LoadedList:
    """Load the list at a path, which is relative to ``folder``, or at a URL.

    The argument is ``PATH_OR_URL[#sha256=...]``; ``now`` decides whether the list is still valid.
    Raises ProfileError for a file that cannot be read or parsed, and for content with another hash.
    If the server fails, the list's `complaint` says so.
    """
    named = _read_argument(argument)
    if is_url(named.place):
        return _load_url(named, now)
    where = f"{LIST}{named.place}"
    content = read_named(folder / named.place, LARGEST_LIST, where)
    _require_hash(named, content)
    return _check_validity(
        KnownListIdentity(source=named.source), content, read_known_list(content, where), now
    )


def is_url(argument: str) -> bool:
    """Return whether a list is named by its URL instead of a path."""
    return _SCHEME.match(argument) is not None


def _read_argument(argument: str) -> _Named:
    place, _, fragment = argument.partition("#") if is_url(argument) else _split_path(argument)
    digest = fragment.removeprefix(_PIN).lower()
    if fragment and (not fragment.startswith(_PIN) or not _SHA256.fullmatch(digest)):
        raise ProfileError(f"{LIST}{_show(place)}: after # there must be sha256= and 64 hex digits")
    scheme = _SCHEME.match(place)
    if scheme is None:
        return _Named(place=place, sha256=digest)
    if scheme[1].lower() == "file":
        from binary_checks.web.client import path_of

        try:
            return _Named(place=str(path_of(place)), sha256=digest)
        except GatherError as error:
            raise ProfileError(f"{LIST}{error}") from None
    _require_web(place)
    return _Named(place=place, sha256=digest)


def _split_path(argument: str) -> tuple[str, str, str]:
    """Split a path and its hash; the path may contain a "#", too."""
    place, found, digest = argument.rpartition(f"#{_PIN}")
    return (place, found, f"{_PIN}{digest}") if found else (argument, "", "")


def _require_web(url: str) -> None:
    from binary_checks.web.addresses import origin_of, take_credentials

    try:
        scheme, credentials = origin_of(url).scheme, take_credentials(url)[1]
    except ProfileError as error:
        raise ProfileError(f"{LIST}{error}") from None
    if scheme not in ("http", "https"):
        raise ProfileError(f"{LIST}{_show(url)}: neither a file nor a URL of http or https")
    if credentials is not None:
        raise ProfileError(f"{LIST}{_show(url)}: credentials belong in netrc, not in the URL")


def _show(place: str) -> str:
    """Return a path or URL without secrets."""
    if not is_url(place):
        return one_line(place)
    from binary_checks.web.addresses import shorten

    return shorten(place)


def _require_hash(named: _Named, content: bytes) -> None:
    found = hashlib.sha256(content).hexdigest()
    if named.sha256 and found != named.sha256:
        raise ProfileError(
            f"{LIST}{named.source}: its SHA-256 is {found}, not {named.sha256} as requested"
        )


def _check_validity(
    identity: KnownListIdentity, content: bytes, read: KnownList, now: datetime
) -> LoadedList:
    """Return the list, with its entries if they are valid."""
    identity = replace(
        identity,
        sha256=hashlib.sha256(content).hexdigest(),
        issued=read.issued,
        valid_until=read.valid_until,
        complaint=read.find_fault(now),
    )
    if identity.complaint:
        return LoadedList(identity=identity)
    return LoadedList(identity=identity, entries=read.entries, content=content)


def _load_url(named: _Named, now: datetime) -> LoadedList:
    where, identity = f"{LIST}{named.source}", KnownListIdentity(source=named.source)
    if named.sha256 and (content := find_stored_content(named.sha256)) is not None:
        cached = replace(identity, cached=True)
        return _check_validity(cached, content, read_known_list(content, where), now)
    kept = None if named.sha256 else find_stored_list(named.place)
    try:
        answer = _fetch(named, kept)
        if answer is None and kept is not None:  # the list has not changed
            store_list(replace(kept, fetched=_format_time(now)), named.place)
            cached = replace(identity, cached=True)
            return _check_validity(cached, kept.content, read_known_list(kept.content, where), now)
        assert answer is not None
        return _take(named, answer, kept, now)
    except GatherError as error:
        why = str(error).removeprefix(f"{named.source}: ")
        return _fall_back(identity, kept, why, now)


def _fetch(named: _Named, kept: StoredList | None) -> WebAnswer | None:
    """Return the server's answer, or None if the stored copy is current. Raises GatherError."""
    from binary_checks.places.index_settings import read_pip_settings
    from binary_checks.processes import user_environment
    from binary_checks.web.client import Client
    from binary_checks.web.transport import Validator
    from binary_checks.web.web_settings import read_web_settings

    settings = read_web_settings(read_pip_settings(), user_environment())
    client = Client(replace(settings, retries=min(settings.retries, _RETRIES)), keeps_tls=True)
    state = Validator()
    if kept is not None:
        state = Validator(etag=kept.etag, last_modified=kept.last_modified)
    try:
        return client.get_changed(named.place, state, limit=_LARGEST, within=_WITHIN)
    finally:
        client.close()


def _take(named: _Named, answer: WebAnswer, kept: StoredList | None, now: datetime) -> LoadedList:
    """Return the list in an answer. Raises GatherError, or ProfileError for a different hash."""
    from binary_checks.web.transport import is_html

    if is_html(answer.content):
        raise GatherError("a web page (HTML) instead of the list")
    _require_hash(named, answer.content)
    where = f"{LIST}{named.source}"
    try:
        read = read_known_list(answer.content, where)
    except ProfileError as error:
        raise GatherError(str(error).removeprefix(f"{where}: ")) from None
    if kept is not None and not named.sha256:
        _require_no_rollback(read, kept)
    held = _check_validity(KnownListIdentity(source=named.source), answer.content, read, now)
    if not held.identity.complaint:
        copy = StoredList(
            content=answer.content,
            sha256=held.identity.sha256,
            fetched=_format_time(now),
            etag=answer.headers.get("etag", ""),
            last_modified=answer.headers.get("last-modified", ""),
        )
        store_list(copy, "" if named.sha256 else named.place)
    return held


def _format_time(now: datetime) -> str:
    return now.astimezone(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


def _require_no_rollback(read: KnownList, kept: StoredList) -> None:
    """Raise GatherError for a list that is older than one which the server has already sent."""
    before = read_known_list(kept.content, "").issued
    had = KnownList(issued=before).issued_at()
    has = read.issued_at()
    if had is not None and (has is None or has < had):
        message = f"issued on {read.issued}" if read.issued else "without a date of issue"
        raise GatherError(
            f"refused: a list {message}, older than the one of {before} that the server sent before"
        )


def _fall_back(
    identity: KnownListIdentity, kept: StoredList | None, why: str, now: datetime
) -> LoadedList:
    """Return the stored copy if still valid, or else a list with no entries and both reasons."""
    if kept is None:
        return LoadedList(
            identity=replace(identity, complaint=f"{why}; no copy of it is kept here")
        )
    read = read_known_list(kept.content, f"{LIST}{identity.source}")
    held = _check_validity(replace(identity, cached=True), kept.content, read, now)
    copy = f"the copy of {kept.fetched}"
    if held.identity.complaint:
        message = f"{why}; {copy}: {held.identity.complaint}"
        return LoadedList(identity=replace(held.identity, complaint=message))
    if not read.valid_until:
        message = f"{why}; {copy} has no valid_until"
        return LoadedList(identity=replace(held.identity, complaint=message))
    remark = f"{why}; {copy} is used, which is valid until {read.valid_until}"
    return replace(held, identity=replace(held.identity, remark=remark))


# Stored copies of fetched lists, for times when a list's server cannot be reached.
#
# Each copy is compared with its hash when it is read, and dropped if the copy was changed.

_FOLDER = "known-lists"
_LARGEST_NOTE = 1 << 14  # bytes of a note
_LARGEST_LIST = 4 << 20  # bytes of a list
_MOST = 64 * _LARGEST_LIST  # bytes of all stored lists


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredList:
    """A stored list, and the validator by which the server recognises this version.

    A note has all fields but the content. It does not have the URL, which may contain secrets.
    """

    content: bytes = b""
    sha256: str  # hash of the content
    fetched: str = ""  # RFC 3339, UTC
    etag: str = ""
    last_modified: str = ""


def find_stored_list(url: str) -> StoredList | None:
    """Find the stored list of a URL; return None if there is none or it was changed."""
    path = _note_path(url)
    try:
        row = json.loads(_read(path, _LARGEST_NOTE))
        note = StoredList(**row)
        if "content" in row or not all(isinstance(each, str) for each in row.values()):
            raise TypeError
    except OSError:
        return None
    except (ValueError, TypeError, RecursionError):
        _drop(path)
        return None
    content = find_stored_content(note.sha256)
    if content is None:
        _drop(path)
        return None
    return replace(note, content=content)


def find_stored_content(sha256: str) -> bytes | None:
    """Find the stored list with that hash; return None if there is none or it was changed."""
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


def store_list(kept: StoredList, url: str = "") -> None:
    """Store a list by its hash, and as the latest state of a URL.

    Do nothing if the disk is full.
    """
    note = {name: text for name, text in asdict(kept).items() if name != "content"}
    with contextlib.suppress(OSError):
        _write(_content_path(kept.sha256), kept.content)
        if url:
            _write(_note_path(url), json.dumps(note).encode("ascii"))
        remove_oldest(_content_path(kept.sha256).parent.iterdir(), _MOST)


def _note_path(url: str) -> Path:
    digest = hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()
    return name_cache_folder() / _FOLDER / f"{digest}.json"


def _content_path(sha256: str) -> Path:
    return name_cache_folder() / _FOLDER / f"{sha256}.toml"


def _read(path: Path, most: int) -> bytes:
    """Read a file that belongs to this user. Raises OSError for a file of another user."""
    with open_regular(path) as file:
        owner = os.fstat(file.fileno()).st_uid
        if hasattr(os, "geteuid") and owner != os.geteuid():
            raise PermissionError("owned by another user")
        return file.read(most + 1)


def _write(path: Path, content: bytes) -> None:
    """Write a file completely, readable only for this user."""
    make_private(path.parent)
    with replace_file_when_complete(path) as file:
        file.write(content)


def _drop(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()

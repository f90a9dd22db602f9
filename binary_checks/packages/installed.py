"""Reads installed distributions: a ``*.dist-info`` folder in, an InstalledPackage out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from packaging.tags import Tag, parse_tag
from packaging.utils import canonicalize_name

from binary_checks.errors import PackageError
from binary_checks.knowledge.tag_claims import read_claims
from binary_checks.model import InstalledPackage, RecordRow, hash_record, is_installers
from binary_checks.model.objects import MalformedObject, ObjectFile, UnreadObject
from binary_checks.model.protocols import ObjectReader
from binary_checks.packages import wheel_texts
from binary_checks.packages.installed_files import (
    FileReading,
    InstalledAt,
    does_mention,
    peek,
    read_file,
    read_objects,
    read_text,
    state_file,
)
from binary_checks.python_code import mentions
from binary_checks.trees.zip.members import Progress
from binary_checks.trees.zip.preview import Preview

_DIST_INFO = ".dist-info"
_THREADS = 4


class Installation(NamedTuple):
    """Where a distribution lies installed."""

    dist_info: Path
    prefix: Path  # of the environment: what lies outside it is not looked at

    @property
    def name(self) -> str:
        """The project's name, normalised."""
        return str(canonicalize_name(self.dist_info.name.partition("-")[0]))


def find_installation(name: str, folders: Iterable[Path], prefix: Path) -> Installation | None:
    """Find a distribution as the import system would, in the first folder that has it.

    Raises PackageError where what is there has no ``*.dist-info``, or two of them.
    """
    wanted = canonicalize_name(name)
    for folder in folders:
        # RECORD has no case: a name may be spelled in many ways.
        near = [path for path in _list(folder) if canonicalize_name(_stem(path)) == wanted]
        found = sorted(path for path in near if path.name.endswith(_DIST_INFO) and path.is_dir())
        if len(found) > 1:
            names = ", ".join(path.name for path in found)
            raise PackageError(f"{wanted}: installed more than once in one folder: {names}")
        if found:
            return Installation(found[0], prefix)
        if near:
            raise PackageError(f"{wanted}: installed without a RECORD ({near[0].name})")
    return None


def _list(folder: Path) -> Iterator[Path]:
    suffixes = (_DIST_INFO, ".egg-info", ".egg-link", ".egg")
    if folder.is_dir():
        yield from (path for path in folder.iterdir() if path.name.endswith(suffixes))


def _stem(path: Path) -> str:
    return path.name.removesuffix(path.suffix).partition("-")[0]


def preview(installation: Installation, reader: ObjectReader) -> Preview:
    """Look at RECORD and the first bytes of the files that it names."""
    place, record = _place(installation), _read_record(installation)
    heads = (peek(place, row) for row in _own_rows(installation, record.rows))
    found = (reader.recognise(head) for head in heads if head)
    return Preview(
        kind=InstalledPackage, formats=frozenset(each for each in found if each is not None)
    )


def open_package(
    installation: Installation, reader: ObjectReader, progress: Progress | None = None
) -> InstalledPackage:
    """Read every file that RECORD names; PackageError where it does not say which they are."""
    return _open(installation, partial(read_file, reader=reader), progress)


def survey(installation: Installation) -> InstalledPackage:
    """Look whether every file is there and has its size, and read none: no objects."""
    return _open(installation, state_file, None)


def name_wheels(installation: Installation) -> tuple[str, ...]:
    """Name the wheel that it was installed from, with each of the tags that WHEEL has."""
    about = installation.dist_info
    content = read_text(about / "WHEEL", wheel_texts.LONGEST["WHEEL"]) or b""
    tags = _read_tags(wheel_texts.read_headers(content)[0])
    return tuple(f"{about.name.removesuffix(_DIST_INFO)}-{tag}.whl" for tag in tags)


def open_beside(installation: Installation, reader: ObjectReader) -> InstalledPackage:
    """Read the objects of what lies beside the judged package; nothing of it is compared."""
    return _open(installation, partial(read_objects, reader=reader), None)


def read_record_sha256(installation: Installation) -> str:
    """The hash of RECORD that the wheel's own has too."""
    return hash_record(installation.dist_info.name, _read_record(installation).rows)


class _Record(NamedTuple):
    rows: tuple[RecordRow, ...]
    faults: tuple[str, ...]


def _read_record(installation: Installation) -> _Record:
    label = f"installed:{installation.name}"
    _refuse_editable(installation, label)
    content = read_text(installation.dist_info / "RECORD", wheel_texts.LONGEST["RECORD"])
    rows, faults = wheel_texts.read_record(content)
    if rows is None:
        raise PackageError(f"{label}: it has no RECORD: nobody knows which files are its own")
    return _Record(tuple({row.path: row for row in rows}.values()), faults)


def _refuse_editable(installation: Installation, label: str) -> None:
    content = read_text(installation.dist_info / "direct_url.json", 1 << 20)
    try:
        origin = json.loads(content or b"{}")
        editable = origin.get("dir_info", {}).get("editable")
    except (ValueError, AttributeError, RecursionError):
        editable = False
    if editable:
        raise PackageError(f"{label}: an editable install, whose files lie elsewhere: install it")


def _place(installation: Installation) -> InstalledAt:
    return InstalledAt(site=installation.dist_info.parent, prefix=installation.prefix)


def _own_rows(installation: Installation, rows: Iterable[RecordRow]) -> Iterator[RecordRow]:
    about = installation.dist_info.name
    return (row for row in rows if not is_installers(about, row.path, row.hash))


def _open(
    installation: Installation,
    read: Callable[[InstalledAt, RecordRow], FileReading],
    progress: Progress | None,
) -> InstalledPackage:
    record = _read_record(installation)
    rows = tuple(_own_rows(installation, record.rows))
    readings = list(_read_all(partial(read, _place(installation)), rows, progress))
    about = installation.dist_info
    texts = {name: read_text(about / name, most) for name, most in wheel_texts.LONGEST.items()}
    metadata, metadata_faults = wheel_texts.read_headers(texts["METADATA"] or b"")
    wheel, wheel_faults = wheel_texts.read_headers(texts["WHEEL"] or b"")
    points, point_faults = wheel_texts.read_entry_points(texts["entry_points.txt"] or b"")
    stated = {key.lower(): value for key, value in reversed(metadata)}
    tags = _read_tags(wheel)
    found = [item for reading in readings for item in reading.objects]
    loading = _find_loading(installation, tags, readings)
    return InstalledPackage(
        path=about,
        name=str(canonicalize_name(stated.get("name") or installation.name)),
        version=stated.get("version", ""),
        size=sum(reading.member.size for reading in readings),
        members=tuple(reading.member for reading in readings),
        objects=_pick(found, ObjectFile),
        malformed=_pick(found, MalformedObject),
        unread=_pick(found, UnreadObject),
        archive_faults=(*metadata_faults, *wheel_faults, *point_faults, *record.faults),
        claims=read_claims(tags, version=stated.get("version", ""), metadata=metadata),
        dll_directories=loading.dll_directories,
        loading_code=loading.loading_code,
        preloaded=loading.preloaded,
        tags=tags,
        dist_info=about.name,
        metadata=metadata,
        wheel=wheel,
        record=record.rows,
        record_faults=record.faults,
        entry_points=points,
    )


def _read_all(
    read: Callable[[RecordRow], FileReading],
    rows: tuple[RecordRow, ...],
    progress: Progress | None,
) -> Iterator[FileReading]:
    total, done = sum(row.size or 0 for row in rows), 0
    with ThreadPoolExecutor(_THREADS, "binary-checks") as pool:
        for row, reading in zip(rows, pool.map(read, rows), strict=True):
            done += row.size or 0
            if progress is not None:
                progress(done, total)
            yield reading


def _read_tags(wheel: wheel_texts.Headers) -> tuple[Tag, ...]:
    """The tags that WHEEL names; what is no tag is left out, and then there may be none."""
    tags: set[Tag] = set()
    for key, value in wheel:
        if key.lower() == "tag" and value.count("-") == 2:
            tags |= parse_tag(value)
    return tuple(sorted(tags, key=str))


def _find_loading(
    installation: Installation, tags: Iterable[Tag], readings: Iterable[FileReading]
) -> mentions.DllLoading:
    if not any(tag.platform.startswith("win") for tag in tags):
        return mentions.DllLoading()
    from binary_checks.python_code.dll_directories import find_loading  # on demand

    members = [reading.member for reading in readings]
    site = installation.dist_info.parent
    mentioning = (
        mentions.Source(member.path, member.size, (site / member.path).read_bytes)
        for member in members
        if member.sha256 and mentions.is_source(member.path)
        if does_mention(site / member.path, mentions.LOADING)
    )
    return find_loading(mentioning, (member.path for member in members))


_Kind = TypeVar("_Kind", ObjectFile, MalformedObject, UnreadObject)


def _pick(found: Iterable[object], kind: type[_Kind]) -> tuple[_Kind, ...]:
    picked = (item for item in found if isinstance(item, kind))
    return tuple(sorted(picked, key=lambda item: item.path))

"""Reads wheels: a file name and an archive in, a Wheel out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from packaging.tags import Tag
from packaging.utils import parse_wheel_filename

from binary_checks.errors import PackageError
from binary_checks.knowledge.tag_claims import read_claims
from binary_checks.model.objects import MalformedObject, ObjectFile, UnreadObject
from binary_checks.model.packages import Member, RecordRow, Wheel
from binary_checks.model.protocols import ObjectReader
from binary_checks.packages import wheel_texts
from binary_checks.packages.wheel_layout import folders_of, place_member
from binary_checks.python_code import mentions
from binary_checks.trees.file_bytes import FileBytes, open_bytes
from binary_checks.trees.zip.directory import Archive, ZipEntry, read_archive
from binary_checks.trees.zip.inflate import expand_again
from binary_checks.trees.zip.members import (
    MemberReading,
    Progress,
    Read,
    Sought,
    Task,
    read_members,
)
from binary_checks.trees.zip.preview import Preview, find_formats

_DIST_INFO = ".dist-info"
_WINDOWS = frozenset({"win32", "win_amd64", "win_arm64"})


def recognises(path: Path) -> bool:
    """Whether the file's name says wheel."""
    return path.name.endswith(".whl")


def preview(path: Path, reader: ObjectReader) -> Preview:
    """Look at a wheel's directory and the first bytes of its members."""
    parse_file_name(path)
    with open_bytes(path) as file:
        archive = read_archive(file)
        find_dist_info(path, archive)
        return Preview(kind=Wheel, formats=find_formats(file, archive, reader))


def open_package(path: Path, reader: ObjectReader, progress: Progress | None = None) -> Wheel:
    """Read a wheel from start to end; PackageError where it is none."""
    name, version, build, tags = parse_file_name(path)
    with open_bytes(path) as file:
        archive = read_archive(file)
        dist_info = find_dist_info(path, archive)
        scripts, prefix, headers = folders_of(name, tags)
        data = dist_info.removesuffix(_DIST_INFO) + ".data"
        place = partial(place_member, data=data, scripts=scripts, prefix=prefix, headers=headers)
        kept = {f"{dist_info}/{text}": most for text, most in wheel_texts.LONGEST.items()}
        sought = _seek_sources(archive, tags)
        readings = read_members(Task(file, archive, reader, place, kept, sought), progress)
        loading = _find_loading(file, archive, readings)
        size = file.size
    texts = _read_texts(path, dist_info, readings)
    found = [item for reading in readings for item in reading.objects]
    return Wheel(
        path=path,
        name=name,
        version=version,
        size=size,
        claims=read_claims(tags, version=version, metadata=texts.metadata),
        members=tuple(_add_faults(reading.member, texts.faults) for reading in readings),
        objects=_pick(found, ObjectFile),
        malformed=_pick(found, MalformedObject),
        unread=_pick(found, UnreadObject),
        archive_faults=archive.faults,
        dll_directories=loading.dll_directories,
        loading_code=loading.loading_code,
        preloaded=loading.preloaded,
        tags=tags,
        build=build,
        dist_info=dist_info,
        metadata=texts.metadata,
        wheel=texts.wheel,
        record=texts.record,
        record_faults=texts.record_faults,
        entry_points=texts.entry_points,
    )


def parse_file_name(path: Path) -> tuple[str, str, str, tuple[Tag, ...]]:
    """Take name, version, build tag and tags out of a wheel's file name (PEP 427)."""
    try:
        name, version, build, tags = parse_wheel_filename(path.name)
    except ValueError as error:
        raise PackageError(f"{path.name}: not the file name of a wheel: {error}") from None
    label = "".join(map(str, build))
    return name, str(version), label, tuple(sorted(tags, key=str))


def find_dist_info(path: Path, archive: Archive) -> str:
    """Name the one top-level ``*.dist-info`` folder."""
    roots = {entry.name.partition("/")[0] for entry in archive.entries if "/" in entry.name}
    found = sorted(root for root in roots if root.endswith(_DIST_INFO))
    if not found:
        raise PackageError(f"{path.name}: not a wheel: it has no *{_DIST_INFO} folder")
    if len(found) > 1:
        few = ", ".join(found[:3])
        raise PackageError(f"{path.name}: it has {len(found)} *{_DIST_INFO} folders: {few}")
    return found[0]


def _seek_sources(archive: Archive, tags: Iterable[Tag]) -> Sought | None:
    """Search only wheels for Windows, and without a DLL to open only for directories."""
    if _WINDOWS.isdisjoint(tag.platform for tag in tags):
        return None
    names = [entry.name for entry in archive.entries]
    bundles = any(name.lower().endswith(".dll") for name in names)
    wanted = frozenset(filter(mentions.is_source, names))
    return Sought(wanted, mentions.LOADING if bundles else mentions.ADDING)


def _find_loading(
    file: FileBytes, archive: Archive, readings: Sequence[MemberReading]
) -> mentions.DllLoading:
    pairs = zip(archive.entries, readings, strict=True)
    found = [(entry, each.member) for entry, each in pairs if each.mentions and each.member.sha256]
    if not found:
        return mentions.DllLoading()
    from binary_checks.python_code.dll_directories import find_loading  # on demand

    mentioning = (
        mentions.Source(member.path, member.size, partial(_read_again, file, entry))
        for entry, member in found
    )
    return find_loading(mentioning, (each.member.path for each in readings))


def _read_again(file: FileBytes, entry: ZipEntry) -> bytes:
    return b"".join(expand_again(file, entry))


class _Texts(NamedTuple):
    metadata: wheel_texts.Headers
    wheel: wheel_texts.Headers
    record: tuple[RecordRow, ...] | None
    record_faults: tuple[str, ...]
    entry_points: tuple[tuple[str, str, str], ...]
    faults: Mapping[str, tuple[str, ...]]  # archive name -> what is wrong with its text


def _read_texts(path: Path, dist_info: str, readings: Iterable[MemberReading]) -> _Texts:
    about = {  # of two members of one name the last counts, as for every installer
        reading.member.archive_name.removeprefix(f"{dist_info}/"): reading
        for reading in readings
        if reading.member.archive_name.startswith(f"{dist_info}/")
    }
    contents = {text: about[text].content for text in wheel_texts.LONGEST if text in about}
    for text in ("METADATA", "WHEEL"):
        if contents.get(text, b"") is None:
            reason = about[text].member.faults[-1]
            raise PackageError(f"{path.name}: {dist_info}/{text} cannot be read: {reason}")
    metadata, metadata_faults = wheel_texts.read_headers(contents.get("METADATA") or b"")
    wheel, wheel_faults = wheel_texts.read_headers(contents.get("WHEEL") or b"")
    record, record_faults = wheel_texts.read_record(contents.get("RECORD"))
    if "RECORD" in contents and record is None:
        record, record_faults = (), about["RECORD"].member.faults[-1:]
    entry_points, entry_point_faults = wheel_texts.read_entry_points(
        contents.get("entry_points.txt") or b""
    )
    faults = {
        f"{dist_info}/METADATA": metadata_faults,
        f"{dist_info}/WHEEL": wheel_faults,
        f"{dist_info}/entry_points.txt": entry_point_faults,
    }
    return _Texts(metadata, wheel, record, record_faults, entry_points, faults)


def _add_faults(member: Member, faults: Mapping[str, tuple[str, ...]]) -> Member:
    more = faults.get(member.archive_name, ())
    return replace(member, faults=(*member.faults, *more)) if more else member


_Kind = TypeVar("_Kind", ObjectFile, MalformedObject, UnreadObject)


def _pick(found: Iterable[Read], kind: type[_Kind]) -> tuple[_Kind, ...]:
    picked = (item for item in found if isinstance(item, kind))
    return tuple(sorted(picked, key=lambda item: item.path))

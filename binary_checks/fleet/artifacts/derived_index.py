"""The pages of a channel's index, derived only from its members and equal for every writer."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from html import escape
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from packaging.specifiers import SpecifierSet
from packaging.utils import (
    InvalidWheelFilename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from binary_checks.fleet.artifacts.artifact import Artifact
from binary_checks.fleet.store import conda_prefix, index_prefix

_Indexed = TypeVar("_Indexed")
REPODATA = "repodata.json"
FILES_PAGE = "files.html"
"""The page that lists all files of a channel. No project has that name, because no project's name
has a dot.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexedMember:
    """A member of a channel with its document."""

    name: str  # in the channel
    artifact: Artifact
    withdrawn: str | None = None  # the reason; None if it is not withdrawn


class _IndexedConda(NamedTuple):
    """A conda package as its index lists it."""

    artifact: Artifact
    record: Mapping[str, Any]
    withdrawn: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class RepeatedFile:
    """A package that is also stored next to its index, the only place where conda looks for it."""

    source: str
    sha256: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DerivedIndex:
    """The objects of an index by name, and the members that it cannot list."""

    channel: str
    pages: Mapping[str, bytes]
    files: Mapping[str, RepeatedFile] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    wheels: tuple[Artifact, ...] = ()  # the wheels that are listed
    condas: tuple[Artifact, ...] = ()


def derive_index(channel: str, members: Iterable[IndexedMember], base: str = "") -> DerivedIndex:
    """Return the index of a channel; its links begin with the URL ``base``, or are relative."""
    faults: list[str] = []
    sound = [each for each in members if _is_itself(each, faults)]
    wheels = [*_index_all("wheel", sound, _index_wheel, faults)]
    condas = [*_index_all("conda", sound, _index_conda, faults)]
    pages = {**_write_simple(channel, wheels, base), **_write_conda(channel, condas, base)}
    files = {
        f"{conda_prefix(channel)}{artifact.subdir}/{artifact.file_name}": RepeatedFile(
            source=artifact.object_name,
            sha256=artifact.sha256,
            size=artifact.size,
        )
        for artifact, _, _ in condas
    }
    return DerivedIndex(
        channel=channel,
        pages={name: text.encode() for name, text in sorted(pages.items())},
        files=files,
        faults=tuple(sorted(faults)),
        wheels=tuple(each.artifact for each in wheels),
        condas=tuple(each.artifact for each in condas),
    )


def _is_itself(member: IndexedMember, faults: list[str]) -> bool:
    """Return whether the channel lists the member under the names in its document."""
    artifact = member.artifact
    own = f"{artifact.folder}/{artifact.file_name}"
    if member.name == own:
        return True
    faults.append(f"{member.name}: not listed: its artifact.json calls it {own}")
    return False


def _index_all(
    kind: str,
    members: Sequence[IndexedMember],
    index: Callable[[IndexedMember], _Indexed],
    faults: list[str],
) -> Iterator[_Indexed]:
    """Yield the entries that an installer can read.

    If two members have the same file name, neither is listed, because it is unknown which is meant.
    """
    named: dict[tuple[str, str], dict[str, _Indexed]] = defaultdict(dict)
    for each in (each for each in members if each.artifact.kind == kind):
        artifact = each.artifact
        try:
            named[artifact.subdir, artifact.file_name][artifact.sha256] = index(each)
        except ValueError as error:
            faults.append(f"{each.name}: not listed: {error}")
    for (_, file_name), same in named.items():
        if len(same) == 1:
            yield from same.values()
        else:
            found = " and ".join(sorted(same))
            faults.append(f"{file_name}: not listed: two files have that name: {found}")


def _index_wheel(member: IndexedMember) -> IndexedWheel:
    return index_wheel(member.artifact, member.withdrawn)


def _index_conda(member: IndexedMember) -> _IndexedConda:
    withdrawn = member.withdrawn is not None
    return _IndexedConda(member.artifact, index_conda(member.artifact), withdrawn)


def _write_simple(channel: str, wheels: Sequence[IndexedWheel], base: str) -> dict[str, str]:
    prefix = index_prefix(channel)
    projects: dict[str, list[IndexedWheel]] = defaultdict(list)
    for each in wheels:
        projects[each.artifact.project].append(each)
    pages = {
        f"{prefix}index.html": write_project_list(channel, projects),
        f"{prefix}index.json": write_list_json(projects),
        f"{prefix}{FILES_PAGE}": write_files_page(channel, wheels, base or _climb(prefix)),
    }
    for project, found in projects.items():
        below = f"{prefix}{project}/"
        start = base or _climb(below)
        pages[f"{below}index.html"] = write_project_page(project, found, start)
        pages[f"{below}index.json"] = write_project_json(project, found, start)
    return pages


def _write_conda(channel: str, condas: Sequence[_IndexedConda], base: str) -> dict[str, str]:
    if not condas:
        return {}
    subdirs: dict[str, list[_IndexedConda]] = {NOARCH: []}
    for each in condas:
        subdirs.setdefault(each.artifact.subdir, []).append(each)
    return {
        f"{conda_prefix(channel)}{subdir}/{REPODATA}": write_repodata(
            subdir,
            ((each.artifact.file_name, each.record) for each in found if not each.withdrawn),
            removed=(each.artifact.file_name for each in found if each.withdrawn),
            base=f"{base}{conda_prefix(channel)}{subdir}/" if base else "",
        )
        for subdir, found in subdirs.items()
    }


def _climb(prefix: str) -> str:
    """Return the relative path from a folder of names to the top of the store."""
    return "../" * prefix.count("/")


# Pages from which pip and uv install, as text (PEP 503, 658, 691, 592 and 700).
#
# Links are relative, so that the same tree works in a folder, behind any server and in a bucket.

API_VERSION = "1.1"
_LONGEST = 500  # characters of a Requires-Python or a reason
_HEAD = (
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    f'<meta name="pypi:repository-version" content="{API_VERSION}">\n'
)


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexedWheel:
    """A wheel as its pages list it."""

    artifact: Artifact
    version: Version
    yanked: str | None = None  # why it was withdrawn (PEP 592); None if it was not


def index_wheel(artifact: Artifact, yanked: str | None = None) -> IndexedWheel:
    """Return the wheel's entry. Raises ValueError with the reason if it cannot be listed."""
    try:
        name, version, _, _ = parse_wheel_filename(artifact.file_name)
    except (InvalidWheelFilename, InvalidVersion) as error:
        raise ValueError(f"not the name of a wheel: {error}") from None
    if artifact.project != name:
        raise ValueError(f"its file name says {name}, but its project is {artifact.project!r:.80}")
    return IndexedWheel(artifact=artifact, version=version, yanked=yanked)


def write_project_page(project: str, wheels: Iterable[IndexedWheel], base: str) -> str:
    """Return the HTML page of a project's wheels; each link begins with ``base``."""
    return _write_page(project, (f"{_write_link(each, base)}<br>" for each in _sort(wheels)))


def write_files_page(channel: str, wheels: Iterable[IndexedWheel], base: str) -> str:
    """Return one HTML page of all wheels, which `--find-links` can read from a bucket, too."""
    return _write_page(channel, (f"{_write_link(each, base)}<br>" for each in _sort(wheels)))


def write_project_list(channel: str, projects: Iterable[str]) -> str:
    """Return the HTML page of all projects."""
    links = (f'<a href="{quote(each)}/">{escape(each)}</a><br>' for each in sorted(projects))
    return _write_page(channel, links)


def write_project_json(project: str, wheels: Iterable[IndexedWheel], base: str) -> str:
    """Return the JSON page of a project's wheels."""
    found = _sort(wheels)
    versions = [str(each) for each in sorted({each.version for each in found})]
    files = [_describe(each, base) for each in found]
    return _dump({"name": project, "versions": versions, "files": files})


def write_list_json(projects: Iterable[str]) -> str:
    """Return the JSON page of all projects."""
    return _dump({"projects": [{"name": each} for each in sorted(projects)]})


def link_to(artifact: Artifact, base: str) -> str:
    """Return the address of a file; "+" becomes %2B, because buckets read "+" as a blank."""
    return f"{base}{quote(artifact.object_name)}"


def _sort(wheels: Iterable[IndexedWheel]) -> Sequence[IndexedWheel]:
    return sorted(
        wheels,
        key=lambda each: (each.artifact.project, each.version, each.artifact.file_name),
    )


def _write_page(title: str, lines: Iterable[str]) -> str:
    head = f"{_HEAD}<title>{escape(title)}</title>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n"
    return "".join((head, *(f"{line}\n" for line in lines), "</body>\n</html>\n"))


def _write_link(wheel: IndexedWheel, base: str) -> str:
    artifact = wheel.artifact
    metadata = f"sha256={artifact.metadata_sha256}" if artifact.metadata_sha256 else None
    values: Mapping[str, str | None] = {
        "data-requires-python": _read_requirement(artifact) or None,
        "data-core-metadata": metadata,
        # the attribute's first name, which older installers look for
        "data-dist-info-metadata": metadata,
        "data-yanked": _shorten(wheel.yanked),
    }
    words = "".join(
        f' {key}="{escape(value)}"' for key, value in values.items() if value is not None
    )
    href = f"{link_to(artifact, base)}#sha256={artifact.sha256}"
    return f'<a href="{escape(href)}"{words}>{escape(artifact.file_name)}</a>'


def _describe(wheel: IndexedWheel, base: str) -> dict[str, Any]:
    artifact = wheel.artifact
    digest = artifact.metadata_sha256
    metadata = {"sha256": digest} if digest else False
    row: dict[str, Any] = {
        "filename": artifact.file_name,
        "url": link_to(artifact, base),
        "hashes": {"sha256": artifact.sha256},
        "size": artifact.size,
        "core-metadata": metadata,
        "dist-info-metadata": metadata,
        "yanked": False if wheel.yanked is None else _shorten(wheel.yanked) or True,
    }
    return {**row, **dict(_describe_further(artifact))}


def _describe_further(artifact: Artifact) -> Iterator[tuple[str, str]]:
    """Yield the keys that are present only if their value is known."""
    if asked := _read_requirement(artifact):
        yield "requires-python", asked
    if uploaded := format_upload_time(artifact.pushed):
        yield "upload-time", uploaded


def _read_requirement(artifact: Artifact) -> str:
    """Return Requires-Python, or "" if it is invalid; pip, too, ignores an invalid one."""
    asked = " ".join(artifact.requires_python.split())
    try:
        SpecifierSet(asked)
    except ValueError:  # InvalidSpecifier, or too many digits
        return ""
    # a shortened specifier would mean something else
    return asked if len(asked) <= _LONGEST else ""


def _shorten(text: str | None) -> str | None:
    return None if text is None else " ".join(text.split())[:_LONGEST]


def format_upload_time(text: str) -> str:
    """Return a time in the form of PEP 700, or "" if there is none."""
    moment = parse_upload_time(text)
    return "" if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_upload_time(text: str) -> datetime | None:
    """Return a time of RFC 3339 in UTC, or None for anything else."""
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00").replace("z", "+00:00"))
        return moment.astimezone(timezone.utc) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _dump(page: Mapping[str, Any]) -> str:
    return json.dumps({"meta": {"api-version": API_VERSION}, **page}, indent=1) + "\n"


# The index of a conda channel, as text: ``repodata.json`` of one subdir.

NOARCH = "noarch"
"""The subdir that every channel has, because conda's tools ask for it on every system."""
_SUBDIR = re.compile(r"[a-z][a-z0-9]{1,19}(?:-[a-z0-9_]{1,19})?")
_NAME = re.compile(r"[a-z0-9_.-]+", re.IGNORECASE)
_SUFFIXES = {".conda": "packages.conda", ".tar.bz2": "packages"}
"""Suffix of a conda package -> the table of repodata.json that lists it."""
_TEXTS_OF = 10_000  # the most items in one list


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value.isprintable()


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and len(value) <= _TEXTS_OF and all(map(_is_text, value))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53


def _is_noarch(value: object) -> bool:
    return value in ("python", "generic")


_REQUIRED: Mapping[str, Callable[[object], bool]] = {
    "name": _is_text,
    "version": _is_text,
    "build": _is_text,
    "build_number": _is_count,
}
_FURTHER: Mapping[str, Callable[[object], bool]] = {
    "depends": _is_texts,
    "constrains": _is_texts,
    "arch": _is_text,
    "platform": _is_text,
    "noarch": _is_noarch,
    "license": _is_text,
    "license_family": _is_text,
    "timestamp": _is_count,
    "track_features": lambda value: _is_text(value) or _is_texts(value),
    "features": _is_text,
    "python_site_packages_path": _is_text,
}
"""Optional keys of a record that solvers read; all other keys of index.json are left out."""


def index_conda(artifact: Artifact) -> dict[str, Any]:
    """Return a conda package's record. Raises ValueError with the reason if it has none.

    A single record that conda's tools cannot read makes them reject the whole channel.
    """
    values = {
        key: artifact.record[key] for key in (*_REQUIRED, *_FURTHER) if key in artifact.record
    }
    known = {**_REQUIRED, **_FURTHER}
    wrong = [key for key, value in values.items() if value is not None and not known[key](value)]
    lacking = [key for key in _REQUIRED if values.get(key) is None]
    if wrong or lacking:
        raise ValueError(
            f"index.json: {(wrong or lacking)[0]}: {'wrong' if wrong else 'not there'}"
        )
    if not _SUBDIR.fullmatch(artifact.subdir):
        raise ValueError(f"not a subdir of conda: {artifact.subdir!r:.40}")
    stem = f"{values['name']}-{values['version']}-{values['build']}"
    if not _NAME.fullmatch(str(values["name"])) or artifact.file_name not in map(
        stem.__add__, _SUFFIXES
    ):
        raise ValueError(f"its index.json names it {stem!r:.120}")
    record = {key: value for key, value in values.items() if value is not None}
    about = {"subdir": artifact.subdir, "sha256": artifact.sha256, "size": artifact.size}
    return {"depends": [], **record, **about}


def write_repodata(
    subdir: str,
    records: Iterable[tuple[str, Mapping[str, Any]]],
    *,
    removed: Iterable[str] = (),
    base: str = "",
) -> str:
    """Return a subdir's repodata.json.

    ``records`` are pairs of a file name and its record, ``removed`` the names of withdrawn files.
    The files lie below the URL ``base``; without it, next to the index.
    """
    tables: dict[str, dict[str, Any]] = {"packages": {}, "packages.conda": {}}
    for file_name, record in records:
        suffix = next(each for each in _SUFFIXES if file_name.endswith(each))
        tables[_SUFFIXES[suffix]][file_name] = record
    elsewhere = {"base_url": base} if base else {}
    page = {
        "info": {"subdir": subdir, **elsewhere},
        **tables,
        "removed": sorted(removed),
        "repodata_version": 1,
    }
    return json.dumps(page, indent=1, sort_keys=True) + "\n"

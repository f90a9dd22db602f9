"""The pages of a channel from which pip and uv install, as text: PEP 503, 658, 691, 592 and 700.

Links are relative, so that the same tree works in a folder, behind any server and in a bucket.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from html import escape
from typing import Any
from urllib.parse import quote

from packaging.specifiers import SpecifierSet
from packaging.utils import (
    InvalidWheelFilename,
    canonicalize_name,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from binary_checks.fleet.artifacts.artifact import Artifact
from binary_checks.fleet.store.store_names import package_name

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
    yanked: str | None = None  # why nobody should get it any more (PEP 592); None: everybody may


def index_wheel(artifact: Artifact, yanked: str | None = None) -> IndexedWheel:
    """The wheel as it may be listed. Raises ValueError, with the reason, where it may not."""
    try:
        name, version, _, _ = parse_wheel_filename(artifact.file_name)
    except (InvalidWheelFilename, InvalidVersion) as error:
        raise ValueError(f"not the name of a wheel: {error}") from None
    if canonicalize_name(artifact.project) != name or artifact.project != name:
        raise ValueError(f"a wheel of {name}, which is listed as one of {artifact.project!r:.80}")
    return IndexedWheel(artifact=artifact, version=version, yanked=yanked)


def write_project_page(project: str, wheels: Iterable[IndexedWheel], base: str) -> str:
    """All wheels of a project, as HTML. Before the link to a file there stands ``base``."""
    return _write_page(project, (f"{_write_link(each, base)}<br>" for each in _sort(wheels)))


def write_files_page(channel: str, wheels: Iterable[IndexedWheel], base: str) -> str:
    """All wheels of all projects on one page, which `--find-links` takes from a bucket, too."""
    return _write_page(channel, (f"{_write_link(each, base)}<br>" for each in _sort(wheels)))


def write_project_list(channel: str, projects: Iterable[str]) -> str:
    """All projects, as HTML."""
    links = (f'<a href="{quote(each)}/">{escape(each)}</a><br>' for each in sorted(projects))
    return _write_page(channel, links)


def write_project_json(project: str, wheels: Iterable[IndexedWheel], base: str) -> str:
    """All wheels of a project, as JSON."""
    found = _sort(wheels)
    versions = [str(each) for each in sorted({each.version for each in found})]
    files = [_describe(each, base) for each in found]
    return _dump({"name": project, "versions": versions, "files": files})


def write_list_json(projects: Iterable[str]) -> str:
    """All projects, as JSON."""
    return _dump({"projects": [{"name": each} for each in sorted(projects)]})


def link_to(artifact: Artifact, base: str) -> str:
    """The address of a file; "+" is %2B, for buckets take it for a blank."""
    return f"{base}{quote(package_name(artifact.sha256, artifact.file_name))}"


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
    said: Mapping[str, str | None] = {
        "data-requires-python": _read_requirement(artifact) or None,
        "data-core-metadata": metadata,
        "data-dist-info-metadata": metadata,  # its first name, which older installers look for
        "data-yanked": _shorten(wheel.yanked),
    }
    words = "".join(f' {key}="{escape(value)}"' for key, value in said.items() if value is not None)
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
    """What is said only where it is known."""
    if asked := _read_requirement(artifact):
        yield "requires-python", asked
    if uploaded := spell_time(artifact.pushed):
        yield "upload-time", uploaded


def _read_requirement(artifact: Artifact) -> str:
    """Requires-Python; "" where it is none that an installer could read, as pip takes it."""
    asked = " ".join(artifact.requires_python.split())
    try:
        SpecifierSet(asked)
    except ValueError:  # InvalidSpecifier, or digits without end
        return ""
    return asked if len(asked) <= _LONGEST else ""  # half of it would be another one


def _shorten(text: str | None) -> str | None:
    return None if text is None else " ".join(text.split())[:_LONGEST]


def spell_time(text: str) -> str:
    """A time as PEP 700 wants it; "" for none."""
    moment = read_time(text)
    return "" if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def read_time(text: str) -> datetime | None:
    """A time of RFC 3339, in UTC; None for anything else."""
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00").replace("z", "+00:00"))
        return moment.astimezone(timezone.utc) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _dump(page: Mapping[str, Any]) -> str:
    return json.dumps({"meta": {"api-version": API_VERSION}, **page}, indent=1) + "\n"

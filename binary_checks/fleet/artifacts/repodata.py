"""The index of a conda channel, as text: ``repodata.json`` of one of its subdirs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from binary_checks.fleet.artifacts.artifact import Artifact

NOARCH = "noarch"
"""The subdir that every channel has: conda's tools ask for it on any system."""
_SUBDIR = re.compile(r"[a-z][a-z0-9]{1,19}(?:-[a-z0-9_]{1,19})?")
_NAME = re.compile(r"[a-z0-9_.-]+", re.IGNORECASE)
_SUFFIXES = {".conda": "packages.conda", ".tar.bz2": "packages"}
"""Of the two formats: the table that lists them."""
_TEXTS_OF = 10_000  # that one list may hold


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
"""What a record may say beside, which solvers read; the rest of index.json is left out."""


def index_conda(artifact: Artifact) -> dict[str, Any]:
    """The record of a conda package. Raises ValueError, with the reason, where it has none.

    One record that conda's tools cannot read makes them refuse the whole channel.
    """
    said = {key: artifact.record[key] for key in (*_REQUIRED, *_FURTHER) if key in artifact.record}
    known = {**_REQUIRED, **_FURTHER}
    wrong = [key for key, value in said.items() if value is not None and not known[key](value)]
    lacking = [key for key in _REQUIRED if said.get(key) is None]
    if wrong or lacking:
        raise ValueError(
            f"index.json: {(wrong or lacking)[0]}: {'wrong' if wrong else 'not there'}"
        )
    if not _SUBDIR.fullmatch(artifact.subdir):
        raise ValueError(f"not a subdir of conda: {artifact.subdir!r:.40}")
    stem = f"{said['name']}-{said['version']}-{said['build']}"
    if not _NAME.fullmatch(str(said["name"])) or artifact.file_name not in map(
        stem.__add__, _SUFFIXES
    ):
        raise ValueError(f"its index.json says that it is {stem!r:.120}")
    record = {key: value for key, value in said.items() if value is not None}
    about = {"subdir": artifact.subdir, "sha256": artifact.sha256, "size": artifact.size}
    return {"depends": [], **record, **about}


def write_repodata(
    subdir: str,
    records: Iterable[tuple[str, Mapping[str, Any]]],
    *,
    removed: Iterable[str] = (),
    base: str = "",
) -> str:
    """The index of a subdir from the records by file name, and the names of those withdrawn.

    The files lie below ``base``, a URL; beside the index without one.
    """
    tables: dict[str, dict[str, Any]] = {"packages": {}, "packages.conda": {}}
    for file_name, record in sorted(records, key=lambda pair: pair[0]):
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

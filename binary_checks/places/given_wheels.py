"""Turns the wheels that the user gives beside a package into what installers understand."""

from __future__ import annotations

import contextlib
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from email import message_from_bytes
from pathlib import Path

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from binary_checks.errors import Unavailable

_LONGEST = 16 << 20  # bytes of METADATA


def describe_given(
    paths: Iterable[Path], tags: frozenset[Tag], constraints: Path
) -> tuple[str, ...]:
    """Say each wheel as a requirement, each folder as a source of links.

    A folder that holds one version of a project decides it, even where an index has a newer one:
    that is written into the file ``constraints``. Raises Unavailable for a path that is not there.
    """
    options: list[str] = []
    pins: list[str] = []
    for path in (path.resolve() for path in paths):
        if path.is_dir():
            options += ["--find-links", str(path)]
            pins += pin_versions((item.name for item in sorted(path.glob("*.whl"))), tags)
        elif path.is_file():
            options.append(str(path))
        else:
            raise Unavailable(f"{path.name}: given alongside the package, but missing")
    if pins:
        constraints.write_text("\n".join([*pins, ""]), encoding="utf-8")
        options += ["--constraint", str(constraints)]
    return tuple(options)


def list_requirements(paths: Iterable[Path]) -> Iterator[str]:
    """The Requires-Dist of each wheel that is given as a file, of any extra.

    Those of a folder count for installers like an index's. What cannot be read they refuse.
    """
    for path in paths:
        if path.suffix == ".whl" and path.is_file():
            with contextlib.suppress(OSError, ValueError, zipfile.BadZipFile, RuntimeError):
                yield from _read_requirements(path)


def _read_requirements(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if re.fullmatch(r"[^/]+\.dist-info/METADATA", name):
                with archive.open(name) as file:
                    headers = message_from_bytes(file.read(_LONGEST)).get_all("Requires-Dist")
                return [str(each) for each in headers or ()]
    return []


def pin_versions(file_names: Iterable[str], tags: frozenset[Tag]) -> Iterator[str]:
    """Pin each project of which there is one version that the interpreter takes."""
    versions: defaultdict[str, set[Version]] = defaultdict(set)
    for file_name in file_names:
        try:
            name, version, _, its_tags = parse_wheel_filename(file_name)
        except InvalidWheelFilename:
            continue
        if not tags.isdisjoint(its_tags):
            versions[name].add(version)
    return (
        f"{name}=={next(iter(found))}"
        for name, found in sorted(versions.items())
        if len(found) == 1
    )

"""Compares what an installation left behind with what the wheel holds and its RECORD names."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from binary_checks.model import Wheel
from binary_checks.model.packages import WRITTEN_BY_INSTALLERS, decode_hash
from binary_checks.model.places import TargetPython


@dataclass(frozen=True, kw_only=True, slots=True)
class Differences:
    """Paths relative to site-packages, sorted."""

    unrecorded: tuple[str, ...] = ()
    altered: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def compare(wheel: Wheel, target: TargetPython) -> Differences:
    """Compare site-packages with the wheel, hashing every file of it."""
    landings = find_landings(wheel, target)
    site = target.site_packages
    missing = {name for name, path in landings.items() if not path.is_file()}
    expected = {
        landings[name]: digest
        for name, digest in _list_digests(wheel).items()
        if name in landings and name not in missing and not _is_rewritten(name)
    }
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        actual = dict(zip(expected, pool.map(hash_file, expected), strict=True))
    return Differences(
        unrecorded=_place(_find_unrecorded(wheel, site, landings), site),
        altered=_place((path for path in expected if actual[path] != expected[path]), site),
        missing=_place((landings[name] for name in missing), site),
    )


def find_landings(wheel: Wheel, target: TargetPython) -> dict[str, Path]:
    """Say where each file of the archive lands in that environment, by its name in the archive.

    Left out is what has no place known for sure: headers, and names that would leave the place.
    """
    folders = target.paths
    root = Path(folders["purelib" if wheel.root_is_purelib else "platlib"])
    places = {name: Path(folders[name]) for name in ("purelib", "platlib", "scripts", "data")}
    landings = {}
    for member in wheel.members:
        name, base = member.archive_name, root
        first, _, rest = name.partition("/")
        if first.endswith(".data"):
            scheme, _, name = rest.partition("/")
            base = places.get(scheme, Path())
        if not member.is_directory and base.parts and ".." not in name.split("/"):
            landings[member.archive_name] = base / name
    return landings


def _is_rewritten(archive_name: str) -> bool:
    """Whether installers write something else: RECORD, and the first line of scripts."""
    parts = archive_name.split("/")
    own = len(parts) == 2 and parts[0].endswith(".dist-info") and parts[1] in WRITTEN_BY_INSTALLERS
    return own or (parts[0].endswith(".data") and parts[1] == "scripts")


def _list_digests(wheel: Wheel) -> dict[str, str]:
    """The SHA-256 of each file in hexadecimal: what was read, else what RECORD says."""
    recorded = {row.path: decode_hash(row.hash) for row in wheel.record or ()}
    digests = {m.archive_name: m.sha256 or recorded.get(m.archive_name, "") for m in wheel.members}
    return {name: digest for name, digest in digests.items() if digest}


def hash_file(path: Path) -> str:
    """The SHA-256 of a regular file, hexadecimal; "" when it cannot be read, or is none."""
    digest = sha256()
    try:
        if not path.is_file():  # a pipe or a device has no end
            return ""
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError:
        return ""
    return digest.hexdigest()


def _find_unrecorded(wheel: Wheel, site: Path, landings: Mapping[str, Path]) -> Iterator[Path]:
    """Find what lies in site-packages and is named neither by RECORD nor by another project."""
    if wheel.record is None:
        return  # the check of RECORD says so; here it would be one line a file
    recorded = {landings[row.path] for row in wheel.record if row.path in landings}
    foreign = set(_list_foreign(wheel, site))
    for folder, _, file_names in os.walk(site):
        if Path(folder).name == "__pycache__":
            continue
        generated = WRITTEN_BY_INSTALLERS if folder == str(site / wheel.dist_info) else ()
        for path in (Path(folder, name) for name in file_names if name not in generated):
            if path not in recorded and path not in foreign:
                yield path


def _list_foreign(wheel: Wheel, site: Path) -> Iterator[Path]:
    """The files of every other project: its requirements, and pip where it had to come along."""
    for record in site.glob("*.dist-info/RECORD"):
        if record.parent.name != wheel.dist_info:
            yield record
            with record.open(encoding="utf-8", newline="") as file:
                for row in csv.reader(file):
                    yield site / row[0]


def _place(paths: Iterable[Path], site: Path) -> tuple[str, ...]:
    return tuple(sorted(Path(os.path.relpath(path, site)).as_posix() for path in paths))

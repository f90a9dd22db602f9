"""Texts that a package has of itself, and a store keeps: METADATA, index.json, and its commit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from binary_checks.documents.decoding import OddityError, read_json
from binary_checks.errors import BrokenDataError, PackageError, Unavailable
from binary_checks.fleet.artifacts.hashed_files import hash_content
from binary_checks.model import Distribution, Member, Package
from binary_checks.model.packages import CondaPackage
from binary_checks.model.protocols import Tree
from binary_checks.model.requests import ReleaseRequest
from binary_checks.trees import open_part, open_tree
from binary_checks.trees.file_bytes import open_bytes

LONGEST_TEXT = 16 << 20  # bytes of METADATA or index.json
_LONGEST_STATING = 1 << 20  # bytes of a file that says the commit
_MOST_STATING = 8
_INDEX = "info/index.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageTexts:
    """What there is of them; empty where there is none."""

    metadata: bytes | None = None  # METADATA, as it is
    record: Mapping[str, Any] = field(default_factory=dict)  # index.json
    commits: tuple[tuple[str, str], ...] = ()  # member, and the commit that it says


def read_texts(path: Path, package: Package) -> PackageTexts:
    """Read them out of a file that was inspected: each has the hash that it had then.

    Raises PackageError where it has not.
    """
    if isinstance(package, CondaPackage):
        content = _read_members(path, [_find(package, _INDEX)], in_part=True)
        return PackageTexts(record=_read_record(path.name, content[_INDEX]))
    stating = dict(_find_stating(package))
    wanted = [member for member in package.members if member.archive_name in stating]
    metadata = ""
    if isinstance(package, Distribution):
        metadata = f"{package.dist_info}/METADATA"
        wanted.append(_find(package, metadata))
    content = _read_members(path, wanted)
    return PackageTexts(
        metadata=content.pop(metadata, None), commits=tuple(_find_commits(stating, content))
    )


def _find(package: Package, name: str) -> Member:
    """The member of that name; the last, as archives are unpacked."""
    found = next((each for each in package.members[::-1] if each.archive_name == name), None)
    if found is None or not found.sha256:
        raise PackageError(f"{package.file_name}: it has no {name} that can be read")
    if found.size > LONGEST_TEXT:
        raise PackageError(f"{package.file_name}: {name}: {found.size} bytes, over {LONGEST_TEXT}")
    return found


def _find_stating(package: Package) -> Iterator[tuple[str, str]]:
    """The members that may say the commit, with the patterns that find it."""
    count = 0
    for member in package.members:
        for glob, pattern in ReleaseRequest().commits.items():
            name = member.archive_name
            fits = 0 < member.size <= _LONGEST_STATING and _fits(name, glob) and member.sha256
            if fits and count < _MOST_STATING:
                count += 1
                yield name, pattern


def _fits(name: str, glob: str) -> bool:
    parts, globs = name.split("/"), glob.split("/")
    return len(parts) == len(globs) and all(map(fnmatchcase, parts, globs))


def _find_commits(
    stating: Mapping[str, str], contents: Mapping[str, bytes]
) -> Iterator[tuple[str, str]]:
    for name, pattern in stating.items():
        found = re.search(pattern, contents[name].decode("utf-8", "replace"))
        if found:
            yield name, found[1]


def _read_members(path: Path, wanted: list[Member], *, in_part: bool = False) -> dict[str, bytes]:
    if not wanted:
        return {}
    with ExitStack() as files:
        tree = open_texts(path, files, in_part=in_part)
        return {each.archive_name: _read(path, tree, each) for each in wanted}


def open_texts(path: Path, files: ExitStack, *, in_part: bool) -> Tree:
    """The whole tree, or of a ``.conda`` the part that says what it is."""
    if in_part:
        try:
            return open_part(files.enter_context(open_bytes(path)), files)
        except Unavailable:  # .tar.bz2
            pass
    return files.enter_context(closing(open_tree(path)))


def _read(path: Path, tree: Tree, member: Member) -> bytes:
    for entry in (each for each in tree.entries() if each.name == member.archive_name):
        try:
            content = join_text(tree.pieces(entry))
        except BrokenDataError:
            continue
        if hash_content(content) == member.sha256:
            return content
    raise PackageError(f"{path.name}: {member.archive_name}: not as it was when inspected")


def join_text(pieces: Iterator[bytes]) -> bytes:
    """All of it. Raises BrokenDataError where it is longer than a text may be."""
    content = bytearray()
    for piece in pieces:
        content += piece
        if len(content) > LONGEST_TEXT:
            raise BrokenDataError(f"more than {LONGEST_TEXT:,} bytes")
    return bytes(content)


def _read_record(name: str, content: bytes) -> Mapping[str, Any]:
    try:
        record = read_json(content.decode("utf-8-sig"))
    except (OddityError, UnicodeDecodeError) as error:
        raise PackageError(f"{name}: {_INDEX}: {error}") from None
    if not isinstance(record, dict):
        raise PackageError(f"{name}: {_INDEX}: not an object")
    return record

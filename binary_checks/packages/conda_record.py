"""Packages installed in a conda prefix, as their records in ``conda-meta`` list them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from binary_checks.errors import PackageError
from binary_checks.model import (
    ContentStore,
    LinkedPackage,
    Member,
    ObjectReader,
    Preview,
    Progress,
    Tree,
    TreeEntry,
    Visited,
    VisitRequest,
)
from binary_checks.packages.conda_index import Index, find_layout, read_claims
from binary_checks.packages.distributions import read_text, sort_objects
from binary_checks.packages.installed import LABEL
from binary_checks.trees.members import find_formats

META = "conda-meta"
_LONGEST = 256 << 20  # bytes of a record; the record of a package with a million files has 200 MB


def recognises(label: str, look: Callable[[], Tree]) -> bool:
    """Return whether the label names an installed package, and the tree is a record of conda."""
    return label.startswith(LABEL) and look().path.parent.name == META


def preview(tree: Tree, reader: ObjectReader) -> Preview:
    """Look at the first bytes of the files that the record lists."""
    entries = [entry for _, entry in _list_own(tree, _read_record(tree)[0])]
    return Preview(kind=LinkedPackage, formats=find_formats(tree, entries, reader))


def read(
    tree: Tree,
    reader: ObjectReader,
    progress: Progress | None = None,
    store: ContentStore | None = None,
) -> LinkedPackage:
    """Read every file that the record lists. Raises PackageError if most of them are missing."""
    return _read(tree, reader, progress, store)


def read_unhashed(tree: Tree, reader: ObjectReader) -> LinkedPackage:
    """Read the objects of a package next to the judged one, without hashing files."""
    return _read(tree, reader, hashed=False)


def _read(
    tree: Tree,
    reader: ObjectReader,
    progress: Progress | None = None,
    store: ContentStore | None = None,
    *,
    hashed: bool = True,
) -> LinkedPackage:
    stated, index = _read_record(tree)
    own = _list_own(tree, stated)
    _require_most(tree, [entry for _, entry in own])
    wanted = VisitRequest(only=[entry for _, entry in own], hashed=hashed, store=store)
    visited = tree.visit(reader, wanted, progress)
    rows = [row for row, _ in own]
    members = [_compare(row, each) for row, each in zip(rows, visited, strict=True)]
    return _assemble(tree, index, members, visited)


def survey(tree: Tree) -> LinkedPackage:
    """Check that every file exists, but read none: the result has no objects."""
    stated, index = _read_record(tree)
    own = _list_own(tree, stated)
    members = [
        Member(
            path=entry.name,
            archive_name=entry.stored,
            size=entry.size,
            compressed_size=entry.size,
            mode=entry.mode,
            sha256=row.sha256,
            faults=entry.faults,
        )
        for row, entry in own
    ]
    return _assemble(tree, index, members, ())


def hash_rows(tree: Tree) -> str:
    """Return a hash of all paths and hashes in the record, but not of the prefix and times."""
    stated, index = _read_record(tree)
    rows = sorted(f"{row.path} {row.sha256}" for row in _list_rows(stated))
    text = "\n".join((index.name, index.version, index.build, *rows))
    return hashlib.sha256(text.encode()).hexdigest()


class _Row(NamedTuple):
    path: str
    sha256: str = ""  # hash of the installed file, which contains the prefix


def _read_record(tree: Tree) -> tuple[Mapping[str, Any], Index]:
    name = f"{META}/{tree.path.name}"
    content = read_text(tree, name, _LONGEST)
    try:
        if content is None:
            raise ValueError("it is missing, broken or too large")
        stated = json.loads(content)
        return stated, Index.take(stated)
    except (ValueError, RecursionError) as error:
        raise PackageError(f"{tree.label}: {name} cannot be read: {error}") from None


def _list_rows(stated: Mapping[str, Any]) -> Iterator[_Row]:
    """Yield the rows of ``paths_data``, or of ``files``, which older tools write without hashes."""
    data = stated.get("paths_data")
    rows = data.get("paths") if isinstance(data, dict) else None
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and isinstance(row.get("_path"), str):
            digest = row.get("sha256_in_prefix") or row.get("sha256")
            link = row.get("path_type") == "softlink"
            yield _Row(row["_path"], str(digest or "") if not link else "")
    files = stated.get("files")
    if not rows and isinstance(files, list):
        yield from (_Row(path) for path in files if isinstance(path, str))


def _list_own(tree: Tree, stated: Mapping[str, Any]) -> list[tuple[_Row, TreeEntry]]:
    found = ((row, tree.find(row.path)) for row in _list_rows(stated))
    return [(row, entry) for row, entry in found if entry is not None]


def _require_most(tree: Tree, entries: Sequence[TreeEntry]) -> None:
    """Raise one PackageError if most files are missing, rather than a fault for each file."""
    gone = [entry for entry in entries if entry.faults]
    if len(gone) * 2 > len(entries):
        raise PackageError(
            f"{tree.label}: {len(gone):,} of {len(entries):,} files that conda-meta names are "
            f"missing (the first is {gone[0].name}): the prefix is damaged, create it again"
        )


def _compare(row: _Row, each: Visited) -> Member:
    member = each.member
    if row.sha256 and member.sha256 and row.sha256 != member.sha256:
        fault = "it is not what conda-meta says: it was changed after the installation"
        return replace(member, faults=(*member.faults, fault))
    return member


def _assemble(
    tree: Tree, index: Index, members: Sequence[Member], visited: Sequence[Visited]
) -> LinkedPackage:
    claims = read_claims(index)
    found = [item for each in visited for item in each.objects]
    return LinkedPackage(
        path=tree.path,
        name=index.name,
        version=index.version,
        size=sum(member.size for member in members),
        layout=find_layout(_localise(index, members), claims, members),
        claims=claims,
        members=tuple(members),
        **sort_objects(found),
        build=index.build,
        subdir=index.subdir,
        noarch=index.noarch,
        depends=index.depends,
        constrains=index.constrains,
    )


def _localise(index: Index, members: Sequence[Member]) -> Index:
    """Return the values of a ``noarch`` package as they apply where it is installed.

    The files are in the prefix's site-packages, whose path is different on Windows.
    """
    windows = any(member.path.startswith("Lib/site-packages/") for member in members)
    subdir = "win-64" if windows and index.noarch else index.subdir
    return index._replace(noarch="", subdir=subdir)

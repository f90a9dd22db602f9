"""Reads of a conda package what it says of itself, without what it installs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from binary_checks.errors import PackageError
from binary_checks.model.objects import UnreadObject, format_of_name
from binary_checks.model.packages import CondaPackage, Member
from binary_checks.model.protocols import ObjectReader, Tree, Visited, Wanted
from binary_checks.packages.conda_index import INDEX, Index, find_layout, parse_json, read_claims

_PATHS = "info/paths.json"
_PACKED = "what is installed lies in an archive without a directory"
_MIB = 1 << 20
_LONGEST = {INDEX: 4 * _MIB, _PATHS: 64 * _MIB}


def outline(tree: Tree, reader: ObjectReader) -> CondaPackage:
    """Read what ``info/`` says: its members are those that info/paths.json lists.

    Of its objects nothing is known: the archive that holds them has no directory.
    """
    visited = tree.visit(reader, Wanted(kept=_LONGEST))
    texts = {each.member.archive_name: each for each in visited}
    index = Index.read(tree.label, texts.get(INDEX))
    claims = read_claims(index)
    listed = tuple(_list_members(tree, texts.get(_PATHS)))
    members = (*(each.member for each in visited), *listed)
    return CondaPackage(
        path=tree.path,
        name=index.name,
        version=index.version,
        size=tree.size,
        layout=find_layout(index, claims, members),
        claims=claims,
        members=members,
        unread=tuple(
            UnreadObject(path=each.path, format=form, reason=_PACKED)
            for each in listed
            if (form := format_of_name(each.path)) is not None
        ),
        archive_faults=(*tree.faults, *_judge_name(tree.label, index)),
        ambiguities=tree.ambiguities,
    )


def _list_members(tree: Tree, text: Visited | None) -> Iterator[Member]:
    """The files that it says to install. Raises PackageError where it cannot be read."""
    if text is None:
        return
    try:
        stated = parse_json(text)
    except ValueError as error:
        raise PackageError(f"{tree.label}: {_PATHS} cannot be read: {error}") from None
    listed: Any = stated.get("paths") if isinstance(stated, Mapping) else None
    for row in listed if isinstance(listed, Sequence) else ():
        path = row.get("_path") if isinstance(row, Mapping) else None
        if isinstance(path, str):
            size = row.get("size_in_bytes")
            known = size if isinstance(size, int) else 0
            yield Member(path=path, archive_name=path, size=known)


def _judge_name(label: str, index: Index) -> Iterator[str]:
    stem = label.removesuffix(".conda")
    stated = f"{index.name}-{index.version}-{index.build}"
    if stem != stated:
        yield f"{INDEX} describes {stated[:100]}, which the file's name does not say"

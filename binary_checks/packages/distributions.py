"""What wheels and installed packages have in common: members and texts in, a Distribution out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from packaging.tags import Tag

from binary_checks.knowledge.tags import read_claims
from binary_checks.model.objects import MalformedObject, ObjectFile, StaticArchive, UnreadObject
from binary_checks.model.packages import Distribution, Layout
from binary_checks.model.protocols import (
    Keeper,
    ObjectReader,
    Progress,
    ReadObject,
    Tree,
    TreeEntry,
    Visited,
    Wanted,
)
from binary_checks.packages.wheel_texts import Texts
from binary_checks.python_code import mentions

DIST_INFO = ".dist-info"
_WINDOWS = frozenset({"win32", "win_amd64", "win_arm64"})


class Landing(NamedTuple):
    """Where a distribution is put, and for which interpreters and systems."""

    layout: Layout
    tags: tuple[Tag, ...]


class ReadMembers(NamedTuple):
    """What one pass over the members found."""

    visited: list[Visited]
    loading: mentions.DllLoading


def read_members(
    tree: Tree,
    reader: ObjectReader,
    wanted: Wanted,
    landing: Landing,
    progress: Progress | None,
) -> ReadMembers:
    """Read every member once, and what its code has Windows load."""
    entries = tree.entries() if wanted.only is None else wanted.only
    search = _search_sources(entries, landing.tags)
    if search is None:
        return ReadMembers(tree.visit(reader, wanted, progress), mentions.DllLoading())
    wanted = replace(wanted, watches=(*wanted.watches, search.watch))
    visited = tree.visit(reader, wanted, progress)
    pairs = zip(entries, visited, strict=True)
    found = [
        (entry, each.member)
        for entry, each in pairs
        if entry.name in search.found and (each.member.sha256 or not wanted.hashed)
    ]
    if not found:
        return ReadMembers(visited, mentions.DllLoading())
    from binary_checks.python_code.dll_directories import find_loading  # on demand

    shorten, place = landing.layout.shorten, landing.layout.place
    sources = (
        mentions.SourceFile(
            shorten(member.path), member.size, partial(_read, tree, wanted.keeper, entry)
        )
        for entry, member in found
    )
    paths = (shorten(each.member.path) for each in visited)
    return ReadMembers(visited, find_loading(sources, paths).placed(place))


def _search_sources(
    entries: Sequence[TreeEntry], tags: Iterable[Tag]
) -> mentions.MentionSearch | None:
    """Search only packages for Windows, and without a DLL to open only for directories."""
    if _WINDOWS.isdisjoint(tag.platform for tag in tags):
        return None
    bundles = any(entry.name.lower().endswith(".dll") for entry in entries)
    return mentions.MentionSearch(
        mentions.LOADING if bundles else mentions.ADDING, mentions.is_source
    )


def _read(tree: Tree, keeper: Keeper | None, entry: TreeEntry) -> bytes:
    kept = None if keeper is None else keeper.find(entry.stored)
    return b"".join(tree.pieces(entry)) if kept is None else kept


_Distribution = TypeVar("_Distribution", bound=Distribution)


def assemble(
    kind: type[_Distribution],
    reading: ReadMembers,
    texts: Texts,
    *,
    version: str,
    tags: tuple[Tag, ...],
    **own: Any,
) -> _Distribution:
    """Make the distribution of that class; ``own`` are the fields that only the kind knows."""
    found = [item for each in reading.visited for item in each.objects]
    return kind(
        version=version,
        tags=tags,
        claims=read_claims(tags, version=version, metadata=texts.metadata),
        members=tuple(each.member for each in reading.visited),
        objects=pick(found, ObjectFile),
        malformed=pick(found, MalformedObject),
        unread=pick(found, UnreadObject),
        dll_directories=reading.loading.dll_directories,
        loading_code=reading.loading.loading_code,
        preloaded=reading.loading.preloaded,
        metadata=texts.metadata,
        wheel=texts.wheel,
        record=texts.record,
        record_faults=texts.record_faults,
        entry_points=texts.entry_points,
        **own,
    )


_Kind = TypeVar("_Kind", ObjectFile, MalformedObject, UnreadObject)


def pick(found: Iterable[ReadObject], kind: type[_Kind]) -> tuple[_Kind, ...]:
    """Those of one class, in the order of their paths; nobody links with static archives here."""
    picked = (item for item in found if isinstance(item, kind) and not _is_linked(item))
    return tuple(sorted(picked, key=lambda item: item.path))


def _is_linked(item: ReadObject) -> bool:
    return isinstance(item, StaticArchive) and item.is_plain

"""Reads wheels: a file name and an archive in, a Wheel out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from packaging.tags import Tag
from packaging.utils import parse_wheel_filename

from binary_checks.errors import PackageError
from binary_checks.model.packages import Distribution, Wheel
from binary_checks.model.protocols import (
    Keeper,
    ObjectReader,
    Preview,
    Progress,
    Tree,
    Visited,
    Wanted,
)
from binary_checks.packages.distributions import DIST_INFO, Landing, assemble, read_members
from binary_checks.packages.wheel_layout import lay_out, placing
from binary_checks.packages.wheel_texts import LONGEST, Texts, read_texts
from binary_checks.trees.members import find_formats

_Wheel = TypeVar("_Wheel", bound=Distribution)


def recognises(label: str, look: Callable[[], Tree]) -> bool:
    """Whether the file's name says wheel."""
    del look
    return label.endswith(".whl")


def preview(tree: Tree, reader: ObjectReader) -> Preview:
    """Look at a wheel's directory and the first bytes of its members."""
    parse_file_name(tree.label)
    find_dist_info(tree)
    return Preview(kind=Wheel, formats=find_formats(tree, tree.entries(), reader))


def read(
    tree: Tree,
    reader: ObjectReader,
    progress: Progress | None = None,
    keeper: Keeper | None = None,
) -> Wheel:
    """Read a wheel from start to end; PackageError where it is none."""
    name, version, build, tags = parse_file_name(tree.label)
    title = Title(name, version, tags, find_dist_info(tree))
    return read_contents(Wheel, tree, reader, title, progress=progress, keeper=keeper, build=build)


class Title(NamedTuple):
    """What must be known of a wheel before it is read."""

    name: str
    version: str
    tags: tuple[Tag, ...]
    dist_info: str  # the name of its metadata folder


def read_contents(  # noqa: PLR0913 - what reads every kind, and what is known of this one
    kind: type[_Wheel],
    tree: Tree,
    reader: ObjectReader,
    title: Title,
    *,
    progress: Progress | None,
    keeper: Keeper | None,
    **own: Any,
) -> _Wheel:
    """Read every member into the wheel of that class; ``own`` are fields that only it has."""
    dist_info, layout, tags = title.dist_info, lay_out(title.name, title.tags), title.tags
    kept = {f"{dist_info}/{text}": most for text, most in LONGEST.items()}
    wanted = Wanted(place=placing(dist_info, layout), kept=kept, keeper=keeper)
    reading = read_members(tree, reader, wanted, Landing(layout, tags), progress)
    texts = _read_texts(tree.label, dist_info, reading.visited)
    faults = {f"{dist_info}/{text}": found for text, found in texts.faults.items() if found}
    visited = [_add_faults(each, faults) for each in reading.visited]
    return assemble(
        kind,
        reading._replace(visited=visited),
        texts,
        path=tree.path,
        name=title.name,
        version=title.version,
        size=tree.size,
        layout=layout,
        archive_faults=tree.faults,
        ambiguities=tree.ambiguities,
        tags=tags,
        dist_info=dist_info,
        **own,
    )


def parse_file_name(file_name: str) -> tuple[str, str, str, tuple[Tag, ...]]:
    """Take name, version, build tag and tags out of a wheel's file name (PEP 427)."""
    try:
        name, version, build, tags = parse_wheel_filename(file_name)
    except ValueError as error:
        raise PackageError(f"{file_name}: not the file name of a wheel: {error}") from None
    label = "".join(map(str, build))
    return name, str(version), label, tuple(sorted(tags, key=str))


def find_dist_info(tree: Tree) -> str:
    """Name the one top-level ``*.dist-info`` folder."""
    roots = {entry.name.partition("/")[0] for entry in tree.entries() if "/" in entry.name}
    found = sorted(root for root in roots if root.endswith(DIST_INFO))
    if not found:
        raise PackageError(f"{tree.label}: not a wheel: it has no *{DIST_INFO} folder")
    if len(found) > 1:
        few = ", ".join(found[:3])
        raise PackageError(f"{tree.label}: it has {len(found)} *{DIST_INFO} folders: {few}")
    return found[0]


def _read_texts(label: str, dist_info: str, visited: Iterable[Visited]) -> Texts:
    about = {  # of two members of one name the last counts, as for every installer
        each.member.archive_name.removeprefix(f"{dist_info}/"): each
        for each in visited
        if each.member.archive_name.startswith(f"{dist_info}/")
    }
    contents = {text: about[text].content for text in LONGEST if text in about}
    for text in ("METADATA", "WHEEL"):
        if contents.get(text, b"") is None:
            reason = about[text].member.faults[-1]
            raise PackageError(f"{label}: {dist_info}/{text} cannot be read: {reason}")
    texts = read_texts(contents)
    if "RECORD" in contents and texts.record is None:
        return texts._replace(record=(), record_faults=about["RECORD"].member.faults[-1:])
    return texts


def _add_faults(each: Visited, faults: Mapping[str, tuple[str, ...]]) -> Visited:
    more = faults.get(each.member.archive_name)
    if not more:
        return each
    return each._replace(member=replace(each.member, faults=(*each.member.faults, *more)))

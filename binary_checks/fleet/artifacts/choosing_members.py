"""Chooses members of a channel: by project, file name, glob, path, axes or digest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from packaging.utils import canonicalize_name

from binary_checks.errors import ProfileError
from binary_checks.fleet.artifacts.artifact import FILE_AXES, Artifact
from binary_checks.fleet.artifacts.channel_members import ChannelMember, list_members
from binary_checks.fleet.artifacts.hashed_files import hash_file
from binary_checks.fleet.artifacts.kept_artifacts import list_artifacts
from binary_checks.fleet.artifacts.matching import read_wish, stands_for
from binary_checks.fleet.cell import Cell
from binary_checks.fleet.store import Store
from binary_checks.lines import cut, one_line


@dataclass(frozen=True, kw_only=True, slots=True)
class MemberWish:
    """Which members are meant; nothing of it: all."""

    names: Sequence[str] = ()  # projects, file names, globs, paths
    where: str = ""  # variant=cu130 python=3.12
    digests: Sequence[str] = ()  # SHA-256, or how they begin


def choose_members(
    store: Store, channel: str, wish: MemberWish, broken: list[str] | None = None
) -> list[Artifact]:
    """What the store says of the members that are meant; all of the channel where nothing is said.

    Each name and digest must mean one at least. Of a document that is not whole ``broken`` gets a
    line; without it, RecordError is raised. Raises ProfileError, one line.
    """
    members = found = list_members(store, channel, broken)
    if wish.names:
        found = _union([_match(members, name, channel) for name in wish.names])
    for digest in wish.digests:
        if not any(_is_named(each, [digest]) for each in members):
            raise ProfileError(f"--sha256 {_show(digest)}: {channel} has no such file")
    if wish.digests:
        found = [each for each in found if _is_named(each, wish.digests)]
    artifacts = [*list_artifacts(store, [each.sha256 for each in found], broken)]
    kinds = read_wish([wish.where] if wish.where else [])
    artifacts = [each for each in artifacts if not kinds.unmet(each)]
    if not artifacts:
        raise ProfileError(f"the channel {channel} has no file that matches")
    return sorted(artifacts, key=lambda each: (each.project, each.file_name))


def _match(members: Iterable[ChannelMember], name: str, channel: str) -> list[ChannelMember]:
    """The members that a name means: a project, a file name, a glob, or a file that lies here."""
    path = Path(name)
    bare = path.name if "/" in name or "\\" in name else name
    found = [
        each
        for each in members
        if fnmatchcase(each.file_name, bare)
        or fnmatchcase(each.project, bare)
        or canonicalize_name(each.project) == canonicalize_name(bare)
    ]
    if not found:
        raise ProfileError(f"{_show(name)}: the channel {channel} has no such project or file")
    if bare != name and path.is_file():
        digest = hash_file(path).sha256
        if digest not in {each.sha256 for each in found}:
            raise ProfileError(f"{_show(name)}: the channel {channel} has other bytes: {digest}")
    return found


def _union(groups: Iterable[Iterable[ChannelMember]]) -> list[ChannelMember]:
    return list({each.stored.name: each for group in groups for each in group}.values())


def _is_named(member: ChannelMember, digests: Iterable[str]) -> bool:
    return any(len(each) >= 12 and member.sha256.startswith(each) for each in digests)


def _show(text: str) -> str:
    return cut(one_line(text), 120)


def find_with_gpu(cells: Iterable[Cell], artifacts: Iterable[Artifact]) -> frozenset[str]:
    """The SHA-256 of files for which the matrix has a GPU stage: by all axes that both name."""
    wanted = [cell for cell in cells if cell.gpu]
    return frozenset(
        each.sha256 for each in artifacts if any(stands_for(cell, each) for cell in wanted)
    )


def list_gpu_fields(cells: Iterable[Cell]) -> frozenset[str]:
    """The fields of a file by which `find_with_gpu` finds it."""
    wanted = [cell for cell in cells if cell.gpu]
    axes = {axis for cell in wanted for axis in FILE_AXES if getattr(cell, axis)}
    return frozenset({"kind", "project", *axes} if wanted else ())

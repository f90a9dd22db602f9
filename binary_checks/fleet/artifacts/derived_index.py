"""All that the index of a channel comes to, from its members alone: the same for whoever asks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from binary_checks.fleet.artifacts.artifact import Artifact
from binary_checks.fleet.artifacts.repodata import NOARCH, index_conda, write_repodata
from binary_checks.fleet.artifacts.simple_index import (
    IndexedWheel,
    index_wheel,
    write_files_page,
    write_list_json,
    write_project_json,
    write_project_list,
    write_project_page,
)
from binary_checks.fleet.store.store_names import conda_prefix, index_prefix, package_name

_Indexed = TypeVar("_Indexed")
REPODATA = "repodata.json"
FILES_PAGE = "files.html"
"""The page of all files of a channel: projects have no dot in their names, so none is called so."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexedMember:
    """A member of a channel, and what the store says of it."""

    project: str  # as the channel's listing has it
    file_name: str
    artifact: Artifact
    subdir: str = ""
    withdrawn: str | None = None  # why, where it is


class _IndexedConda(NamedTuple):
    """A conda package as its index lists it."""

    artifact: Artifact
    record: Mapping[str, Any]
    withdrawn: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class RepeatedFile:
    """A package that lies beside its index, too: conda's tools look for it there alone."""

    source: str
    sha256: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DerivedIndex:
    """Every object of an index by its name, and the members that it cannot list."""

    channel: str
    pages: Mapping[str, bytes]
    files: Mapping[str, RepeatedFile] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    wheels: tuple[Artifact, ...] = ()  # that are listed
    condas: tuple[Artifact, ...] = ()


def derive_index(channel: str, members: Iterable[IndexedMember], base: str = "") -> DerivedIndex:
    """The index of a channel. Its links begin with ``base``, a URL; they are relative without."""
    faults: list[str] = []
    sound = [each for each in members if _is_itself(each, faults)]
    wheels = [*_index_all("wheel", sound, _index_wheel, faults)]
    condas = [*_index_all("conda", sound, _index_conda, faults)]
    pages = {**_write_simple(channel, wheels, base), **_write_conda(channel, condas, base)}
    files = {
        f"{conda_prefix(channel)}{artifact.subdir}/{artifact.file_name}": RepeatedFile(
            source=package_name(artifact.sha256, artifact.file_name),
            sha256=artifact.sha256,
            size=artifact.size,
        )
        for artifact, _, _ in condas
    }
    return DerivedIndex(
        channel=channel,
        pages={name: text.encode() for name, text in sorted(pages.items())},
        files=files,
        faults=tuple(sorted(faults)),
        wheels=tuple(each.artifact for each in wheels),
        condas=tuple(each.artifact for each in condas),
    )


def _is_itself(member: IndexedMember, faults: list[str]) -> bool:
    """Whether it is listed under the names that its document has."""
    artifact = member.artifact
    own = _spell(artifact.project, artifact.subdir, artifact.file_name)
    if _name(member) == own:
        return True
    faults.append(f"{_name(member)}: not listed: its artifact.json calls it {own}")
    return False


def _index_all(
    kind: str,
    members: Sequence[IndexedMember],
    index: Callable[[IndexedMember], _Indexed],
    faults: list[str],
) -> Iterator[_Indexed]:
    """Those that an installer could read; of two with one name nobody knows which is meant."""
    named: dict[tuple[str, str], dict[str, _Indexed]] = defaultdict(dict)
    for each in (each for each in members if each.artifact.kind == kind):
        artifact = each.artifact
        try:
            named[artifact.subdir, artifact.file_name][artifact.sha256] = index(each)
        except ValueError as error:
            faults.append(f"{_name(each)}: not listed: {error}")
    for (_, file_name), same in named.items():
        if len(same) == 1:
            yield from same.values()
        else:
            found = " and ".join(sorted(same))
            faults.append(f"{file_name}: not listed: two files have that name: {found}")


def _name(member: IndexedMember) -> str:
    return _spell(member.project, member.subdir, member.file_name)


def _spell(project: str, subdir: str, file_name: str) -> str:
    """As names of members have it."""
    return "/".join(filter(None, (project, subdir, file_name)))


def _index_wheel(member: IndexedMember) -> IndexedWheel:
    return index_wheel(member.artifact, member.withdrawn)


def _index_conda(member: IndexedMember) -> _IndexedConda:
    withdrawn = member.withdrawn is not None
    return _IndexedConda(member.artifact, index_conda(member.artifact), withdrawn)


def _write_simple(channel: str, wheels: Sequence[IndexedWheel], base: str) -> dict[str, str]:
    prefix = index_prefix(channel)
    projects: dict[str, list[IndexedWheel]] = defaultdict(list)
    for each in wheels:
        projects[each.artifact.project].append(each)
    pages = {
        f"{prefix}index.html": write_project_list(channel, projects),
        f"{prefix}index.json": write_list_json(projects),
        f"{prefix}{FILES_PAGE}": write_files_page(channel, wheels, base or _climb(prefix)),
    }
    for project, found in projects.items():
        below = f"{prefix}{project}/"
        start = base or _climb(below)
        pages[f"{below}index.html"] = write_project_page(project, found, start)
        pages[f"{below}index.json"] = write_project_json(project, found, start)
    return pages


def _write_conda(channel: str, condas: Sequence[_IndexedConda], base: str) -> dict[str, str]:
    if not condas:
        return {}
    subdirs: dict[str, list[_IndexedConda]] = {NOARCH: []}
    for each in condas:
        subdirs.setdefault(each.artifact.subdir, []).append(each)
    return {
        f"{conda_prefix(channel)}{subdir}/{REPODATA}": write_repodata(
            subdir,
            ((each.artifact.file_name, each.record) for each in found if not each.withdrawn),
            removed=(each.artifact.file_name for each in found if each.withdrawn),
            base=f"{base}{conda_prefix(channel)}{subdir}/" if base else "",
        )
        for subdir, found in subdirs.items()
    }


def _climb(prefix: str) -> str:
    """From a folder of names to the top of the store."""
    return "../" * prefix.count("/")

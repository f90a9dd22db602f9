"""Sources of packages: one module for each kind, with ``parse(argument, folder)``."""

from __future__ import annotations

from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import Protocol

from binary_checks.errors import ProfileError
from binary_checks.model import PackageKind, Source
from binary_checks.sources import conda_channel, file, installed, requirement
from binary_checks.sources import folder as folder_source
from binary_checks.sources import remote as url
from binary_checks.sources.conda_channel import cut_check
from binary_checks.sources.file import explain, require_package, suggest_requirement
from binary_checks.sources.run_environment import Surroundings

__all__ = [
    "SOURCES",
    "NamedSource",
    "Surroundings",
    "cut_check",
    "require_named",
    "expand",
    "is_published",
    "parse",
]


class NamedSource(Protocol):
    """A package that the user named, which may not exist."""

    @property
    def path(self) -> Path:
        """The path of the file; for a package without a file, its label in the current folder."""

    def resolve(self, surroundings: Surroundings) -> Source:
        """Find the package. Raises ProfileError, PackageError or GatherError if that fails."""


class _Module(Protocol):
    def parse(self, argument: str, folder: Path) -> NamedSource | None: ...


REMOTE: tuple[_Module, ...] = (conda_channel, url, requirement)
SOURCES: tuple[_Module, ...] = (installed, *REMOTE, folder_source, file)


def parse(
    argument: str, folder: Path, *, folders: bool = False, kinds: tuple[PackageKind, ...] = ()
) -> NamedSource | None:
    """Return the package that an argument names, relative to a folder, or None if it names none.

    With ``folders`` a folder may be named by its path, without a prefix. Files, folders and files
    at URLs may also be of the project's own kinds. Nothing is executed but these, and a file is
    opened only if its name does not show whether it is a package.
    """
    found = (module.parse(argument, folder) for module in SOURCES)
    named = next((each for each in found if each is not None), None)
    if isinstance(named, (file.FileSource, folder_source.FolderSource, url.NamedUrl)):
        return replace(named, kinds=kinds)
    if named is None and kinds:
        named = file.parse(argument, folder, kinds)
    if named is None and folders:
        named = folder_source.find(argument, folder, kinds)
    return named


def require_named(argument: str, folder: Path, kinds: tuple[PackageKind, ...] = ()) -> None:
    """Raise ProfileError if the argument names no package of any source."""
    try:
        if parse(argument, folder, folders=True, kinds=kinds) is None:
            if hint := suggest_requirement(argument, folder / argument):
                raise ProfileError(f"{explain(argument, folder / argument)}{hint}")
            require_package(argument, kinds)
    except (OSError, ValueError):  # a name that is too long, or contains a NUL
        require_package(argument, kinds)


def is_published(argument: str, folder: Path) -> bool:
    """Return whether the argument names a package to fetch, and not a file of this host."""
    remote = (module.parse(argument, folder) for module in REMOTE)
    return any(named is not None for named in remote)


def expand(name: str, folder: Path, kinds: tuple[PackageKind, ...] = ()) -> list[str]:
    """Return the packages that match a pattern; shells of Windows do not expand patterns.

    Return the name itself if it is not a pattern, or if no package matches.
    """
    if not set("*?") & set(name) or is_published(name, folder) or (folder / name).exists():
        return [name]
    matches = sorted(glob(name, root_dir=folder))  # noqa: PTH207 - of a Path it must be relative
    return [match for match in matches if parse(match, folder, kinds=kinds)] or [name]

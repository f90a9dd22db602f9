"""Where a package comes from: one module a source, each with ``parse(argument, folder)``."""

from __future__ import annotations

from glob import glob
from pathlib import Path
from typing import Protocol

from binary_checks.errors import ProfileError
from binary_checks.model.protocols import Source
from binary_checks.sources import conda_channel, file, installed, requirement
from binary_checks.sources import folder as folder_source
from binary_checks.sources import remote as url
from binary_checks.sources.conda_channel import cut_check
from binary_checks.sources.file import demand_package, explain, suggest_requirement
from binary_checks.sources.surroundings import Surroundings

__all__ = [
    "SOURCES",
    "NamedSource",
    "Surroundings",
    "cut_check",
    "demand_named",
    "expand",
    "is_published",
    "parse",
]


class NamedSource(Protocol):
    """A package that the user named, which may not be there."""

    @property
    def path(self) -> Path:
        """The file; of what has none, its label in the current folder."""

    def resolve(self, surroundings: Surroundings) -> Source:
        """Find it. Raises ProfileError, PackageError or GatherError where that fails."""


class _Module(Protocol):
    def parse(self, argument: str, folder: Path) -> NamedSource | None: ...


REMOTE: tuple[_Module, ...] = (conda_channel, url, requirement)
SOURCES: tuple[_Module, ...] = (installed, *REMOTE, folder_source, file)


def parse(argument: str, folder: Path, *, folders: bool = False) -> NamedSource | None:
    """What the user names so in that folder, None where it is no package.

    With ``folders`` a folder may be one by its path alone.

    Nothing runs for that, and a file is opened only where its name alone does not tell.
    """
    found = (module.parse(argument, folder) for module in SOURCES)
    named = next((each for each in found if each is not None), None)
    return folder_source.find(argument, folder) if named is None and folders else named


def demand_named(argument: str, folder: Path) -> None:
    """Raise ProfileError where it names no package of any source."""
    try:
        if parse(argument, folder, folders=True) is None:
            if hint := suggest_requirement(argument, folder / argument):
                raise ProfileError(f"{explain(argument, folder / argument)}{hint}")
            demand_package(argument)
    except (OSError, ValueError):  # too long a name, or a NUL in it
        demand_package(argument)


def is_published(argument: str, folder: Path) -> bool:
    """Whether it names what is to be fetched, and no file of this host."""
    remote = (module.parse(argument, folder) for module in REMOTE)
    return any(named is not None for named in remote)


def expand(name: str, folder: Path) -> list[str]:
    """The packages that match a pattern: the shells of Windows leave it to programs.

    Anything else stays what it is, and so does a pattern that no package matches.
    """
    if not set("*?") & set(name) or is_published(name, folder) or (folder / name).exists():
        return [name]
    matches = sorted(glob(name, root_dir=folder))  # noqa: PTH207 - of a Path it must be relative
    return [match for match in matches if parse(match, folder) is not None] or [name]

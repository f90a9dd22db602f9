"""Packages alongside the judged packages: packages that were given, and packages they require."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from binary_checks import objects, packages
from binary_checks.declaring import gathers
from binary_checks.errors import (
    BinaryChecksError,
    GatherError,
    NotApplicable,
    NoWheelError,
    PackageError,
    Unavailable,
)
from binary_checks.loaders.required_packages import (
    find_given_families,
    find_misfits,
    match_requirements,
)
from binary_checks.model import (
    CondaPackage,
    GivenFamilies,
    GivenPackages,
    GivenVersions,
    Package,
    RequiredWheels,
    Simulation,
    Source,
    TargetSystem,
    UnpackedWheel,
    Wheel,
    WheelLike,
)

_ENDINGS = (".whl", ".conda", ".tar.bz2")
"""Suffixes of packages for which a given folder is searched."""


class PackagesAlongside(NamedTuple):
    """The packages alongside a judged package, and its requirements that could still be given."""

    packages: tuple[Package, ...]
    requirements: tuple[str, ...]


class Companions:
    """The packages alongside the judged ones, each read only once for all packages that need it.

    They are the packages that the user gave. With ``fetches``, they also include requirements of
    the judged packages that were not given; these are downloaded into ``folder`` or, without one,
    into a private folder that `close` removes.
    """

    def __init__(
        self,
        paths: Iterable[Path],
        *,
        fetches: bool = False,
        folder: Path | None = None,
        limit_factor: int = 1,
        channels: tuple[str, ...] = (),
    ) -> None:
        # folders are not expanded: an installer chooses from their contents
        self.given = tuple(paths)
        self.paths = tuple(_packages_in(self.given))
        self.fetches = fetches
        self.channels = channels  # conda channels
        self._folder = folder and folder.absolute()
        self._private: tempfile.TemporaryDirectory[str] | None = None
        self._opened: dict[Path, Package] = {}
        self._required: dict[Path, tuple[Package, ...] | Unavailable | GatherError] = {}
        self._reader = objects.LimitedReader(limit_factor)

    def others(self, than: Path) -> tuple[Package, ...]:
        """Return every companion except the package at that path. Raises GatherError."""
        return tuple(self._open(path) for path in self.paths if path.name != than.name)

    def find_alongside(
        self, source: Source, package: Package, target: TargetSystem
    ) -> PackagesAlongside:
        """Return the packages that the loader finds alongside the package.

        Raises GatherError or Unavailable.
        """
        others = self.others(source.path)
        if (neighbours := source.neighbours(self._reader)) is not None:
            from binary_checks.gather.required import read_required_neighbours

            others = match_requirements(package.claims.requirements, others, target).packages
            required = read_required_neighbours(package, neighbours, target, others)
            # Nothing more can be given: packages that are missing here are missing for users.
            return PackagesAlongside((*others, *required), ())
        if isinstance(package, Wheel | UnpackedWheel):
            others = (*others, *self.required(package, target))
        elif isinstance(package, CondaPackage):
            others = (*others, *self.required_conda(package))
        return PackagesAlongside(others, package.claims.requirements)

    def required(self, wheel: WheelLike, target: TargetSystem) -> tuple[Package, ...]:
        """Return the wheel's requirements for the target that were not given.

        Raises GatherError or Unavailable, each time the same.
        """

        def fetch() -> tuple[Package, ...]:
            # imports pip's settings and processes; few runs need it
            from binary_checks.gather.required import fetch_required

            given = self.others(wheel.path)
            return fetch_required(wheel, target, given, self._open_folder(), self._open)

        return self._fetch_once(wheel.path, fetch) if self.fetches else ()

    def required_conda(self, package: CondaPackage) -> tuple[Package, ...]:
        """Return a conda package's requirements, from channels, for the package's platform.

        Raises the same errors as `required`.
        """

        def fetch() -> tuple[Package, ...]:
            from binary_checks.gather.required import fetch_conda  # few runs need it

            paths = fetch_conda(package, self.channels, self.given, self._open_folder())
            return tuple(map(self._open, paths))

        return self._fetch_once(package.path, fetch) if self.fetches and self.channels else ()

    def _fetch_once(
        self, path: Path, fetch: Callable[[], tuple[Package, ...]]
    ) -> tuple[Package, ...]:
        if path not in self._required:
            try:
                self._required[path] = fetch()
            except (GatherError, Unavailable) as error:
                self._required[path] = error
        answer = self._required[path]
        if isinstance(answer, BinaryChecksError):
            raise answer.with_traceback(None)
        return answer

    def _open_folder(self) -> Path:
        if self._folder is None:
            self._private = tempfile.TemporaryDirectory(
                prefix="binary_checks-", ignore_cleanup_errors=True
            )
            self._folder = Path(self._private.name)
        return self._folder

    def close(self) -> None:
        """Remove the private folder if there is one."""
        if self._private is not None:
            self._private.cleanup()

    def _open(self, path: Path) -> Package:
        if path not in self._opened:
            try:
                self._opened[path] = packages.open_package(path, self._reader)
            except PackageError as error:  # the judged package is not the cause
                raise GatherError(f"given alongside the package: {error}") from None
        return self._opened[path]


def _packages_in(paths: Iterable[Path]) -> Iterable[Path]:
    """Yield each package file, the package files in folders, and folders that are packages."""
    for path in paths:
        within = sorted(each for each in path.glob("*") if each.name.endswith(_ENDINGS))
        if within or (path.is_dir() and not packages.recognises(path, folders=True)):
            yield from within
        else:
            yield path


@gathers(RequiredWheels)
def find_required_wheels(
    package: Wheel, target: TargetSystem, companions: Companions
) -> RequiredWheels:
    """Download the wheel's requirements if the user requested this."""
    if not companions.fetches:
        raise NotApplicable("only with --binary-with-requirements")
    try:
        return RequiredWheels(found=len(companions.required(package, target)))
    except NoWheelError as error:
        return RequiredWheels(lacking=error.lacking)


@gathers(GivenVersions)
def compare_given_versions(
    source: Source, package: Package, target: TargetSystem, companions: Companions
) -> GivenVersions:
    """Compare the given packages with the requirements of all packages."""
    if not companions.paths:
        raise NotApplicable("no package was given alongside it (--binary-with)")
    others = companions.find_alongside(source, package, target).packages
    return GivenVersions(misfits=find_misfits(package.claims.requirements, others, target))


@gathers(GivenFamilies)
def find_families(
    source: Source,
    package: Package,
    target: TargetSystem,
    companions: Companions,
    simulation: Simulation,
) -> GivenFamilies:
    """Find the given or installed libraries that open other libraries of their vendor's family."""
    alongside = companions.find_alongside(simulation.installed or source, package, target)
    return find_given_families(package, alongside.packages, alongside.requirements, target)


@gathers(GivenPackages)
def find_given(package: CondaPackage, source: Source, companions: Companions) -> GivenPackages:
    """Return the given conda packages, and packages from channels that satisfy requirements."""
    available = (*companions.others(source.path), *companions.required_conda(package))
    others = (each for each in available if isinstance(each, CondaPackage))
    fitting = (each for each in others if each.subdir == package.subdir or each.noarch)
    return GivenPackages(packages=tuple(each for each in fitting if each.name != package.name))

"""Runs a package file in an environment that it is installed in already: nothing is changed there.

``existing:PYTHON`` names the environment by its interpreter, ``prefix:PATH`` by its folder: a
virtual environment of venv, virtualenv or uv, or a conda prefix.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from packaging.utils import canonicalize_name, canonicalize_version

from binary_checks.errors import GatherError, NothingNamed, Unavailable
from binary_checks.model import Package, Wheel
from binary_checks.model.places import InstalledFolders, TargetPython
from binary_checks.places.existing import InstalledPlace, list_folders
from binary_checks.places.host_place import PlaceSettings
from binary_checks.places.interpreter import require_fit
from binary_checks.places.left_behind import compare

_PROGRAMS = ("bin/python", "bin/python3", "python.exe", "Scripts/python.exe")
"""Where environments have theirs: venv and conda, on Linux and macOS and on Windows."""
_INFO = ".dist-info"


def find_python(prefix: Path) -> Path | None:
    """Find the interpreter of an environment, None where it has none."""
    programs = (prefix / name for name in _PROGRAMS)
    return next((path for path in programs if path.is_file()), None)


class PrefixPlace(InstalledPlace):
    """The environment that the user names, in which this very package must lie."""

    serves = (Package,)
    spelled = ("existing", "prefix")

    def __init__(self, settings: PlaceSettings, requires: tuple[str, ...] = ()) -> None:
        super().__init__(settings, requires)
        self._wheel_site: Path | None = None

    def _install(self, package: Package) -> None:
        """Look whether it lies there; what else it requires is there or is found missing."""
        if not self.settings.python.is_file():
            raise GatherError(f"{self._label}: there is no Python in it")
        try:
            target = self._identify(self.settings.python)
        except GatherError as error:
            raise GatherError(f"{self._label}: {error}") from error
        if isinstance(package, Wheel):
            try:
                require_fit(package, target)
            except Unavailable as error:
                raise NothingNamed(f"{self._label}: {error}") from error
            self._wheel_site = site = self._find_wheel(package, target)
        else:
            site = self._find_conda(package, target)
        self._settle(target, site)

    @property
    def installed(self) -> InstalledFolders | None:
        """The folder of the wheel's metadata, once it was found; conda's packages have none."""
        if self._wheel_site is None:
            return None
        return InstalledFolders(site_packages=self._wheel_site, prefix=Path(self.target.prefix))

    @property
    def _label(self) -> str:
        return self.settings.name.label

    def _find_wheel(self, wheel: Wheel, target: TargetPython) -> Path:
        folders = list_folders(target.executable, timeout=self.timeout, sandbox=self.sandbox)
        found = find_metadata(wheel.name, folders.search)
        if found is None:
            raise NothingNamed(f"{self._label}: {wheel.name} is not installed there")
        version = found.name.removesuffix(_INFO).partition("-")[2]
        if canonicalize_version(version) != canonicalize_version(wheel.version):
            raise NothingNamed(
                f"{self._label}: {wheel.name} {version} is installed there, not {wheel.version}"
            )
        demand_same(wheel, target, found.parent, self._label)
        return found.parent

    def _find_conda(self, package: Package, target: TargetPython) -> Path:
        """Find what conda and its kin note of each package that they install."""
        notes = Path(target.prefix, "conda-meta").glob(f"{package.name}-{package.version}-*.json")
        if not any(notes):
            wanted = f"{package.name} {package.version}"
            raise NothingNamed(f"{self._label}: its conda-meta names no {wanted}")
        return target.site_packages


def find_metadata(name: str, folders: Iterable[Path]) -> Path | None:
    """Find the ``*.dist-info`` of a project in the first folder that has one."""
    found = (
        path
        for folder in folders
        for path in sorted(folder.glob(f"*{_INFO}"))
        if canonicalize_name(path.name.partition("-")[0]) == canonicalize_name(name)
    )
    return next(found, None)


def demand_same(wheel: Wheel, target: TargetPython, site: Path, label: str) -> None:
    """Raise NothingNamed where files of the wheel lie there with other contents, or are gone."""
    paths = {**target.paths, "platlib": str(site), "purelib": str(site)}
    differences = compare(wheel, replace(target, paths=paths))
    names = [f"{path} differs" for path in differences.altered]
    names += [f"{path} is missing" for path in differences.missing]
    if names:
        more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        raise NothingNamed(
            f"{label}: the {wheel.name} {wheel.version} installed there is not this wheel's: "
            f"{names[0]}{more}"
        )

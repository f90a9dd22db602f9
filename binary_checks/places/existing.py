"""Environments in which a package is already installed; nothing in them is changed.

``existing:PYTHON`` names an environment by its interpreter, ``prefix:PATH`` by its folder: a
virtual environment made by venv, virtualenv or uv, or a conda prefix.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote

from packaging.utils import canonicalize_name, canonicalize_version

from binary_checks.errors import GatherError, NothingNamed, Unavailable
from binary_checks.model import (
    Conditions,
    InstalledFolders,
    InstalledPackage,
    Package,
    ProbeAnswer,
    TargetPython,
    Wheel,
    applies,
    read_requirement,
)
from binary_checks.places.host_place import HostPlace, PlaceSettings, compare
from binary_checks.places.processes import read_or_empty
from binary_checks.places.running import explain_silence, require_fit, run_probe
from binary_checks.places.sandbox import Sandbox, is_below

_LIVE = (Path("/proc"), Path("/dev"), Path("/run"))
"""Folders that give access to the host's processes, devices and services."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Folders:
    """The folders in which an isolated interpreter (``-I``) looks for packages."""

    search: tuple[Path, ...]
    prefix: Path
    versions: Mapping[str, str]  # installed versions of the requested distributions, by name
    # ``.pth`` files that may add folders through code; this code was not run
    unread: tuple[str, ...] = ()


def list_folders(
    python: Path,
    *,
    timeout: float,
    names: tuple[str, ...] = (),
    site: bool = True,
    sandbox: Sandbox | None = None,
) -> Folders:
    """Ask an interpreter for its folders, and for the installed versions of distributions.

    Without ``site`` only the interpreter itself runs: no ``.pth`` file and no sitecustomize. Raises
    GatherError if the interpreter does not answer.
    """
    result = run_probe(
        python,
        "list_folders",
        {"names": names},
        timeout=timeout,
        sandbox=sandbox,
        conditions=Conditions(site=site),
    )
    return read_folders(python, result)


def read_folders(python: Path, result: ProbeAnswer) -> Folders:
    """Read the answer of an interpreter. Raises GatherError if there is none."""
    folders, prefix = result.answer.get("folders"), result.answer.get("prefix")
    versions, unread = result.answer.get("versions"), result.answer.get("unread")
    reason = explain_silence(result)
    if reason or not isinstance(prefix, str):
        raise GatherError(f"{python}: not a Python that runs here: {reason}")
    found = folders if isinstance(folders, list) else []
    return Folders(
        search=tuple(Path(each) for each in found if isinstance(each, str) and each),
        prefix=Path(prefix),
        versions=versions if isinstance(versions, dict) else {},
        unread=tuple(map(str, unread)) if isinstance(unread, list) else (),
    )


class InstalledPlace(HostPlace):
    """The existing environment that contains the package; closing the place removes nothing."""

    serves: ClassVar[tuple[type[Package], ...]] = (InstalledPackage,)
    spelled: ClassVar[tuple[str, ...]] = ("venv", "existing", "prefix")

    def _install(self, package: Package) -> None:
        """Check that the package's requirements are installed; install nothing."""
        self._settle(self._identify(self.settings.python), package.path.parent)

    def _settle(self, target: TargetPython, site: Path) -> None:
        """Use the packages that are installed in ``site``."""
        if self.requires:
            found = list_folders(
                target.executable,
                timeout=self.timeout,
                names=name_projects(self.requires),
                sandbox=self.sandbox,
            )
            self.preinstalled = tuple(
                select_versions(self.requires, found.versions, target.markers)
            )
        # A package may be in another folder than the one to which pip installs: Debian has two.
        self._target = replace(target, paths={**target.paths, "platlib": str(site)})
        visible = (site, *filter(_is_apart, find_sources(site)))
        self.limits = replace(self.limits, visible=visible)


def find_sources(site: Path) -> Iterator[Path]:
    """Yield the folders outside of site-packages from which editable installs are imported."""
    for path in sorted(site.glob("*.pth")):
        for line in read_or_empty(path).splitlines():
            if line.strip() and not line.startswith(("#", "import ", "import\t")):
                yield site / line.strip()
    for path in sorted(site.glob("*.dist-info/direct_url.json")):
        url = re.search(r'"file://([^"]+)"', read_or_empty(path))
        if url and '"editable"' in read_or_empty(path):
            yield Path(unquote(url[1]))


def _is_apart(path: Path) -> bool:
    """Return whether a sandbox may show a path.

    A ``.pth`` file of any package may name ``/``, a socket or ~/.ssh, which must stay hidden.
    """
    home, real = Path.home().resolve(), path.resolve()
    if real.is_relative_to(home) and str(real.relative_to(home)).startswith("."):
        return False
    holds_more = any(each.is_relative_to(real) for each in (home, *_LIVE))
    return (real.is_dir() or real.is_file()) and not holds_more and not is_below(real, _LIVE)


def name_projects(requires: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the projects in requirements."""
    items = map(read_requirement, requires)
    return tuple(item.name for item in items if item is not None)


def select_versions(
    requires: Iterable[str], found: Mapping[str, str], here: Mapping[str, str]
) -> Iterator[str]:
    """Yield ``numpy 2.4.6`` for each requirement that applies, from versions by name.

    Raises Unavailable if one is not installed, or in an unsuitable version.
    """
    for text in requires:
        item = read_requirement(text)
        if item is None:
            raise Unavailable(f"{text!r} is not a requirement")
        if applies(item, here):
            installed = found.get(item.name)
            if installed is None:
                raise Unavailable(
                    f"{text} is not installed alongside the package; install it there"
                )
            if not item.specifier.contains(installed, prereleases=True):
                raise Unavailable(f"{item.name} {installed} is installed, {text} is required")
            yield f"{item.name} {installed}"


_PROGRAMS = ("bin/python", "bin/python3", "python.exe", "Scripts/python.exe")
"""Relative paths of interpreters in environments of venv and conda, on POSIX and on Windows."""
_INFO = ".dist-info"


def find_python(prefix: Path) -> Path | None:
    """Find the interpreter of an environment; return None if there is none."""
    programs = (prefix / name for name in _PROGRAMS)
    return next((path for path in programs if path.is_file()), None)


class PrefixPlace(InstalledPlace):
    """An environment that the user names; the same package must be installed in it."""

    serves = (Package,)
    spelled = ("existing", "prefix")

    def __init__(self, settings: PlaceSettings, requires: tuple[str, ...] = ()) -> None:
        super().__init__(settings, requires)
        self._wheel_site: Path | None = None

    def _install(self, package: Package) -> None:
        """Check that the package and its requirements are installed in the environment."""
        if not self.settings.python.is_file():
            raise GatherError(f"{self.label}: it contains no Python")
        try:
            target = self._identify(self.settings.python)
        except GatherError as error:
            raise GatherError(f"{self.label}: {error}") from error
        if isinstance(package, Wheel):
            try:
                require_fit(package, target)
            except Unavailable as error:
                raise NothingNamed(f"{self.label}: {error}") from error
            self._wheel_site = site = self._find_wheel(package, target)
        else:
            # conda and mamba write a record for each installed package
            wanted, site = f"{package.name}-{package.version}-*.json", target.site_packages
            if not any(Path(target.prefix, "conda-meta").glob(wanted)):
                about = f"{package.name} {package.version}"
                raise NothingNamed(f"{self.label}: its conda-meta does not list {about}")
        self._settle(target, site)

    @property
    def installed(self) -> InstalledFolders | None:
        """The folder with the wheel's metadata once it is found; None for conda packages."""
        if self._wheel_site is None:
            return None
        return InstalledFolders(site_packages=self._wheel_site, prefix=Path(self.target.prefix))

    def _find_wheel(self, wheel: Wheel, target: TargetPython) -> Path:
        folders = list_folders(target.executable, timeout=self.timeout, sandbox=self.sandbox)
        found = find_metadata(wheel.name, folders.search)
        if found is None:
            raise NothingNamed(f"{self.label}: {wheel.name} is not installed there")
        version = found.name.removesuffix(_INFO).partition("-")[2]
        if canonicalize_version(version) != canonicalize_version(wheel.version):
            raise NothingNamed(
                f"{self.label}: {wheel.name} {version} is installed there, not {wheel.version}"
            )
        site = str(found.parent)
        there = replace(target, paths={**target.paths, "platlib": site, "purelib": site})
        differences = compare(wheel, there)
        names = [f"{path} differs" for path in differences.altered]
        names += [f"{path} is missing" for path in differences.missing]
        if names:
            more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
            raise NothingNamed(
                f"{self.label}: the installed {wheel.name} {wheel.version} is not from this wheel: "
                f"{names[0]}{more}"
            )
        return found.parent


def find_metadata(name: str, folders: Iterable[Path]) -> Path | None:
    """Find a project's ``*.dist-info`` in the first folder that contains one, or return None."""
    found = (
        path
        for folder in folders
        for path in sorted(folder.glob(f"*{_INFO}"))
        if canonicalize_name(path.name.partition("-")[0]) == canonicalize_name(name)
    )
    return next(found, None)

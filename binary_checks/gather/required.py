"""Requirements of a package, direct or not, for the package's system instead of this host's."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import (
    InvalidWheelFilename,
    canonicalize_name,
    canonicalize_version,
    parse_wheel_filename,
)
from packaging.version import Version

from binary_checks.errors import GatherError, Unavailable
from binary_checks.knowledge.tags import is_of_cuda
from binary_checks.loaders.required_packages import find_required, fits
from binary_checks.model import (
    CondaPackage,
    Interpreter,
    Package,
    TargetSystem,
    Wheel,
    WheelLike,
    read_requirement,
    require_names,
)
from binary_checks.places import Sandbox
from binary_checks.places.conda_places import ask_channels
from binary_checks.places.foreign_tags import ForeignPython, describe_python
from binary_checks.places.installers import download

_MOST_ROUNDS = 50
_LONGEST_REQUIREMENT = 200  # characters of a requirement in a sentence
_ADVICE = "URLs are not fetched: give the wheel with --binary-with"
Open = Callable[[Path], Package]


def fetch_required(
    wheel: WheelLike, target: TargetSystem, given: Iterable[Package], folder: Path, open_one: Open
) -> tuple[Package, ...]:
    """Download the wheel's requirements for the target that were not given, and read them.

    Downloads are stored in a subfolder for each Python and platform, and are not repeated. Raises
    GatherError if the index fails or has no fitting wheel, Unavailable if requirements cannot be
    fetched, which happens mainly to requirements with a URL.
    """
    for text in wheel.requires_dist:
        # an invalid requirement would otherwise be skipped silently
        if read_requirement(text) is None:
            raise Unavailable(
                f"Requires-Dist {text[:_LONGEST_REQUIREMENT]!r} cannot be read; correct it"
            )
    known: dict[str, Package] = {canonicalize_name(item.name): item for item in (*given, wheel)}
    found: dict[Path, Package] = {}
    for architecture in target.architectures:
        system = replace(target, architectures=(architecture,))
        python = describe_python(wheel, system)
        interpreter = Interpreter(  # with the values for environment markers
            implementation="cpython",
            version=python.version,
            free_threaded=python.free_threaded,
            exports=frozenset(),
        )
        system = replace(system, interpreter=interpreter)
        index = _Index(python=python, folder=folder / python.name, open_one=open_one)
        found.update(_follow(wheel, system, known, index))
    return tuple(found.values())


def read_required_neighbours(
    package: Package,
    read_neighbour: Callable[[str], Package | None],
    target: TargetSystem,
    given: Iterable[Package],
) -> tuple[Package, ...]:
    """Read the installed packages that a package in the same folder requires, directly or not.

    Search paths find packages only in this folder. Packages that are missing, or do not list their
    files, are omitted, and so count as missing.
    """
    known: dict[str, Package] = {canonicalize_name(item.name): item for item in (*given, package)}
    found: dict[str, Package | None] = {}
    while True:
        there = {name: item for name, item in found.items() if item is not None}
        wanted = find_required(package.claims.requirements, {**there, **known}, target)
        lacking = sorted(wanted.keys() - known.keys() - found.keys())
        if not lacking:
            return tuple(there.values())
        found.update((name, read_neighbour(name)) for name in lacking)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Index:
    """The source of wheels, and the folder for downloads."""

    python: ForeignPython
    folder: Path
    open_one: Open

    def get(self, asked: Mapping[str, list[Requirement]]) -> dict[str, tuple[Path, Package]]:
        """For each name, download and open a wheel that satisfies all requirements on this name."""
        spelled = [_join_requirements(name, items) for name, items in sorted(asked.items())]
        broke = download(spelled, self.python, self.folder)
        got: dict[str, tuple[Path, Package]] = {}
        for name, items in sorted(asked.items()):
            path = _newest(self.folder, name, items)
            if path is None:
                reason = broke or f"pip left no wheel of {name} in the folder that it was given"
                raise GatherError(f"requirements: {reason}")
            got[name] = (path, self._open(path))
        return got

    def _open(self, path: Path) -> Package:
        """Open a downloaded file. Raises GatherError if its metadata contradicts its file name."""
        package = self.open_one(path)
        if isinstance(package, Wheel):
            own = f"{package.header('Name')} {package.header('Version')}"
            if _normalise(own) != _normalise(f"{package.name} {package.version}"):
                raise GatherError(f"requirements: {path.name} from the index says that it is {own}")
        return package


def _normalise(label: str) -> str:
    name, _, version = label.partition(" ")
    return f"{canonicalize_name(name)} {canonicalize_version(version)}"


def _follow(
    wheel: WheelLike, target: TargetSystem, given: Mapping[str, Package], index: _Index
) -> dict[Path, Package]:
    """Download missing wheels, add the requirements of these wheels, and repeat."""
    got: dict[str, tuple[Path, Package]] = {}
    for _ in range(_MOST_ROUNDS):
        opened = {name: package for name, (_, package) in got.items()}
        wanted = find_required(wheel.requires_dist, {**opened, **given}, target)
        asked = {name: items for name, items in wanted.items() if name not in given}
        require_names((item for items in asked.values() for item in items), _ADVICE)
        lacking = {name: i for name, i in asked.items() if not _fits_all(opened.get(name), i)}
        if not lacking:
            return {path: package for name, (path, package) in got.items() if name in asked}
        got.update(index.get(lacking))
    raise GatherError("requirements: no set of versions satisfies all requirements")


def _fits_all(package: Package | None, asked: Iterable[Requirement]) -> bool:
    return package is not None and all(fits(package.version, item) for item in asked)


def _join_requirements(name: str, asked: Iterable[Requirement]) -> str:
    """Join all requirements on one name into one for pip.

    The parentheses keep pip from taking the requirement for a path, as it does ``x==1+a.zip``. The
    spaces end a version after ``===``, in which old versions of pip include all other characters.
    """
    versions = sorted({str(each) for item in asked for each in item.specifier})
    return f"{name} ({' ,'.join(versions)} )" if versions else name


def _newest(folder: Path, name: str, asked: Iterable[Requirement]) -> Path | None:
    """Return the wheel that pip chose, or None; a reused folder may also contain older wheels."""
    asked = tuple(asked)
    fitting: list[tuple[Version, Path]] = []
    for path in folder.glob("*.whl"):
        try:
            project, version, _, _ = parse_wheel_filename(path.name)
        except InvalidWheelFilename:
            continue
        if project == name and all(fits(str(version), item) for item in asked):
            fitting.append((version, path))
    return max(fitting)[1] if fitting else None


# Requirements of a conda package, for the package's platform.

_LONGEST_SOLVING = 3600.0  # seconds; CUDA's libraries are more than 2 GB
_VIRTUAL = {
    "linux": {"__unix": "0", "__linux": "6.1", "__glibc": "2.39"},
    "osx": {"__unix": "0", "__osx": "15.0"},
    "win": {"__win": "10.0.22000"},
}
"""Virtual packages of recent systems: a check reports requirements that are newer than claimed."""
_DRIVER = "99.0"  # given only for packages for CUDA: otherwise conda would prefer builds for CUDA


def fetch_conda(
    package: CondaPackage, channels: tuple[str, ...], given: tuple[Path, ...], folder: Path
) -> tuple[Path, ...]:
    """Download the package's requirements that were not given, from the channels.

    Raises Unavailable if they cannot be satisfied, GatherError if a channel failed.
    """
    virtual = dict(_VIRTUAL.get(package.subdir.partition("-")[0], _VIRTUAL["linux"]))
    if any(map(is_of_cuda, (*package.depends, package.build))):
        virtual["__cuda"] = _DRIVER
    task = {
        "task": "collect",
        "package": str(package.path.resolve()),
        "given": [str(path.resolve()) for path in given],
        "channels": channels,
        "folder": str(folder),
        "virtual": virtual,
    }
    with tempfile.TemporaryDirectory(prefix="binary_checks-", ignore_cleanup_errors=True) as root:
        own = Path(root).resolve()
        try:
            answer = ask_channels(task, own, timeout=_LONGEST_SOLVING, sandbox=Sandbox())
        except GatherError as error:
            raise GatherError(f"requirements: {error}") from None
    if reason := answer.unsolved or answer.refused:
        raise Unavailable(f"its requirements cannot be satisfied: {reason}")
    return tuple(Path(str(record["path"])) for record in answer.records)

"""Finds the wheels that a package requires, directly or not, for its own system, not this host."""

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
from binary_checks.model import Interpreter, Package, TargetSystem, Wheel, WheelLike
from binary_checks.model.packages import CondaPackage
from binary_checks.model.requires_dist import demand_names, read_requirement
from binary_checks.places.channels import ask_channels
from binary_checks.places.foreign_tags import ForeignPython, describe_python
from binary_checks.places.installers import download
from binary_checks.places.sandbox import Sandbox

_MOST_ROUNDS = 50
_LONGEST_REQUIREMENT = 200  # characters of a requirement in a sentence
_ADVICE = "nothing is fetched from there: give its wheel with --binary-with"
Open = Callable[[Path], Package]


def fetch_required(
    wheel: WheelLike, target: TargetSystem, given: Iterable[Package], folder: Path, open_one: Open
) -> tuple[Package, ...]:
    """Download what the wheel requires on the target beside what was given, and read it.

    What is downloaded lies in a folder of that folder, one a Python and platform, and is not
    downloaded again. Raises GatherError where the index fails or has no wheel that fits,
    Unavailable for a wheel whose requirements cannot be fetched: above all those by URL.
    """
    for text in wheel.requires_dist:
        if read_requirement(text) is None:  # else what it means is left out, and nobody says so
            raise Unavailable(
                f"Requires-Dist {text[:_LONGEST_REQUIREMENT]!r} cannot be read; correct it"
            )
    known: dict[str, Package] = {canonicalize_name(item.name): item for item in (*given, wheel)}
    found: dict[Path, Package] = {}
    for architecture in target.architectures:
        system = replace(target, architectures=(architecture,))
        python = describe_python(wheel, system)
        system = replace(system, interpreter=_name_interpreter(python))
        index = _Index(python=python, folder=folder / python.name, open_one=open_one)
        found.update(_follow(wheel, system, known, index))
    return tuple(found.values())


def find_around(
    package: Package,
    read_neighbour: Callable[[str], Package | None],
    target: TargetSystem,
    given: Iterable[Package],
) -> tuple[Package, ...]:
    """Read what an installed package requires, directly or not, and what lies in its own folder.

    Only there do search paths find it. What is not there, or says not which files are its own, is
    left out: whoever needs it finds it missing.
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
    """Where wheels come from, and where they are put."""

    python: ForeignPython
    folder: Path
    open_one: Open

    def get(self, asked: Mapping[str, list[Requirement]]) -> dict[str, tuple[Path, Package]]:
        """Download a wheel of each name that fits all that is asked of it, and open it."""
        spelled = [_spell(name, items) for name, items in sorted(asked.items())]
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
        """Open what was downloaded, which must be what its file name says."""
        package = self.open_one(path)
        if isinstance(package, Wheel):
            own = f"{package.header('Name')} {package.header('Version')}"
            if _normalise(own) != _normalise(f"{package.name} {package.version}"):
                raise GatherError(f"requirements: {path.name} from the index says that it is {own}")
        return package


def _normalise(label: str) -> str:
    name, _, version = label.partition(" ")
    return f"{canonicalize_name(name)} {canonicalize_version(version)}"


def _name_interpreter(python: ForeignPython) -> Interpreter:
    """The interpreter as environment markers know it."""
    return Interpreter(
        implementation="cpython",
        version=python.version,
        free_threaded=python.free_threaded,
        exports=frozenset(),
    )


def _follow(
    wheel: WheelLike, target: TargetSystem, given: Mapping[str, Package], index: _Index
) -> dict[Path, Package]:
    """Get what is lacking, look into it for what that requires, and begin again."""
    got: dict[str, tuple[Path, Package]] = {}
    for _ in range(_MOST_ROUNDS):
        opened = {name: package for name, (_, package) in got.items()}
        wanted = find_required(wheel.requires_dist, {**opened, **given}, target)
        asked = {name: items for name, items in wanted.items() if name not in given}
        demand_names((item for items in asked.values() for item in items), _ADVICE)
        lacking = {name: i for name, i in asked.items() if not _fits_all(opened.get(name), i)}
        if not lacking:
            return {path: package for name, (path, package) in got.items() if name in asked}
        got.update(index.get(lacking))
    raise GatherError("requirements: no set of versions fits all that is asked of each other")


def _fits_all(package: Package | None, asked: Iterable[Requirement]) -> bool:
    return package is not None and all(fits(package.version, item) for item in asked)


def _spell(name: str, asked: Iterable[Requirement]) -> str:
    """All that is asked of one name, as one requirement for pip.

    In parentheses it cannot end like an archive: pip takes ``x==1+a.zip`` for a file that is there.
    The spaces end a version behind ``===``, to which old ones of pip count all but them.
    """
    versions = sorted({str(each) for item in asked for each in item.specifier})
    return f"{name} ({' ,'.join(versions)} )" if versions else name


def _newest(folder: Path, name: str, asked: Iterable[Requirement]) -> Path | None:
    """The wheel that pip chose: where a folder is used again there may be older ones."""
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


# Finds the packages that a conda package requires, for its own platform, not this host's.

_LONGEST_SOLVING = 3600.0  # seconds; the libraries of CUDA are more than 2 GB
_VIRTUAL = {
    "linux": {"__unix": "0", "__linux": "6.1", "__glibc": "2.39"},
    "osx": {"__unix": "0", "__osx": "15.0"},
    "win": {"__win": "10.0.22000"},
}
"""A system of each kind that is new enough for all: what is too new for the claim, checks say."""
_DRIVER = "99.0"  # for what is for CUDA, and for nothing else: builds for CUDA would be chosen


def fetch_conda(
    package: CondaPackage, channels: tuple[str, ...], given: tuple[Path, ...], folder: Path
) -> tuple[Path, ...]:
    """Download what the package requires from the channels, beside what was given.

    Raises Unavailable where nothing fits, GatherError where a channel broke.
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
        raise Unavailable(f"what it requires is not to be had: {reason}")
    return tuple(Path(str(record["path"])) for record in answer.records)

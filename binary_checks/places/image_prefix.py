"""Fills a prefix for another system: a wheel unpacked, what it requires resolved for its Python.

No code of a package runs for that: the wheel's files are written where installers put them, and uv
takes wheels alone for what it requires.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.tags import Tag, compatible_tags, cpython_tags

from binary_checks.errors import GatherError, NothingNamed, Unavailable
from binary_checks.model import InstalledPackage, Package, Wheel
from binary_checks.model.packages import ANY_SYSTEM, Claims, CondaLike, SystemClaim
from binary_checks.model.places import CleanSystem, TargetPython
from binary_checks.model.requires_dist import applies, read_requirement
from binary_checks.places.given_wheels import describe_given
from binary_checks.places.host_place import PlaceSettings
from binary_checks.places.installers import Installer, find_installer, find_uv, install
from binary_checks.places.unpacking import RefusedMember, unpack
from binary_checks.places.venv import demand_wheels
from binary_checks.trees import open_tree

_ELSEWHERE = (InstalledPackage, CondaLike)
"""Packages that run only with others around them, which are not resolved for an image."""
_GLIBC = (17, 28, *range(31, 41))
"""The minor versions of glibc that uv knows as platforms (``--python-platform``, 0.13)."""
_PREFIX = "lib/python*/site-packages"
"""Where uv puts packages in a prefix; the version is that of the interpreter that it runs with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prefix:
    """A folder of this host that stands for an environment of another system."""

    folder: Path
    site: str  # site-packages in it: "lib/python3.13/site-packages"

    def place(self, package: Package, path: str) -> str:
        """Where a path of the package's prefix lies in this one, whose Python may be another."""
        inside = package.layout.inside(path)
        return path if inside is None else f"{self.site}/{inside}"

    def find(self, package: Package, place: str) -> str:
        """The path in the package's prefix of what lies at that place: `place` backwards."""
        if place.startswith(f"{self.site}/"):
            return package.layout.place(place.removeprefix(f"{self.site}/"))
        return place


@dataclass(frozen=True, kw_only=True, slots=True)
class UnpackedFiles:
    """A folder of this host with the members of a package that no installer knows."""

    folder: Path
    names: Mapping[str, str]  # of the members in that folder, by their places in the prefix
    paths: Mapping[str, str]  # the other way round

    def place(self, package: Package, path: str) -> str:
        """Where the object of that path lies."""
        del package
        return self.names.get(path, path)

    def find(self, package: Package, place: str) -> str:
        """The path of the object that lies there."""
        del package
        return self.paths.get(place, place)


def demand_movable(package: Package) -> None:
    """Raise NothingNamed for a package that runs only with others around it."""
    if isinstance(package, _ELSEWHERE):
        raise NothingNamed(f"{package.noun} is not taken into an image")


def unpack_files(package: Package, folder: Path, seconds: float) -> UnpackedFiles:
    """Write the members of any package as it has them. Raises Unavailable, GatherError."""
    demand_movable(package)
    folder.mkdir(exist_ok=True)
    with closing(open_tree(package.path)) as tree:
        try:
            unpack(tree, package, folder, seconds=seconds)
        except RefusedMember as error:
            raise Unavailable(f"it cannot be unpacked: {error}") from error
    members = [member for member in package.members if not member.is_directory]
    names = {member.path: member.archive_name for member in members}
    return UnpackedFiles(
        folder=folder, names=names, paths={name: path for path, name in names.items()}
    )


def demand_system(claims: Claims, system: CleanSystem) -> None:
    """Raise NothingNamed where the package is for no such system."""
    if not any(_claims(claim, system) for claim in claims.systems):
        names = ", ".join(claim.name for claim in claims.systems) or "no system"
        there = f"{system.libc or 'no libc that is known'} on {system.architecture}"
        raise NothingNamed(f"the package is for {names}, image {system.name} has {there}")


def _claims(claim: SystemClaim, system: CleanSystem) -> bool:
    if claim.system == ANY_SYSTEM:
        return True
    fits = not claim.architectures or system.architecture in claim.architectures
    same = not claim.libc or claim.libc == system.libc.partition(" ")[0]
    old = claim.libc and claim.minimum is not None and claim.minimum > system.libc_version
    return claim.system == "linux" and fits and same and not old


@dataclass(frozen=True, kw_only=True, slots=True)
class Cargo:
    """A wheel, and the prefix of another system that it is for."""

    wheel: Wheel
    prefix: Prefix
    target: TargetPython  # for which what it requires is resolved
    system: CleanSystem
    settings: PlaceSettings
    requires: tuple[str, ...] = ()  # what is to be there that it has not itself


def fill(cargo: Cargo) -> str:
    """Put the wheel and what it requires into the prefix; "" or why that was refused.

    Raises Unavailable for what cannot be had or unpacked here, GatherError where the network or
    the machine broke.
    """
    wheel, target = cargo.wheel, cargo.target
    demand_wheels(wheel, cargo.settings.given, target)
    items = ((text, read_requirement(text)) for text in (*wheel.requires_dist, *cargo.requires))
    held = tuple(text for text, item in items if item is None or applies(item, target.markers))
    refused = _install_required(held, cargo) if held or cargo.settings.given else ""
    (cargo.prefix.folder / cargo.prefix.site).mkdir(parents=True, exist_ok=True)
    unpack_wheel(wheel, cargo.prefix)
    return refused


def _install_required(held: tuple[str, ...], cargo: Cargo) -> str:
    prefix, settings = cargo.prefix, cargo.settings
    root = prefix.folder.parent
    cwd = root / "empty"
    cwd.mkdir(exist_ok=True)
    left_out = root / "left-out.txt"  # or a requirement that requires it would bring another
    left_out.write_text(f"{cargo.wheel.name}; sys_platform == 'never'\n", encoding="utf-8")
    installer = _find_uv(cargo, cwd)
    given = describe_given(settings.given, cargo.target.tags, root / "constraints.txt")
    requirements = (*given, "--override", str(left_out), *held)
    refused = install(
        installer, requirements, index=settings.index, cwd=cwd, timeout=settings.timeout
    )
    found = next(iter(prefix.folder.glob(_PREFIX)), None)
    if found is not None and found != prefix.folder / prefix.site:
        (prefix.folder / prefix.site).parent.mkdir(parents=True, exist_ok=True)
        found.rename(prefix.folder / prefix.site)
    return refused


def _find_uv(cargo: Cargo, cwd: Path) -> Installer:
    """Find what resolves requirements for a Python that is not there: pip cannot."""
    settings, target = cargo.settings, cargo.target
    if find_uv() is None or target.free_threaded:
        what = "a free-threaded Python" if target.free_threaded else "another Python without uv"
        raise Unavailable(f"its requirements cannot be resolved for {what}")
    installer = find_installer(settings.python, cwd=cwd, timeout=settings.timeout)
    platform = _name_platform(cargo.system)
    options = ("--python-version", target.version, "--python-platform", platform)
    command = (*installer.command, "--prefix", str(cargo.prefix.folder), *options)
    return replace(installer, command=command)


def _name_platform(system: CleanSystem) -> str:
    """The newest platform of uv's that the system's libc can run."""
    libc, version = system.libc.partition(" ")[0], system.libc_version
    if libc == "musl":
        return f"{system.architecture}-unknown-linux-musl"
    known = [minor for minor in _GLIBC if version and (2, minor) <= version]
    if not known:
        raise Unavailable(f"uv resolves requirements for no system with {system.libc}")
    return f"{system.architecture}-manylinux_2_{known[-1]}"


def unpack_wheel(wheel: Wheel, prefix: Prefix) -> None:
    """Write the files of a wheel where installers put them. Raises Unavailable, GatherError."""
    paths = {member.archive_name: member.path for member in wheel.members}
    root = prefix.folder.resolve()
    try:
        with zipfile.ZipFile(wheel.path) as archive:
            for entry in archive.infolist():
                if entry.is_dir() or entry.filename not in paths:
                    continue
                path = root / prefix.place(wheel, paths[entry.filename])
                if not path.parent.resolve().is_relative_to(root) or ".." in path.parts:
                    raise Unavailable(f"{entry.filename}: leads out of where it is unpacked")
                path.parent.mkdir(parents=True, exist_ok=True)
                # Never through a link: the environment's own python leads to the image's.
                path.unlink(missing_ok=True)
                with archive.open(entry) as source, path.open("xb") as file:
                    shutil.copyfileobj(source, file, 1 << 20)
                path.chmod(0o755 if (entry.external_attr >> 16) & 0o111 else 0o644)
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError) as error:
        raise Unavailable(f"it cannot be unpacked: {error}") from error
    except OSError as error:
        raise GatherError(f"{wheel.path.name}: cannot be unpacked: {error.strerror}") from error


def let_read(folder: Path) -> None:
    """Let another user read a folder with all that lies in it, whatever our umask is."""
    for parent, _, names in os.walk(folder):
        Path(parent).chmod(0o755)
        for path in (Path(parent, name) for name in names):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | 0o444)


def imagine_python(version: tuple[int, int], system: CleanSystem) -> TargetPython:
    """Describe a CPython that is not there, as requirements are resolved for one."""
    platforms = tuple(_list_platforms(system))
    number = "{}.{}".format(*version)
    tags: Iterable[Tag] = (
        *cpython_tags(version, platforms=platforms),
        *compatible_tags(version, "cp{}{}".format(*version), platforms),
    )
    return TargetPython(
        executable=Path(),
        version=f"{number}.0",
        architecture=system.architecture,
        system=system.title,
        paths={},
        tags=frozenset(tags),
    )


def _list_platforms(system: CleanSystem) -> Iterable[str]:
    libc, *_ = system.libc.partition(" ")
    major, minor = (*system.libc_version, 0, 0)[:2]
    name = "musllinux" if libc == "musl" else "manylinux"
    older = ("2014", "2010", "1") if name == "manylinux" else ()
    yield from (f"{name}_{major}_{each}_{system.architecture}" for each in range(minor, -1, -1))
    yield from (f"{name}{each}_{system.architecture}" for each in older)
    yield f"linux_{system.architecture}"

"""A fresh virtual environment as a place: made for one wheel, and removed at the end."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import Tag

from binary_checks.errors import GatherError, Unavailable
from binary_checks.model import (
    InstalledFolders,
    InstallReport,
    Package,
    TargetPython,
    Wheel,
    applies,
    read_requirement,
    require_names,
)
from binary_checks.places.host_place import (
    Differences,
    HostPlace,
    PlaceSettings,
    compare,
    shorten_paths,
)
from binary_checks.places.index_settings import make_installer_environment
from binary_checks.places.install_ways import (
    AGAIN,
    add_options,
    install_with_poetry,
    name_requirements,
)
from binary_checks.places.installers import (
    describe_given,
    find_installer,
    install,
    list_requirements,
)
from binary_checks.places.processes import find_last_line, run_process
from binary_checks.places.running import format_tags, require_fit

_VENV = "venv"  # name of the environment's folder in the place's folder


class FreshPlace(HostPlace):
    """A fresh environment with one wheel and the packages that it requires."""

    serves = (Wheel,)
    spelled = ("venv",)

    def _install(self, package: Package) -> InstallReport:
        """Make the environment, and install the wheel with its requirements."""
        assert isinstance(package, Wheel)
        if package.variant_label:
            raise Unavailable(
                f"no released installer takes a file name with the label {package.variant_label} "
                "of a wheel variant"
            )
        root, settings = self.folder, self.settings
        chosen = settings.python
        if settings.may_choose:
            chosen = choose_python(package, chosen, self._identify)
        python = make_venv(chosen, root, self.timeout)
        self._target = target = self._identify(python)
        require_fit(package, target)
        if not settings.builds:
            require_wheels(package, settings.given, target)
        hidden = (package.path.resolve().parent, root)
        put = install_with_poetry if settings.way.tool == "poetry" else _install_file
        try:
            installer, error = put(package, target, root, settings, self.requires)
        except (GatherError, Unavailable) as broken:
            raise type(broken)(shorten_paths(str(broken), *hidden)) from broken
        found = Differences() if error else compare(package, target)
        return InstallReport(
            python=target.name,
            installer=installer,
            error=shorten_paths(error, *hidden),
            unrecorded=found.unrecorded,
            altered=found.altered,
            missing=found.missing,
        )

    @property
    def installed(self) -> InstalledFolders | None:
        """The environment's folders, or None until it is made."""
        if self._target is None:
            return None
        prefix = self.folder / _VENV
        return InstalledFolders(site_packages=self.site_packages, prefix=prefix)


# The interpreter of an environment, if the user named none: this one, or a PyPy, GraalPy or
# free-threaded CPython on PATH for a wheel that only such an interpreter accepts.

_SPECIAL = re.compile(r"(?P<name>pp|graalpy|cp)3(?P<minor>\d{0,2})")
_PROGRAMS = {"pp": ("pypy{}", "pypy3"), "graalpy": ("graalpy{}", "graalpy"), "cp": ("python{}t",)}


def choose_python(wheel: Wheel, default: Path, identify: Callable[[Path], TargetPython]) -> Path:
    """Return the default interpreter, or one on PATH if the wheel is not for CPython with a GIL.

    Raises Unavailable if there is none.
    """
    programs = tuple(dict.fromkeys(_name_programs(wheel.tags)))
    if not programs:
        return default
    own = identify(default)
    platforms = {tag.platform for tag in own.tags}
    if not own.tags.isdisjoint(wheel.tags) or platforms.isdisjoint(
        tag.platform for tag in wheel.tags
    ):
        return default
    lacks = []
    for name in programs:
        found = shutil.which(name)
        if found is None:
            continue
        try:
            require_fit(wheel, identify(Path(found)))
        except (GatherError, Unavailable) as error:
            lacks.append(f"{name}: {error}")
            continue
        return Path(found)
    if lacks:
        raise Unavailable(lacks[0])
    label, names = format_tags(wheel.tags), " and no ".join(programs)
    raise Unavailable(
        f"the wheel is for {label}, and there is no {names} on PATH: name its interpreter with "
        "--binary-python"
    )


def _name_programs(tags: Iterable[Tag]) -> Iterator[str]:
    """Yield the names of PyPy, GraalPy and free-threaded CPython of the versions in the tags."""
    for tag in sorted(tags, key=str):
        match = _SPECIAL.fullmatch(tag.interpreter)
        if match is not None and (match["name"] != "cp" or tag.abi.endswith("t")):
            version = f"3.{match['minor']}".rstrip(".")  # PyPy's own tags may be pp3-none-any
            yield from (each.format(version) for each in _PROGRAMS[match["name"]])


def make_venv(python: Path, root: Path, timeout: float) -> Path:
    """Make the environment with the standard library's venv, without pip."""
    command = (python, "-I", "-m", "venv", "--without-pip", root / _VENV)
    (root / "empty").mkdir()
    ended = run_process(
        command, cwd=root / "empty", env=make_installer_environment(), timeout=timeout
    )
    if ended.status != 0:
        last = find_last_line(ended.stderr, ended.status)
        raise GatherError(f"{python}: cannot make a virtual environment: {last}")
    names = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    made = root.joinpath(_VENV, *names)
    if not made.exists():
        raise GatherError(f"{python}: not a Python: it made no virtual environment")
    return made


def require_wheels(wheel: Wheel, given: tuple[Path, ...], target: TargetPython) -> None:
    """Raise Unavailable if a given package requires another package by URL.

    Installers follow the URLs in requirements of given files: uv only in direct requirements, pip
    in all. Requirements of the profile may have URLs: the user has chosen them.
    """
    own = _read_all(wheel.requires_dist)
    others = _read_all(list_requirements(given))
    extras = {"", *(extra for item in (*own, *others) for extra in item.extras)}
    held = [item for item in own if applies(item, target.markers)]
    held += [
        item
        for item in others
        if any(applies(item, {**target.markers, "extra": extra}) for extra in extras)
    ]
    require_names(held, "only --binary-allow-builds follows the URL, and builds the package there")


def _read_all(texts: Iterable[str]) -> list[Requirement]:
    return [item for item in map(read_requirement, texts) if item is not None]


def _install_file(
    wheel: Wheel,
    target: TargetPython,
    root: Path,
    settings: PlaceSettings,
    requires: tuple[str, ...],
) -> tuple[str, str]:
    """Install with uv or pip; return the installer, and "" or why it refused the package.

    A package that users install anew over itself is installed twice.
    """
    cwd, timeout, way = root / "empty", settings.timeout, settings.way
    chosen = find_installer(
        target.executable, cwd=cwd, timeout=timeout, builds=settings.builds, tool=way.tool
    )
    given = describe_given(settings.given, target.tags, root / "constraints.txt")
    requirements = (*given, *requires, *name_requirements(way, wheel))
    anew, error = any(name == AGAIN for name, _ in way.options), ""
    for again in (False, True) if anew else (False,):
        installer = add_options(chosen, way, again=again)
        error = install(installer, requirements, index=settings.index, cwd=cwd, timeout=timeout)
        if error:
            break
    return chosen.name, error

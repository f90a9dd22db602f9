"""A fresh virtual environment as a place: made for one wheel, and removed at the end."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import canonicalize_name

from binary_checks.errors import GatherError, NotApplicable, NothingNamed, Unavailable
from binary_checks.model import (
    InstalledFolders,
    InstallReport,
    InstallWay,
    Package,
    TargetPython,
    Wheel,
    read_requirement,
    require_names,
)
from binary_checks.places.host_place import (
    HostPlace,
    PlaceSettings,
    compare,
    shorten_paths,
)
from binary_checks.places.index_settings import (
    make_absolute,
    make_installer_environment,
    read_pip_settings,
)
from binary_checks.places.installers import (
    Installer,
    describe_given,
    find_installer,
    install,
    list_requirements,
    read_applicable,
)
from binary_checks.places.processes import find_last_line, name_crash, run_process
from binary_checks.places.running import format_tags, require_fit
from binary_checks.processes import SAFE_PATH

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
        found = InstallReport(python=target.name) if error else compare(package, target)
        return replace(found, installer=installer, error=shorten_paths(error, *hidden))

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
    others = list(list_requirements(given))
    items = filter(None, map(read_requirement, (*wheel.requires_dist, *others)))
    extras = {extra for item in items for extra in item.extras}
    held = list(read_applicable(wheel.requires_dist, target.markers))
    held += read_applicable(others, target.markers, extras)
    require_names(held, "only --binary-allow-builds follows the URL, and builds the package there")


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


# Installation as a project tells its users: with their options, or with poetry.

AGAIN = "--force-reinstall"
_OF_UV: Mapping[str, tuple[str, ...]] = {
    "--index-url": ("--default-index",),
    "--extra-index-url": ("--index-strategy", "unsafe-best-match", "--index"),
    "--pre": ("--prerelease", "allow"),
    AGAIN: ("--reinstall",),
    "--no-cache-dir": ("--no-cache",),
}
"""Options of pip that uv spells in another way, with what makes uv choose as pip does."""


def add_options(installer: Installer, way: InstallWay, *, again: bool = False) -> Installer:
    """Return the installer with the options; without ``again`` nothing is installed anew."""
    is_uv = installer.name.startswith("uv")
    options: list[str] = []
    sources = list(installer.sources)
    for name, value in way.options:
        if name == AGAIN and not again:
            continue
        if is_uv and name == "--index-url" and "--default-index" in sources:
            place = sources.index("--default-index")
            del sources[place : place + 2]
        spelled = make_absolute(value) if name == "--find-links" else value
        options += [*(_OF_UV.get(name, (name,)) if is_uv else (name,)), *filter(None, [spelled])]
    return replace(installer, command=(*installer.command, *options), sources=tuple(sources))


def name_requirements(way: InstallWay, wheel: Wheel) -> tuple[str, ...]:
    """Return what is installed, with the wheel's file in place of its project, which comes last.

    Raises NotApplicable if a command does not install the project, NothingNamed if it installs
    another version.
    """
    others, extras, named = [], set[str](), not way.command
    for text in way.requires:
        item = Requirement(text)
        if canonicalize_name(item.name) != canonicalize_name(wheel.name):
            others.append(text)
            continue
        named, extras = True, extras | item.extras
        if item.url or not item.specifier.contains(wheel.version, prereleases=True):
            raise NothingNamed(f"venv:{way.name} installs {item}, not version {wheel.version}")
    if not named:
        raise NotApplicable(f"venv:{way.name} does not install {wheel.name}: {way.command}")
    path = wheel.path.resolve()
    chosen = f"{wheel.name}[{','.join(sorted(extras))}] @ {path.as_uri()}" if extras else str(path)
    return (*others, chosen)


# Poetry: a project that depends on the wheel, which poetry resolves and installs.

_UNSOLVED = ("version solving failed", "Unable to find installation candidates")


def find_poetry() -> tuple[str, ...] | None:
    """Return the command of poetry on PATH or in this environment, or None."""
    found = shutil.which("poetry")
    if found and Path(found).is_absolute():
        return (found,)
    if importlib.util.find_spec("poetry") is not None:
        return (sys.executable, SAFE_PATH, "-m", "poetry")
    return None


def write_poetry_project(
    folder: Path, wheel: Wheel, target: TargetPython, way: InstallWay, given: Sequence[Path]
) -> None:
    """Write a project that depends on the wheel and what the way requires."""
    *others, chosen = name_requirements(way, wheel)
    if " @ " not in chosen:
        chosen = f"{wheel.name} @ {wheel.path.resolve().as_uri()}"
    if any(map(Path.is_dir, given)):
        raise Unavailable("poetry does not install from a folder of wheels: give the files")
    files = [f"{path.name.partition('-')[0]} @ {path.resolve().as_uri()}" for path in given]
    major_minor = ".".join(target.version.split(".")[:2])
    following = f"{target.version.split('.')[0]}.{int(target.version.split('.')[1]) + 1}"
    lines = [
        "[project]",
        'name = "binary-checks-environment"',
        'version = "0"',
        f'requires-python = ">={major_minor},<{following}"',
        f"dependencies = {json.dumps([chosen, *others, *files])}",
        "[tool.poetry]",
        "package-mode = false",
    ]
    for name, url, priority in _list_sources(way):
        lines += [
            *("[[tool.poetry.source]]", f'name = "{name}"'),
            *(f"url = {json.dumps(url)}", f'priority = "{priority}"'),
        ]
    (folder / "pyproject.toml").write_text("\n".join([*lines, ""]), encoding="utf-8")


def _list_sources(way: InstallWay) -> Iterator[tuple[str, str, str]]:
    """Yield name, address and priority of each index; without any, poetry asks PyPI."""
    settings, chosen = read_pip_settings(), dict(way.options)
    first = chosen.get("--index-url") or settings.get("index-url", "")
    if first:
        yield "index", first, "primary"
    others = [value for name, value in way.options if name == "--extra-index-url"]
    others += settings.get("extra-index-url", "").split()
    for number, url in enumerate(dict.fromkeys(others), 1):
        if not url.startswith("file:"):  # poetry reads no folders
            yield f"extra{number}", url, "supplemental"


def install_with_poetry(
    wheel: Wheel,
    target: TargetPython,
    root: Path,
    settings: PlaceSettings,
    requires: tuple[str, ...],
) -> tuple[str, str]:
    """Install the wheel in the environment of an interpreter.

    Return poetry's version, and "" or why poetry refused the wheel. Raises Unavailable if there is
    no poetry, GatherError if poetry, the network or the machine failed.
    """
    poetry, timeout = find_poetry(), settings.timeout
    way = replace(settings.way, requires=(*settings.way.requires, *requires))
    if poetry is None:
        raise Unavailable("there is no poetry here: install it to install the package with it")
    project = root / "project"
    project.mkdir()
    write_poetry_project(project, wheel, target, way, settings.given)
    with tempfile.TemporaryDirectory(dir=root, ignore_cleanup_errors=True) as private:
        environment = _make_environment(Path(target.prefix), Path(private))
        version = run_process((*poetry, "--version"), cwd=project, env=environment, timeout=timeout)
        name = " ".join(version.stdout.replace("(version ", "").replace(")", "").split()).lower()
        ended = run_process(
            (*poetry, "install", "--no-interaction", "--no-root", "--no-ansi"),
            cwd=project,
            env=environment,
            timeout=timeout,
        )
    texts = [" ".join(line.split()) for line in (ended.stdout + ended.stderr).splitlines()]
    text = " ".join(filter(None, texts))
    if ended.status is None:
        raise GatherError(f"installation took longer than {timeout:g} s")
    if crash := name_crash(ended.status):
        raise GatherError(f"installation broke: poetry was ended by {crash}")
    if ended.status == 0:
        return name or "poetry", ""
    if any(words in text for words in _UNSOLVED):
        return name or "poetry", text[-1000:]
    raise GatherError(f"poetry failed: {text[-400:] or 'it says nothing'}")


def _make_environment(prefix: Path, private: Path) -> dict[str, str]:
    programs = prefix / ("Scripts" if os.name == "nt" else "bin")
    variables = make_installer_environment(private)
    certificate = read_pip_settings().get("cert", "")
    return {
        **({"REQUESTS_CA_BUNDLE": certificate} if certificate else {}),
        **variables,
        "VIRTUAL_ENV": str(prefix),
        "PATH": os.pathsep.join(filter(None, (str(programs), variables.get("PATH", "")))),
        "POETRY_VIRTUALENVS_CREATE": "false",
        "POETRY_KEYRING_ENABLED": "false",
    }

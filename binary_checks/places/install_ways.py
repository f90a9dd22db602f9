"""Installation as a project tells its users: with their options, or with poetry."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from binary_checks.errors import GatherError, NotApplicable, NothingNamed, Unavailable
from binary_checks.model import InstallWay, TargetPython, Wheel
from binary_checks.places.host_place import PlaceSettings
from binary_checks.places.index_settings import (
    make_absolute,
    make_installer_environment,
    read_pip_settings,
)
from binary_checks.places.installers import Installer
from binary_checks.places.processes import name_crash, run_process
from binary_checks.processes import SAFE_PATH

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
        if is_uv and name == "--index-url":
            sources = [*_without(sources, "--default-index")]
        place = make_absolute(value) if name == "--find-links" else value
        options += [*(_OF_UV.get(name, (name,)) if is_uv else (name,)), *filter(None, [place])]
    return replace(installer, command=(*installer.command, *options), sources=tuple(sources))


def _without(words: Sequence[str], option: str) -> Iterator[str]:
    """Yield words without an option and its value."""
    rest = iter(words)
    for word in rest:
        if word == option:
            next(rest, None)
        else:
            yield word


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
    major_minor = ".".join(target.version.split(".")[:2])
    following = f"{target.version.split('.')[0]}.{int(target.version.split('.')[1]) + 1}"
    lines = [
        "[project]",
        'name = "binary-checks-environment"',
        'version = "0"',
        f'requires-python = ">={major_minor},<{following}"',
        f"dependencies = {json.dumps([*_state(wheel, way, given)])}",
        "[tool.poetry]",
        "package-mode = false",
    ]
    for name, url, priority in _list_sources(way):
        lines += [
            *("[[tool.poetry.source]]", f'name = "{name}"'),
            *(f"url = {json.dumps(url)}", f'priority = "{priority}"'),
        ]
    (folder / "pyproject.toml").write_text("\n".join([*lines, ""]), encoding="utf-8")


def _state(wheel: Wheel, way: InstallWay, given: Sequence[Path]) -> Iterator[str]:
    """Yield the requirements of the project; files are named by URLs."""
    *others, chosen = name_requirements(way, wheel)
    yield chosen if " @ " in chosen else f"{wheel.name} @ {wheel.path.resolve().as_uri()}"
    yield from others
    for path in given:
        if path.is_dir():
            raise Unavailable("poetry does not install from a folder of wheels: give the files")
        yield f"{path.name.partition('-')[0]} @ {path.resolve().as_uri()}"


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

"""Installs wheels with uv, or with pip where there is no uv; nothing is built unless allowed."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from binary_checks.errors import GatherError
from binary_checks.places.index_settings import (
    is_true,
    read_pip_settings,
    translate_for_uv,
    translate_variables_for_uv,
)
from binary_checks.places.installer_faults import blame, read_log
from binary_checks.places.pip_command import (
    HELD_PIP,
    PIP,
    choose_folder,
    make_installer_environment,
)
from binary_checks.places.processes import name_crash, run_process
from binary_checks.withheld import user_environment


@dataclass(frozen=True, kw_only=True, slots=True)
class Installer:
    """A program that installs wheels into an environment given by its interpreter."""

    name: str  # "uv 0.13.8"
    command: tuple[str, ...]  # up to and including "install"
    no_index: tuple[str, ...]  # options that shut out all of the user's sources
    has_index: bool = True  # whether the user's own settings leave it one
    log_variable: str = ""  # names the file to which it writes what it asked and left out
    sources: tuple[str, ...] = ()  # options for the user's sources, where it does not read them
    relative: bool = False  # whether settings that it reads may be relative to the user's folder
    variables: Mapping[str, str] = field(default_factory=dict)
    without_sources: Mapping[str, str] = field(default_factory=dict)  # variables beside no_index


def find_installer(python: Path, *, cwd: Path, timeout: float, builds: bool = False) -> Installer:
    """Find uv, else a pip of ours, else put the interpreter's own pip into the environment.

    Without ``builds`` it builds nothing, and follows no requirement by URL that a package has.
    Raises GatherError when there is none of the three.
    """
    environ = make_installer_environment()
    if (binary := find_uv()) is not None:
        version = run_process((binary, "--version"), cwd=cwd, env=environ, timeout=timeout)
        if version.status == 0:
            return _make_uv(binary, version.stdout, python, builds=builds)
    for pip in _find_pips(python, cwd=cwd, timeout=timeout, builds=builds):
        version = run_process((*pip, "--version"), cwd=cwd, env=environ, timeout=timeout)
        if version.status == 0:
            return _make_pip(pip, version.stdout, builds=builds)
    raise GatherError(f"there is neither uv nor a pip that runs on {python}")


def _find_pips(
    python: Path, *, cwd: Path, timeout: float, builds: bool
) -> Iterator[tuple[str, ...]]:
    """Say how ours is called, then the interpreter's own; it is made when it is asked for."""
    start = (str(python), "-I")
    held = (*start, HELD_PIP)
    spec = importlib.util.find_spec("pip")
    if spec is not None and spec.origin is not None:
        yield (*PIP, "--python", str(python)) if builds else (*held, _folder_of(spec.origin))
    done = run_process(
        (*start, "-m", "ensurepip"), cwd=cwd, env=make_installer_environment(), timeout=timeout
    )
    if done.status == 0:
        yield (*start, "-m", "pip") if builds else (*held, "")


def _folder_of(pip: str) -> str:
    return str(Path(pip).parents[1])


def _make_pip(pip: tuple[str, ...], version: str, *, builds: bool) -> Installer:
    options = ("--disable-pip-version-check", "--no-input", "--no-compile")
    wheels_only = () if builds else ("--only-binary", ":all:")
    return Installer(
        name=" ".join(version.split()[:2]) or "pip",
        command=(*pip, "install", *options, *wheels_only),
        no_index=("--no-index",),
        has_index=not is_true(read_pip_settings().get("no-index", "")),
        log_variable="PIP_LOG",  # pips that install what a build needs read it, too
        relative=True,
        without_sources={"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": ""},
    )


def find_uv() -> str | None:
    """Find uv on PATH, or as the package of that name beside us; never in the current folder."""
    found = shutil.which("uv")  # Windows looks in the current folder first: ".\\uv.EXE"
    if found and Path(found).is_absolute():
        return found
    try:
        return str(importlib.import_module("uv").find_uv_bin())
    except (ImportError, AttributeError, OSError):
        return None


def _make_uv(binary: str, version: str, python: Path, *, builds: bool) -> Installer:
    settings, environ = read_pip_settings(), user_environment()
    sources = translate_for_uv(settings, environ)
    # A hard link would share the file with uv's cache and every other environment.
    options = ("--link-mode", "copy", "--no-progress", "--no-compile-bytecode")
    wheels_only = () if builds else ("--no-build",)
    return Installer(
        name=" ".join(version.split()[:2]),
        command=(binary, "pip", "install", "--python", str(python), *options, *wheels_only),
        no_index=("--no-config", "--no-index"),
        has_index="--no-index" not in sources and not is_true(environ.get("UV_OFFLINE", "")),
        sources=sources,
        variables={
            **translate_variables_for_uv(settings, environ),
            "UV_PYTHON_DOWNLOADS": "never",
        },
        without_sources={"UV_FIND_LINKS": "", "UV_INDEX": "", "UV_EXTRA_INDEX_URL": ""},
    )


def install(
    installer: Installer, requirements: tuple[str, ...], *, index: bool, cwd: Path, timeout: float
) -> str:
    """Install the package, which comes last, with what it requires; "" or why it was refused.

    ``requirements`` may hold options too; without ``index`` nothing else is a source. Raises
    GatherError when a source or the machine broke, Unavailable when something required was not
    among what was given.
    """
    sources = installer.sources if index else installer.no_index
    variables = {**installer.variables, **({} if index else installer.without_sources)}
    with tempfile.TemporaryDirectory(dir=cwd.parent, ignore_cleanup_errors=True) as private:
        log = Path(private, "log")
        if installer.log_variable:
            variables[installer.log_variable] = str(log)
        ended = run_process(
            (*installer.command, *sources, *requirements),
            cwd=choose_folder(cwd) if installer.relative else cwd,
            env={**make_installer_environment(Path(private)), **variables},
            timeout=timeout,
        )
        if ended.status == 0:
            return ""
        if ended.status is None:
            raise GatherError(f"installation took longer than {timeout:g} s")
        if crash := name_crash(ended.status):
            raise GatherError(f"installation broke: {installer.name} was ended by {crash}")
        said = read_log(log)
    return blame(ended.stderr or ended.stdout, index=index and installer.has_index, log=said)

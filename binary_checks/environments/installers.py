"""Installs wheels with uv, or with pip where there is no uv, and says whose fault a failure is."""

from __future__ import annotations

import importlib
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from binary_checks.environments.index_settings import (
    is_true,
    read_pip_settings,
    translate_for_uv,
    translate_variables_for_uv,
)
from binary_checks.environments.pip_command import PIP, has_pip, make_installer_environment
from binary_checks.environments.processes import run_process
from binary_checks.errors import GatherError, Unavailable
from binary_checks.records import dataclass

_OURS = re.compile(
    r"error sending request|dns error|name resolution|connection (?:refused|reset|broken|aborted)"
    r"|NewConnectionError|ConnectTimeout|ReadTimeout|timed out|SSLError|certificate|ProxyError"
    r"|HTTP status (?:client|server) error|HTTP error|failed to (?:fetch|download)"
    r"|no space left|permission denied|read-only file system|cannot allocate memory"
    r"|failed to build|failed to read `--find-links`",
    re.IGNORECASE,
)
_NOT_GIVEN = re.compile(
    r"was not found in the provided package locations|there (?:is|are) no versions? of"
    r"|could not find a version that satisfies|no matching distribution|no solution found",
    re.IGNORECASE,
)
# How uv says that settings of the user's, in whatever file, left it no index.
_NO_INDEX = re.compile(
    r"index lookups were disabled|network was disabled|in the provided package locations"
)
# The crosses, box lines and arrows that uv draws, and colours.
_DRAWING = re.compile(r"[\u00d7\u2500-\u257f\u25b6]+|\x1b\[[0-9;]*m")

# Paths of a folder that uv unpacked into, another one each time.
_PRIVATE = re.compile(r"[^\s`'\"]*[\\/]\.tmp\w+[\\/]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Installer:
    """A program that installs wheels into an environment given by its interpreter."""

    name: str  # "uv 0.13.8"
    command: tuple[str, ...]  # up to and including "install"
    no_index: tuple[str, ...]  # options that shut out all of the user's sources
    has_index: bool = True  # whether the user's own settings leave it one
    sources: tuple[str, ...] = ()  # options for the user's sources, where it does not read them
    variables: Mapping[str, str] = field(default_factory=dict)
    without_sources: Mapping[str, str] = field(default_factory=dict)  # variables beside no_index


def find_installer(python: Path, *, cwd: Path, timeout: float) -> Installer:
    """Find uv, else a pip of ours, else put the interpreter's own pip into the environment.

    Raises GatherError when there is none of the three.
    """
    environ = make_installer_environment()
    if (binary := find_uv()) is not None:
        version = run_process((binary, "--version"), cwd=cwd, env=environ, timeout=timeout)
        if version.status == 0:
            return _make_uv(binary, version.stdout, python)
    options = ("--disable-pip-version-check", "--no-input", "--no-compile")
    if has_pip():
        pip: tuple[str, ...] = (*PIP, "--python", str(python))
    else:
        pip = (str(python), "-I", "-m", "pip")
        ensure = (python, "-I", "-m", "ensurepip")
        done = run_process(ensure, cwd=cwd, env=environ, timeout=timeout)
        if done.status != 0:
            raise GatherError(f"there is neither uv nor pip, and {python} brings no ensurepip")
    version = run_process((*pip, "--version"), cwd=cwd, env=environ, timeout=timeout)
    return Installer(
        name=" ".join(version.stdout.split()[:2]) or "pip",
        command=(*pip, "install", *options),
        no_index=("--no-index",),
        has_index=not is_true(read_pip_settings().get("no-index", "")),
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


def _make_uv(binary: str, version: str, python: Path) -> Installer:
    settings = read_pip_settings()
    sources = translate_for_uv(settings, os.environ)
    # A hard link would share the file with uv's cache and every other environment.
    options = ("--link-mode", "copy", "--no-progress", "--no-compile-bytecode")
    return Installer(
        name=" ".join(version.split()[:2]),
        command=(binary, "pip", "install", "--python", str(python), *options),
        no_index=("--no-config", "--no-index"),
        has_index="--no-index" not in sources and not is_true(os.environ.get("UV_OFFLINE", "")),
        sources=sources,
        variables={
            **translate_variables_for_uv(settings, os.environ),
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
    ended = run_process(
        (*installer.command, *sources, *requirements),
        cwd=cwd,
        env={**make_installer_environment(), **variables},
        timeout=timeout,
    )
    if ended.status == 0:
        return ""
    if ended.status is None:
        raise GatherError(f"installation took longer than {timeout:g} s")
    return blame(ended.stderr or ended.stdout, index=index and installer.has_index)


def blame(output: str, *, index: bool) -> str:
    """Return an installer's complaint in one line when the package is to blame, else raise.

    ``index`` says whether the installer had one to ask.
    """
    line = _say_in_one_line(output)
    if _OURS.search(output):
        raise GatherError(f"installation broke: {line}")
    if (not index or _NO_INDEX.search(output)) and _NOT_GIVEN.search(output):
        raise Unavailable(f"a requirement is not among the wheels given: {line}")
    return line


def _say_in_one_line(output: str) -> str:
    """The lines that say something, pip's ``ERROR:`` lines when there are some, joined."""
    lines = [" ".join(_DRAWING.sub(" ", line).split()) for line in output.splitlines()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    chosen = errors or [
        line for line in lines if line and not line.startswith(("Using ", "Resolved ", "hint:"))
    ]
    return _PRIVATE.sub("", " ".join(chosen))[:1000] or "the installer failed without a word"

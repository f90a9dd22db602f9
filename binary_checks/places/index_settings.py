"""The user's settings for pip, their translation for uv, and the environment of installers."""

from __future__ import annotations

import ast
import functools
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path

from binary_checks.processes import SAFE_PATH, user_environment

_UV_VARIABLES = (
    "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_NO_INDEX",
)
# Later sections take precedence, as in pip; "install" is the command that the installer runs.
_SECTIONS = ("global", "install", ":env:")


def read_pip_settings(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the settings that pip reports, by name ("index-url").

    If pip is not installed, return the settings in pip's environment variables.
    """
    environ = user_environment() if environ is None else environ
    variables = make_installer_environment(environ=environ)
    if has_pip() and (output := _ask_pip(tuple(sorted(variables.items())), Path.cwd())) is not None:
        return parse_pip_settings(output)
    return {
        name[4:].lower().replace("_", "-"): value
        for name, value in environ.items()
        if name.startswith("PIP_") and value
    }


@functools.lru_cache(maxsize=1)  # starting pip takes longer than installing a small wheel
def _ask_pip(variables: tuple[tuple[str, str], ...], _: Path) -> str | None:
    """Return the output of ``pip config list`` for these variables and folder.

    Return None if pip fails.
    """
    answer = subprocess.run(
        (*PIP, "config", "list"),
        env=dict(variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return answer.stdout if answer.returncode == 0 else None


def parse_pip_settings(text: str) -> dict[str, str]:
    """Merge the lines of ``pip config list`` (``global.index-url='https://...'``)."""
    rows: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in text.splitlines():
        key, found, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if found and section in rows:
            rows[section][name] = _unquote(value)
    return {name: value for section in _SECTIONS for name, value in rows[section].items()}


def _unquote(text: str) -> str:
    try:
        return str(ast.literal_eval(text))
    except (SyntaxError, ValueError):
        return text


def translate_for_uv(settings: Mapping[str, str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return pip's settings as options of uv.

    If the user has set an index for uv, use only uv's indexes.
    """
    if any(environ.get(name) for name in _UV_VARIABLES):
        # uv 0.13.8 queries the index despite UV_NO_INDEX, so the option is passed, too.
        return ("--no-index",) if is_true(environ.get("UV_NO_INDEX", "")) else ()
    return tuple(_translate(settings))


def is_true(text: str) -> bool:
    """Return whether a setting of pip or uv is switched on."""
    return text.strip().lower() in {"1", "true", "t", "yes", "y", "on"}


def _translate(settings: Mapping[str, str]) -> Iterator[str]:
    if is_true(settings.get("no-index", "")):
        yield "--no-index"
    for name, option in (
        ("index-url", "--default-index"),
        ("extra-index-url", "--index"),
        ("find-links", "--find-links"),
        ("trusted-host", "--allow-insecure-host"),
    ):
        for value in settings.get(name, "").split():
            yield from (option, make_absolute(value) if name == "find-links" else value)
    if settings.get("extra-index-url"):
        # pip chooses the best version from all indexes, uv by default the best from the first
        # index.
        yield from ("--index-strategy", "unsafe-best-match")


def make_absolute(place: str) -> str:
    """Return a location of links as an absolute path or URL."""
    return place if "://" in place else str(Path(place).absolute())


def translate_variables_for_uv(
    settings: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, str]:
    """Return settings that uv reads only from variables, unless the user has set them for uv."""
    names = {"cert": "SSL_CERT_FILE", "client-cert": "SSL_CLIENT_CERT", "proxy": "ALL_PROXY"}
    links = ",".join(map(make_absolute, filter(None, environ.get("UV_FIND_LINKS", "").split(","))))
    found = {
        variable: settings[name]
        for name, variable in names.items()
        if settings.get(name) and not environ.get(variable)
    }
    return {**found, "UV_FIND_LINKS": links} if links else found


# Prefixes of variables that could lead an installer, or a build, to files of this machine.
_LEAKS = (
    *("PYTHON", "PYTEST_", "LD_", "DYLD_", "VIRTUAL_ENV", "CONDA_"),
    *("PIP_TARGET", "PIP_PREFIX", "PIP_USER"),
)
PIP = (sys.executable, SAFE_PATH, "-m", "pip")
"""The pip of this environment; a module with the name pip in the current folder is not imported."""

PIP_WITHOUT_URLS = str(resources.files("binary_checks.places.scripts") / "pip_without_urls.py")
"""The script that runs pip and restricts it in ways for which pip has no option."""


def has_pip() -> bool:
    """Return whether pip is installed in this environment."""
    return importlib.util.find_spec("pip") is not None


def choose_folder(neutral: Path) -> Path:
    """Return the folder in which to run pip.

    On POSIX it is the user's current folder, so that relative paths in settings work. On Windows it
    is ``neutral``: Windows searches the current folder first for programs, and pip runs rustc.
    """
    return Path() if os.name == "posix" else neutral


def make_installer_environment(
    private: Path | None = None, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the user's environment, for proxies and credentials, without misleading variables.

    Temporary files of the installer go to the ``private`` folder, which the caller removes.
    """
    environ = user_environment() if environ is None else environ
    kept = {name: value for name, value in environ.items() if not name.startswith(_LEAKS)}
    places = {} if private is None else dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(private))
    return {**kept, **places, "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}

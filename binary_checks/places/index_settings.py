"""Where packages come from: the user's settings for pip, also in the words of uv."""

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

from binary_checks.withheld import DEAF, user_environment

_UV_VARIABLES = (
    "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_NO_INDEX",
)
# Later sections win, as in pip: "install" is the command that we would run.
_SECTIONS = ("global", "install", ":env:")


def read_pip_settings(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The settings that pip itself reports, by name ("index-url"); without pip, its variables."""
    environ = user_environment() if environ is None else environ
    variables = make_installer_environment(environ=environ)
    if has_pip() and (said := _ask_pip(tuple(sorted(variables.items())), Path.cwd())) is not None:
        return parse_pip_settings(said)
    return {
        name[4:].lower().replace("_", "-"): value
        for name, value in environ.items()
        if name.startswith("PIP_") and value
    }


@functools.lru_cache(maxsize=1)  # pip takes longer to start than a small wheel to be installed
def _ask_pip(variables: tuple[tuple[str, str], ...], _: Path) -> str | None:
    """Return what pip says under these variables in this folder; None where it says nothing."""
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
    """Say pip's settings as options of uv; the user's own settings for uv win as a whole."""
    if any(environ.get(name) for name in _UV_VARIABLES):
        # Not every uv reads this one by itself: 0.13.8 asks the index all the same.
        return ("--no-index",) if is_true(environ.get("UV_NO_INDEX", "")) else ()
    return tuple(_translate(settings))


def is_true(text: str) -> bool:
    """Whether a setting of pip or uv is switched on."""
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
        # pip takes the best version of all indexes, uv by itself that of the first.
        yield from ("--index-strategy", "unsafe-best-match")


def make_absolute(place: str) -> str:
    """The place of links that is meant, wherever the installer runs: a URL, or a path of ours."""
    return place if "://" in place else str(Path(place).absolute())


def translate_variables_for_uv(
    settings: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, str]:
    """Say what uv reads from variables alone, where the user has not set them."""
    names = {"cert": "SSL_CERT_FILE", "client-cert": "SSL_CLIENT_CERT", "proxy": "ALL_PROXY"}
    links = ",".join(map(make_absolute, filter(None, environ.get("UV_FIND_LINKS", "").split(","))))
    found = {
        variable: settings[name]
        for name, variable in names.items()
        if settings.get(name) and not environ.get(variable)
    }
    return {**found, "UV_FIND_LINKS": links} if links else found


# How Python and the pip beside us are called, and the environment that installers get.

# What would lead the installer, or what it builds, to something that lies on this machine.
_LEAKS = ("PYTHON", "LD_", "DYLD_", "VIRTUAL_ENV", "CONDA_", "PIP_TARGET", "PIP_PREFIX", "PIP_USER")
PIP = (sys.executable, DEAF, "-m", "pip")
"""The pip beside us, deaf to a module of that name in the current folder."""

HELD_PIP = str(resources.files("binary_checks.places.scripts") / "held_pip.py")
"""The script that runs pip and keeps it from what none of its options do."""


def has_pip() -> bool:
    """Whether there is one."""
    return importlib.util.find_spec("pip") is not None


def choose_folder(neutral: Path) -> Path:
    """Where pip runs: in the user's folder, to which it is deaf and relative settings belong.

    On Windows programs are looked for there first, and pip asks rustc which one it is.
    """
    return Path() if os.name == "posix" else neutral


def make_installer_environment(
    private: Path | None = None, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The user's environment, for proxies and credentials, without what leads astray.

    Whatever the installer leaves in the system's folder for temporary files comes into the private
    one instead, which goes with us.
    """
    environ = user_environment() if environ is None else environ
    kept = {name: value for name, value in environ.items() if not name.startswith(_LEAKS)}
    places = {} if private is None else dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(private))
    return {**kept, **places, "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}

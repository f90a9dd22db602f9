"""What of the host's files a confined interpreter sees: the system's, and its own."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from binary_checks.errors import GatherError

SYSTEM = tuple(
    map(
        Path,
        (
            *(
                "/usr",
                "/bin",
                "/sbin",
                "/lib",
                "/lib32",
                "/lib64",
                "/libx32",
                "/etc",
                "/opt",
                "/sys",
            ),
            *("/nix/store", "/gnu/store", "/run/current-system", "/run/opengl-driver"),
        ),
    )
)
"""What every process of a system needs; no user's files lie there."""
_ASK = """
import os, sys
base = getattr(sys, "_base_executable", None) or sys.executable
found = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, os.path.dirname(base)]
print("\\n".join([base, *found]))
"""
_PATIENCE = 60.0  # seconds in which an interpreter must have started
_LINKS = 40  # as many as Linux follows
_STANDARD_LIBRARY = re.compile(r"(?:python|pypy)\d")


def find_visible(python: Path) -> tuple[Path, ...]:
    """Name the folders that the interpreter needs beside the system's, and links that lead to it.

    Raises GatherError when it does not start.
    """
    found = dict.fromkeys(_find_own(Path(os.path.abspath(python))))  # noqa: PTH100 - links stay
    return tuple(path for path in found if not is_below(path, SYSTEM))


def is_below(path: Path, folders: Iterable[Path]) -> bool:
    """Whether it is one of these folders, or lies in one."""
    return any(path.is_relative_to(folder) for folder in folders)


def _find_own(python: Path) -> Iterator[Path]:
    base, *prefixes = ask_python(python, _ASK).splitlines()
    for program in (python, Path(base)):
        for step in _follow_links(program):
            prefix = step.parent.parent
            if (prefix / "pyvenv.cfg").exists() or _holds_library(prefix):
                yield from _spell(prefix)
            else:
                yield step
    for prefix in map(Path, prefixes):
        yield from _spell(prefix)


@lru_cache
def ask_python(python: Path, code: str) -> str:
    """Return what code prints in an interpreter, with nothing of what is installed (``-S``).

    Raises GatherError where it does not run or fails.
    """
    try:
        done = subprocess.run(
            (python, "-I", "-S", "-c", code),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
        refused = f"it ends with exit status {done.returncode}" if done.returncode else ""
    except subprocess.TimeoutExpired:
        refused = f"it does not end within {_PATIENCE:g} s"
    except OSError as error:
        refused = str(error)
    if refused:
        raise GatherError(f"{python}: not a Python 3.8 or later that runs here: {refused}")
    return done.stdout


def _follow_links(program: Path) -> Iterator[Path]:
    """Yield the program's path and every other that its links lead over."""
    for _ in range(_LINKS):
        yield program
        if not program.is_symlink():
            real = program.parent.resolve() / program.name
            if real != program:
                yield real
            return
        program = Path(os.path.normpath(program.parent / program.readlink()))


def _holds_library(prefix: Path) -> bool:
    folders = (prefix / "lib", prefix / "lib64")
    return any(_STANDARD_LIBRARY.match(each.name) for lib in folders for each in _list(lib))


def _list(folder: Path) -> tuple[Path, ...]:
    try:
        return tuple(folder.iterdir())
    except OSError:
        return ()


def _spell(prefix: Path) -> Iterator[Path]:
    """Yield the folder as it is spelled and as it lies; of one that holds a home, its parts."""
    home = Path.home().resolve()
    for spelling in dict.fromkeys((prefix, prefix.resolve())):
        if home.is_relative_to(spelling.resolve()):
            yield from (spelling / name for name in ("bin", "lib", "lib64", "include"))
        else:
            yield spelling

"""Finds compilers and build tools of the host, and which files a sandbox has to show for them."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from binary_checks.errors import GatherError
from binary_checks.places.visible import SYSTEM, find_visible, is_below

_SHIMS = "shims"
"""The folder of pyenv and its kin, whose scripts call what a sandbox does not show."""
_PARTS = ("bin", "lib", "lib64", "libexec", "include", "share/cmake*", "share/gcc*", "*-*-*")
"""What a prefix has that a compiler or CMake may read; ``*-*-*`` is that of a target's triplet."""
_PROGRAMS = ("bin", "sbin")
_PYTHON = re.compile(r"#!\s*(?P<path>/\S*python[\d.]*)\b")
OWN_FOLDER = Path(sys.executable).parent
"""Where ``pip install cmake ninja`` puts them: not everybody activates an environment."""
_HEAD = 512  # bytes, in which the first line of a script ends


def find_programs(names: Iterable[str], environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Find every program of these names, in their order: on PATH, then beside this Python."""
    folders = [Path(each) for each in environ.get("PATH", "").split(os.pathsep) if each]
    folders = [each for each in folders if each.is_absolute() and each.name != _SHIMS]
    folders.append(OWN_FOLDER)
    ending = ".exe" if os.name == "nt" else ""
    found = (folder / f"{name}{ending}" for name in names for folder in folders)
    real = {
        path.parent.resolve() / path.name: path for path in reversed(list(found)) if _runs(path)
    }
    return tuple(reversed(real.values()))  # /bin is /usr/bin, and the first of each counts


def find_named(variable: str, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Find the program that a variable such as CXX names, if it is one and has no arguments."""
    try:
        (word,) = shlex.split(environ.get(variable, ""))
    except ValueError:
        return ()
    return (Path(word),) if os.sep in word and _runs(Path(word)) else find_programs([word], environ)


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def find_files_of(program: Path) -> Iterator[Path]:
    """Yield the folders that a program needs, beside those which every process sees."""
    for path in dict.fromkeys((program, program.resolve())):
        if not is_below(path, SYSTEM):
            yield path
            if path.parent.name in _PROGRAMS:
                yield from _list_parts(path.parent.parent)
            yield from _find_python(path)


def _list_parts(prefix: Path) -> Iterator[Path]:
    if prefix != Path(prefix.anchor):
        yield from (path for part in _PARTS for path in sorted(prefix.glob(part)) if path.is_dir())


def _find_python(program: Path) -> tuple[Path, ...]:
    """The files of the Python that a script is written for, as CMake's from PyPI is."""
    try:
        with program.open("rb") as file:
            line = file.read(_HEAD).partition(b"\n")[0].decode("utf-8", "replace")
        found = _PYTHON.match(line)
        return find_visible(Path(found["path"])) if found else ()
    except (OSError, GatherError):
        return ()

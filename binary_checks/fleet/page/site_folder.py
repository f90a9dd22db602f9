"""Replace a site's folder file by file, without touching files of other programs.

All files are written to a temporary folder first and then renamed, the index last. A list of the
files that we wrote shows which files may be replaced or removed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from binary_checks.errors import ProfileError
from binary_checks.files import (
    UNFINISHED,
    NotRegularError,
    open_regular,
    replace_file_when_complete,
)
from binary_checks.reports.writing import require_place
from binary_checks.safe_text import one_line

_FORGOTTEN = 3600.0  # seconds after which temporary files of a killed run are removed
_LARGEST = 64 << 20  # bytes of the list
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+=!@,~-]*")
"""Matches a part of a path that is safe on any system, and is not .git."""


def write_site(folder: Path, files: Iterable[tuple[str, bytes | Path]], maker: str = "hud") -> int:
    """Make the folder hold these files, the last of which links to the others; return their size.

    A file given as a path is linked or copied. Raises ProfileError, before anything is changed, if
    the folder holds files that ``maker`` did not write.
    """
    ours = claim(folder, maker)
    folder.mkdir(exist_ok=True)
    if not ours:
        _note(folder, maker, [])
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=folder) as staging:
        sizes = {name: _stage(Path(staging, name), content) for name, content in files}
        _refuse(folder, maker, sizes, ours)
        _note(folder, maker, {*ours, *sizes})
        for name in sizes:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            Path(staging, name).replace(folder / name)
        _remove(folder, {*ours} - sizes.keys())
        _note(folder, maker, sizes)
    _sweep(folder)
    return sum(sizes.values())


def claim(folder: Path, maker: str = "hud") -> frozenset[str]:
    """Return the names of the files in the folder that ``maker`` wrote.

    Raises ProfileError if the folder is not ours, or if its parent does not exist.
    """
    require_place(maker, str(folder), folder, folder=True)
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise ProfileError(f"{maker}: {folder}: not a folder")
    try:
        with open_regular(folder / _name_list(maker)) as file:
            text = file.read(_LARGEST)
    except FileNotFoundError:
        names = sorted(each.name for each in folder.iterdir()) if folder.exists() else []
        if foreign := [name for name in names if not name.startswith(UNFINISHED)]:
            message = f"holds {foreign[0]!r} already; name an empty folder, or one made by {maker}"
            raise ProfileError(f"{maker}: {folder}: {message}") from None
        return frozenset()
    except NotRegularError:
        text = b""
    return frozenset(_read_list(text, folder, maker))


def _name_list(maker: str) -> str:
    return f".binary-checks-{maker}.json"


def _read_list(text: bytes, folder: Path, maker: str) -> Iterator[str]:
    """Yield the names in the list, except for names that lead out of the folder."""
    try:
        found: Any = json.loads(text)
        names = found["files"] if found["schema"] == _name_schema(maker) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        names = None
    if not isinstance(names, list):
        named = folder / _name_list(maker)
        raise ProfileError(f"{maker}: {named}: not a list that {maker} wrote")
    for name in names:
        if isinstance(name, str) and all(map(_PART.fullmatch, name.split("/"))):
            yield name


def _stage(path: Path, content: bytes | Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
        return len(content)
    try:
        os.link(content, path)
    except OSError:  # it is on another disk, or the file system has no links
        shutil.copyfile(content, path)
    return path.stat().st_size


def _refuse(folder: Path, maker: str, names: Iterable[str], ours: Collection[str]) -> None:
    """Raise ProfileError for a file that is not ours, and for a link that others may have made."""
    for name in sorted(names):
        message = ""
        if any((folder / each).is_symlink() for each in PurePosixPath(name).parents):
            message = f"{one_line(name)!r} would be written through a link"
        elif name not in ours and os.path.lexists(folder / name):
            message = f"holds {one_line(name)!r}, which {maker} did not make"
        if message:
            raise ProfileError(f"{maker}: {folder}: {message}")


def _note(folder: Path, maker: str, names: Iterable[str]) -> None:
    """Replace the list of our files."""
    text = json.dumps({"schema": _name_schema(maker), "files": sorted(names)}, indent=0) + "\n"
    with replace_file_when_complete(folder / _name_list(maker), 0o644) as file:
        file.write(text.encode())


def _remove(folder: Path, names: Iterable[str]) -> None:
    """Remove files that are no longer part of the site, and folders that become empty."""
    for name in names:
        parents = PurePosixPath(name).parents
        linked = any((folder / each).is_symlink() for each in parents)
        if not linked and ((folder / name).is_symlink() or not (folder / name).is_dir()):
            (folder / name).unlink(missing_ok=True)
    for parent in {PurePosixPath(name).parent for name in names} - {PurePosixPath()}:
        path = folder / parent
        if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            path.rmdir()


def _sweep(folder: Path) -> None:
    """Remove temporary folders of runs that were killed long ago."""
    for path in folder.glob(f"{UNFINISHED}*"):
        if path.lstat().st_mtime < time.time() - _FORGOTTEN:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()


def _name_schema(maker: str) -> str:
    return f"binary-checks/{maker}/1"

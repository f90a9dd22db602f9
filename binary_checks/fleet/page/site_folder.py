"""The folder of a site: page by page the old one or the new one, and nothing of anybody else's.

All files are made beside their places first; then each takes its place at once, the index last.
A list of what is ours says what may be replaced or removed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from binary_checks.errors import ProfileError
from binary_checks.files import (
    UNFINISHED,
    NotRegularError,
    demand_parent,
    open_regular,
    written_beside,
)
from binary_checks.lines import one_line

_FORGOTTEN = 3600.0  # seconds after which what a killed run was making is removed
_LARGEST = 64 << 20  # bytes of the list
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+=!@,~-]*")
"""What a part of a name of ours is made of: it leads nowhere on any system, and is not .git."""


def write_site(folder: Path, files: Iterable[tuple[str, bytes | Path]], maker: str = "hud") -> int:
    """Make the folder hold these files; the last one leads to the others. Returns their bytes.

    A file that lies elsewhere is linked, or copied. Raises ProfileError, before anything is
    changed, for a folder that holds something else than ``maker`` made.
    """
    ours = claim(folder, maker)
    folder.mkdir(exist_ok=True)
    if not ours:
        _note(folder, maker, [])
    staging = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=folder))
    try:
        sizes = {name: _stage(staging / name, content) for name, content in files}
        _refuse_foreign(folder, maker, sizes.keys() - {*ours})
        _refuse_links(folder, maker, sizes)
        _note(folder, maker, {*ours, *sizes})
        for name in sizes:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (staging / name).replace(folder / name)
        _remove(folder, {*ours} - sizes.keys())
        _note(folder, maker, sizes)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        _sweep(folder)
    return sum(sizes.values())


def claim(folder: Path, maker: str = "hud") -> frozenset[str]:
    """Return the names of the files that are ours there.

    Raises ProfileError where the folder is not ours, or is to be made in one that is not there.
    """
    demand_parent(folder, folder, maker)
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise ProfileError(f"{maker}: {folder}: not a folder")
    try:
        with open_regular(folder / _name_list(maker)) as file:
            text = file.read(_LARGEST)
    except FileNotFoundError:
        foreign = next((each for each in _look_into(folder) if _is_foreign(each)), None)
        if foreign:
            hint = f"name a folder that is empty, or that was made by {maker}"
            raise ProfileError(
                f"{maker}: {folder}: holds {foreign.name!r} already; {hint}"
            ) from None
        return frozenset()
    except NotRegularError:
        text = b""
    return frozenset(_read_list(text, folder, maker))


def _look_into(folder: Path) -> Iterator[Path]:
    if folder.exists():
        yield from sorted(folder.iterdir())


def _is_foreign(path: Path) -> bool:
    return not path.name.startswith(UNFINISHED)


def _name_list(maker: str) -> str:
    return f".binary-checks-{maker}.json"


def _name_schema(maker: str) -> str:
    return f"binary-checks/{maker}/1"


def _read_list(text: bytes, folder: Path, maker: str) -> Iterator[str]:
    """The names in the list; a name that leads elsewhere is nobody's."""
    try:
        found: Any = json.loads(text)
        names = found["files"] if found["schema"] == _name_schema(maker) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        names = None
    if not isinstance(names, list):
        named = folder / _name_list(maker)
        raise ProfileError(f"{maker}: {named}: not a list that {maker} wrote")
    for name in names:
        if isinstance(name, str) and _is_inside(name):
            yield name


def _is_inside(name: str) -> bool:
    return all(map(_PART.fullmatch, name.split("/")))


def _stage(path: Path, content: bytes | Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
        return len(content)
    try:
        os.link(content, path)
    except OSError:  # of another disk, or one without links
        shutil.copyfile(content, path)
    return path.stat().st_size


def _refuse_foreign(folder: Path, maker: str, names: Iterable[str]) -> None:
    """Replace nothing that is there and is not in our list."""
    for name in sorted(names):
        if os.path.lexists(folder / name):
            said = f"holds {one_line(name)!r}, which {maker} did not make"
            raise ProfileError(f"{maker}: {folder}: {said}")


def _refuse_links(folder: Path, maker: str, names: Iterable[str]) -> None:
    """Write through no link, whatever our list says: who else writes there may have made it."""
    for name in sorted(names):
        if any((folder / each).is_symlink() for each in PurePosixPath(name).parents):
            said = f"{one_line(name)!r} would be written through a link"
            raise ProfileError(f"{maker}: {folder}: {said}")


def _note(folder: Path, maker: str, names: Iterable[str]) -> None:
    """Write the list of what is ours, at once."""
    text = json.dumps({"schema": _name_schema(maker), "files": sorted(names)}, indent=0) + "\n"
    with written_beside(folder / _name_list(maker), 0o644) as file:
        file.write(text.encode())


def _remove(folder: Path, names: Iterable[str]) -> None:
    """Remove what is no longer part of the site, and the folders that this leaves empty."""
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
    """Remove what runs that were killed long ago were making."""
    for path in folder.glob(f"{UNFINISHED}*"):
        if path.lstat().st_mtime < time.time() - _FORGOTTEN:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()

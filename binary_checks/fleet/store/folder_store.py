"""A store in a folder: objects are written to temporary files and then linked to their names.

A writer that is killed leaves only a temporary file, which the next writer removes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from operator import itemgetter
from pathlib import Path
from typing import IO

from binary_checks.errors import RecordError, StoreError
from binary_checks.files import open_regular, take_lock, take_turns
from binary_checks.fleet.store import MOST_READ, Stored
from binary_checks.fleet.store.store_names import (
    MARK,
    is_safe_part,
    require_derived,
    require_name,
    require_prefix,
)

_PARTIAL = ".partial"  # names of objects do not begin with a dot
_PART = ".part"
_PIECE = 1 << 20  # bytes copied at a time
# attempts, because another process may remove an empty folder meanwhile, or a temporary file before
# its writer has locked it
_TRIES = 5
_LONGEST_TURN = 60.0  # seconds that another process may take to rename
_NOT_OURS = frozenset({"lost+found"})  # made by the system on a new disk
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class FolderStore:
    """The store in a folder, which need not exist until something is written."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = Path(os.path.realpath(folder))
        self._url = url
        self._cleaned = False

    @property
    def url(self) -> str:
        """The URL or path that the user gave."""
        return self._url

    def create(self, name: str, content: bytes | Path) -> bool:
        """Write an object unless one of that name exists; return whether it was written."""
        with self._explained(name, "cannot be written"):
            if _is_there(self._place(name)):
                return False
        return self._write(name, lambda part: _write_part(part, content), _link)

    def replace(self, name: str, content: bytes) -> None:
        """Write a derived object, replacing any object of that name."""
        self._write(require_derived(name), lambda part: _write_part(part, content), _replace)

    def repeat(self, name: str, source: str) -> None:
        """Write a derived object with the bytes of another object, by a link if possible."""
        require_derived(name)
        with self.local(source) as origin:
            self._write(name, lambda part: _link_part(part, origin), _replace)

    def read(self, name: str, most: int = MOST_READ) -> bytes | None:
        """Return an object's bytes, or None if it does not exist."""
        with self._explained(name, "cannot be read"):
            try:
                with self._open(self._place(name)) as file:
                    content = file.read(most + 1)
            except (FileNotFoundError, NotADirectoryError):
                return None
        if len(content) > most:
            raise RecordError(f"{self._url}: {name}: larger than {most} bytes")
        return content

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield an object's bytes in pieces."""
        with self._explained(name, "cannot be read"), self._open(self._place(name)) as file:
            while piece := file.read(_PIECE):
                yield piece

    def names(self, prefix: str) -> Iterator[Stored]:
        """Yield the objects whose names begin with ``prefix``, sorted by name."""
        folder, _, rest = require_prefix(prefix).rpartition("/")
        with self._explained(prefix, "cannot be listed"):
            if self._folder_exists(folder):
                yield from self._walk(f"{folder}/" if folder else "", rest)

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield folders: each name that begins with ``prefix``, cut after its next "/", sorted."""
        folder, _, rest = require_prefix(prefix).rpartition("/")
        with self._explained(prefix, "cannot be listed"):
            if self._folder_exists(folder):
                above = f"{folder}/" if folder else ""
                for name, entry in self._list(above, rest):
                    # An object store has no empty folders.
                    if entry.is_dir(follow_symlinks=False) and next(self._walk(name, ""), None):
                        yield name

    def delete(self, name: str) -> None:
        """Remove an object if it exists."""
        with self._explained(name, "cannot be deleted"):
            path = self._place(name)
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()
            with contextlib.suppress(OSError):  # up to a folder that is not empty
                for above in path.parents[: len(path.relative_to(self._folder).parts) - 1]:
                    above.rmdir()

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        """Open the object's own file."""
        with self._explained(name, "cannot be read"):
            path = self._place(name)
            self._open(path).close()
        yield path

    def top(self) -> list[str]:
        """Return all names at the top, folders with "/", sorted."""
        with self._explained("", "cannot be listed"):
            try:
                found = list(os.scandir(self._folder))
            except FileNotFoundError:
                return []
            shown = (each for each in found if each.name[0] != "." and each.name not in _NOT_OURS)
            return sorted(f"{each.name}/" if each.is_dir() else each.name for each in shown)

    @contextmanager
    def _explained(self, name: str, problem: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
            where = f"{self._url}: {name}" if name else self._url
            raise StoreError(f"{where}: {problem}: {reason}") from None

    def _place(self, name: str) -> Path:
        """Return an object's path. Raises StoreError if a symbolic link leads to it."""
        path = self._folder.joinpath(*require_name(name).split("/"))
        if os.path.realpath(path.parent) != str(path.parent):
            raise StoreError(f"{self._url}: {name}: a symbolic link leads to it")
        return path

    def _open(self, path: Path) -> IO[bytes]:
        if path.is_dir():  # a folder of objects
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return open_regular(path)

    def _write(
        self, name: str, fill: Callable[[Path], None], put: Callable[[Path, Path], bool]
    ) -> bool:
        """Fill a temporary file, and give it the name; return what ``put`` returns."""
        with self._explained(name, "cannot be written"):
            path = self._place(name)
            for _ in range(_TRIES - 1):
                with contextlib.suppress(FileNotFoundError):
                    return self._fill_and_put(path, fill, put)
            return self._fill_and_put(path, fill, put)

    def _fill_and_put(
        self, path: Path, fill: Callable[[Path], None], put: Callable[[Path, Path], bool]
    ) -> bool:
        part = self._name_part()
        try:
            fill(part)
            self._make_folder(path.parent)
            made = put(part, path)
            with contextlib.suppress(FileNotFoundError):  # another process has deleted it already
                _sync(path.parent)
            return made
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)

    def _name_part(self) -> Path:
        """Return a path for a temporary file."""
        partial = self._folder / _PARTIAL
        self._make_folder(partial)
        if not self._cleaned:
            self._cleaned = True
            _remove_leftovers(partial)
        return partial / f"{os.getpid()}.{secrets.token_hex(8)}{_PART}"

    def _make_folder(self, folder: Path) -> None:
        if not folder.is_dir():
            if folder != self._folder:
                self._make_folder(folder.parent)
            folder.mkdir(exist_ok=True, parents=folder == self._folder)
            _sync(folder.parent)

    def _folder_exists(self, folder: str) -> bool:
        """Return whether the folder exists. Raises OSError if the whole store is gone."""
        if folder and os.path.lexists(self._place(f"{folder}/x").parent):
            return True
        # the disk may have been unmounted: this is not an empty store
        if not (self._folder / MARK).exists():
            raise OSError("the store no longer exists")
        return not folder

    def _walk(self, folder: str, rest: str) -> Iterator[Stored]:
        for name, entry in self._list(folder, rest):
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(name, "")
            elif entry.is_file(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):
                    yield Stored(name=name, size=entry.stat(follow_symlinks=False).st_size)

    def _list(self, folder: str, rest: str) -> list[tuple[str, os.DirEntry[str]]]:
        """Return the folder's entries that may be objects or folders, sorted by full name."""
        try:
            with os.scandir(self._folder / folder) as entries:
                found = [each for each in entries if is_safe_part(each.name)]
        except (FileNotFoundError, NotADirectoryError):  # the folder became empty and was removed
            return []
        named = ((f"{folder}{each.name}{'/' * each.is_dir()}", each) for each in found)
        wanted = (pair for pair in named if pair[0].startswith(f"{folder}{rest}"))
        return sorted(wanted, key=itemgetter(0))


def _is_there(path: Path) -> bool:
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    if not stat.S_ISREG(found.st_mode):
        raise OSError("a folder, a link or a special file has its name")
    return True


def _write_part(part: Path, content: bytes | Path) -> None:
    with (
        part.open("xb") as file,
        BytesIO(content) if isinstance(content, bytes) else content.open("rb") as source,
    ):
        with contextlib.suppress(OSError):  # the file system may not support locks
            take_lock(file)  # shows other processes that the writer is alive
        shutil.copyfileobj(source, file, _PIECE)
        file.flush()
        os.fsync(file.fileno())  # otherwise a power failure could leave a name without content


def _link_part(part: Path, origin: Path) -> None:
    try:
        os.link(origin, part)
    except OSError as error:
        if os.name == "posix" and error.errno not in _NO_LINKS:
            raise
        _write_part(part, origin)


def _replace(part: Path, path: Path) -> bool:
    part.replace(path)
    return True


def _link(part: Path, path: Path) -> bool:
    """Give a file its name unless that is taken; rename it if there are no hard links."""
    try:
        os.link(part, path)
    except FileExistsError:
        # A network file system may have made the link, and lost its answer.
        return part.stat().st_nlink == 2
    except OSError as error:
        if os.name == "posix" and error.errno not in _NO_LINKS:
            raise
        return _rename(part, path)
    return True


def _rename(part: Path, path: Path) -> bool:
    """Rename a file unless the name is taken; processes do this one after another."""
    with take_turns(part.with_name("renaming"), _LONGEST_TURN):
        if path.exists():
            return False
        part.rename(path)
    return True


def _remove_leftovers(partial: Path) -> None:
    """Remove temporary files of dead writers; living ones hold a lock."""
    for part in partial.glob(f"*{_PART}"):
        with contextlib.suppress(OSError), part.open("r+b") as file:
            if take_lock(file) and os.name == "posix":
                part.unlink()
                continue
        if os.name != "posix":
            with contextlib.suppress(OSError):  # Windows cannot remove an open file
                part.unlink()


def _sync(folder: Path) -> None:
    """Make sure that a folder's names survive a power failure."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

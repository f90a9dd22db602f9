"""A store in a folder: files written elsewhere in it, and linked to their names when whole.

A writer that is killed leaves a file among the partial ones alone, which the next writer removes.
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
from binary_checks.files import open_regular, take_turns, try_lock
from binary_checks.fleet.store import MOST_READ, Stored
from binary_checks.fleet.store.store_names import (
    MARK,
    demand_derived,
    demand_name,
    demand_prefix,
    is_safe_part,
)

_PARTIAL = ".partial"  # no name begins with a dot
_PART = ".part"
_PIECE = 1 << 20  # bytes that are copied at once
_TRIES = 5  # of what a cleaner, or a deletion of an empty folder, may come between
_LONGEST_TURN = 60.0  # seconds for which another may be renaming
_NOT_OURS = frozenset({"lost+found"})  # of a disk that was just formatted
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class FolderStore:
    """The store below a folder, which need not be there as long as nothing is written."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = Path(os.path.realpath(folder))
        self._url = url
        self._cleaned = False

    @property
    def url(self) -> str:
        """How the user named it."""
        return self._url

    def create(self, name: str, content: bytes | Path) -> bool:
        """Write an object whole, unless there is one of that name; whether it was written."""
        with self._explained(name, "cannot be written"):
            path = self._place(name)
            for _ in range(_TRIES - 1):
                with contextlib.suppress(FileNotFoundError):
                    return not self._is_there(path) and self._write(path, content)
            return not self._is_there(path) and self._write(path, content)

    def replace(self, name: str, content: bytes) -> None:
        """Write an object that can be made again, in place of the one of its name."""
        self._put(demand_derived(name), lambda part: _write_part(part, content))

    def repeat(self, name: str, source: str) -> None:
        """The same with the bytes of another object: a link to them, where there are links."""
        demand_derived(name)
        with self._explained(source, "cannot be read"):
            origin = self._place(source)
            self._open(origin).close()
        self._put(name, lambda part: _link_part(part, origin))

    def read(self, name: str, most: int = MOST_READ) -> bytes | None:
        """All of an object; None where there is none of that name."""
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
        """The bytes of an object, piece by piece."""
        with self._explained(name, "cannot be read"), self._open(self._place(name)) as file:
            while piece := file.read(_PIECE):
                yield piece

    def names(self, prefix: str) -> Iterator[Stored]:
        """Every object whose name begins so, sorted by name."""
        folder, _, rest = demand_prefix(prefix).rpartition("/")
        with self._explained(prefix, "cannot be listed"):
            if self._lies_there(folder):
                yield from self._walk(f"{folder}/" if folder else "", rest)

    def folders(self, prefix: str) -> Iterator[str]:
        """What names that begin so have up to and with the next "/", each once, sorted."""
        folder, _, rest = demand_prefix(prefix).rpartition("/")
        with self._explained(prefix, "cannot be listed"):
            if self._lies_there(folder):
                above = f"{folder}/" if folder else ""
                for name, entry in self._list(above, rest):
                    # A folder without a file is nothing that an object store could have.
                    if entry.is_dir(follow_symlinks=False) and next(self._walk(name, ""), None):
                        yield name

    def delete(self, name: str) -> None:
        """Remove an object; one that is not there is no error."""
        with self._explained(name, "cannot be deleted"):
            path = self._place(name)
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()
            for above in path.parents:
                if above == self._folder or not _remove_empty(above):
                    return

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        """The object's own file."""
        with self._explained(name, "cannot be read"):
            path = self._place(name)
            self._open(path).close()
        yield path

    def top(self) -> list[str]:
        """What lies at the top, folders with "/", sorted."""
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
        """Where the object lies; never behind a link, which may lead anywhere."""
        path = self._folder.joinpath(*demand_name(name).split("/"))
        if os.path.realpath(path.parent) != str(path.parent):
            raise StoreError(f"{self._url}: {name}: a link leads to it")
        return path

    def _open(self, path: Path) -> IO[bytes]:
        if path.is_dir():  # the beginning of names, and none itself
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return open_regular(path)

    def _is_there(self, path: Path) -> bool:
        try:
            found = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        if not stat.S_ISREG(found.st_mode):
            raise OSError("something else than a file has its name")
        return True

    def _write(self, path: Path, content: bytes | Path) -> bool:
        part = self._name_part()
        with _removed(part):
            _write_part(part, content)
            self._make_folder(path.parent)
            made = _link(part, path)
            _sync(path.parent)
        return made

    def _put(self, name: str, make: Callable[[Path], None]) -> None:
        """Give what is made the name, whoever has it."""
        with self._explained(name, "cannot be written"):
            path = self._place(name)
            for _ in range(_TRIES - 1):
                with contextlib.suppress(FileNotFoundError):
                    return self._make_and_put(path, make)
            return self._make_and_put(path, make)

    def _make_and_put(self, path: Path, make: Callable[[Path], None]) -> None:
        part = self._name_part()
        with _removed(part):
            make(part)
            self._make_folder(path.parent)
            part.replace(path)
            _sync(path.parent)

    def _name_part(self) -> Path:
        """Where something may be made that gets its name when it is whole."""
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

    def _lies_there(self, folder: str) -> bool:
        """Whether there is a folder to be listed. Raises OSError where the whole store is gone."""
        if folder and os.path.lexists(self._place(f"{folder}/x").parent):
            return True
        if not (self._folder / MARK).exists():  # a disk that was unmounted is no empty store
            raise OSError("the store is gone")
        return not folder

    def _walk(self, folder: str, rest: str) -> Iterator[Stored]:
        for name, entry in self._list(folder, rest):
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(name, "")
            elif entry.is_file(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):
                    yield Stored(name=name, size=entry.stat(follow_symlinks=False).st_size)

    def _list(self, folder: str, rest: str) -> list[tuple[str, os.DirEntry[str]]]:
        """What lies in a folder and may be an object's, in the order of whole names."""
        try:
            with os.scandir(self._folder / folder) as entries:
                found = [each for each in entries if is_safe_part(each.name)]
        except (FileNotFoundError, NotADirectoryError):  # it was empty, and removed meanwhile
            return []
        named = ((f"{folder}{each.name}{'/' * each.is_dir()}", each) for each in found)
        wanted = (pair for pair in named if pair[0].startswith(f"{folder}{rest}"))
        return sorted(wanted, key=itemgetter(0))


def _write_part(part: Path, content: bytes | Path) -> None:
    with part.open("xb") as file:
        try_lock(file)  # by which others know that its writer lives
        _copy(content, file)
        os.fsync(file.fileno())  # else a host that fails leaves a name without its content


def _link_part(part: Path, origin: Path) -> None:
    try:
        os.link(origin, part)
    except OSError as error:
        if os.name == "posix" and error.errno not in _NO_LINKS:
            raise
        _write_part(part, origin)


def _link(part: Path, path: Path) -> bool:
    """Give it its name, unless another has it; where file systems have no links, by renaming."""
    try:
        os.link(part, path)
    except FileExistsError:
        # A network file system may have lost its answer to a link that it made.
        return part.stat().st_nlink == 2
    except OSError as error:
        if os.name == "posix" and error.errno not in _NO_LINKS:
            raise
        return _rename(part, path)
    return True


def _rename(part: Path, path: Path) -> bool:
    """The same where one after the other may look whether the name is free."""
    with take_turns(part.with_name("renaming"), _LONGEST_TURN):
        if path.exists():
            return False
        part.rename(path)
    return True


def _copy(content: bytes | Path, file: IO[bytes]) -> None:
    with BytesIO(content) if isinstance(content, bytes) else content.open("rb") as source:
        shutil.copyfileobj(source, file, _PIECE)
    file.flush()


@contextmanager
def _removed(part: Path) -> Iterator[None]:
    """Leave nothing there, whatever happens but the end of the process."""
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _remove_leftovers(partial: Path) -> None:
    """Remove what writers left who are no more: of those who live each holds a lock."""
    for part in partial.glob(f"*{_PART}"):
        with contextlib.suppress(OSError), part.open("r+b") as file:
            if try_lock(file) and os.name == "posix":
                part.unlink()
                continue
        if os.name != "posix":
            with contextlib.suppress(OSError):  # a file that is open cannot be removed there
                part.unlink()


def _remove_empty(folder: Path) -> bool:
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


def _sync(folder: Path) -> None:
    """Keep a folder's names, should the host fail."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

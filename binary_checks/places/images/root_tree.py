"""Unpacks a root file system from a tar stream that nobody vouches for, and digests its tree.

Only folders, files and links are made, with modes of ours and as the user's own; what belongs to a
machine (devices, host name, resolver) or to a package manager stays behind. So two streams of the
same packages give the same tree.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from binary_checks.errors import GatherError
from binary_checks.model.root_filesystem import MOUNT_POINTS, ImagePackage
from binary_checks.places.images.root_folders import follow

MOST_BYTES = 8 << 30
MOST_ENTRIES = 400_000
"""What a root may have: a Debian with wine has 1.1 GB and 20,000 entries."""
_DEEPEST = 200  # folders within each other
_ARCHIVES = "var/cache/apt/archives/"
_PACKAGE = re.compile(r"(?P<name>[^_/]+)_(?P<version>[^_/]+)_(?P<architecture>[^_/]+)\.deb")
_LEFT_OUT = re.compile(
    r"(?:dev|proc|sys|run|tmp|boot|var/(?:cache|log|lib|tmp)|etc/apt|usr/share/(?:doc|man|info"
    r"|lintian|locale|bug))/.*|etc/(?:hostname|resolv\.conf|machine-id|mtab)"
    r"|(?:.*/)?(?:__pycache__|\.wh\..*)(?:/.*)?"
)
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_WRITTEN = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "run/runner": "",  # where a runner of foreign programs is mounted
}
"""What no package has, and each system."""
_CHUNK = 1 << 20
_Describe = Callable[[Path, os.stat_result], Iterable[bytes]]


@dataclass(slots=True)
class _Unpacking:
    root: Path
    packages: list[ImagePackage] = field(default_factory=list)
    entries: int = 0
    size: int = 0
    real_folders: set[PurePosixPath] = field(default_factory=lambda: {PurePosixPath(".")})


def unpack_root(stream: IO[bytes], root: Path) -> tuple[ImagePackage, ...]:
    """Write the tree of a tar stream into a new folder; returns the packages that lie in it.

    Raises GatherError for a stream that is cut off, too large, or leads out of the folder.
    """
    state = _Unpacking(root=root)
    root.mkdir()
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                _take(archive, member, state)
    except tarfile.TarError as error:
        raise GatherError(f"the root file system cannot be read: {error}") from None
    _complete(root)
    return tuple(sorted(state.packages, key=str))


def _take(archive: tarfile.TarFile, member: tarfile.TarInfo, state: _Unpacking) -> None:
    path = PurePosixPath(member.name)
    state.entries += 1
    state.size += member.size
    if state.entries > MOST_ENTRIES or state.size > MOST_BYTES:
        raise GatherError("the root file system is larger than any system that we know")
    if len(path.parts) > _DEEPEST:
        raise GatherError(f"the root file system has more than {_DEEPEST} folders in one another")
    if path.is_absolute() or ".." in path.parts or "\0" in member.name:
        raise GatherError(f"the root file system has an entry that leads elsewhere: {member.name}")
    if found := _PACKAGE.fullmatch(path.name) if str(path).startswith(_ARCHIVES) else None:
        digest = _copy(archive, member, None)
        version = found["version"].replace("%3a", ":")
        state.packages.append(
            ImagePackage(
                name=found["name"],
                version=version,
                architecture=found["architecture"],
                sha256=digest,
            )
        )
    elif path.parts and not _LEFT_OUT.fullmatch(str(path)):
        _write(archive, member, path, state)


def _write(
    archive: tarfile.TarFile, member: tarfile.TarInfo, path: PurePosixPath, state: _Unpacking
) -> None:
    if member.isdev() or not _make_folders(path.parent, state):
        return
    target = state.root / path
    if member.isdir():
        _make_folders(path, state)
        return
    if target.is_symlink() or target.exists():
        raise GatherError(f"the root file system has two entries of one name: {path}")
    if member.issym():
        target.symlink_to(member.linkname)
    elif member.islnk():
        _link(PurePosixPath(member.linkname), target, state)
    elif member.isreg():
        _copy(archive, member, target)
        target.chmod(0o755 if member.mode & 0o100 else 0o644)


def _make_folders(path: PurePosixPath, state: _Unpacking) -> bool:
    """Make a folder and those above; False where one of them is a link, through which none goes."""
    if path in state.real_folders:
        return True
    if not _make_folders(path.parent, state):
        return False
    target = state.root / path
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise GatherError(f"the root file system has a folder where a file or link lies: {path}")
    target.mkdir(exist_ok=True)
    state.real_folders.add(path)
    return True


def _link(source: PurePosixPath, target: Path, state: _Unpacking) -> None:
    """Make a hard link, to a file that was unpacked before."""
    inside = source.parts and not source.is_absolute() and ".." not in source.parts
    path = state.root / source
    if inside and _LEFT_OUT.fullmatch(str(source)):
        return
    real = inside and source.parent in state.real_folders and not path.is_symlink()
    if not real or not path.is_file():
        raise GatherError(f"the root file system has a link that leads elsewhere: {source}")
    os.link(path, target)


def _copy(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path | None) -> str:
    """Copy a member's content to a new file, or nowhere; returns its SHA-256."""
    content, digest = archive.extractfile(member), hashlib.sha256()
    assert content is not None
    with open(target or os.devnull, "xb" if target else "wb") as file:  # noqa: PTH123
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()


def _complete(root: Path) -> None:
    """Add what each system has: merged folders, mount points, the few files that name users."""
    for name in _MERGED:
        path = root / name
        if not path.is_symlink() and not path.exists() and (root / "usr" / name).is_dir():
            path.symlink_to(f"usr/{name}")
    for name in MOUNT_POINTS:
        _make_inside(root, PurePosixPath(name))
    for name, text in _WRITTEN.items():
        inside = PurePosixPath(name)
        path = _make_inside(root, inside.parent) / inside.name
        if not path.is_symlink() and not path.exists():
            path.write_text(text, encoding="ascii")
            path.chmod(0o644)
    for path in _walk(root):
        if not path.is_symlink() and path.is_dir():
            path.chmod(0o755)
        os.utime(path, ns=(0, 0), follow_symlinks=False)
    root.chmod(0o755)
    os.utime(root, ns=(0, 0))


def _make_inside(root: Path, path: PurePosixPath) -> Path:
    """Make a folder, through links as the root's own processes follow them: none leads out of it.

    Returns where it lies.
    """
    real = root
    for part in path.parts:
        shown = (real / part).relative_to(root).as_posix()
        if (real / part).is_symlink():
            found = follow(root, shown)
            if found is None:
                raise GatherError(f"the root file system has a link to nothing at {shown}")
            real = found
        else:
            real /= part
        if not real.is_dir() and real.exists():
            raise GatherError(f"the root file system has no folder at {shown}")
        real.mkdir(exist_ok=True)
    return real


def _walk(folder: Path) -> Iterator[Path]:
    """Yield all below a folder, the lowest first."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)
        yield path


def digest_tree(root: Path) -> str:
    """Digest paths, modes, contents and links of a tree, whoever owns it and whenever it was made.

    Raises GatherError where something of it cannot be read.
    """
    return _digest(root, _describe)


def stamp_tree(root: Path) -> str:
    """Digest paths, modes, sizes, times and links: cheap, and moved by whatever writes to it."""
    return _digest(root, _describe_cheaply)


def measure_tree(root: Path) -> int:
    """Count the bytes of a tree's files."""
    found = (path.lstat() for path in _walk(root))
    return sum(each.st_size for each in found if stat.S_ISREG(each.st_mode))


def _digest(root: Path, describe: _Describe) -> str:
    digest = hashlib.sha256()
    try:
        for path in _walk(root):
            shown = os.fsencode(path.relative_to(root).as_posix())
            digest.update(b"\0".join((*describe(path, path.lstat()), shown)) + b"\n")
    except OSError as error:
        raise GatherError(f"{error.filename}: {error.strerror}") from None
    return digest.hexdigest()


def _describe(path: Path, found: os.stat_result) -> Iterable[bytes]:
    if stat.S_ISLNK(found.st_mode):
        return b"link", os.fsencode(path.readlink())
    if stat.S_ISDIR(found.st_mode):
        return b"folder", _spell_mode(found)
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return b"file", _spell_mode(found), digest.hexdigest().encode()


def _describe_cheaply(path: Path, found: os.stat_result) -> Iterable[bytes]:
    if stat.S_ISLNK(found.st_mode):
        return b"link", os.fsencode(path.readlink())
    if stat.S_ISDIR(found.st_mode):
        return b"folder", _spell_mode(found), str(found.st_mtime_ns).encode()
    size, time = str(found.st_size).encode(), str(found.st_mtime_ns).encode()
    return b"file", _spell_mode(found), size, time


def _spell_mode(found: os.stat_result) -> bytes:
    return f"{stat.S_IMODE(found.st_mode):o}".encode()

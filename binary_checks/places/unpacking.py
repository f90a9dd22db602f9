"""Writes the members of a package to disk, as our own reader yields them, and none elsewhere.

No extractor is trusted with it: a name that leads out of the folder, a link that does, a member
behind a link, and two members of one name are each a reason to write nothing that could be used.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from binary_checks.errors import BrokenDataError, GatherError, Unavailable
from binary_checks.model.packages import CppArchive, Member, Package
from binary_checks.model.protocols import Tree, TreeEntry

_MARGIN = 256 << 20  # bytes that stay free on the disk
_DRIVE = re.compile(r"[A-Za-z]:")
_FULL = (errno.ENOSPC, errno.EDQUOT)


class RefusedMember(Exception):
    """A member that no archive of its kind needs: nothing is unpacked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Target:
    """Where it is written, and what is made once all files lie there.

    So nothing is ever written through a link.
    """

    root: Path
    soft: dict[str, str]  # name of the link -> path that it leads to, both below the root
    hard: dict[str, str]


def unpack(tree: Tree, package: Package, folder: Path, *, seconds: float) -> None:
    """Write every member of the package below the folder, which is empty.

    Each is held against the hash with which the package was read. Raises RefusedMember for what is
    the package's fault, GatherError for a disk that is full, Unavailable where it takes too long.
    """
    top = package.top if isinstance(package, CppArchive) else ""
    members = {member.archive_name: member for member in package.members}
    entries = tree.entries()
    _demand_room(folder, sum(entry.size for entry in entries))
    deadline = time.monotonic() + seconds
    target = _Target(root=folder, soft={}, hard={})
    _demand_all_apart(entries)  # before anything is written
    try:
        for entry, content in tree.contents(entries):
            if time.monotonic() > deadline:
                raise Unavailable(f"unpacking it takes more than {seconds:g} s")
            name = _demand_safe(entry)
            member = members.get(entry.stored)
            if member is None:
                raise GatherError(f"{name} was not there when it was read: it has changed")
            leads = posixpath.join(top, member.target) if member.target else ""
            _write(target, name, replace(member, target=leads), content)
        _link(target)
    except BrokenDataError as error:
        raise RefusedMember(str(error)) from None
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            raise GatherError(f"the disk is full: {reason}") from None
        raise GatherError(f"it cannot be unpacked here: {reason}") from None


def _demand_room(folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if size + _MARGIN > free:
        mib = 1 << 20
        needs = f"unpacked it takes {size // mib:,} MiB, and {free // mib:,} MiB are free"
        raise GatherError(f"{needs} where temporary files lie (TMPDIR)")


def _demand_safe(entry: TreeEntry) -> str:
    """The member's name, which leads nowhere but below the folder."""
    name = entry.name.removesuffix("/")
    parts = name.split("/")
    parts = parts[1:] if parts[0] == "." else parts  # as `tar c .` writes it
    odd = not name or "\0" in name or "\\" in name or _DRIVE.match(name)
    if odd or (parts and any(part in {"", ".", ".."} for part in parts)):
        raise RefusedMember(f"{entry.name!r} is no path below the folder that it is unpacked in")
    return "/".join(parts)


def _demand_all_apart(entries: Iterable[TreeEntry]) -> None:
    """Refuse a second member of one name, and one that lies behind what is no folder."""
    folders: dict[str, bool] = {}  # the names so far, and those of the folders above them
    for entry in entries:
        above = name = _demand_safe(entry)
        while above := posixpath.dirname(above):
            if not folders.setdefault(above, True):
                raise RefusedMember(f"{name} lies behind {above}, which is no folder")
        is_folder = entry.name.endswith("/")
        if name in folders and not (is_folder and folders[name]):
            raise RefusedMember(f"{name} is there twice")
        folders[name] = is_folder


def _write(target: _Target, name: str, member: Member, content: Iterator[bytes]) -> None:
    kind = stat.S_IFMT(member.mode) or stat.S_IFREG
    path = target.root / name
    if member.is_directory:
        path.mkdir(parents=True, exist_ok=True)
    elif kind == stat.S_IFLNK:
        target.soft[name] = member.target
    elif kind != stat.S_IFREG:
        raise RefusedMember(f"{name} is neither a file nor a folder nor a link")
    elif member.target:
        target.hard[name] = member.target
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_file(path, name, member, content)


def _write_file(path: Path, name: str, member: Member, content: Iterator[bytes]) -> None:
    digest, size = sha256(), 0
    runs = stat.S_IMODE(member.mode) & 0o111
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags, 0o755 if runs else 0o644)  # no other bit of its mode
    with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no path
        for piece in content:
            size += len(piece)
            if size > member.size:
                raise GatherError(f"{name} is larger than it was before: it has changed")
            digest.update(piece)
            file.write(piece)
    if member.sha256 and digest.hexdigest() != member.sha256:
        raise GatherError(f"{name} is another than the one that was read before: it has changed")


def _link(target: _Target) -> None:
    """Make the links, and then demand that each leads to what lies below the folder."""
    root = target.root.resolve()
    for name, leads in target.hard.items():
        source = (root / leads).resolve()
        if not source.is_relative_to(root) or not source.is_file():
            raise RefusedMember(f"{name} is a link to {leads}, which is no file of the package")
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        os.link(source, root / name)
    for name, leads in target.soft.items():
        inside = posixpath.normpath(leads) if leads else ".."
        if inside.startswith(("/", "../")) or inside == ".." or "\0" in inside:
            raise RefusedMember(f"{name} links to {leads or 'nothing'}, outside of the package")
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(posixpath.relpath(inside, posixpath.dirname(name) or "."))
    for name in target.soft:
        # By way of other links it may lead elsewhere than its own text says.
        if not Path(os.path.realpath(root / name)).is_relative_to(root):
            raise RefusedMember(f"{name} leads out of the package over other links")

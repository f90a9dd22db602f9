"""Reads from the bytes of a root file system what it is: its loader, its C library, its Pythons.

Nothing of it runs, and no link leads out of it.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from binary_checks.errors import Unavailable
from binary_checks.model.root_filesystem import ImagePython

_LINKS = 40  # as many as Linux follows
_MACHINES = {
    (1, 3): "i686",
    (1, 40): "armv7l",
    (2, 21): "ppc64le",
    (2, 22): "s390x",
    (2, 62): "x86_64",
    (2, 183): "aarch64",
    (2, 243): "riscv64",
    (2, 258): "loongarch64",
}
"""By ELF class and e_machine."""
_LOADERS = ("lib64/ld*.so.[0-9]*", "lib/ld*.so.[0-9]*", "usr/lib*/ld*.so.[0-9]*")
_GLIBC = re.compile(rb"GNU C Library \([^)]*\) (?:stable|development) release version (\d+\.\d+)")
_MUSL = re.compile(rb"\0(1\.\d+\.\d+)(?:-git[^\0]*)?\0")
_PYTHON = re.compile(r"python(3\.\d+t?)")
_PROGRAMS = ("usr/bin", "usr/local/bin", "bin")
_MOST = 64 << 20  # bytes of a C library: 2 MB are usual


def find_loader(root: Path) -> str:
    """Find the dynamic loader: "/lib64/ld-linux-x86-64.so.2"; raises Unavailable without one."""
    for pattern in _LOADERS:
        folder, _, name = pattern.rpartition("/")
        for parent in sorted(root.glob(folder)):
            real = follow(root, parent.relative_to(root).as_posix())
            for path in sorted(real.glob(name)) if real else ():
                shown = f"{parent.relative_to(root).as_posix()}/{path.name}"
                if follow(root, shown):
                    return f"/{shown}"
    raise Unavailable(f"{root}: no root file system of Linux: it has no dynamic loader")


def read_machine(root: Path, loader: str) -> str:
    """Read for which architecture the loader is, in the model's spelling; "" for another one."""
    path = follow(root, loader)
    head = _read(path, 20) if path else b""
    if len(head) < 20 or not head.startswith(b"\x7fELF"):
        return ""
    order = "big" if head[5] == 2 else "little"
    return _MACHINES.get((head[4], int.from_bytes(head[18:20], order)), "")  # type: ignore[arg-type]


def read_libc(root: Path, loader: str) -> str:
    """Read the C library's name and version from its bytes: "glibc 2.31", "musl 1.2.5"."""
    path = follow(root, loader)
    if path is None:
        return ""
    if "musl" in loader:
        found = _MUSL.search(_read(path, _MOST))
        return f"musl {found[1].decode()}" if found else "musl"
    libc = follow_name(root, path, "libc.so.6")
    found = _GLIBC.search(_read(libc, _MOST)) if libc else None
    return f"glibc {found[1].decode()}" if found else "glibc"


def follow_name(root: Path, beside: Path, name: str) -> Path | None:
    """Find a library beside the file given, or in the folders of a multiarch system."""
    folders = [
        beside.parent,
        *sorted(root.glob("usr/lib/*-linux-*")),
        *sorted(root.glob("lib/*-linux-*")),
    ]
    folders += [root / each for each in ("lib64", "usr/lib64", "lib", "usr/lib")]
    for folder in folders:
        if found := follow(root, f"{folder.relative_to(root).as_posix()}/{name}"):
            return found
    return None


def find_pythons(root: Path) -> tuple[ImagePython, ...]:
    """Find the interpreters of a root by their names."""
    found: dict[str, ImagePython] = {}
    for folder in _PROGRAMS:
        for path in sorted((root / folder).glob("python3.*")):
            named, shown = _PYTHON.fullmatch(path.name), f"{folder}/{path.name}"
            if named and follow(root, shown):
                found.setdefault(named[1], ImagePython(path=f"/{shown}", version=named[1]))
    return tuple(found.values())


def follow(root: Path, shown: str) -> Path | None:
    """Follow a path as a process in the root would; None where nothing lies there."""
    parts, done, links = list(PurePosixPath(shown).parts), PurePosixPath("/"), 0
    while parts:
        part = parts.pop(0)
        if part in ("/", "."):
            done = PurePosixPath("/") if part == "/" else done
            continue
        if part == "..":
            done = done.parent
            continue
        path = root / str(done / part)[1:]
        if path.is_symlink():
            links += 1
            if links > _LINKS:
                return None
            parts = [*PurePosixPath(path.readlink()).parts, *parts]
        elif not path.exists():
            return None
        else:
            done /= part
    return root / str(done)[1:]


def _read(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}") from None

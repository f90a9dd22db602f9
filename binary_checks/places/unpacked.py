"""C++ archives as places: unpacked, moved, and used in builds with the host's compilers."""

from __future__ import annotations

import errno
import os
import posixpath
import re
import shlex
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from binary_checks.errors import BrokenDataError, GatherError, NotApplicable, Unavailable
from binary_checks.model import (
    CppArchive,
    InstallReport,
    Member,
    ObjectReader,
    Package,
    Place,
    ReadObject,
    Tree,
    TreeEntry,
)
from binary_checks.places.host_place import HostPlace, PlaceSettings
from binary_checks.places.installers import find_installer, install
from binary_checks.places.sandbox import SYSTEM, find_visible, is_below
from binary_checks.places.venv import make_venv
from binary_checks.trees import open_tree
from binary_checks.trees.file_bytes import open_bytes
from binary_checks.trees.folder import FileByteSource

# bytes for all builds; one program linked with static libraries takes 1 GiB
_DISK = 8 << 30


class UnpackedPlace(HostPlace):
    """A folder with an unpacked and moved archive, in which programs that use it are built."""

    serves = (CppArchive,)
    spelled = ("venv",)

    def __init__(self, settings: PlaceSettings, requires: tuple[str, ...] = ()) -> None:
        super().__init__(settings, requires)
        self.limits = replace(self.limits, shared=_DISK)
        self._prefix: Path | None = None

    @property
    def prefix(self) -> Path:
        """The folder that contains ``lib`` and ``include``, after the move."""
        assert self._prefix is not None, "nothing is unpacked yet"
        return self._prefix

    @property
    def work(self) -> Path:
        """The folder for builds: probes write to it, and this process reads it."""
        folder = self.folder / "build"
        folder.mkdir(exist_ok=True)
        self.limits = replace(self.limits, writable=(folder,))
        return folder

    def make_folder(self, name: str) -> Path:
        """Make a folder for a build, with a name that earlier processes could not guess.

        Otherwise an earlier process could have put a link at its path, and the host would write
        through that link.
        """
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.work))

    def show(self, programs: tuple[Path, ...]) -> None:
        """Make programs of the host, and the files that they need, visible in the sandbox."""
        seen = (path for program in programs for path in find_files_of(program))
        visible = tuple(dict.fromkeys((*self.limits.visible, *seen)))
        self.limits = replace(self.limits, visible=visible)

    def install_toolkit(self, requires: Sequence[str]) -> Path:
        """Install wheels that contain programs, make them visible, and return their root."""
        folder = self.folder / "toolkit"
        root = install_toolkit(requires, self.settings, folder)
        self.limits = replace(self.limits, visible=(*self.limits.visible, folder))
        return root

    def _install(self, package: Package) -> InstallReport:
        """Unpack the archive in one folder, then move it to another before anything reads it."""
        assert isinstance(package, CppArchive)
        unpacked, moved = self.folder / "unpacked", self.folder / "moved"
        unpacked.mkdir()
        with closing(open_tree(package.path)) as tree:
            try:
                unpack(tree, package, unpacked, seconds=self.timeout)
            except RefusedMember as error:
                return self._report(str(error))
        unpacked.rename(moved)
        self._prefix = prefix = moved / package.top if package.top else moved
        if not prefix.is_dir():
            raise GatherError(f"{package.path.name}: {package.top} was not unpacked")
        self.limits = replace(self.limits, visible=(*self.limits.visible, prefix))
        return self._report("")

    def require_installed(self, package: Package) -> None:  # noqa: ARG002 - the others' signature
        """Raise NotApplicable, because no Python imports anything from the archive."""
        raise NotApplicable("it is no package for Python")

    def require_unpacked(self, package: Package) -> None:
        """Raise Unavailable if the archive could not be unpacked."""
        super().require_installed(package)

    def _report(self, error: str) -> InstallReport:
        return InstallReport(python=self.target.name, installer="unpacking", error=error)

    def read_program(self, path: str, reader: ObjectReader) -> tuple[ReadObject, ...]:
        """Read a program that was built, given its path below the folder for builds."""
        with open_bytes(self.work / path) as file:
            return reader.read_objects(path, FileByteSource(file))

    def _name_folders(self) -> dict[Path, str]:
        own = {self._prefix: "", self.work: "build/"} if self._prefix else {}
        return {**own, **super()._name_folders()}


def require_builds(place: Place) -> UnpackedPlace:
    """Return the place if C++ programs can be built in it. Raises Unavailable for other places."""
    if isinstance(place, UnpackedPlace):
        return place
    raise Unavailable("programs can only be built and linked on this host, not in this place")


# Unpacking: the reader of this project yields the members, which are written to disk.
#
# No extractor is trusted. The archive is refused if a name or a link leads out of the folder, if
# the path of a member leads through a link, or if two members have the same name.

_MARGIN = 256 << 20  # bytes that must stay free on the disk
_DRIVE = re.compile(r"[A-Za-z]:")
_FULL = (errno.ENOSPC, errno.EDQUOT)


class RefusedMember(Exception):
    """The package has a member that no valid archive needs; nothing of it is unpacked."""


def unpack(tree: Tree, package: Package, folder: Path, *, seconds: float) -> None:
    """Write all members of the package below the folder, which is empty.

    Each member's hash must be the one computed when the package was read. Raises RefusedMember for
    a fault of the package, GatherError for a full disk or a changed file, Unavailable if unpacking
    takes too long.
    """
    top = package.top if isinstance(package, CppArchive) else ""
    members = {member.archive_name: member for member in package.members}
    entries = tree.entries()
    size, free = sum(entry.size for entry in entries), shutil.disk_usage(folder).free
    if size + _MARGIN > free:
        mib = 1 << 20
        needs = f"it takes {size // mib:,} MiB when unpacked, but only {free // mib:,} MiB are free"
        raise GatherError(f"{needs} for temporary files (set TMPDIR)")
    deadline = time.monotonic() + seconds
    # The path to which each link leads, by the link's name; both are below the folder. No file is
    # ever written through a link, because links are made last.
    soft, hard = dict[str, str](), dict[str, str]()
    _require_all_apart(entries)  # before any file is written
    try:
        for entry, content in tree.contents(entries):
            if time.monotonic() > deadline:
                raise Unavailable(f"unpacking it takes more than {seconds:g} s")
            name = _require_safe(entry)
            member = members.get(entry.stored)
            if member is None:
                raise GatherError(f"{name} was added after the archive was read")
            kind = stat.S_IFMT(member.mode) or stat.S_IFREG
            leads = posixpath.join(top, member.target) if member.target else ""
            if member.is_directory:
                (folder / name).mkdir(parents=True, exist_ok=True)
            elif kind == stat.S_IFLNK:
                soft[name] = leads
            elif kind != stat.S_IFREG:
                raise RefusedMember(f"{name} is neither a file, a folder nor a link")
            elif leads:
                hard[name] = leads
            else:
                _write_file(folder / name, name, member, content)
        _link(folder.resolve(), soft, hard)
    except BrokenDataError as error:
        raise RefusedMember(str(error)) from None
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            raise GatherError(f"the disk is full: {reason}") from None
        raise GatherError(f"it cannot be unpacked here: {reason}") from None


def _require_safe(entry: TreeEntry) -> str:
    """Return the member's name. Raises RefusedMember if it is not a path below the folder."""
    name = entry.name.removesuffix("/")
    parts = name.split("/")
    parts = parts[1:] if parts[0] == "." else parts  # `tar c .` writes names that begin with "./"
    odd = not name or "\0" in name or "\\" in name or _DRIVE.match(name)
    if odd or (parts and any(part in {"", ".", ".."} for part in parts)):
        raise RefusedMember(f"{entry.name!r} is not a path below the folder that it is unpacked in")
    return "/".join(parts)


def _require_all_apart(entries: Iterable[TreeEntry]) -> None:
    """Raise RefusedMember for a repeated name, and for a member below a file or a link."""
    # names until now with their parent folders; the value is whether it is a folder
    folders: dict[str, bool] = {}
    for entry in entries:
        above = name = _require_safe(entry)
        while above := posixpath.dirname(above):
            if not folders.setdefault(above, True):
                raise RefusedMember(f"{name} is below {above}, which is not a folder")
        is_folder = entry.name.endswith("/")
        if name in folders and not (is_folder and folders[name]):
            raise RefusedMember(f"{name} is there twice")
        folders[name] = is_folder


def _write_file(path: Path, name: str, member: Member, content: Iterator[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    digest, size = sha256(), 0
    runs = stat.S_IMODE(member.mode) & 0o111
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    # no other bit of the member's mode is set
    descriptor = os.open(path, flags, 0o755 if runs else 0o644)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no path
        for piece in content:
            size += len(piece)
            if size > member.size:
                raise GatherError(f"{name} has grown since it was read")
            digest.update(piece)
            file.write(piece)
    if member.sha256 and digest.hexdigest() != member.sha256:
        raise GatherError(f"{name} has changed since it was read")


def _link(root: Path, soft: Mapping[str, str], hard: Mapping[str, str]) -> None:
    """Make the links. Raises RefusedMember if a link leads out of the folder."""
    for name, leads in hard.items():
        source = (root / leads).resolve()
        if not source.is_relative_to(root) or not source.is_file():
            raise RefusedMember(f"{name} is a link to {leads}, which is not a file of the package")
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        os.link(source, root / name)
    for name, leads in soft.items():
        inside = posixpath.normpath(leads) if leads else ".."
        if inside.startswith(("/", "../")) or inside == ".." or "\0" in inside:
            raise RefusedMember(f"{name} links to {leads or 'nothing'}, outside of the package")
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(posixpath.relpath(inside, posixpath.dirname(name) or "."))
    for name in soft:
        # A link may lead out of the folder through other links, although its own target does not.
        if not Path(os.path.realpath(root / name)).is_relative_to(root):
            raise RefusedMember(f"{name} leads out of the package through other links")


# Compilers and build tools of the host, and the files that a sandbox must show for them.

_SHIMS = "shims"
"""The folder of pyenv and similar tools; its scripts run files that a sandbox does not show."""
_PARTS = ("bin", "lib", "lib64", "libexec", "include", "share/cmake*", "share/gcc*", "*-*-*")
"""Folders of a prefix that a compiler or CMake may read; ``*-*-*`` matches a target triplet."""
_PROGRAMS = ("bin", "sbin")
_PYTHON = re.compile(r"#!\s*(?P<path>/\S*python[\d.]*)\b")
OWN_FOLDER = Path(sys.executable).parent
"""The folder in which ``pip install cmake ninja`` puts programs; it may not be on PATH."""
_HEAD = 512  # bytes of a script that include its first line


def find_programs(names: Iterable[str], environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return every program with these names, in their order: on PATH, then next to this Python."""
    folders = [Path(each) for each in environ.get("PATH", "").split(os.pathsep) if each]
    folders = [each for each in folders if each.is_absolute() and each.name != _SHIMS]
    folders.append(OWN_FOLDER)
    ending = ".exe" if os.name == "nt" else ""
    found = (folder / f"{name}{ending}" for name in names for folder in folders)
    real = {
        path.parent.resolve() / path.name: path for path in reversed(list(found)) if _runs(path)
    }
    # /bin may be /usr/bin: keep only the first path of each program
    return tuple(reversed(real.values()))


def find_named(variable: str, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the program that a variable such as CXX names, if it has no arguments."""
    try:
        (word,) = shlex.split(environ.get(variable, ""))
    except ValueError:
        return ()
    return (Path(word),) if os.sep in word and _runs(Path(word)) else find_programs([word], environ)


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def find_files_of(program: Path) -> Iterator[Path]:
    """Yield the folders that a program needs, in addition to those that every process sees."""
    for path in dict.fromkeys((program, program.resolve())):
        if not is_below(path, SYSTEM):
            yield path
            prefix = path.parent.parent
            if path.parent.name in _PROGRAMS and prefix != Path(prefix.anchor):
                parts = (each for part in _PARTS for each in sorted(prefix.glob(part)))
                yield from filter(Path.is_dir, parts)
            yield from _find_python(path)


def _find_python(program: Path) -> tuple[Path, ...]:
    """Return the files of the Python that runs a script, for example of CMake from PyPI."""
    try:
        with program.open("rb") as file:
            line = file.read(_HEAD).partition(b"\n")[0].decode("utf-8", "replace")
        found = _PYTHON.match(line)
        return find_visible(Path(found["path"])) if found else ()
    except (OSError, GatherError):
        return ()


# A CUDA toolkit assembled from NVIDIA's wheels, for build tools that expect an installed one.
#
# The wheels of CUDA 13 contain nvcc, headers and libraries in ``nvidia/cu13``, but no links such as
# ``libcudart.so``, by which linkers and CMake find a library, and no folder ``lib64``.

_NUMBERED = re.compile(r"(?P<name>lib[\w.-]+?\.so)\.[\d.]+")


def install_toolkit(requires: Sequence[str], settings: PlaceSettings, folder: Path) -> Path:
    """Install the wheels below a folder, and return the root of the toolkit made from them.

    Raises Unavailable if a wheel is not available or none contains nvcc, GatherError if the index
    or the machine failed.
    """
    root = folder.resolve()
    root.mkdir(parents=True, exist_ok=True)
    python = make_venv(settings.python, root, settings.timeout)
    cwd = root / "empty"
    installer = find_installer(python, cwd=cwd, timeout=settings.timeout)
    error = install(
        installer, tuple(requires), index=settings.index, cwd=cwd, timeout=settings.timeout
    )
    if error:
        raise Unavailable(f"{', '.join(requires)} cannot be installed: {error}")
    programs = sorted(python.parents[1].glob("lib*/python*/site-packages/nvidia/cu*/bin/nvcc"))
    if not programs:
        raise Unavailable(f"none of {', '.join(requires)} contains nvcc")
    return assemble_toolkit(programs[-1].parents[1], root / "cuda")


def assemble_toolkit(source: Path, root: Path) -> Path:
    """Make the usual layout of a toolkit from the folder of NVIDIA's wheels; return its root.

    Programs are copied, because nvcc looks for its parts relative to its own real path.
    """
    shutil.copytree(source / "bin", root / "bin")
    for path in (root / "bin").iterdir():
        if path.is_file():
            path.chmod(0o755)
    for name in ("include", "nvvm"):
        if (source / name).is_dir():
            (root / name).symlink_to(source / name)
    libraries = root / "lib64"
    libraries.mkdir()
    (root / "lib").symlink_to("lib64")
    for path in sorted((source / "lib").iterdir()):
        (libraries / path.name).symlink_to(path)
        found = _NUMBERED.fullmatch(path.name)
        if found and not (libraries / found["name"]).is_symlink():
            (libraries / found["name"]).symlink_to(path)
    # CMake looks for a stub of the driver, which no wheel has. For a linker this is a script that
    # names another library: a program that calls the driver itself is not linked.
    (libraries / "stubs").mkdir()
    (libraries / "stubs" / "libcuda.so").write_text("INPUT ( -lc )\n", encoding="ascii")
    return root

"""What a package says of itself: names, members, metadata and the object files found in it."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar

from packaging.tags import Tag

from binary_checks.model.objects import MalformedObject, ObjectFile, UnreadObject

# What a package promises its users, whatever kind of package it is.

ANY_SYSTEM = "any"


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemClaim:
    """One family of systems that a package claims to run on.

    From a wheel's platform tag, from conda's subdir with ``__glibc`` or ``__osx``, or from the
    file name of a libtorch archive.
    """

    name: str  # as the package spells it: "manylinux_2_28_x86_64", "linux-64 with __glibc >=2.17"
    system: str = ""
    """``linux``, ``macos``, ``windows``, or another's own name (``ios``); ``any`` where the package
    claims every system; "" where it is not known what is claimed."""
    libc: str = ""  # of Linux: "glibc" or "musl"; "" where it does not say which
    minimum: tuple[int, int] | None = None
    """The oldest version of that libc or, elsewhere, of the system; None: nothing is promised."""
    architectures: tuple[str, ...] = ()  # as platform tags of Linux spell them; () if unknown
    libraries: tuple[str, ...] | None = None
    """Of the system's libraries those that it counts on: other packages bring the rest. None: all
    that such a system is known to have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PythonClaim:
    """One family of Pythons that a package claims to run on."""

    name: str  # as the package spells it: "cp311-cp311", "py3-none", "python 3.11"
    implementation: str = ""  # "cpython", "pypy", "graalpy"; "" for every one
    version: tuple[int, int] | None = None
    """The version, or with an ABI that is not bound to one the oldest; None: every one."""
    abi: str = ""  # "cp311", "cp313t", "abi3", "abi3t"; "" for none
    free_threaded: bool = False


PYTHON_3 = (3, 0)


def is_python_2(claim: PythonClaim) -> bool:
    """Whether a claim is of Python 2 alone: ``cp27-cp27mu``, ``py2-none``."""
    if claim.version is not None:
        return claim.version < PYTHON_3
    return claim.name.partition("-")[0] == "py2"


@dataclass(frozen=True, kw_only=True, slots=True)
class Claims:
    """What a package says of the systems it is for: each entry is a promise of its own."""

    systems: tuple[SystemClaim, ...] = ()  # each once, in the order of their names
    pythons: tuple[PythonClaim, ...] = ()  # none: it is bound to no Python
    requirements: tuple[str, ...] = ()
    """The other packages that it needs, as PEP 508 spells it; from a kind that has another
    spelling what PEP 508 can say of it, at least the name."""
    provided: tuple[str, ...] = ()
    """Libraries that those packages are known to bring: sonames, install names, DLL names."""
    partial: bool = False
    """Whether it is a part of what users get, as a single file or a folder of a build is: whatever
    is not in it may come with the rest."""
    variant: str = ""  # "cpu", "cu126": what it is built for, where one version has several builds


# Where the parts of an installed package lie, relative to the prefix they are installed in.


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """The folders of a prefix; the paths of all facts are relative to that prefix.

    A prefix is a virtual environment, a conda environment, or the folder that a libtorch archive
    is unpacked in. Each folder is a normalised relative path without a slash at its end; "" is the
    prefix itself. The default is a prefix without a site-packages of its own, as
    ``pip install --target`` makes one and as a libtorch archive is.
    """

    site_packages: str = ""  # "lib/python3.11/site-packages"; on Windows "Lib/site-packages"
    scripts: str = "bin"  # where console scripts land; "Scripts" on Windows
    python: str = "bin"  # where the interpreter's program lies; "" on Windows
    libraries: str = "lib"  # shared libraries of the prefix; "Library/bin" of conda on Windows
    headers: str = "include"
    data: str = ""
    climbs: bool = True
    """Whether users know what lies outside of site-packages by the way from there, as RECORD has
    it (``../../../lib/x.so``), or else from the prefix (``lib/x.so``)."""

    def place(self, path: str) -> str:
        """The place in the prefix of a path that counts from site-packages, as RECORD's do.

        ``../../../bin/x`` is ``bin/x``. Only ``..`` at its beginning is resolved: whatever else is
        odd about a path stays for checks to judge, and an absolute path stays what it is. What
        leaves the prefix begins with ``..``.
        """
        if path.startswith("/"):
            return path
        folders, rest = self._folders, path
        while folders and (rest == ".." or rest.startswith("../")):
            folders, rest = folders[:-1], rest[3:]
        return "/".join((*folders, rest)) if rest else "/".join(folders)

    def shorten(self, path: str) -> str:
        """The path as users know it, counted from site-packages: `place` the other way round.

        ``torch/lib/x.so`` for what lies in site-packages, ``../x`` for what lies beside it, and
        by way of the prefix ``../../../lib/x.so`` for all else: ``lib/x.so`` would look like a
        file of site-packages. Waivers and globs of a profile are matched against this spelling.
        """
        inside = self.inside(path)
        if inside is not None or path.startswith("/") or not self.climbs:
            return path if inside is None else inside
        parent = self.site_packages.rpartition("/")[0]
        if parent and path.startswith(f"{parent}/"):
            return f"..{path.removeprefix(parent)}"
        up = "/".join([".."] * len(self._folders))
        return "/".join(filter(None, (up, path)))

    def shorten_label(self, label: str) -> str:
        """What a linkage names, as users know it: ``wheel:<dist>:<path>`` has a path at its end."""
        kind, colon, rest = label.partition(":")
        if colon and kind in {"system", "python"}:
            return label
        if colon and kind == "wheel":
            distribution, _, path = rest.partition(":")
            return f"wheel:{distribution}:{self.shorten(path)}"
        return self.shorten(label)

    def inside(self, path: str) -> str | None:
        """The path counted from site-packages, None for what lies outside of it."""
        if not self.site_packages:
            return None if path.startswith(("/", "../")) or path == ".." else path
        if path == self.site_packages:
            return ""
        beginning = f"{self.site_packages}/"
        return path.removeprefix(beginning) if path.startswith(beginning) else None

    @property
    def _folders(self) -> tuple[str, ...]:
        return tuple(self.site_packages.split("/")) if self.site_packages else ()


# A fact that remembers the tables which are made of it.

_Fact = TypeVar("_Fact", bound="Deriving")
_Table = TypeVar("_Table")


@dataclass(frozen=True, kw_only=True, slots=True)
class Deriving:
    """A frozen fact of which other values are made, each once."""

    _derived: dict[Callable[[Any], Any], Any] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def derive(self: _Fact, function: Callable[[_Fact], _Table]) -> _Table:
        """Return the result of a function of the fact, which is called only once.

        A check that is called for each of thousands of objects, and holds it against the others,
        asks for a table of them here.
        """
        if function not in self._derived:
            self._derived[function] = function(self)
        result: _Table = self._derived[function]
        return result


_Object = TypeVar("_Object", bound=ObjectFile)


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One entry of an archive, at the place where installation puts it."""

    path: str  # relative to the prefix, see the package's layout: "bin/x"
    archive_name: str  # as the archive, or RECORD, spells it
    size: int = 0  # declared uncompressed size, bytes
    compressed_size: int = 0  # bytes
    mode: int = 0o644  # st_mode, as the archive has it
    sha256: str = ""  # hexadecimal, of what it inflates to; "" when it could not be read whole
    faults: tuple[
        str, ...
    ] = ()  # what reading it showed: a wrong CRC-32, a local header that disagrees, ...
    target: str = ""
    """Of a symbolic or hard link the path that it leads to, "" for a file of its own; one that is
    absolute or begins with ``..`` leads out of the package."""

    @property
    def is_directory(self) -> bool:
        """An entry that stands for a directory."""
        return self.archive_name.endswith("/")

    @property
    def is_symlink(self) -> bool:
        """An entry whose mode says symbolic link."""
        return self.mode & 0o170000 == 0o120000


@dataclass(frozen=True, kw_only=True, slots=True)
class Package(Deriving):
    """A built package, read once from start to end."""

    noun: ClassVar[str] = "a package"  # how sentences call its kind

    path: Path
    name: str = ""
    version: str = ""
    size: int = 0  # of the file, bytes
    layout: Layout = field(default_factory=Layout)  # of the prefix that it is installed in
    claims: Claims = field(default_factory=Claims)
    members: tuple[Member, ...] = ()
    objects: tuple[ObjectFile, ...] = ()
    malformed: tuple[MalformedObject, ...] = ()
    unread: tuple[UnreadObject, ...] = ()
    archive_faults: tuple[str, ...] = ()  # of the archive as a whole: bytes after its end, ...
    ambiguities: tuple[str, ...] = ()
    """What lets other tools read the file as another archive: a second end of its directory, ..."""
    dll_directories: tuple[str, ...] = ()
    """Where its own Python code has Windows look for DLLs (os.add_dll_directory), relative to
    the prefix."""
    loading_code: tuple[str, ...] = ()
    """Its Python files that add directories, or open libraries, which only running them tells."""
    preloaded: tuple[str, ...] = ()
    """Its files that its own Python code opens on Windows by their paths (ctypes, LoadLibrary):
    a DLL that is loaded satisfies every later need of its base name."""

    @property
    def file_name(self) -> str:
        """The name of the package file, by which problems name it."""
        return self.path.name

    @property
    def wheel_names(self) -> tuple[str, ...]:
        """The names that the wheel may have had from which it was installed."""
        return ()

    def objects_of(self, kind: type[_Object]) -> Iterator[_Object]:
        """The objects of one class, in path order."""
        return (item for item in self.objects if isinstance(item, kind))


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordRow:
    """One row of RECORD."""

    path: str
    hash: str = ""  # "sha256=<urlsafe base64 without padding>"; "" when absent
    size: int | None = None  # bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Distribution(Package):
    """What a wheel and its installed copy both say of themselves, in their ``*.dist-info``."""

    noun: ClassVar[str] = "a Python distribution"

    tags: tuple[Tag, ...] = ()  # compressed sets expanded, sorted
    dist_info: str = ""  # the name of its one *.dist-info directory
    metadata: tuple[tuple[str, str], ...] = ()  # METADATA headers in order
    wheel: tuple[tuple[str, str], ...] = ()  # WHEEL headers in order
    record: tuple[RecordRow, ...] | None = ()  # None when there is no RECORD
    record_faults: tuple[str, ...] = ()  # rows that could not be read as CSV of three columns
    entry_points: tuple[tuple[str, str, str], ...] = ()  # (group, name, object reference)

    def header(self, name: str) -> str:
        """The first METADATA header of that name, "" when absent; case does not count."""
        return next((value for key, value in self.metadata if key.lower() == name.lower()), "")

    @property
    def requires_dist(self) -> tuple[str, ...]:
        """Every Requires-Dist, unparsed."""
        return tuple(value for key, value in self.metadata if key.lower() == "requires-dist")

    @property
    def wheel_tags(self) -> tuple[str, ...]:
        """The ``Tag`` lines of WHEEL, unparsed."""
        return tuple(value for key, value in self.wheel if key.lower() == "tag")

    @property
    def root_is_purelib(self) -> bool:
        """The ``Root-Is-Purelib`` of WHEEL."""
        return any(k.lower() == "root-is-purelib" and v.lower() == "true" for k, v in self.wheel)

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platform tags, each once, sorted."""
        return tuple(sorted({tag.platform for tag in self.tags}))


@dataclass(frozen=True, kw_only=True, slots=True)
class Wheel(Distribution):
    """A wheel (PEP 427); its tags are those of the file name."""

    noun: ClassVar[str] = "a wheel"

    build: str = ""  # build tag of the file name


@dataclass(frozen=True, kw_only=True, slots=True)
class UnpackedWheel(Distribution):
    """A folder with the contents of a wheel, as ``wheel unpack`` makes one; its path is the folder.

    Its tags are those of WHEEL, as there is no file name.
    """

    noun: ClassVar[str] = "an unpacked wheel"

    @property
    def file_name(self) -> str:
        """The folder's name, with a slash."""
        return f"{self.path.name}/"

    @property
    def wheel_names(self) -> tuple[str, ...]:
        """The wheel that it may have been, or become, with each of the tags that WHEEL has."""
        stem = self.dist_info.removesuffix(".dist-info")
        return tuple(f"{stem}-{tag}.whl" for tag in self.tags)


WheelLike: TypeAlias = Wheel | UnpackedWheel
"""What a wheel is without the name of its file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InstalledPackage(Distribution):
    """A distribution that lies installed in an environment; its path is its ``*.dist-info``.

    Its tags are those of WHEEL. Its members are what RECORD names without what the installer added
    to it; their faults say where the file is another. An ``archive_name`` is the place in
    site-packages, or that in the environment.
    """

    noun: ClassVar[str] = "an installed package"

    @property
    def file_name(self) -> str:
        """How problems name it, as there is no package file."""
        return f"installed:{self.name}"

    @property
    def wheel_names(self) -> tuple[str, ...]:
        """The wheel that it was installed from, with each of the tags that WHEEL has."""
        stem = self.dist_info.removesuffix(".dist-info")
        return tuple(f"{stem}-{tag}.whl" for tag in self.tags)


def package_kinds() -> Mapping[str, type[Package]]:
    """The classes of packages by their names, without those that only others are made of.

    One that another module defines is known once that is loaded. (Of a dataclass with slots there
    are two for a while; the later one is meant.)
    """
    found: dict[str, type[Package]] = {}
    waiting: list[type[Package]] = [Package]
    while waiting:
        below = waiting.pop().__subclasses__()
        found.update((kind.__name__, kind) for kind in below)
        waiting += below
    return {name: kind for name, kind in found.items() if not kind.__subclasses__()}


# What of RECORD a wheel and its installed copy have in common.

WRITTEN_BY_INSTALLERS = frozenset(
    [
        "INSTALLER",
        "REQUESTED",
        "RECORD",
        "RECORD.jws",
        "RECORD.p7s",
        "direct_url.json",
        "uv_cache.json",
        "uv_build.json",
    ]
)
"""Files of the metadata folder that a wheel's RECORD does not name."""


def hash_record(dist_info: str, rows: Iterable[RecordRow]) -> str:
    """The SHA-256 of those rows that installation leaves as they are, sorted.

    A row is ``path,hash,size`` with the path in site-packages. Left out are RECORD's own row and
    what installers add, and what lands outside site-packages, where scripts are written anew.
    """
    landed = sorted(
        f"{path},{row.hash},{'' if row.size is None else row.size}"
        for path, row in _place(dist_info, rows)
        if not is_installers(dist_info, path, row.hash)
    )
    return hashlib.sha256("\n".join(landed).encode("utf-8", "surrogatepass")).hexdigest()


def decode_hash(signature: str) -> str:
    """RECORD's spelling of a SHA-256 in hexadecimal; "" for another algorithm or nonsense."""
    algorithm, _, encoded = signature.partition("=")
    try:
        return urlsafe_b64decode(encoded + "==").hex() if algorithm == "sha256" else ""
    except (Base64Error, ValueError):
        return ""


def is_installers(dist_info: str, path: str, signature: str) -> bool:
    """Whether an installer wrote that file: of its own account, or compiled, without a hash."""
    folder, _, name = path.rpartition("/")
    own = folder == dist_info and name in WRITTEN_BY_INSTALLERS
    return own or (not signature and folder.rpartition("/")[2] == "__pycache__")


def _place(dist_info: str, rows: Iterable[RecordRow]) -> Iterator[tuple[str, RecordRow]]:
    """The rows that land in site-packages, with the place; an installed RECORD has it already."""
    scheme_folder = f"{dist_info.removesuffix('.dist-info')}.data"
    for row in rows:
        path = row.path
        first, _, rest = path.partition("/")
        if first == scheme_folder:
            scheme, _, path = rest.partition("/")
            if scheme not in {"purelib", "platlib"}:
                continue
        if not path.startswith(("../", "/")) and ":" not in path.partition("/")[0]:
            yield path, row


# Object files that nothing describes: a folder of them, or one by itself.


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectFolder(Package):
    """The files of a folder, without metadata that say what they are."""

    noun: ClassVar[str] = "a folder"

    @property
    def file_name(self) -> str:
        """The folder's name, with a slash."""
        return f"{self.path.name}/"


@dataclass(frozen=True, kw_only=True, slots=True)
class SingleObject(Package):
    """One object file, or a universal one with its slices, without the package that it is for."""

    noun: ClassVar[str] = "a single object file"


# What a conda package says of itself in ``info/``, as far as it is judged or installed by that.


@dataclass(frozen=True, kw_only=True, slots=True)
class CondaPath:
    """One row of ``info/paths.json`` whose file is rewritten at installation."""

    path: str  # as the archive spells it
    placeholder: str  # the prefix that the build put there, for the installer to replace
    mode: str = "text"  # "text", or "binary": padded with NUL


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildPath:
    """A path of the build machine in the bytes of a file."""

    path: str  # the file, as the archive spells it
    text: str  # the first such path in it, cut
    prefix: str = ""
    """The placeholder that the path begins with; "" for another folder of the build."""
    count: int = 1  # of such paths in the file
    cramped: int = 0
    """Of those, how many no NUL follows after mere text: a shorter prefix would shift what comes
    behind, or stays out."""
    binary: bool = False  # the file has NUL in its beginning
    shebang: bool = False  # the path is the interpreter of a script


@dataclass(frozen=True, kw_only=True, slots=True)
class CondaLike(Package):
    """What a conda package and its installed copy both say beside name, version and claims."""

    build: str = ""  # the build string: "cuda126_py311h0123abc_0"
    subdir: str = ""  # "linux-64"
    noarch: str = ""  # "python", "generic", or "" for a package of one platform
    depends: tuple[str, ...] = ()  # match specifications, as they are written
    constrains: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class CondaPackage(CondaLike):
    """A conda package file."""

    noun: ClassVar[str] = "a conda package"

    rows: tuple[CondaPath, ...] = ()  # those with a placeholder
    build_paths: tuple[BuildPath, ...] = ()  # in files that are no bytecode, one each and prefix

    @property
    def noarch_python(self) -> bool:
        """Whether its site-packages is put where each Python has its own."""
        return self.noarch == "python"


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkedPackage(CondaLike):
    """A package in a conda prefix, known by what conda's tools noted in ``conda-meta``."""

    noun: ClassVar[str] = "an installed conda package"

    @property
    def file_name(self) -> str:
        """How problems name it, as there is no package file."""
        return f"installed:{self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenPackages:
    """The conda packages given beside one, whether it depends on them or not."""

    packages: tuple[CondaPackage, ...] = ()


# The paths and flags that an archive's files for CMake and pkg-config name literally.


class PathRole(str, Enum):
    """For what a file for build systems names a path."""

    LOCATION = "location"  # of a library of a target
    INCLUDE = "include"  # a directory with headers of a target
    LINK = "link"  # what is linked with a target, and where it is searched for
    VARIABLE = "variable"  # a value of a variable, for whoever reads that


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedPath:
    """A path that one of those files names."""

    file: str  # relative to the prefix
    line: int
    role: PathRole
    subject: str  # the target or the variable: "IMPORTED_LOCATION_RELEASE of c10"
    path: str
    """Relative to the prefix; what lies outside of it as it stands, with a slash or a drive at its
    beginning or ``../``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedAbi:
    """A definition of _GLIBCXX_USE_CXX11_ABI that users get from one of those files."""

    file: str
    line: int
    value: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadCode:
    """One of those files that was not read to its end, and why."""

    file: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildFiles:
    """The literals in those files, which are read without running them."""

    paths: tuple[NamedPath, ...] = ()  # in the order of their files and lines
    abi_flags: tuple[StatedAbi, ...] = ()
    unread: tuple[UnreadCode, ...] = ()


# What the headers of an archive include that is not in it.


@dataclass(frozen=True, kw_only=True, slots=True)
class LostInclude:
    """A header that includes, under no condition, another one that only its package could have."""

    path: str  # of the header, relative to the prefix
    included: str  # as it is written, with its quotes or brackets


@dataclass(frozen=True, kw_only=True, slots=True)
class Headers:
    """What was found in all of them."""

    count: int = 0  # of those that were read
    lost: tuple[LostInclude, ...] = ()
    unread: tuple[str, ...] = ()  # why some could not be judged, each with its path


# An archive of C++ libraries, with headers and files for build systems.


@dataclass(frozen=True, kw_only=True, slots=True)
class CmakePackage:
    """A file that CMake's ``find_package`` finds by its name."""

    name: str  # "Torch" of TorchConfig.cmake, "fmt" of fmt-config.cmake
    path: str  # of that file, relative to the prefix


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedBuild:
    """What the name of the file says of the build; None and "" where it does not."""

    system: str = ""  # as claims spell it: "linux", "macos", "windows"
    architectures: tuple[str, ...] = ()  # as platform tags of Linux spell them
    linking: str = ""  # "shared" or "static"
    with_deps: bool | None = None  # whether the libraries that it needs are in it
    cxx11_abi: bool | None = None
    debug: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CppArchive(Package):
    """An archive of C++ libraries, which users unpack wherever they like and build against.

    Its paths count from the folder in which ``lib`` and ``include`` lie.
    """

    noun: ClassVar[str] = "an archive of C++ libraries"

    top: str = ""  # that folder in the archive; "" where it is the archive's own top
    stated: StatedBuild = field(default_factory=StatedBuild)
    build_version: str = ""  # the text of build-version, "" where there is none
    build_hash: str = ""  # the text of build-hash
    cmake_packages: tuple[CmakePackage, ...] = ()
    build_files: BuildFiles = field(default_factory=BuildFiles)  # for CMake and pkg-config
    headers: Headers = field(default_factory=Headers)

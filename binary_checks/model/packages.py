"""A package's statements about itself: name, members, metadata, and its object files."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar

from packaging.tags import Tag

from binary_checks.model.objects import MalformedObject, ObjectFile, UnreadObject, leaf_classes

# The promises of a package of any kind to its users.

ANY_SYSTEM = "any"


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemClaim:
    """A family of systems that a package claims to run on.

    The source is a wheel's platform tag, a conda subdir with ``__glibc`` or ``__osx``, or the file
    name of a libtorch archive.
    """

    name: str  # spelled as in the package: "manylinux_2_28_x86_64", "linux-64 with __glibc >=2.17"
    system: str = ""
    """``linux``, ``macos``, ``windows``, or another system's name (``ios``); ``any`` if the package
    claims every system; "" if the claim is unknown.
    """
    libc: str = ""  # on Linux, "glibc" or "musl"; "" if not stated
    minimum: tuple[int, int] | None = None
    """The oldest version of the libc on Linux, of the system elsewhere; None if none is
    promised.
    """
    architectures: tuple[str, ...] = ()  # spelled as in platform tags of Linux; () if unknown
    libraries: tuple[str, ...] | None = None
    """The system libraries that the package relies on, if other packages provide the remaining
    libraries. None: all libraries known to be part of such a system.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class PythonClaim:
    """A family of Pythons that a package claims to run on."""

    name: str  # spelled as in the package: "cp311-cp311", "py3-none", "python 3.11"
    implementation: str = ""  # "cpython", "pypy", "graalpy"; "" for any
    version: tuple[int, int] | None = None
    """The only version, or the oldest if the ABI also serves later versions; None: every
    version.
    """
    abi: str = ""  # "cp311", "cp313t", "abi3", "abi3t"; "" for none
    free_threaded: bool = False

    @property
    def is_for_one_version(self) -> bool:
        """Whether no later Python is promised: cp312-none is for 3.12 alone, py312-none is not."""
        return (
            self.version is not None
            and bool(self.implementation or self.abi)
            and not self.abi.startswith("abi3")
        )


PYTHON_3 = (3, 0)


def are_for_old_pip(claims: Collection[PythonClaim]) -> bool:
    """Return whether there is no pip 24.1 for these Pythons, as it needs Python 3.8."""
    return bool(claims) and all(
        claim.is_for_one_version and claim.version is not None and claim.version < (3, 8)
        for claim in claims
    )


def is_python_2(claim: PythonClaim) -> bool:
    """Return whether a claim is only for Python 2: ``cp27-cp27mu``, ``py2-none``."""
    if claim.version is not None:
        return claim.version < PYTHON_3
    return claim.name.partition("-")[0] == "py2"


@dataclass(frozen=True, kw_only=True, slots=True)
class Claims:
    """The systems and Pythons that a package claims to run on; each entry is a separate promise."""

    systems: tuple[SystemClaim, ...] = ()  # sorted by name, without duplicates
    pythons: tuple[PythonClaim, ...] = ()  # empty if the package is not bound to a Python
    requirements: tuple[str, ...] = ()
    """Other packages that the package needs, as PEP 508 requirements. Specifications of other kinds
    of packages are translated as far as PEP 508 allows, at least their names.
    """
    provided: tuple[str, ...] = ()
    """Libraries known to be in the required packages: sonames, install names, DLL names."""
    partial: bool = False
    """Whether users get further files, as with a single file or a folder of a build; a file that is
    missing here may be elsewhere.
    """
    variant: str = ""  # the build variant, if one version has several builds: "cpu", "cu126"


# Folders of an installed package, relative to the installation prefix.


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """The folders of a prefix; the paths of all facts are relative to the prefix.

    A prefix is a virtual environment, a conda environment, or the folder that a libtorch archive is
    unpacked in. Each folder is a normalised relative path without a slash at its end; "" is the
    prefix. In the default layout the prefix has no separate site-packages, as after ``pip install
    --target`` and in a libtorch archive.
    """

    site_packages: str = ""  # "lib/python3.11/site-packages"; on Windows "Lib/site-packages"
    scripts: str = "bin"  # directory of console scripts; "Scripts" on Windows
    python: str = "bin"  # directory of the interpreter; "" on Windows
    libraries: str = "lib"  # shared libraries of the prefix; "Library/bin" for conda on Windows
    headers: str = "include"
    data: str = ""
    climbs: bool = True
    """Whether paths outside of site-packages are shown relative to site-packages, as RECORD does
    (``../../../lib/x.so``), or relative to the prefix (``lib/x.so``)."""

    def place(self, path: str) -> str:
        """Return the path in the prefix for a path relative to site-packages, as in RECORD.

        ``../../../bin/x`` becomes ``bin/x``. Only leading ``..`` components are resolved: other
        oddities of the path are kept for checks to judge, and an absolute path is returned
        unchanged. A result outside of the prefix begins with ``..``.
        """
        if path.startswith("/"):
            return path
        folders, rest = self._folders, path
        while folders and (rest == ".." or rest.startswith("../")):
            folders, rest = folders[:-1], rest[3:]
        return "/".join((*folders, rest)) if rest else "/".join(folders)

    def shorten(self, path: str) -> str:
        """Return the path as users know it, relative to site-packages: the inverse of `place`.

        The result is ``torch/lib/x.so`` inside site-packages, ``../x`` next to it, and
        ``../../../lib/x.so`` elsewhere in the prefix, because ``lib/x.so`` would look like a file
        in site-packages. Waivers and globs of a profile match this form.
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
        """Shorten the path at the end of a label of a linkage, such as ``wheel:<dist>:<path>``."""
        if label.startswith(("system:", "python:")):
            return label
        if label.startswith("wheel:"):
            distribution, _, path = label.removeprefix("wheel:").partition(":")
            return f"wheel:{distribution}:{self.shorten(path)}"
        return self.shorten(label)

    def inside(self, path: str) -> str | None:
        """Return the path relative to site-packages, or None if it is outside."""
        if not self.site_packages:
            return None if path.startswith(("/", "../")) or path == ".." else path
        if path == self.site_packages:
            return ""
        beginning = f"{self.site_packages}/"
        return path.removeprefix(beginning) if path.startswith(beginning) else None

    @property
    def _folders(self) -> tuple[str, ...]:
        return tuple(self.site_packages.split("/")) if self.site_packages else ()


# A fact that caches the values computed from it.

_Fact = TypeVar("_Fact", bound="Deriving")
_Table = TypeVar("_Table")


@dataclass(frozen=True, kw_only=True, slots=True)
class Deriving:
    """A frozen fact that caches values computed from its fields."""

    _derived: dict[Callable[[Any], Any], Any] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def derive(self: _Fact, function: Callable[[_Fact], _Table]) -> _Table:
        """Return ``function(self)``, computed only on the first call.

        Use this for a table that a check needs again for each of a package's thousands of objects.
        """
        if function not in self._derived:
            self._derived[function] = function(self)
        result: _Table = self._derived[function]
        return result


_Object = TypeVar("_Object", bound=ObjectFile)


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One entry of an archive, with the path where installation puts it."""

    path: str  # relative to the prefix, see the package's layout: "bin/x"
    archive_name: str  # spelled as in the archive or in RECORD
    size: int = 0  # declared uncompressed size, bytes
    compressed_size: int = 0  # bytes
    mode: int = 0o644  # st_mode, as recorded in the archive
    # of the uncompressed contents, hexadecimal; "" if the contents could not be read completely
    sha256: str = ""
    # found during reading: a wrong CRC-32, a local header that disagrees, ...
    faults: tuple[str, ...] = ()
    target: str = ""
    """Target of a symbolic or hard link, "" for a regular file. A target that is absolute or begins
    with ``..`` lies outside of the package.
    """

    @property
    def is_directory(self) -> bool:
        """Whether the entry is a directory."""
        return self.archive_name.endswith("/")

    @property
    def is_symlink(self) -> bool:
        """Whether the entry's mode marks it as a symbolic link."""
        return self.mode & 0o170000 == 0o120000


@dataclass(frozen=True, kw_only=True, slots=True)
class Package(Deriving):
    """A built package, read once from start to end."""

    noun: ClassVar[str] = "a package"  # names the kind in messages
    shown_as: ClassVar[str] = "{file}"  # a package of the kind in problems

    path: Path
    name: str = ""
    version: str = ""
    size: int = 0  # of the file, bytes
    layout: Layout = field(default_factory=Layout)  # folders of the installation prefix
    claims: Claims = field(default_factory=Claims)
    members: tuple[Member, ...] = ()
    objects: tuple[ObjectFile, ...] = ()
    malformed: tuple[MalformedObject, ...] = ()
    unread: tuple[UnreadObject, ...] = ()
    # paths of data for tests that only begin like object files
    test_data: tuple[str, ...] = ()
    # faults of the archive as a whole: bytes after its end, ...
    archive_faults: tuple[str, ...] = ()
    ambiguities: tuple[str, ...] = ()
    """Reasons why other tools may find other members in the file: a second end of directory, ..."""
    dll_directories: tuple[str, ...] = ()
    """Directories, relative to the prefix, that hold the package's DLLs, if its code mentions the
    loading of DLLs (os.add_dll_directory, ctypes): Windows may search all of them.
    """
    loading_code: tuple[str, ...] = ()
    """Python files of the package that add directories to Windows' search, or open DLLs whose names
    only running the code would show; not those that delvewheel has repaired.
    """

    @property
    def file_name(self) -> str:
        """The name of the package in problems."""
        return self.shown_as.format(file=self.path.name, name=self.name)

    def objects_of(self, kind: type[_Object]) -> Iterator[_Object]:
        """Yield the objects of one class, in path order."""
        return (item for item in self.objects if isinstance(item, kind))


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordRow:
    """One row of a wheel's RECORD file."""

    path: str
    hash: str = ""  # "sha256=<urlsafe base64 without padding>"; "" if absent
    size: int | None = None  # bytes


SCRIPT_GROUPS = frozenset({"console_scripts", "gui_scripts"})
"""Groups of entry points for which installers create commands."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Distribution(Package):
    """A Python distribution with a ``*.dist-info`` folder: a wheel or its installed copy."""

    noun: ClassVar[str] = "a Python distribution"

    tags: tuple[Tag, ...] = ()  # one for each combination in a compressed tag set, sorted
    dist_info: str = ""  # the name of its one *.dist-info directory
    metadata: tuple[tuple[str, str], ...] = ()  # METADATA headers in order
    wheel: tuple[tuple[str, str], ...] = ()  # WHEEL headers in order
    record: tuple[RecordRow, ...] | None = ()  # None if there is no RECORD
    record_faults: tuple[str, ...] = ()  # rows that could not be read as CSV of three columns
    entry_points: tuple[tuple[str, str, str], ...] = ()  # (group, name, object reference)

    @property
    def commands(self) -> tuple[str, ...]:
        """The names of the commands that installers create for entry points."""
        return tuple(name for group, name, _ in self.entry_points if group in SCRIPT_GROUPS)

    def header(self, name: str) -> str:
        """Return the first METADATA header of that name in any case, or "" if absent."""
        return next((value for key, value in self.metadata if key.lower() == name.lower()), "")

    @property
    def requires_dist(self) -> tuple[str, ...]:
        """The values of all Requires-Dist headers, unparsed."""
        return tuple(value for key, value in self.metadata if key.lower() == "requires-dist")

    @property
    def root_is_purelib(self) -> bool:
        """Whether WHEEL has ``Root-Is-Purelib: true``."""
        return any(k.lower() == "root-is-purelib" and v.lower() == "true" for k, v in self.wheel)

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platform tags, sorted and without duplicates."""
        return tuple(sorted({tag.platform for tag in self.tags}))


@dataclass(frozen=True, kw_only=True, slots=True)
class Wheel(Distribution):
    """A wheel file (PEP 427); the tags come from the file name."""

    noun: ClassVar[str] = "a wheel"

    build: str = ""  # build tag of the file name
    variant_label: str = ""  # the label of a wheel variant, a draft: "cu128"; "" if there is none


@dataclass(frozen=True, kw_only=True, slots=True)
class UnpackedWheel(Distribution):
    """A folder with the contents of a wheel, as made by ``wheel unpack``; the path is the folder.

    The tags come from the WHEEL file, because there is no file name.
    """

    noun: ClassVar[str] = "an unpacked wheel"
    shown_as: ClassVar[str] = "{file}/"  # the folder's name, with a trailing slash


WheelLike: TypeAlias = Wheel | UnpackedWheel
"""A wheel, packed or unpacked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InstalledPackage(Distribution):
    """A distribution installed in an environment; the path is its ``*.dist-info`` folder.

    The tags come from the WHEEL file. The members are the files that RECORD lists, without files
    added by the installer. A member has a fault if the file on disk differs from RECORD. An
    ``archive_name`` is relative to site-packages, or else to the environment.
    """

    noun: ClassVar[str] = "an installed package"
    shown_as: ClassVar[str] = "installed:{name}"  # there is no package file


def package_kinds() -> Mapping[str, type[Package]]:
    """Map the names of package classes to the classes, without abstract bases.

    A class that another module defines is included once that module is loaded.
    """
    return leaf_classes(Package)


# Rows of RECORD that are equal in a wheel and in its installed copy.

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
"""Files of the ``*.dist-info`` folder that a wheel's RECORD does not list."""


def hash_record(dist_info: str, rows: Iterable[RecordRow]) -> str:
    """Return the SHA-256 of the sorted RECORD rows that installation does not change.

    Each row is ``path,hash,size`` with the path relative to site-packages. The row of RECORD
    itself, files added by installers, and rows outside of site-packages, where scripts are
    rewritten, are left out.
    """
    landed = sorted(
        f"{path},{row.hash},{'' if row.size is None else row.size}"
        for path, row in _place(dist_info, rows)
        if not is_installers(dist_info, path, row.hash)
    )
    return hashlib.sha256("\n".join(landed).encode("utf-8", "surrogatepass")).hexdigest()


def decode_hash(signature: str) -> str:
    """Convert a SHA-256 hash of RECORD to hexadecimal.

    Return "" if the hash is malformed or not SHA-256.
    """
    algorithm, _, encoded = signature.partition("=")
    try:
        return urlsafe_b64decode(encoded + "==").hex() if algorithm == "sha256" else ""
    except (Base64Error, ValueError):
        return ""


def is_installers(dist_info: str, path: str, signature: str) -> bool:
    """Return whether an installer wrote the file: its metadata, or bytecode without a hash."""
    folder, _, name = path.rpartition("/")
    own = folder == dist_info and name in WRITTEN_BY_INSTALLERS
    return own or (not signature and folder.rpartition("/")[2] == "__pycache__")


def _place(dist_info: str, rows: Iterable[RecordRow]) -> Iterator[tuple[str, RecordRow]]:
    """Yield the rows that are installed to site-packages, with the installed paths.

    An installed RECORD already has such paths.
    """
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


# A package's description, rendered as by an index.


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderedDescription:
    """The result of rendering the description with PyPI's library."""

    content_type: str = ""  # stated in METADATA; "" if not stated
    length: int = 0  # characters
    renders: bool | None = None  # None: the description was not rendered, see ``reason``
    reason: str = ""
    faults: tuple[str, ...] = ()  # messages of the renderer


@dataclass(frozen=True, kw_only=True, slots=True)
class PointerFiles:
    """Files that only name the content which git-lfs keeps elsewhere."""

    paths: tuple[str, ...] = ()  # of members, sorted
    unread: tuple[tuple[str, str], ...] = ()  # paths of small members, with why each is not read


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownClassifiers:
    """The classifiers that PyPI knows."""

    source: str = ""  # of the list: "trove-classifiers 2026.9.21.13"
    accepted: frozenset[str] = frozenset()
    # classifiers that PyPI no longer accepts, with those that replace them
    deprecated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


# Object files without metadata: a folder of them, or a single one.


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectFolder(Package):
    """The files of a folder, without any metadata."""

    noun: ClassVar[str] = "a folder"
    shown_as: ClassVar[str] = "{file}/"  # the folder's name, with a trailing slash


@dataclass(frozen=True, kw_only=True, slots=True)
class SingleObject(Package):
    """One object file without its package; a universal file has several slices."""

    noun: ClassVar[str] = "a single object file"


# Facts from a conda package's ``info/`` that affect installation or verdicts.


@dataclass(frozen=True, kw_only=True, slots=True)
class CondaPath:
    """One row of ``info/paths.json`` whose file is rewritten at installation."""

    path: str  # spelled as in the archive
    placeholder: str  # the prefix of the build, which the installer replaces
    mode: str = "text"  # "text", or "binary": padded with NUL


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildPath:
    """A path of the build machine in the bytes of a file."""

    path: str  # the file that contains the path, spelled as in the archive
    text: str  # the first such path in the file, shortened
    prefix: str = ""  # the placeholder with which the path begins; "" if it does not end there
    count: int = 1  # number of such paths in the file
    cramped: int = 0
    """Number of these paths that are followed by text without a NUL: replacing them by a shorter
    prefix would shift or cut the following text.
    """
    binary: bool = False  # whether the beginning of the file contains a NUL
    shebang: bool = False  # whether the path is the interpreter of a script


@dataclass(frozen=True, kw_only=True, slots=True)
class CondaLike(Package):
    """A conda package or its installed copy."""

    noun: ClassVar[str] = "a conda package"
    build: str = ""  # the build string: "cuda126_py311h0123abc_0"
    subdir: str = ""  # "linux-64"
    noarch: str = ""  # "python", "generic", or "" for a package bound to one platform
    depends: tuple[str, ...] = ()  # match specifications, unparsed
    constrains: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class CondaPackage(CondaLike):
    """A conda package file."""

    noun: ClassVar[str] = "a conda package"

    rows: tuple[CondaPath, ...] = ()  # only rows with a placeholder
    # at most one for each prefix in a file; bytecode is not searched
    build_paths: tuple[BuildPath, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkedPackage(CondaLike):
    """A package installed in a conda prefix, as recorded in ``conda-meta``."""

    noun: ClassVar[str] = "an installed conda package"
    shown_as: ClassVar[str] = "installed:{name}"  # there is no package file


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenPackages:
    """The conda packages given next to the judged one, required or not."""

    packages: tuple[CondaPackage, ...] = ()


# Literal paths and flags in an archive's files for CMake and pkg-config.


class PathRole(str, Enum):
    """The purpose of a path in a file for CMake or pkg-config."""

    LOCATION = "location"  # the library of a target
    INCLUDE = "include"  # a header directory of a target
    LINK = "link"  # a library to link with a target, or a directory to search for it
    VARIABLE = "variable"  # the value of a variable


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedPath:
    """A literal path in a file for CMake or pkg-config."""

    file: str  # relative to the prefix
    line: int
    role: PathRole
    subject: str  # the target or the variable: "IMPORTED_LOCATION_RELEASE of c10"
    path: str
    """Relative to the prefix. A path outside of the prefix is kept as written: absolute, with a
    drive, or beginning with ``../``.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedAbi:
    """A definition of _GLIBCXX_USE_CXX11_ABI in a file for CMake or pkg-config."""

    file: str
    line: int
    value: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadCode:
    """A file for CMake or pkg-config that was not read completely, and why."""

    file: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildFiles:
    """The literal paths and flags in an archive's files for CMake and pkg-config.

    The files are read, never executed.
    """

    paths: tuple[NamedPath, ...] = ()  # in the order of their files and lines
    abi_flags: tuple[StatedAbi, ...] = ()
    unread: tuple[UnreadCode, ...] = ()


# Includes of missing headers in an archive.


# An archive of C++ libraries, with headers and files for build systems.


@dataclass(frozen=True, kw_only=True, slots=True)
class CmakePackage:
    """A file that CMake's ``find_package`` finds by a package name."""

    name: str  # "Torch" of TorchConfig.cmake, "fmt" of fmt-config.cmake
    path: str  # the file's path, relative to the prefix


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedBuild:
    """The build as the archive's file name states it; None and "" for facts not stated."""

    system: str = ""  # as in `SystemClaim`: "linux", "macos", "windows"
    architectures: tuple[str, ...] = ()  # spelled as in platform tags of Linux
    linking: str = ""  # "shared" or "static"
    with_deps: bool | None = None  # whether the archive includes the libraries that it needs
    cxx11_abi: bool | None = None
    debug: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CppArchive(Package):
    """An archive of C++ libraries, which users unpack anywhere and build against.

    Its paths are relative to the folder that contains ``lib`` and ``include``.
    """

    noun: ClassVar[str] = "an archive of C++ libraries"

    top: str = ""  # the folder's path in the archive; "" for the archive's root
    stated: StatedBuild = field(default_factory=StatedBuild)
    build_version: str = ""  # contents of the file build-version; "" if absent
    build_hash: str = ""  # contents of the file build-hash; "" if absent
    cmake_packages: tuple[CmakePackage, ...] = ()
    # literal contents of files for CMake and pkg-config
    build_files: BuildFiles = field(default_factory=BuildFiles)

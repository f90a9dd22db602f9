"""What a package says of itself: names, members, metadata and the object files found in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import ClassVar, TypeAlias, TypeVar

from packaging.tags import Tag

from binary_checks.model.claims import Claims
from binary_checks.model.derived import Deriving
from binary_checks.model.layout import Layout
from binary_checks.model.objects import MalformedObject, ObjectFile, UnreadObject

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


_OTHER_KINDS = tuple(
    f"binary_checks.model.{name}" for name in ("conda_packages", "cpp_archive", "loose_packages")
)


def package_kinds() -> Mapping[str, type[Package]]:
    """The classes of packages by their names, without those that only others are made of.

    One that another module defines is known once that is loaded. (Of a dataclass with slots there
    are two for a while; the later one is meant.)
    """
    for module in _OTHER_KINDS:
        import_module(module)
    found: dict[str, type[Package]] = {}
    waiting: list[type[Package]] = [Package]
    while waiting:
        below = waiting.pop().__subclasses__()
        found.update((kind.__name__, kind) for kind in below)
        waiting += below
    return {name: kind for name, kind in found.items() if not kind.__subclasses__()}

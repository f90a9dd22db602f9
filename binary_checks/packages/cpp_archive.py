"""Archives of C++ libraries: libtorch's, and others that unpack to a prefix.

There is no standard for such archives. An archive is recognised by its contents: native libraries
in ``lib`` (DLLs in ``bin``), and headers, or files for CMake or pkg-config. All of these are at the
top of the archive or in one folder at the top.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple
from urllib.parse import unquote

from binary_checks.errors import GatherError, PackageError
from binary_checks.model import (
    BuildFiles,
    Claims,
    CmakePackage,
    ContentStore,
    CppArchive,
    Format,
    Layout,
    MachOFile,
    ObjectFile,
    ObjectReader,
    PeFile,
    Preview,
    Progress,
    StatedBuild,
    StaticArchive,
    SystemClaim,
    Tree,
    TreeEntry,
    UnreadCode,
    Visited,
    VisitRequest,
    object_kinds,
)
from binary_checks.packages.distributions import sort_objects
from binary_checks.trees.members import find_formats

_CONDA = ".tar.bz2"  # also the suffix of conda packages
_LISTED = (".zip", "/")  # containers whose members are listed without reading the contents
_WHOLE = (".zip", _CONDA, "/")  # containers in which all names are examined
_LIBRARY = re.compile(
    r"(?:libs?(?:32|64)?/(?:.+/)?[^/]+\.(?:so(?:\.\d+)*|dylib|a|lib|dll)|bin/[^/]+\.dll)"
)
_BUILD_VERSION, _BUILD_HASH = "build-version", "build-hash"
_FOR_BUILDING = re.compile(
    r"include/.+|(?:lib(?:32|64)?|share|cmake)/(?:.+/)?[^/]+\.(?:cmake|pc)|build-version"
)
_OF_OTHERS = re.compile(
    r"PKG-INFO|pyproject\.toml|setup\.py|info/index\.json|[^/]+\.dist-info/.*|pyvenv\.cfg|conda-meta/.*"
)
"""Files at the top of an sdist, a conda package, a wheel or an environment."""
_TEXTS = (_BUILD_VERSION, _BUILD_HASH)
_LONGEST_TEXT = 4096  # bytes of build-version
_LONGEST_CODE = 4 << 20  # bytes of a file for CMake; the largest of CMake's own files has 200 kB
_MOST_KEPT = 256 << 20  # bytes of all kept files together
_LONGEST_TARGET = 4096  # bytes of a symbolic link in a zip archive
_DEEPEST_MARK = 2  # slashes in names that may show another kind of package
_CODE = (".cmake", ".pc")
_CONFIG = re.compile(r"(?:^|/)(?:([^/]+)Config|([^/]+)-config)\.cmake\Z")


class _Evidence:
    """Names of members that show which folder at the top of an archive is a prefix."""

    def __init__(self) -> None:
        self._found: dict[str, set[str]] = {}  # by folder; "" for the top of the archive
        self._complete = False
        self.refuted = False  # whether names show that the archive is another kind of package

    def see(self, name: str) -> None:
        """Examine the next name; skip names of deep paths once a prefix is found."""
        if self._complete and name.count("/") > _DEEPEST_MARK:
            return
        name = name.removeprefix("./")
        top, _, rest = name.partition("/")
        for folder, path in (("", name), (top, rest)):
            if _LIBRARY.fullmatch(path):
                self._add(folder, "library")
            elif _FOR_BUILDING.fullmatch(path):
                self._add(folder, "building")
            elif _OF_OTHERS.fullmatch(path):
                self.refuted = True

    def _add(self, folder: str, part: str) -> None:
        found = self._found.setdefault(folder, set())
        found.add(part)
        self._complete = self._complete or len(found) > 1

    @property
    def prefix(self) -> str | None:
        """The folder that is a prefix, or None until all required parts were seen in one folder."""
        return next((top for top, found in self._found.items() if len(found) > 1), None)


def recognises(label: str, look: Callable[[], Tree]) -> bool:
    """Return whether the file is an archive by its name, or a folder, and contains a prefix."""
    if not label.endswith((*SUFFIXES, "/")):
        return False
    try:
        top = _find_prefix(look().each_entry, whole=label.endswith(_WHOLE))
        # a folder is itself the prefix
        return top is not None and not (top and label.endswith("/"))
    except GatherError:  # no decompressor is installed; `read` reports the error
        return True
    except PackageError:
        return names_system(label) and not label.endswith(_CONDA)


def _find_prefix(each_entry: Callable[[], Iterable[TreeEntry]], *, whole: bool) -> str | None:
    """Return the prefix in the archive; stop reading a stream when the prefix is found."""
    evidence = _Evidence()
    for entry in each_entry():
        evidence.see(entry.name)
        if evidence.refuted:
            return None
        if not whole and evidence.prefix is not None:
            break
    return evidence.prefix


def preview(tree: Tree, reader: ObjectReader) -> Preview:
    """Look at the first bytes of the members.

    Return all formats if the members would have to be decompressed.
    """
    if tree.label.endswith(_LISTED):
        return Preview(kind=CppArchive, formats=find_formats(tree, tree.entries(), reader))
    return Preview(kind=CppArchive, formats=frozenset(map(Format, object_kinds())))


def read(
    tree: Tree,
    reader: ObjectReader,
    progress: Progress | None = None,
    store: ContentStore | None = None,
) -> CppArchive:
    """Read an archive from start to end. Raises PackageError if it is another kind of package."""
    links, limit = _find_links(tree), _Limit()
    wanted = VisitRequest(texts=_SizeLimits(links), may_keep=limit, store=store)
    if tree.label.endswith(_LISTED):
        top = _require_prefix(tree.label, (each.name for each in tree.entries()))
        visited = tree.visit(reader, replace(wanted, place=partial(_place, top)), progress)
        visited = [_follow(each, links, top) for each in visited]
    else:
        visited = tree.visit(reader, wanted, progress)
        top = _require_prefix(tree.label, (each.member.archive_name for each in visited))
        visited = [_move(each, top) for each in visited]
    named = parse_name(tree.label)
    if limit.full:
        raise PackageError(
            f"{tree.label}: its files for CMake and pkg-config have more than {_MOST_KEPT} bytes"
        )
    texts = {each.member.path: each.content for each in visited if each.content is not None}
    found = [item for each in visited for item in each.objects]
    own = (item for item in found if isinstance(item, ObjectFile))
    objects = tuple(sorted(own, key=lambda item: item.path))
    claims = read_claims(named, objects, is_folder=tree.label.endswith("/"))
    return CppArchive(
        path=tree.path,
        name=named.name,
        version=named.version or _read_line(texts.get(_BUILD_VERSION)),
        size=tree.size,
        layout=Layout(climbs=False),
        claims=claims,
        members=tuple(each.member for each in visited),
        **{**sort_objects(found), "objects": objects},
        archive_faults=tree.faults,
        ambiguities=tree.ambiguities,
        dll_directories=tuple(_find_dll_directories(objects)),
        top=top,
        stated=named.stated,
        build_version=_read_line(texts.get(_BUILD_VERSION)),
        build_hash=_read_line(texts.get(_BUILD_HASH)),
        cmake_packages=tuple(_find_cmake_packages(each.member.path for each in visited)),
        build_files=_read_build_files(texts, visited, top),
    )


class _SizeLimits(Mapping[str, int]):
    """The largest size to keep for each name; names are known only when they are streamed."""

    def __init__(self, links: frozenset[str]) -> None:
        self._links = links

    def __getitem__(self, name: str) -> int:
        if name in self._links:
            return _LONGEST_TARGET
        if name.endswith(_CODE):
            return _LONGEST_CODE
        if name.endswith(_TEXTS) and name.count("/") < 3:
            return _LONGEST_TEXT
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class _Limit:
    """Keeps contents within a limit for all of them together."""

    def __init__(self) -> None:
        self._left = _MOST_KEPT

    @property
    def full(self) -> bool:
        """Whether the contents exceeded the limit."""
        return self._left < 0

    def __call__(self, content: bytes) -> bool:
        self._left -= len(content)
        return not self.full


def _find_links(tree: Tree) -> frozenset[str]:
    """Return the symbolic links in a zip archive; the content of a link is its target."""
    if not tree.label.endswith(".zip"):
        return frozenset()
    return frozenset(each.name for each in tree.entries() if each.mode & 0o170000 == 0o120000)


def _follow(each: Visited, links: frozenset[str], top: str) -> Visited:
    member = each.member
    if member.archive_name not in links or not each.content:
        return each
    written = each.content.decode("utf-8", "backslashreplace")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(member.archive_name), written))
    faults = member.faults
    if target.startswith(("/", "../")) or target == "..":
        faults = (*faults, f"it links to {target}, outside of the package")
    target = _place(top, target)
    return each._replace(member=replace(member, target=target, faults=faults), content=None)


def _read_line(text: bytes | None) -> str:
    """Return the first line of a text."""
    return (text or b"").decode("utf-8", "backslashreplace").strip().partition("\n")[0].strip()


def _require_prefix(label: str, names: Iterable[str]) -> str:
    """Return the prefix in the archive. Raises PackageError for another kind of package."""
    evidence = _Evidence()
    for name in names:
        evidence.see(name)
    if evidence.refuted:
        raise PackageError(
            f"{label}: not an archive of C++ libraries: it holds another kind of package"
        )
    return evidence.prefix or ""


def _place(top: str, path: str) -> str:
    """Return a path relative to the prefix; paths outside of it begin with ``../``."""
    path = path.removeprefix("./")
    if not top or path.startswith("/"):
        return path
    beginning = f"{top}/"
    return path.removeprefix(beginning) if path.startswith(beginning) else f"../{path}"


def _move(each: Visited, top: str) -> Visited:
    """Make the paths of a member and its objects relative to the prefix."""
    member = each.member
    target = member.target and _place(top, member.target)
    return each._replace(
        member=replace(member, path=_place(top, member.path), target=target),
        objects=tuple(replace(item, path=_place(top, item.path)) for item in each.objects),
    )


def _find_dll_directories(objects: Iterable[ObjectFile]) -> Iterator[str]:
    """Yield the folders with DLLs: users add these folders to the search path, or copy the DLLs."""
    folders = (item.directory for item in objects if isinstance(item, PeFile))
    yield from dict.fromkeys(folder for folder in folders if folder)


def _find_cmake_packages(paths: Iterable[str]) -> Iterator[CmakePackage]:
    for path in sorted(paths):
        if match := _CONFIG.search(path):
            yield CmakePackage(name=match[1] or match[2], path=path)


def _read_build_files(
    texts: Mapping[str, bytes], visited: Sequence[Visited], top: str
) -> BuildFiles:
    """Read the files for CMake and pkg-config."""
    members = [each.member for each in visited]
    unread = [
        UnreadCode(file=each.path, reason=each.faults[-1])
        for each in members
        if each.path.endswith(_CODE) and each.path not in texts and each.faults
    ]
    written = {
        path: text.decode("utf-8", "backslashreplace")
        for path, text in texts.items()
        if path.endswith(_CODE)
    }
    if not written:
        return BuildFiles(unread=tuple(unread))
    from binary_checks.packages.cpp_archive_files import read_build_files  # few packages have any

    found = read_build_files(written, [each.path for each in members], top=top)
    return replace(found, unread=(*unread, *found.unread))


# The file name: system, architecture, linking, ABI.
#
# ``libtorch-cxx11-abi-shared-with-deps-2.6.0+cu126.zip``, ``libtorch-macos-arm64-2.9.0.zip``,
# ``onnxruntime-linux-x64-1.20.1.tgz``: there is no standard, so only whole words count.

SUFFIXES = (
    *(".zip", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.zst", ".tzst", ".tar.bz2", ".tbz2"),
)

_SYSTEMS = {
    **dict.fromkeys(("linux", "linux64", "manylinux", "musllinux", "ubuntu", "alpine"), "linux"),
    **dict.fromkeys(("macos", "osx", "darwin", "mac", "apple"), "macos"),
    **dict.fromkeys(("win", "windows", "win32", "win64", "mingw", "mingw64", "msvc"), "windows"),
}
_ARCHITECTURES = {
    **dict.fromkeys(("x64", "x86_64", "amd64", "win64", "linux64"), ("x86_64",)),
    **dict.fromkeys(("arm64", "aarch64"), ("aarch64",)),
    **dict.fromkeys(("x86", "i386", "i486", "i586", "i686", "win32"), ("i686",)),
    **dict.fromkeys(("universal", "universal2"), ("x86_64", "aarch64")),
    **{name: (name,) for name in ("armv7l", "ppc64le", "riscv64", "s390x", "loongarch64")},
}
_VARIANT = re.compile(r"cpu|gpu|cu\d{2,3}|cuda\d{0,3}(?:\.\d+)?|rocm\d*(?:\.\d+)*|xpu")
_VERSION = re.compile(
    r"v?\d+(?:\.\d+)+(?:(?:a|b|rc|alpha|beta|post|\.?dev|\.post)\d*)?(?:\+[a-z0-9.]+)?|latest"
)
_WORD = re.compile(rf"x86_64|(?:{_VERSION.pattern})(?=[-_]|$)|[^-_]+", re.IGNORECASE)


class FileName(NamedTuple):
    """The facts that a file name states."""

    name: str  # the words before the first one with another meaning: "libtorch"
    version: str  # with the local version: "2.13.0+cpu"; "" if the name states none
    variant: str  # "cpu", "cu126"
    stated: StatedBuild


_ALSO = {("libtorch", "windows"): ("x86_64",)}
"""Architectures for names that state none: PyTorch's names for Windows state only ARM."""


def parse_name(label: str) -> FileName:
    """Parse the name of a file."""
    stem = unquote(label)  # downloads keep the %2B of a URL
    stem = next((stem.removesuffix(each) for each in SUFFIXES if stem.endswith(each)), stem)
    words = [found[0].lower() for found in _WORD.finditer(stem)]
    version = next((word for word in words if _VERSION.fullmatch(word)), "")
    local = version.partition("+")[2]
    variants = [word for word in (local, *words) if _VARIANT.fullmatch(word)]
    name = _find_name(stem, words)
    system = next((_SYSTEMS[word] for word in words if word in _SYSTEMS), "")
    named = (_ARCHITECTURES[word] for word in words if word in _ARCHITECTURES)
    return FileName(
        name=name,
        version="" if version == "latest" else version.removeprefix("v"),
        variant=_format_variant(variants[0]) if variants else "",
        stated=StatedBuild(
            system=system,
            architectures=next(named, _ALSO.get((name, system), ())),
            linking="static" if "static" in words else "shared" if "shared" in words else "",
            with_deps=_read_deps(words),
            cxx11_abi=_read_abi(words),
            debug=True if "debug" in words else False if "release" in words else None,
        ),
    )


def names_system(label: str) -> bool:
    """Return whether the name states the system that the archive is built for."""
    found = parse_name(label)
    stated = found.stated
    return found.name == "libtorch" or bool(
        stated.system and (stated.architectures or stated.linking)
    )


def _find_name(stem: str, words: list[str]) -> str:
    """Return the project's name as written: the words before a version, a system or a variant."""
    meant = {*_SYSTEMS, *_ARCHITECTURES, "shared", "static", "with", "without", "cxx11"}
    place = next(
        (
            number
            for number, word in enumerate(words)
            if number and (word in meant or _VARIANT.fullmatch(word) or _VERSION.fullmatch(word))
        ),
        len(words),
    )
    found = list(_WORD.finditer(stem))
    return stem[: found[place - 1].end()] if found else stem


def _read_deps(words: list[str]) -> bool | None:
    """Read ``with-deps`` and ``without-deps``."""
    place = words.index("deps") if "deps" in words else 0
    return {"with": True, "without": False}.get(words[place - 1]) if place else None


def _read_abi(words: list[str]) -> bool | None:
    """Read ``cxx11-abi`` and ``pre-cxx11-abi``; a name with neither may mean either ABI."""
    if "cxx11" not in words:
        return None
    place = words.index("cxx11")
    return not (place and words[place - 1] == "pre")


def _format_variant(word: str) -> str:
    """Return the variant's usual form: ``cu126`` for ``cuda12.6``."""
    found = re.fullmatch(r"cu(?:da)?(\d+)\.?(\d*)", word)
    return f"cu{found[1]}{found[2]}" if found else word


# The claimed systems: from the name, or else from the objects.

_SYSTEM_OF = {Format.ELF: "linux", Format.MACHO: "macos", Format.PE: "windows"}
_SYSTEM_OF_MEMBERS = {"ELF": "linux", "Mach-O": "macos", "COFF": "windows", "import": "windows"}
_VISUAL_CPP = (
    *("vcruntime140.dll", "vcruntime140_1.dll", "msvcp140.dll", "msvcp140_1.dll"),
    *("msvcp140_2.dll", "msvcp140_atomic_wait.dll", "msvcp140_codecvt_ids.dll", "concrt140.dll"),
    *("vcomp140.dll",),
)
"""Libraries of the compiler for Windows, which users of the archive have and redistribute."""


class _Seen(NamedTuple):
    """An object, or all members of a static library that are alike."""

    path: str
    system: str
    architecture: str
    objects: int = 1


def read_claims(named: FileName, objects: Sequence[ObjectFile], *, is_folder: bool) -> Claims:
    """Return the claims that the name states, completed by the systems of most objects.

    A package that was installed into a folder may use libraries of its system. An archive without
    dependencies may use libraries that its users provide.
    """
    stated = named.stated
    partial = is_folder or stated.with_deps is False
    seen = [item for item in _list_seen(objects) if item.system]
    system = stated.system or _most((item.system, item.objects) for item in seen)
    if not system:
        return Claims(variant=named.variant, partial=partial)
    own = [item for item in seen if item.system == system]
    architectures = stated.architectures or _find_architectures(own)
    claim = SystemClaim(
        name="_".join((system, *architectures)),
        system=system,
        libc=_find_libc(objects) if system == "linux" else "",
        minimum=_find_minimum(objects) if system == "macos" else None,
        architectures=architectures,
    )
    provided = _VISUAL_CPP if system == "windows" else ()
    return Claims(systems=(claim,), provided=provided, variant=named.variant, partial=partial)


def _list_seen(objects: Iterable[ObjectFile]) -> Iterator[_Seen]:
    """Yield the loaded objects; if there are none, the members of static libraries."""
    loaded = [i for i in objects if i.format in _SYSTEM_OF]
    for item in loaded:
        yield _Seen(item.path, _SYSTEM_OF[item.format], item.architecture)
    for item in () if loaded else objects:
        if isinstance(item, StaticArchive):
            for each in item.members:
                system = _SYSTEM_OF_MEMBERS.get(each.format, "")
                yield _Seen(item.path, system, each.architecture, each.count)


def _most(counted: Iterable[tuple[str, int]]) -> str:
    """Return the most frequent value, or "" if there is none."""
    sums = Counter[str]()
    for value, count in counted:
        sums[value] += count
    del sums[""]
    return sums.most_common(1)[0][0] if sums else ""


def _find_architectures(seen: Sequence[_Seen]) -> tuple[str, ...]:
    """Return the architecture of most objects.

    For universal libraries of macOS, return all architectures.
    """
    slices = Counter(item.path for item in seen if item.system == "macos")
    if slices and min(slices.values()) > 1:
        return tuple(sorted({item.architecture for item in seen}, reverse=True))
    found = _most((item.architecture, item.objects) for item in seen)
    return (found,) if found else ()


def _find_libc(objects: Iterable[ObjectFile]) -> str:
    """Return the C library that most objects need."""
    needed = (need.name for item in objects for need in item.needed)
    counted = Counter("musl" if "musl" in name else "glibc" for name in needed if "libc." in name)
    return counted.most_common(1)[0][0] if counted else "glibc"


def _find_minimum(objects: Iterable[ObjectFile]) -> tuple[int, int] | None:
    """Return the newest macOS version that any object requires; names do not state one."""
    asked = (item.minimum_os.split(".") for item in objects if isinstance(item, MachOFile))
    found = [(int(each[0]), int(each[1])) for each in asked if len(each) > 1]
    return max(found, default=None)

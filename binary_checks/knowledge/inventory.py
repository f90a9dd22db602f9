"""A package's needs and contents, and how its bytes are divided: facts, no verdicts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from binary_checks.knowledge.library_names import is_grafted_path, toolset_of
from binary_checks.knowledge.linked_libraries import find_whence
from binary_checks.knowledge.python_libraries import find_python_symbols
from binary_checks.knowledge.tags import find_newest_nodes, is_loaded
from binary_checks.model import (
    Edge,
    ElfFile,
    Format,
    Kind,
    Layout,
    Linkage,
    Member,
    ObjectFile,
    Package,
    PeFile,
    Whence,
    is_extension,
    parse_extension_name,
)
from binary_checks.systems import stable_abi

# Libraries that a package needs from elsewhere, and libraries that it contains.


@dataclass(frozen=True, kw_only=True, slots=True)
class NeededLibrary:
    """A library that objects of the package need, but the package does not contain."""

    name: str
    whence: Whence
    needed_by: tuple[str, ...]  # paths
    # distributions that contain the library; if it was not found, those that may contain it
    distributions: tuple[str, ...]
    found: bool
    # the promised systems that have the library, if not all do: "Windows 10 1903 and later"
    partly: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CppInterface:
    """The C++ standard library that the package was compiled with, by symbols and headers."""

    versions: tuple[str, ...]  # the newest needed versions: "GLIBCXX_3.4.29", "CXXABI_1.3.13"
    new_strings: int  # number of objects that use libstdc++'s std::__cxx11::string
    old_strings: int  # number of objects that use libstdc++'s old std::string
    libraries: tuple[str, ...]  # names of needed C++ libraries
    toolset: tuple[int, int] | None  # the newest version of Microsoft's linkers


_CPP = ("libstdc++", "libc++", "msvcp1", "vcruntime1")


def list_needed(linkage: Linkage) -> tuple[NeededLibrary, ...]:
    """Return needed libraries that are not in the package, by origin and name."""
    groups: dict[tuple[Whence, str], list[Edge]] = {}
    for edge in linkage.edges:
        if (whence := find_whence(edge)) is not Whence.BUNDLED:
            groups.setdefault((whence, edge.needed), []).append(edge)
    order = list(Whence)
    return tuple(
        NeededLibrary(
            name=name,
            whence=whence,
            needed_by=tuple(dict.fromkeys(edge.path for edge in edges)),
            distributions=tuple(sorted({each for edge in edges for each in _distributions(edge)})),
            found=any(edge.resolved is not None for edge in edges),
            partly=next((edge.partly for edge in edges if edge.partly), ""),
        )
        for (whence, name), edges in sorted(
            groups.items(), key=lambda group: (order.index(group[0][0]), group[0][1])
        )
    )


def _distributions(edge: Edge) -> tuple[str, ...]:
    kind, _, rest = (edge.resolved or "").partition(":")
    return (rest.partition(":")[0],) if kind == "wheel" else edge.may_come_with


def newest_nodes(package: Package, library: str) -> tuple[str, ...]:
    """Return the newest version node of each prefix that any object needs from that library."""
    needs = (need for item in package.objects_of(ElfFile) for need in item.symbol_versions)
    found = find_newest_nodes(n for n in needs if n.library == library and not n.weak)
    return tuple(sorted(need.version for need in found))


def list_bundled(package: Package) -> tuple[tuple[str, int], ...]:
    """Return (path, bytes) of the package's shared libraries, without extension modules.

    The largest comes first. All slices of a fat file count as one library.
    """
    found = {
        item.path: item.size
        for item in package.objects
        if item.kind is Kind.SHARED and not _is_module(item)
    }
    return tuple(sorted(found.items(), key=lambda each: (-each[1], each[0])))


def _is_module(item: ObjectFile) -> bool:
    name = parse_extension_name(item.path)
    return is_extension(item) or (name is not None and name.tagged)


def newest_stable_symbol(objects: Iterable[ObjectFile]) -> tuple[tuple[int, int], str] | None:
    """Return the oldest Python whose stable ABI these objects fit, and a symbol as proof."""
    since = stable_abi()
    return max(
        (
            (since[name], name)
            for item in objects
            for name in find_python_symbols(item).names
            if name in since
        ),
        default=None,
    )


def read_cpp_interface(package: Package) -> CppInterface | None:
    """Return the interface that a package's C++ code was compiled with; None without C++."""
    loaded = [item for item in package.objects if is_loaded(item)]
    names = {need.name.rpartition("/")[2] for item in loaded for need in item.needed}
    libraries = tuple(sorted(name for name in names if name.lower().startswith(_CPP)))
    strings = [find_strings(item) for item in loaded if isinstance(item, ElfFile)]
    toolsets = [toolset_of(item) for item in loaded if isinstance(item, PeFile)]
    toolset = max((each for each in toolsets if each), default=None)
    if not libraries and toolset is None and not any(map(any, strings)):
        return None
    gnu = next((name for name in libraries if name.startswith("libstdc++")), "")
    return CppInterface(
        versions=newest_nodes(package, gnu),
        new_strings=sum(bool(new) for new, _ in strings),
        old_strings=sum(bool(old) for _, old in strings),
        libraries=libraries,
        toolset=toolset,
    )


_NEW, _OLD = "St7__cxx1112basic_string", ("_ZNSs", "_ZNKSs")


def find_strings(item: ElfFile) -> tuple[int, int]:
    """Return how many functions of libstdc++'s new and of its old std::string an object imports."""
    names = item.imports
    if not any(map(names.may_mention, (_NEW, *_OLD))):
        return 0, 0
    every = tuple(names.each_name())
    return sum(_NEW in name for name in every), sum(name.startswith(_OLD) for name in every)


def each_python(package: Package) -> Iterator[str]:
    """Yield the Pythons that the package's tags claim, in words."""
    for claim in package.claims.pythons:
        implementation = {"cpython": "CPython", "pypy": "PyPy", "": "Python"}.get(
            claim.implementation, claim.implementation
        )
        major = next(filter(str.isdecimal, claim.name), "3")
        version = ".".join(map(str, claim.version)) if claim.version else major
        threads = " free-threaded" if claim.free_threaded else ""
        later = " and later" if claim.abi in ("abi3", "abi3t") else ""
        yield f"{implementation} {version}{threads}{later} ({claim.name})"


# The parts that take up a package's bytes; a file is one part, but some objects have several.

NATIVE, DEVICE, BUNDLED = "native code", "device code", "bundled libraries"
DEBUG, PYTHON, HEADERS = "debug information", "Python", "headers"
METADATA, DATA = "metadata", "data"
PARTS = (NATIVE, DEVICE, BUNDLED, DEBUG, PYTHON, HEADERS, METADATA, DATA)
"""All parts, in the order of reports."""

_ABOUT = re.compile(r"[^/]+\.(?:dist|egg)-info/")
_CONDA_ABOUT = ("info/", "conda-meta/")
_SUFFIXES = {
    DEBUG: (".pdb", ".debug", ".dwo", ".dwp"),
    DEVICE: (".fatbin", ".cubin", ".ptx", ".hsaco", ".metallib", ".air", ".spv"),
    PYTHON: (".py", ".pyi", ".pyc", ".pyw"),
    # C, C++, CUDA, Cython
    HEADERS: (
        *(".h", ".hh", ".hpp", ".hxx", ".h++", ".cuh", ".inl", ".ipp", ".tpp", ".pxd", ".pxi"),
    ),
    NATIVE: (".a", ".lib"),  # static archives, and import libraries of Windows
}
"""The suffixes of files that are not read as object files, by part."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PartSize:
    """The share of one part in a package."""

    files: int  # number of files in or with that part
    size: int  # bytes once installed


def measure_parts(package: Package) -> Mapping[str, PartSize]:
    """Return the parts of a package in the order of `PARTS`; they add up to its files' bytes.

    Device code and debug information in an object are separate parts; its other bytes are native
    code or a bundled library. Links and folders have no bytes.
    """
    objects: dict[str, list[ObjectFile]] = {}
    for item in package.objects:
        objects.setdefault(item.path, []).append(item)
    native = {*objects, *(each.path for each in package.malformed)}
    native |= {each.path for each in package.unread}
    files, sizes = Counter[str](), Counter[str]()
    for member in package.members:
        if member.is_directory or member.target or member.is_symlink:
            continue
        if member.path in native:
            split = _split_object(member, objects.get(member.path, []))
        else:
            split = {_find_part(member.path, package.layout): member.size}
        files.update(split.keys())
        sizes.update(split)
    return {part: PartSize(files=files[part], size=sizes[part]) for part in PARTS if files[part]}


def _find_part(path: str, layout: Layout) -> str:
    """Return the part that a file belongs to, if it is not an object file."""
    of_conda = not layout.climbs and path.startswith(_CONDA_ABOUT)
    if of_conda or _ABOUT.match(layout.shorten(path)):
        return METADATA
    if ".dSYM/" in path:
        return DEBUG
    folders = {HEADERS: f"{layout.headers}/"} if layout.headers else {}
    for part, suffixes in _SUFFIXES.items():
        if path.lower().endswith(suffixes) or path.startswith(folders.get(part, "//")):
            return part
    return DATA


def _split_object(member: Member, slices: list[ObjectFile]) -> dict[str, int]:
    """Split the bytes of an object file by part; a fat file has several slices."""
    rest = {BUNDLED if is_grafted_path(member.path) else NATIVE: member.size}
    if any(each.format == Format.DEVICE or each.kind is Kind.DEVICE for each in slices):
        return {DEVICE: member.size}
    if slices and all(each.kind is Kind.DEBUG for each in slices):
        return {DEBUG: member.size}
    left, found = member.size, {}
    for part, measured in (
        (DEVICE, [code.bytes for each in slices for code in getattr(each, "device_code", ())]),
        (DEBUG, [getattr(each, "debug_bytes", 0) for each in slices]),
    ):
        if taken := min(sum(measured), left):
            found[part] = taken
            left -= taken
    return {**found, **dict.fromkeys(rest, left)}

"""Lists what a package needs from elsewhere and what it brings: facts for a summary, no verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from binary_checks.knowledge.lowest_tags import is_loaded
from binary_checks.knowledge.python_symbols import find_python_symbols
from binary_checks.knowledge.visual_cpp import toolset_of
from binary_checks.model import Edge, ElfFile, Kind, Linkage, ObjectFile, Package, PeFile
from binary_checks.model.python_modules import is_extension, parse_extension_name
from binary_checks.model.system import read_numbers
from binary_checks.systems.interpreters import stable_abi


class Origin(str, Enum):
    """Where a library that is needed comes from, that is not the package's."""

    SYSTEM = "system"
    PYTHON = "python"
    REQUIRED = "required distribution"
    MISSING = "missing"


@dataclass(frozen=True, kw_only=True, slots=True)
class NeededLibrary:
    """A library that objects of the package need, and that is not in it."""

    name: str
    origin: Origin
    needed_by: tuple[str, ...] = ()  # paths
    distributions: tuple[str, ...] = ()  # that have it or, where it was not found, may have it
    found: bool = False
    partly: str = ""  # which of the promised systems alone have it: "Windows 10 1903 and later"


@dataclass(frozen=True, kw_only=True, slots=True)
class CppInterface:
    """What the package's code was compiled against, as its symbols and headers tell."""

    versions: tuple[str, ...] = ()  # "GLIBCXX_3.4.29", "CXXABI_1.3.13": the newest needed
    new_strings: int = 0  # objects that use libstdc++'s std::__cxx11::string
    old_strings: int = 0  # objects that use its old std::string
    libraries: tuple[str, ...] = ()  # C++ libraries that are needed by name
    toolset: tuple[int, int] | None = None  # the newest of Microsoft's linkers


_CPP = ("libstdc++", "libc++", "msvcp1", "vcruntime1")


def list_needed(linkage: Linkage) -> tuple[NeededLibrary, ...]:
    """What the objects need that the package has not, by origin and name."""
    groups: dict[tuple[Origin, str], list[Edge]] = {}
    for edge in linkage.edges:
        if (origin := _origin_of(edge)) is not None:
            groups.setdefault((origin, edge.needed), []).append(edge)
    order = list(Origin)
    return tuple(
        NeededLibrary(
            name=name,
            origin=origin,
            needed_by=tuple(dict.fromkeys(edge.path for edge in edges)),
            distributions=tuple(sorted({each for edge in edges for each in _distributions(edge)})),
            found=any(edge.resolved is not None for edge in edges),
            partly=next((edge.partly for edge in edges if edge.partly), ""),
        )
        for (origin, name), edges in sorted(
            groups.items(), key=lambda group: (order.index(group[0][0]), group[0][1])
        )
    )


def _origin_of(edge: Edge) -> Origin | None:
    """Where the library comes from; None for the package itself."""
    if edge.resolved is None:
        return Origin.REQUIRED if edge.may_come_with else Origin.MISSING
    origins = {"system": Origin.SYSTEM, "python": Origin.PYTHON, "wheel": Origin.REQUIRED}
    kind, colon, _ = edge.resolved.partition(":")
    return origins.get(kind) if colon else None


def _distributions(edge: Edge) -> tuple[str, ...]:
    kind, _, rest = (edge.resolved or "").partition(":")
    return (rest.partition(":")[0],) if kind == "wheel" else edge.may_come_with


def newest_nodes(package: Package, library: str) -> tuple[str, ...]:
    """The newest version node of each prefix that any object needs of that library."""
    newest: dict[str, tuple[tuple[int, ...], str]] = {}
    for item in package.objects_of(ElfFile):
        for need in item.symbol_versions:
            if need.library == library and not need.weak:
                prefix, _, version = need.version.partition("_")
                candidate = read_numbers(version), need.version
                newest[prefix] = max(candidate, newest.get(prefix, candidate))
    return tuple(node for _, node in sorted(newest.values(), key=lambda each: each[1]))


def list_bundled(package: Package) -> tuple[tuple[str, int], ...]:
    """The libraries in the package that are no extension modules, and their bytes, largest first.

    Of a fat file all slices count once.
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
    """The Python that the stable ABI of these objects needs at least, and a symbol that says so."""
    since = stable_abi()
    found = (
        (since[name], name)
        for item in objects
        for name in find_python_symbols(item).names
        if name in since
    )
    return max(found, default=None)


def read_cpp_interface(package: Package) -> CppInterface | None:
    """What its C++ was compiled against; None where nothing tells of any."""
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
        new_strings=sum(new for new, _ in strings),
        old_strings=sum(old for _, old in strings),
        libraries=libraries,
        toolset=toolset,
    )


def find_strings(item: ElfFile) -> tuple[bool, bool]:
    """Whether it asks libstdc++ for functions of its new and its old std::string."""
    new = old = False
    for name in item.imports.each_name():
        if name.startswith("_ZN"):
            new = new or "St7__cxx1112basic_string" in name
            old = old or name.startswith(("_ZNSs", "_ZNKSs"))
    return new, old


def each_python(package: Package) -> Iterator[str]:
    """The Pythons that its tags claim, in words."""
    for claim in package.claims.pythons:
        implementation = {"cpython": "CPython", "pypy": "PyPy", "": "Python"}.get(
            claim.implementation, claim.implementation
        )
        major = next(filter(str.isdecimal, claim.name), "3")
        version = ".".join(map(str, claim.version)) if claim.version else major
        threads = " free-threaded" if claim.free_threaded else ""
        later = " and later" if claim.abi in ("abi3", "abi3t") else ""
        yield f"{implementation} {version}{threads}{later} ({claim.name})"

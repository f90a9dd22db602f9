"""What takes the bytes of a package: each file belongs to a part, and some objects to several."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from binary_checks.knowledge.grafted_names import is_grafted_name
from binary_checks.model import Format, Kind, Layout, Member, ObjectFile, Package

NATIVE, DEVICE, BUNDLED = "native code", "device code", "bundled libraries"
DEBUG, PYTHON, HEADERS = "debug information", "Python", "headers"
METADATA, DATA = "metadata", "data"
PARTS = (NATIVE, DEVICE, BUNDLED, DEBUG, PYTHON, HEADERS, METADATA, DATA)
"""In the order in which they are shown."""

_GRAFTING = (".libs", ".dylibs")
"""How the folders end that auditwheel, delocate and delvewheel make."""
_ABOUT = re.compile(r"[^/]+\.(?:dist|egg)-info/")
_CONDA_ABOUT = ("info/", "conda-meta/")
_DEVICE = (".fatbin", ".cubin", ".ptx", ".hsaco", ".metallib", ".air", ".spv")
_DEBUG = (".pdb", ".debug", ".dwo", ".dwp")
_PYTHON = (".py", ".pyi", ".pyc", ".pyw")
_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".h++", ".cuh", ".inl", ".ipp", ".tpp", ".pxd", ".pxi")
_LIBRARIES = (".a", ".lib")


@dataclass(frozen=True, kw_only=True, slots=True)
class PartSize:
    """How much of a package one part is."""

    files: int  # that are of it, or have some of it in them
    size: int  # bytes, installed


def measure_parts(package: Package) -> Mapping[str, PartSize]:
    """The parts that the package has, in the order of `PARTS`; their bytes are those of its files.

    An object's device code and debug information count for themselves and the rest of it as native
    code, or as a bundled library. Links and folders have no bytes of their own.
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
            split = _split_object(member, objects.get(member.path, []), package.layout)
        else:
            split = {_find_part(member.path, package.layout): member.size}
        files.update(split.keys())
        sizes.update(split)
    return {part: PartSize(files=files[part], size=sizes[part]) for part in PARTS if files[part]}


def _split_object(member: Member, slices: list[ObjectFile], layout: Layout) -> dict[str, int]:
    """The bytes of an object file by part; of a fat one there are several slices."""
    rest = {BUNDLED if is_bundled(member.path, layout) else NATIVE: member.size}
    if any(each.format == Format.DEVICE or each.kind is Kind.DEVICE for each in slices):
        return {DEVICE: member.size}
    if slices and all(each.kind is Kind.DEBUG for each in slices):
        return {DEBUG: member.size}
    left, found = member.size, {}
    for part, measured in (
        (DEVICE, map(_device_bytes, slices)),
        (DEBUG, map(_debug_bytes, slices)),
    ):
        if taken := min(sum(measured), left):
            found[part] = taken
            left -= taken
    return {**found, **dict.fromkeys(rest, left)}


def _device_bytes(item: ObjectFile) -> int:
    """Bytes of device code within an object of the host."""
    return sum(code.bytes for code in getattr(item, "device_code", ()))


def _debug_bytes(item: ObjectFile) -> int:
    """Bytes of debug information within an object, in sections of its own."""
    return int(getattr(item, "debug_bytes", 0))


def _find_part(path: str, layout: Layout) -> str:
    """The part of a file that is no object file: the first whose rule it fulfils."""
    return next((part for part, belongs in _RULES if belongs(path, layout)), DATA)


def is_bundled(path: str, layout: Layout) -> bool:
    """Whether a repair tool put the library there, by its folder or its name."""
    folders, _, name = layout.shorten(path).rpartition("/")
    return is_grafted_name(name) or any(each.endswith(_GRAFTING) for each in folders.split("/"))


def is_metadata(path: str, layout: Layout) -> bool:
    """Whether it says what the package is: ``*.dist-info``, and of conda packages ``info``."""
    of_conda = not layout.climbs and path.startswith(_CONDA_ABOUT)
    return of_conda or _ABOUT.match(layout.shorten(path)) is not None


def is_python(path: str, layout: Layout) -> bool:
    """Whether it is Python, as source, as a stub, or compiled."""
    del layout
    return path.lower().endswith(_PYTHON)


def is_header(path: str, layout: Layout) -> bool:
    """Whether compilers include it: by its name (C, C++, CUDA, Cython) or its folder."""
    return path.lower().endswith(_HEADERS) or (
        layout.headers != "" and path.startswith(f"{layout.headers}/")
    )


def is_device_code(path: str, layout: Layout) -> bool:
    """Whether it is code for GPUs in a file of its own, which is no object file that is read."""
    del layout
    return path.lower().endswith(_DEVICE)


def is_debug_information(path: str, layout: Layout) -> bool:
    """Whether only debuggers read it: Microsoft's, companions of ELF objects, and dSYM bundles."""
    del layout
    return path.lower().endswith(_DEBUG) or ".dSYM/" in path


def is_library(path: str, layout: Layout) -> bool:
    """Whether linkers read it: a static archive, or an import library of Windows."""
    del layout
    return path.lower().endswith(_LIBRARIES)


_RULES: tuple[tuple[str, Callable[[str, Layout], bool]], ...] = (
    (METADATA, is_metadata),
    (DEBUG, is_debug_information),
    (DEVICE, is_device_code),
    (PYTHON, is_python),
    (HEADERS, is_header),
    (NATIVE, is_library),
)

"""Tells copies of the driver's libraries, and stubs that stand in for them, by their content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from binary_checks.errors import Unavailable
from binary_checks.knowledge.grafted_names import strip_graft
from binary_checks.knowledge.nvidia_names import find_driver_symbols, is_driver_library
from binary_checks.model import ElfFile, Kind, ObjectFile, PeFile
from binary_checks.model.linkage import expand, path_elements

# What a program calls first in each, by the name that its users ask for.
_FIRST_CALLS: Final = {
    "cuInit": "libcuda.so.1",
    "nvmlInit_v2": "libnvidia-ml.so.1",
    "cuvidCreateDecoder": "libnvcuvid.so.1",
    "NvEncodeAPICreateInstance": "libnvidia-encode.so.1",
}
# NVIDIA's stubs have some hundred bytes a function; the smallest drivers 5 kB (libnvidia-ml.so.1).
_HEADERS, _PER_FUNCTION = 16_384, 1_024  # bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class DriverCopy:
    """A library of the driver, or what stands in for one, that a package ships."""

    item: ObjectFile
    name: str  # of the library that it is or stands for
    functions: int  # of the driver that it exports
    stub: bool  # it is too small for more than answers, and cannot open the user's driver

    @property
    def for_linkers(self) -> bool:
        """Whether it lies where only linkers look, under the name that only they ask for."""
        folders = self.item.directory.split("/")
        return "stubs" in folders and self.item.file_name.endswith(".so")

    def __str__(self) -> str:
        if self.stub:
            return f"a stub of {self.name}, all of whose {self.functions} functions fail,"
        return f"a copy of {self.name}"


def find_copies(objects: tuple[ObjectFile, ...], drivers: tuple[str, ...]) -> list[DriverCopy]:
    """All of a package."""
    found = (_find_copy(item, drivers) for item in objects)
    return [copy for copy in found if copy is not None]


def _find_copy(item: ObjectFile, drivers: tuple[str, ...]) -> DriverCopy | None:
    """What a shared library of a package is of the driver; None for any other.

    By its soname and its file's name, whatever a repair tool put into them. By its exports, if they
    are the driver's alone and it opens no library: then it answers itself, and is a stub.
    """
    if item.kind is not Kind.SHARED or not isinstance(item, (ElfFile, PeFile)):
        return None
    names = (strip_graft(name) for name in (item.name, item.file_name))
    name = next((each for each in names if each.lower() in drivers), "")
    stands_for, functions, others = _read_exports(item)
    small = item.size < _HEADERS + _PER_FUNCTION * functions
    asks = item.opened is not None or any(is_driver_library(need.name) for need in item.needed)
    stub = bool(functions and small and not asks)
    if not (name or (stub and not others and stands_for in drivers)):
        return None
    return DriverCopy(item=item, name=name or stands_for, functions=functions, stub=stub)


def _read_exports(item: ObjectFile) -> tuple[str, int, int]:
    """The library whose first call it has, and how many of the exports are its and are not."""
    try:
        first = min(item.exports.among(_FIRST_CALLS), default="")
        names = item.exports.names if first else frozenset[str]()
    except Unavailable:  # nobody kept them, and the names are left
        return "", 0, 0
    if not first:
        return "", 0, 0
    soname = _FIRST_CALLS[first]
    own = find_driver_symbols(soname, names)
    others = [name for name in names - own if not name.startswith(("_", "cu", "nvml", "NvEnc"))]
    return soname, len(own), len(others)


def find_searched(opener: ObjectFile, library: ObjectFile) -> tuple[str, ...]:
    """The names that an object may open where its own search path leads to that library's folder.

    It asks for libcuda.so before libcuda.so.1, say, and the stub in ``$ORIGIN/stubs`` has it.
    """
    if opener.opened is None or not isinstance(opener, ElfFile):
        return ()
    folders = {expand(element, opener) for element in path_elements(opener)}
    return opener.opened.names if library.directory in folders else ()

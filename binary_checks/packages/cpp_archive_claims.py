"""For which systems an archive of C++ libraries is: by its name, or else by what lies in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from binary_checks.model.objects import Format, MachOFile, ObjectFile, StaticArchive
from binary_checks.model.packages import Claims, SystemClaim
from binary_checks.packages.cpp_archive_name import FileName

_SYSTEM_OF = {Format.ELF: "linux", Format.MACHO: "macos", Format.PE: "windows"}
_SYSTEM_OF_MEMBERS = {"ELF": "linux", "Mach-O": "macos", "COFF": "windows", "import": "windows"}
_VISUAL_CPP = (
    *("vcruntime140.dll", "vcruntime140_1.dll", "msvcp140.dll", "msvcp140_1.dll"),
    *("msvcp140_2.dll", "msvcp140_atomic_wait.dll", "msvcp140_codecvt_ids.dll", "concrt140.dll"),
    *("vcomp140.dll",),
)
"""What users who compile against it for Windows have, and redistribute."""


class _Seen(NamedTuple):
    """An object, or the members of a static library that are alike."""

    path: str
    system: str
    architecture: str
    objects: int = 1


def read_claims(named: FileName, objects: Sequence[ObjectFile], *, is_folder: bool) -> Claims:
    """What the name says, and where it says nothing what most of the objects are.

    What has been installed into a folder may count on the system that it was built for, and an
    archive without dependencies counts on those that users bring.
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
    """The objects that are loaded; where there are none, what static libraries are made of."""
    loaded = [i for i in objects if i.format in _SYSTEM_OF]
    for item in loaded:
        yield _Seen(item.path, _SYSTEM_OF[item.format], item.architecture)
    for item in () if loaded else objects:
        if isinstance(item, StaticArchive):
            for each in item.members:
                system = _SYSTEM_OF_MEMBERS.get(each.format, "")
                yield _Seen(item.path, system, each.architecture, each.count)


def _most(counted: Iterable[tuple[str, int]]) -> str:
    """The value that is counted most often, "" where there is none."""
    sums = Counter[str]()
    for value, count in counted:
        sums[value] += count
    del sums[""]
    return sums.most_common(1)[0][0] if sums else ""


def _find_architectures(seen: Sequence[_Seen]) -> tuple[str, ...]:
    """That of most objects; on macOS, where each library is for several, all of them."""
    slices = Counter(item.path for item in seen if item.system == "macos")
    if slices and min(slices.values()) > 1:
        return tuple(sorted({item.architecture for item in seen}, reverse=True))
    found = _most((item.architecture, item.objects) for item in seen)
    return (found,) if found else ()


def _find_libc(objects: Iterable[ObjectFile]) -> str:
    """Of which C library most of its objects are."""
    needed = (need.name for item in objects for need in item.needed)
    counted = Counter("musl" if "musl" in name else "glibc" for name in needed if "libc." in name)
    return counted.most_common(1)[0][0] if counted else "glibc"


def _find_minimum(objects: Iterable[ObjectFile]) -> tuple[int, int] | None:
    """The newest macOS that one of its objects asks for: no name says more."""
    asked = (item.minimum_os.split(".") for item in objects if isinstance(item, MachOFile))
    found = [(int(each[0]), int(each[1])) for each in asked if len(each) > 1]
    return max(found, default=None)

"""Object files without metadata: one file, or a folder (an environment, the output of a build)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Any, TypeVar

from packaging.tags import Tag

from binary_checks.errors import PackageError
from binary_checks.model import (
    Claims,
    ContentStore,
    ElfFile,
    ExtensionName,
    Layout,
    MachOFile,
    ObjectFile,
    ObjectFolder,
    ObjectReader,
    Package,
    PeFile,
    Preview,
    Progress,
    PythonClaim,
    SingleObject,
    SystemClaim,
    Tree,
    TreeEntry,
    Visited,
    VisitRequest,
    format_of_name,
    is_extension,
    parse_extension_name,
)
from binary_checks.packages.distributions import (
    InstallTarget,
    read_members,
    sort_objects,
)
from binary_checks.trees.loose_file import LooseFile, begins_object
from binary_checks.trees.members import find_formats

_SITE_PACKAGES = re.compile(r"(?:lib(?:64)?/(?:python|pypy)\d\.\d+t?|Lib)/site-packages(?=/)")
_ON_WINDOWS = (Tag("py3", "none", "win_amd64"),)
"""A tag of any package for Windows, so that code is searched for DLLs that it loads."""


_PROGRAMS = ("", ".exe", ".node")


def recognises(label: str, look: Callable[[], Tree]) -> bool:
    """Return whether the path is a library by its name, a program, or a folder with either.

    Programs are recognised by their first bytes.
    """
    if label.endswith("/"):
        tree, entries = look(), look().entries()
        called = any(format_of_name(entry.name) is not None for entry in entries)
        return called or any(map(begins_object, tree.heads(e for e in entries if not e.faults)))
    suffix = PurePath(label).suffix
    # python3.12 and clang-14.0 are programs
    called = suffix in _PROGRAMS or suffix[1:].isdigit()
    return format_of_name(label) is not None or (called and isinstance(look(), LooseFile))


def preview(tree: Tree, reader: ObjectReader) -> Preview:
    """Look at the first bytes of the files."""
    kind = ObjectFolder if tree.label.endswith("/") else SingleObject
    return Preview(kind=kind, formats=find_formats(tree, tree.entries(), reader))


def read(
    tree: Tree,
    reader: ObjectReader,
    progress: Progress | None = None,
    store: ContentStore | None = None,
) -> ObjectFolder | SingleObject:
    """Read every file. Raises PackageError if a file or folder cannot be read or has no object."""
    if not tree.label.endswith("/"):
        visited = tree.visit(reader, VisitRequest(store=store), progress)
        name, layout = tree.label.partition(".")[0], Layout(climbs=False)
        single = assemble(SingleObject, visited, layout, path=tree.path, name=name, size=tree.size)
        if not (single.objects or single.malformed or single.unread):
            raise PackageError(f"{tree.label}: not an object file of a known format")
        return single
    entries = tree.entries()
    layout = find_layout(entries)
    tags = _ON_WINDOWS if any(e.name.lower().endswith((".pyd", ".dll")) for e in entries) else ()
    wanted = VisitRequest(only=entries, store=store)
    reading = read_members(tree, reader, wanted, InstallTarget(layout, tags), progress)
    package = assemble(
        ObjectFolder,
        reading.visited,
        layout,
        path=tree.path,
        name=tree.label.rstrip("/"),
        size=sum(entry.size for entry in entries),
        archive_faults=tree.faults,
        ambiguities=tree.ambiguities,
        dll_directories=reading.loading.dll_directories,
        loading_code=reading.loading.loading_code,
    )
    if not (package.objects or package.malformed or package.unread):
        raise PackageError(f"{tree.label}: no object file in this folder")
    return package


def find_layout(entries: Iterable[TreeEntry]) -> Layout:
    """Return an environment's layout if there is a site-packages, or else a plain folder's layout.

    If a mixed environment has two site-packages, use the one with more files.
    """
    found = Counter(m[0] for entry in entries if (m := _SITE_PACKAGES.match(entry.name)))
    if not found:
        return Layout(climbs=False)
    site_packages = found.most_common(1)[0][0]
    if site_packages.startswith("Lib/"):
        return Layout(
            site_packages=site_packages,
            scripts="Scripts",
            python="",
            libraries="Library/bin",
            headers="Library/include",
            climbs=False,
        )
    return Layout(site_packages=site_packages, climbs=False)


# Claims of files without metadata: the systems and Pythons in their headers and names.

_PYTHON = re.compile(r"(?:lib)?python3\.?(?P<minor>\d{1,3})(?:_d)?\.(?:dll|so(?:\.1\.0)?|dylib)")
"""The library of one Python version. An extension module may need it although the module's own name
states no version.
"""
_MUSL = ("ld-musl-", "libc.musl-")
_TAGS = {"linux": "linux_{}", "macos": "macosx_{}", "windows": "win_{}"}
_SPELLED = {
    ("macos", "aarch64"): "macosx_arm64",
    ("windows", "x86_64"): "win_amd64",
    ("windows", "i686"): "win32",
    ("windows", "aarch64"): "win_arm64",
}
"""Platform tags that are not formed from the names of system and architecture."""

_Package = TypeVar("_Package", bound=Package)


def assemble(
    kind: type[_Package], visited: Sequence[Visited], layout: Layout, **own: Any
) -> _Package:
    """Return a package of that class; ``own`` are the fields that only this class has."""
    found = [item for each in visited for item in each.objects]
    return kind(
        layout=layout,
        claims=read_claims([item for item in found if isinstance(item, ObjectFile)]),
        members=tuple(each.member for each in visited),
        **sort_objects(found),
        **own,
    )


def read_claims(objects: Sequence[ObjectFile]) -> Claims:
    """Return the systems and Pythons that objects claim, without requirements.

    Objects state a minimum version only for macOS; the package needs the newest of these versions.
    """
    systems: dict[str, SystemClaim] = {}
    for claim in filter(None, map(_read_system, objects)):
        known = systems.get(claim.name)
        if known is None or (claim.minimum or (0, 0)) > (known.minimum or (0, 0)):
            systems[claim.name] = claim
    return Claims(
        systems=tuple(systems[name] for name in sorted(systems)),
        pythons=tuple(dict.fromkeys(_read_pythons(objects))),
        partial=True,
    )


def _read_system(item: ObjectFile) -> SystemClaim | None:
    """Return the system of one object, or None for objects that no loader maps."""
    kinds = ((ElfFile, "linux"), (MachOFile, "macos"), (PeFile, "windows"))
    system = next((name for kind, name in kinds if isinstance(item, kind)), "")
    if not system or not item.architecture:
        return None
    libc = _find_libc(item) if isinstance(item, ElfFile) else ""
    spelled = _SPELLED.get((system, item.architecture), _TAGS[system].format(item.architecture))
    return SystemClaim(
        name=f"{libc}{spelled}" if libc == "musl" else spelled,
        system=system,
        libc=libc,
        minimum=_read_version(item.minimum_os) if isinstance(item, MachOFile) else None,
        architectures=(item.architecture,),
    )


def _read_version(text: str) -> tuple[int, int] | None:
    numbers = [int(part) for part in text.split(".")[:2] if part.isdigit()]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else None


def _find_libc(item: ElfFile) -> str:
    names = (item.interpreter.rpartition("/")[2], *(each.name for each in item.needed))
    return "musl" if any(name.startswith(_MUSL) for name in names) else "glibc"


def _read_pythons(objects: Iterable[ObjectFile]) -> Iterator[PythonClaim]:
    """Yield the Pythons in the names of extension modules."""
    for item in objects:
        name = parse_extension_name(item.path) if is_extension(item) else None
        if name is None:
            continue
        linked = filter(None, (_PYTHON.fullmatch(each.name.lower()) for each in item.needed))
        number = next((match["minor"] for match in linked), "")
        if number and not name.tagged:
            yield _claim_version((3, int(number)), free_threaded=False)
        else:
            yield _claim_python(name)


def _claim_python(name: ExtensionName) -> PythonClaim:
    if name.version is None:
        implementation = "cpython" if name.stable else ""
        return PythonClaim(
            name=name.stable or "any", implementation=implementation, abi=name.stable
        )
    if name.implementation == "cpython":
        return _claim_version(name.version, free_threaded=name.free_threaded)
    spelled = "{}{}{}".format(name.implementation, *name.version)
    return PythonClaim(name=spelled, implementation=name.implementation, version=name.version)


def _claim_version(version: tuple[int, int], *, free_threaded: bool) -> PythonClaim:
    abi = "cp{}{}{}".format(*version, "t" * free_threaded)
    return PythonClaim(
        name=abi, implementation="cpython", version=version, abi=abi, free_threaded=free_threaded
    )

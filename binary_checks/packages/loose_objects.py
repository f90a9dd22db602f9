"""What files without metadata say of themselves: for which systems and Pythons they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from binary_checks.model.claims import Claims, PythonClaim, SystemClaim
from binary_checks.model.extensions import ExtensionName, is_extension, parse_extension_name
from binary_checks.model.layout import Layout
from binary_checks.model.objects import (
    ElfFile,
    MachOFile,
    MalformedObject,
    ObjectFile,
    PeFile,
    UnreadObject,
)
from binary_checks.model.packages import Package
from binary_checks.model.protocols import Visited
from binary_checks.packages.distributions import pick

_MUSL = ("ld-musl-", "libc.musl-")
_TAGS = {"linux": "linux_{}", "macos": "macosx_{}", "windows": "win_{}"}
_SPELLED = {
    ("macos", "aarch64"): "macosx_arm64",
    ("windows", "x86_64"): "win_amd64",
    ("windows", "i686"): "win32",
    ("windows", "aarch64"): "win_arm64",
}
"""Names of systems where they differ from system and architecture, as platform tags have them."""

_Package = TypeVar("_Package", bound=Package)


def assemble(
    kind: type[_Package], visited: Sequence[Visited], layout: Layout, **own: Any
) -> _Package:
    """Make the package of that class; ``own`` are the fields that only the kind knows."""
    found = [item for each in visited for item in each.objects]
    objects = pick(found, ObjectFile)
    return kind(
        layout=layout,
        claims=read_claims(objects),
        members=tuple(each.member for each in visited),
        objects=objects,
        malformed=pick(found, MalformedObject),
        unread=pick(found, UnreadObject),
        **own,
    )


def read_claims(objects: Sequence[ObjectFile]) -> Claims:
    """Where objects say that they run: no version of a system, no requirement is promised."""
    systems = {each.name: each for each in map(_read_system, objects) if each is not None}
    return Claims(
        systems=tuple(systems[name] for name in sorted(systems)),
        pythons=tuple(dict.fromkeys(_read_pythons(objects))),
        partial=True,
    )


def _read_system(item: ObjectFile) -> SystemClaim | None:
    """The system of one object; None of one that no loader of these maps."""
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
        architectures=(item.architecture,),
    )


def _find_libc(item: ElfFile) -> str:
    names = (item.interpreter.rpartition("/")[2], *(each.name for each in item.needed))
    return "musl" if any(name.startswith(_MUSL) for name in names) else "glibc"


def _read_pythons(objects: Iterable[ObjectFile]) -> Iterator[PythonClaim]:
    """The Pythons that the extension modules are called for."""
    for item in objects:
        name = parse_extension_name(item.path) if is_extension(item) else None
        if name is not None:
            yield _claim_python(name)


def _claim_python(name: ExtensionName) -> PythonClaim:
    if name.version is None:
        implementation = "cpython" if name.stable else ""
        return PythonClaim(
            name=name.stable or "any", implementation=implementation, abi=name.stable
        )
    digits = "{}{}".format(*name.version)
    threaded = "t" * name.free_threaded
    abi = f"cp{digits}{threaded}" if name.implementation == "cpython" else ""
    return PythonClaim(
        name=abi or f"{name.implementation}{digits}",
        implementation=name.implementation,
        version=name.version,
        abi=abi,
        free_threaded=name.free_threaded,
    )

"""What files without metadata say of themselves: for which systems and Pythons they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from binary_checks.model.objects import (
    ElfFile,
    MachOFile,
    MalformedObject,
    ObjectFile,
    PeFile,
    UnreadObject,
)
from binary_checks.model.packages import Claims, Layout, Package, PythonClaim, SystemClaim
from binary_checks.model.protocols import Visited
from binary_checks.model.python_modules import ExtensionName, is_extension, parse_extension_name
from binary_checks.packages.distributions import pick

_PYTHON = re.compile(r"(?:lib)?python3\.?(?P<minor>\d{1,3})(?:_d)?\.(?:dll|so(?:\.1\.0)?|dylib)")
"""The library of one Python, which a module names that is called like one for every Python."""
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
    """Where objects say that they run; no requirement is promised.

    Of a system's versions those of macOS alone stand in the objects: together they need the newest.
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
    """The Pythons that the extension modules are called for."""
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

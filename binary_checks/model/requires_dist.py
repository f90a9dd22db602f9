"""Parsed requirements, and results of comparing them with an index and with given packages."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from binary_checks.errors import Unavailable
from binary_checks.model.system import TargetSystem
from binary_checks.safe_text import SHOWN, elide

MARKERS_OF_SYSTEMS = {
    "linux": {"os_name": "posix", "platform_system": "Linux", "sys_platform": "linux"},
    "macos": {"os_name": "posix", "platform_system": "Darwin", "sys_platform": "darwin"},
    "windows": {"os_name": "nt", "platform_system": "Windows", "sys_platform": "win32"},
    "ios": {"os_name": "posix", "platform_system": "iOS", "sys_platform": "ios"},
    "android": {"os_name": "posix", "platform_system": "Android", "sys_platform": "android"},
    "emscripten": {
        "os_name": "posix",
        "platform_system": "Emscripten",
        "sys_platform": "emscripten",
    },
}
_MACHINES: dict[str, dict[str, str]] = {
    "linux": {},
    "macos": {"aarch64": "arm64"},
    "windows": {"x86_64": "AMD64", "aarch64": "ARM64", "i686": "x86"},
    "ios": {"aarch64": "arm64"},
    "android": {},
    "emscripten": {},
}
"""Values of ``platform.machine()`` by system and our architecture name, where the two differ."""

# Python refuses to convert strings of thousands of digits to numbers
_VERSION_TEXT = r"[A-Za-z0-9.!+*_-]{1,200}"


def read_requirement(text: str) -> Requirement | None:
    """Parse a requirement; return None if it is invalid, which the installer reports."""
    try:
        return Requirement(text)
    except (ValueError, RecursionError):  # thousands of digits, or deeply nested parentheses
        return None


def require_names(requirements: Iterable[Requirement], advice: str) -> None:
    """Raise Unavailable if a requirement names a location instead of a version.

    The installer would build whatever that URL, path or repository contains. ``===`` accepts any
    text, including paths that installers follow. The advice tells the user what to do.
    """
    for item in requirements:
        if item.url is not None:
            place = elide(item.url, 2 * SHOWN)  # most stay whole, to be copied
            raise Unavailable(f"{item.name} is required by URL ({place}); {advice}")
        for each in item.specifier:
            if not re.fullmatch(_VERSION_TEXT, each.version):
                raise Unavailable(
                    f"{item.name} is required without a valid version ({elide(str(each))}); "
                    f"{advice}"
                )


def applies(requirement: Requirement, environment: Mapping[str, str]) -> bool:
    """Return whether a requirement's marker is true.

    A meaningless marker (``extra > 'x'``) counts as true.
    """
    try:
        return requirement.marker is None or requirement.marker.evaluate(dict(environment))
    # an unknown name, or values that cannot be compared
    except (KeyError, ValueError, RecursionError):
        return True


def applicable(
    texts: Iterable[str], target: TargetSystem, extras: Iterable[str] = ()
) -> Iterator[Requirement]:
    """Yield the valid requirements that apply on the target, also requirements of the extras."""
    environments = [environment_of(target, extra) for extra in ("", *extras)]
    for requirement in map(read_requirement, texts):
        if requirement is not None and any(applies(requirement, each) for each in environments):
            yield requirement


def names_required(texts: Iterable[str], target: TargetSystem) -> frozenset[str]:
    """Return the normalised names of the requirements that apply on the target, without extras."""
    return frozenset(canonicalize_name(item.name) for item in applicable(texts, target))


def environment_of(target: TargetSystem, extra: str = "") -> dict[str, str]:
    """Return the values of environment markers on the target (PEP 508)."""
    major, minor = target.interpreter.version if target.interpreter else (3, 12)
    architecture = target.architectures[0]
    return {
        **MARKERS_OF_SYSTEMS[target.system],
        "extra": extra,
        "implementation_name": "cpython",
        "implementation_version": f"{major}.{minor}.0",
        "platform_machine": _MACHINES[target.system].get(architecture, architecture),
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_version": "",
        "python_full_version": f"{major}.{minor}.0",
        "python_version": f"{major}.{minor}",
    }


def find_names(requires_dist: Collection[str], *, extras: bool = True) -> frozenset[str]:
    """Return the projects that are required on some system, with or without those of extras."""
    return frozenset(
        canonicalize_name(item.name)
        for item in map(read_requirement, requires_dist)
        if item is not None and (extras or "extra" not in str(item.marker))
    )


def find_names_in_extras(requires_dist: Collection[str]) -> frozenset[str]:
    """Return the projects that are required only by extras."""
    return find_names(requires_dist) - find_names(requires_dist, extras=False)


# Whether an index has wheels for all requirements, and whether given packages satisfy them.


@dataclass(frozen=True, kw_only=True, slots=True)
class RequiredWheels:
    """The result of downloading a wheel's requirements for the wheel's own Python and system."""

    lacking: str = ""
    """The first requirement without a wheel: "wheel of torch>=2 for cp311 on win_amd64 or
    newer".
    """
    found: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class MisfitVersion:
    """A package given next to the judged one, in a version that a requirement excludes."""

    name: str
    version: str
    requirement: str  # as written: "nvidia-nccl-cu13==2.30.7"
    # the package with the requirement, "cuda-toolkit 13.2.2"; "" for the judged package
    by: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenVersions:
    """The packages given next to the judged one, compared with all requirements on them."""

    misfits: tuple[MisfitVersion, ...] = ()

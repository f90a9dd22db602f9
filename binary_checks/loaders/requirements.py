"""Which of the packages given beside one are those that it requires, and which it lacks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from binary_checks.model import Package, TargetSystem
from binary_checks.model.requirements import applies, read_requirement

_SYSTEMS = {
    "linux": {"os_name": "posix", "platform_system": "Linux", "sys_platform": "linux"},
    "macos": {"os_name": "posix", "platform_system": "Darwin", "sys_platform": "darwin"},
    "windows": {"os_name": "nt", "platform_system": "Windows", "sys_platform": "win32"},
}
_MACHINES: dict[str, dict[str, str]] = {
    "linux": {},
    "macos": {"aarch64": "arm64"},
    "windows": {"x86_64": "AMD64", "aarch64": "ARM64", "i686": "x86"},
}
"""What ``platform.machine()`` says there, where it is another word than ours."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Beside:
    """What lies beside a package once it is installed, as far as it was given."""

    packages: tuple[Package, ...]
    missing: tuple[str, ...]  # names of required distributions that are not among them
    refused: tuple[str, ...]  # given in a version that is not the required one: in words


def sort_out(
    requirements: Iterable[str], others: Iterable[Package], target: TargetSystem
) -> Beside:
    """Hold the packages given against the Requires-Dist that apply on the target, without extras.

    An installer would never put a version beside the package that its Requires-Dist excludes: such
    a one is left out, and told of unless another one of that name fits.
    """
    wanted = _by_name(requirements, target)
    packages: list[Package] = []
    refused: dict[str, list[str]] = {}
    for package in others:
        name = canonicalize_name(package.name)
        against = [item for item in wanted.get(name, ()) if not _fits(package.version, item)]
        if against:
            specifiers = " and ".join(f"{item.name}{item.specifier}" for item in against)
            words = f"{package.name} {package.version}, where {specifiers} is required"
            refused.setdefault(name, []).append(words)
        else:
            packages.append(package)
    given = {canonicalize_name(package.name) for package in packages}
    return Beside(
        packages=tuple(packages),
        missing=tuple(sorted(wanted.keys() - given)),
        refused=tuple(words for name in sorted(refused.keys() - given) for words in refused[name]),
    )


def _by_name(texts: Iterable[str], target: TargetSystem) -> dict[str, list[Requirement]]:
    """The requirements that apply; what is none is the metadata's fault, which a check tells."""
    environment = _environment(target)
    found: dict[str, list[Requirement]] = {}
    for requirement in map(read_requirement, texts):
        if requirement is not None and applies(requirement, environment):
            found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


def _fits(version: str, requirement: Requirement) -> bool:
    """Whether that version may be installed; a pre-release may, as somebody has given it."""
    try:
        return requirement.specifier.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return True  # nothing is known against it


def _environment(target: TargetSystem) -> dict[str, str]:
    """The values of environment markers on the target (PEP 508)."""
    major, minor = target.interpreter.version if target.interpreter else (3, 12)
    system = _SYSTEMS[target.system]
    architecture = target.architectures[0]
    return {
        "extra": "",
        "implementation_name": "cpython",
        "implementation_version": f"{major}.{minor}.0",
        "os_name": system["os_name"],
        "platform_machine": _MACHINES[target.system].get(architecture, architecture),
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": system["platform_system"],
        "platform_version": "",
        "python_full_version": f"{major}.{minor}.0",
        "python_version": f"{major}.{minor}",
        "sys_platform": system["sys_platform"],
    }

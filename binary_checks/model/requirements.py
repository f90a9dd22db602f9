"""Reads a Requires-Dist: none of them, however nested or wrong, breaks who reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from binary_checks.model.system import TargetSystem

if TYPE_CHECKING:  # many packages require nothing, and the grammar takes its time to be imported
    from packaging.requirements import Requirement

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


def read_requirement(text: str) -> Requirement | None:
    """Parse it; None where it is no requirement, of which the installer says what is wrong."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(text)
    except (InvalidRequirement, RecursionError):  # thousands of parentheses
        return None


def applies(requirement: Requirement, environment: Mapping[str, str]) -> bool:
    """Whether its marker is true there; one that means nothing (``extra > 'x'``) applies."""
    from packaging.markers import UndefinedComparison, UndefinedEnvironmentName

    try:
        return requirement.marker is None or requirement.marker.evaluate(dict(environment))
    except (UndefinedComparison, UndefinedEnvironmentName, RecursionError):
        return True


def applicable(
    texts: Iterable[str], target: TargetSystem, extras: Iterable[str] = ()
) -> Iterator[Requirement]:
    """The requirements that hold on the target, also those of these extras; what is none is not."""
    environments = [environment_of(target, extra) for extra in ("", *extras)]
    for requirement in map(read_requirement, texts):
        if requirement is not None and any(applies(requirement, each) for each in environments):
            yield requirement


def environment_of(target: TargetSystem, extra: str = "") -> dict[str, str]:
    """The values of environment markers on the target (PEP 508)."""
    major, minor = target.interpreter.version if target.interpreter else (3, 12)
    system = _SYSTEMS[target.system]
    architecture = target.architectures[0]
    return {
        "extra": extra,
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

"""Which of the distributions that a package requires were not given beside it."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from binary_checks.model import Package, TargetSystem


def not_given(
    requirements: Iterable[str], others: Iterable[Package], target: TargetSystem
) -> tuple[str, ...]:
    """Name the distributions that apply on the target, without extras, and that are not there."""
    given = {canonicalize_name(package.name) for package in others}
    needed = {_applicable(text, target) for text in requirements} - {""}
    return tuple(sorted(needed - given))


def _applicable(text: str, target: TargetSystem) -> str:
    """The distribution that a Requires-Dist asks for on the target; "" where it asks for none."""
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return ""  # the metadata's fault, which a check of that family tells
    if requirement.marker and not requirement.marker.evaluate(_environment(target)):
        return ""
    return canonicalize_name(requirement.name)


def _environment(target: TargetSystem) -> dict[str, str]:
    """The values of environment markers on the target (PEP 508)."""
    major, minor = target.interpreter.version if target.interpreter else (3, 12)
    return {
        "extra": "",
        "implementation_name": "cpython",
        "implementation_version": f"{major}.{minor}.0",
        "os_name": "posix",
        "platform_machine": target.architecture,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": f"{major}.{minor}.0",
        "python_version": f"{major}.{minor}",
        "sys_platform": "linux",
    }

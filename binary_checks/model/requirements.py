"""Reads a Requires-Dist: none of them, however nested or wrong, breaks who reads it."""

from __future__ import annotations

from collections.abc import Mapping

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement


def read_requirement(text: str) -> Requirement | None:
    """Parse it; None where it is no requirement, of which the installer says what is wrong."""
    try:
        return Requirement(text)
    except (InvalidRequirement, RecursionError):  # thousands of parentheses
        return None


def applies(requirement: Requirement, environment: Mapping[str, str]) -> bool:
    """Whether its marker is true there; one that means nothing (``extra > 'x'``) applies."""
    try:
        return requirement.marker is None or requirement.marker.evaluate(dict(environment))
    except (UndefinedComparison, UndefinedEnvironmentName, RecursionError):
        return True

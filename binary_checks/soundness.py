"""Whether a project's own declarations can be followed: facts that exist, options with defaults."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter
from typing import Any

from binary_checks.declaring import Check, Gatherer, is_ours, is_own
from binary_checks.errors import ProfileError
from binary_checks.model import (
    CodeNames,
    Linkage,
    ObjectFile,
    Package,
    ProbeReport,
    SecondOpinion,
    TargetSystem,
)
from binary_checks.model.binary_configuration import BinaryConfiguration, LinkedLibraries
from binary_checks.model.linkage import FamiliesBeside
from binary_checks.model.published import RenderedDescription, Survey
from binary_checks.model.python_modules import ImportOpenings, PythonModules
from binary_checks.model.requests import Request
from binary_checks.model.requires_dist import GivenVersions, RequiredWheels

_FACTS = (
    Package,
    CodeNames,
    ImportOpenings,
    ObjectFile,
    Linkage,
    TargetSystem,
    ProbeReport,
    Request,
    SecondOpinion,
    PythonModules,
    RenderedDescription,
    RequiredWheels,
    GivenVersions,
    FamiliesBeside,
    BinaryConfiguration,
    LinkedLibraries,
    Survey,
)

IsGathered = Callable[[type], bool]
"""Whether some function gathers the facts of a class."""


def demand_sound(check: Check[Any], is_gathered: IsGathered = lambda _: False) -> None:
    """Raise ProfileError unless the signature says what to judge, by classes that are facts.

    Our own checks are left to the test run.
    """
    if is_own(check.function.__module__):
        return
    kinds = _read_kinds(check, f"check {check.id}")
    if not kinds:
        raise ProfileError(f"check {check.id}: it has no parameter that names what it judges")
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, _FACTS)):
            raise ProfileError(f"check {check.id}: {kind} is no fact of a package")
        if not (issubclass(kind, (Request, ObjectFile)) or is_ours(kind) or is_gathered(kind)):
            name = kind.__name__
            raise ProfileError(f"check {check.id}: no function with @gathers({name}) gathers it")
    for option in check.options.values():
        if option.default is Parameter.empty:
            raise ProfileError(f"check {check.id}: its option {option.name!r} has no default")


def demand_gatherable(gatherer: Gatherer[..., Any], is_gathered: IsGathered) -> None:
    """Raise ProfileError unless all that a project's own gatherer asks for is to be had."""
    for kind in _read_kinds(gatherer, repr(gatherer)):
        given = isinstance(kind, type) and (issubclass(kind, Request) or is_gathered(kind))
        if not (given or is_ours(kind)):
            raise ProfileError(f"{gatherer!r}: it asks for {kind}, which nothing gathers")


def _read_kinds(declared: Check[Any] | Gatherer[..., Any], where: str) -> list[Any]:
    try:
        return [kind for kinds in declared.facts for kind in kinds]
    except (NameError, KeyError) as error:  # no such name, or no annotation
        raise ProfileError(f"{where}: parameter without a known type: {error}") from None

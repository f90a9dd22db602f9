"""Which of the packages given beside one are those that it requires, and which it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import Version

from binary_checks.model import Package, TargetSystem
from binary_checks.model.requires_dist import applicable, names_required

if TYPE_CHECKING:
    from packaging.requirements import Requirement


@dataclass(frozen=True, kw_only=True, slots=True)
class Beside:
    """What lies beside a package once it is installed, as far as it was given."""

    packages: tuple[Package, ...]
    missing: tuple[str, ...]  # names of required distributions that are not among them
    refused: tuple[str, ...]  # given in a version that is not the required one: in words


def sort_out(
    requirements: Iterable[str], others: Iterable[Package], target: TargetSystem
) -> Beside:
    """Hold the packages given against the requirements that apply on the target, without extras.

    An installer would never put a version beside the package that its requirements exclude: such
    a one is left out, and told of unless another one of that name fits. What those given require
    in turn is required too: torch's libraries of CUDA come with what cuda-toolkit requires.
    """
    requirements, others = tuple(requirements), tuple(others)
    if not others:
        missing = names_required(requirements, target)
        return Beside(packages=(), missing=tuple(sorted(missing)), refused=())
    wanted = _by_name(applicable(requirements, target))
    packages: list[Package] = []
    refused: dict[str, list[str]] = {}
    for package in others:
        name = canonicalize_name(package.name)
        against = [item for item in wanted.get(name, ()) if not fits(package.version, item)]
        if against:
            specifiers = " and ".join(f"{item.name}{item.specifier}" for item in against)
            words = f"{package.name} {package.version}, where {specifiers} is required"
            refused.setdefault(name, []).append(words)
        else:
            packages.append(package)
    given: dict[str, Package] = {canonicalize_name(item.name): item for item in packages}
    required = find_required(requirements, given, target)
    return Beside(
        packages=tuple(packages),
        missing=tuple(sorted(required.keys() - given.keys())),
        refused=tuple(words for name in sorted(refused.keys() - given) for words in refused[name]),
    )


def find_required(
    requirements: Iterable[str], given: Mapping[str, Package], target: TargetSystem
) -> dict[str, list[Requirement]]:
    """All that is required, directly or by what was given and is required itself, by name.

    The names are normalised; an extra that is asked for counts as far as it was given.
    """
    wanted = _by_name(applicable(requirements, target))
    asked = {name: _extras(items) for name, items in wanted.items()}
    queue = list(wanted)
    for name in queue:
        package = given.get(name)
        if package is None:
            continue
        for item in applicable(package.claims.requirements, target, sorted(asked[name])):
            other, extras = canonicalize_name(item.name), _extras([item])
            if item not in wanted.setdefault(other, []):
                wanted[other].append(item)
            if other not in asked or not extras <= asked[other]:
                asked[other] = extras | asked.get(other, frozenset())
                queue.append(other)
    return wanted


def _extras(items: Iterable[Requirement]) -> frozenset[str]:
    return frozenset(extra for item in items for extra in item.extras)


def _by_name(requirements: Iterable[Requirement]) -> dict[str, list[Requirement]]:
    found: dict[str, list[Requirement]] = {}
    for requirement in requirements:
        found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


def fits(version: str, requirement: Requirement) -> bool:
    """Whether that version may be installed; a pre-release may, as somebody has given it."""
    try:
        return requirement.specifier.contains(Version(version), prereleases=True)
    except ValueError:
        return True  # nothing is known against it

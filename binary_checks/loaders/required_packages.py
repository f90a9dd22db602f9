"""Which of the packages given beside one are those that it requires, and which it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import Version

from binary_checks.knowledge.library_names import find_opener
from binary_checks.loaders.file_layout import relocate
from binary_checks.model import Package, TargetSystem
from binary_checks.model.linkage import FamiliesBeside, FamilyOpener
from binary_checks.model.packages import ANY_SYSTEM
from binary_checks.model.requires_dist import MisfitVersion, applicable, names_required

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_MOST_CHOICES = 64  # of versions, where several are given of several names


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
    wanted: dict[str, list[Requirement]] = {}
    for _, item in _follow(requirements, given, target):
        items = wanted.setdefault(canonicalize_name(item.name), [])
        if item not in items:
            items.append(item)
    return wanted


def find_misfits(
    requirements: Iterable[str], others: Iterable[Package], target: TargetSystem
) -> tuple[MisfitVersion, ...]:
    """Find the packages given in a version that a direct or indirect requirement excludes.

    Of a name given in several versions an installer takes one that fits, if need be an older one:
    the newest are told of where no choice fits.
    """
    requirements = tuple(requirements)
    candidates: dict[str, dict[str, Package]] = {}
    for each in filter(partial(_may_be_for, target), others):
        candidates.setdefault(canonicalize_name(each.name), {})[each.version] = each
    choices = {
        name: sorted(by_version.values(), key=_newest_last, reverse=True)
        for name, by_version in candidates.items()
    }
    newest = {name: packages[0] for name, packages in choices.items()}
    # Few are given in several versions, and of those only the required ones matter.
    several = [
        name
        for name in find_required(requirements, newest, target)
        if len(choices.get(name, ())) > 1
    ]
    found: tuple[MisfitVersion, ...] | None = None
    for chosen in islice(product(*(choices[name] for name in several)), _MOST_CHOICES):
        given = {**newest, **dict(zip(several, chosen, strict=True))}
        misfits = tuple(_hold(_follow(requirements, given, target), given))
        if not misfits:
            return ()
        found = misfits if found is None or len(misfits) < len(found) else found
    return found or ()


def find_families_beside(
    package: Package, others: Iterable[Package], requirements: Iterable[str], target: TargetSystem
) -> FamiliesBeside:
    """Find the libraries of the packages beside one that open others of their family."""
    beside = (
        relocate(each, package.layout) for each in sort_out(requirements, others, target).packages
    )
    return FamiliesBeside(
        openers=tuple(
            FamilyOpener(label=f"wheel:{each.name}:{item.path}", item=item)
            for each in beside
            for item in each.objects
            if find_opener(item.name) or find_opener(item.file_name)
        )
    )


def _hold(
    asked: Iterable[tuple[Package | None, Requirement]], given: Mapping[str, Package]
) -> Iterator[MisfitVersion]:
    for by, item in asked:
        package = given.get(canonicalize_name(item.name))
        if package is not None and not fits(package.version, item):
            yield MisfitVersion(
                name=package.name,
                version=package.version,
                requirement=f"{item.name}{item.specifier}",
                by=f"{by.name} {by.version}" if by else "",
            )


def _may_be_for(target: TargetSystem, package: Package) -> bool:
    """Whether an installer may put it there: a folder may hold wheels of other systems, too."""
    systems = package.claims.systems
    return not systems or any(
        each.system in ("", ANY_SYSTEM, target.system)
        and (not each.architectures or not set(each.architectures).isdisjoint(target.architectures))
        for each in systems
    )


def _newest_last(package: Package) -> tuple[bool, Version]:
    try:
        return True, Version(package.version)
    except ValueError:
        return False, Version("0")


def _follow(
    requirements: Iterable[str], given: Mapping[str, Package], target: TargetSystem
) -> Iterator[tuple[Package | None, Requirement]]:
    """Each requirement that holds, with the package that has it; None for the judged one."""
    direct = tuple(applicable(requirements, target))
    yield from ((None, item) for item in direct)
    asked: dict[str, frozenset[str]] = {}
    for item in direct:
        own = canonicalize_name(item.name)
        asked[own] = asked.get(own, frozenset()).union(item.extras)
    queue = list(asked)
    seen: set[tuple[str, Requirement]] = set()
    for name in queue:
        package = given.get(name)
        if package is None:
            continue
        for item in applicable(package.claims.requirements, target, sorted(asked[name])):
            other, extras = canonicalize_name(item.name), frozenset(item.extras)
            if (name, item) not in seen:
                seen.add((name, item))
                yield package, item
            if other not in asked or not extras <= asked[other]:
                asked[other] = extras | asked.get(other, frozenset())
                queue.append(other)


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

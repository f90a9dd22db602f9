"""Whether a package depends on what its objects need, and on no other Python than its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.match_specs import name_of
from binary_checks.model import (
    Edge,
    Finding,
    InstallReport,
    Level,
    Linkage,
    NotInspected,
    Problem,
)
from binary_checks.model.packages import CondaPackage, GivenPackages

_GIVEN = "wheel:"  # how a linkage begins to name what another package has
_SITE_PACKAGES = re.compile(r"lib/python(3\.\d{1,3})t?/site-packages\Z")
_PINS = ("python_abi", "_python_abi3_support", "cpython")


@check
def overlinking(
    given: GivenPackages,
    linkage: Linkage,
    package: CondaPackage,
    *,
    allowed: tuple[str, ...] = (),
) -> Iterator[Finding]:
    """An object needs a library of a package that is not among the dependencies.

    Whose library it is, is known of packages given with ``--binary-with``; of those that were
    installed with the package, overlinking-in-prefix knows it. ``allowed`` has the names of
    libraries, or globs of them, that may come with something else: ``*`` alone is none. Libraries
    that nothing provides are told by missing-library.

    Why: another package brings the library as long as it depends on that one. When it no longer
    does, or brings another version of it, the object does not load.
    Fix: add the package to the ``host`` requirements, so that its run_exports come into ``run``.
    Level: where no dependency brings the package, users do not have the library. Where one of those
    given does, it is a warning: users have it today.
    """
    if not given.packages:
        names = ", ".join(linkage.requirements[:3])
        if not names:
            raise NotApplicable("it depends on no package with libraries of its own")
        advice = f"give what it depends on with --binary-with ({names})"
        yield NotInspected(sentence=f"whose the needed libraries are is not known: {advice}")
        return
    brought, direct = _find_brought(package, given), direct_names(package)
    for (owner, needed), edges in _group(linkage).items():
        if owner in direct or is_allowed(needed, allowed):
            continue
        there = owner in brought
        level = Level.WARNING if there else Level.ERROR
        yield Problem(path=edges[0].path, sentence=_accuse(edges, owner, there=there), level=level)


@check(level=Level.WARNING)
def overlinking_in_prefix(
    report: InstallReport,
    linkage: Linkage,
    package: CondaPackage,
    *,
    allowed: tuple[str, ...] = (),
) -> Iterator[Finding]:
    """In the prefix, a needed library is of a package that is not among the dependencies.

    The same as overlinking, of what was installed with the package from its channels. ``allowed``
    has the names of libraries, or globs of them, that may come with something else: ``*`` alone is
    none.

    Why: another package brings the library as long as it depends on that one. When it no longer
    does, or brings another version of it, the object does not load.
    Fix: add the package to the ``host`` requirements, so that its run_exports come into ``run``.
    Level: users have the library today.
    """
    if report.error:
        yield NotInspected(sentence=f"it could not be installed: {report.error}")
        return
    owners = {path.rpartition("/")[2]: name for path, name in report.libraries}
    found: dict[tuple[str, str], list[Edge]] = {}
    for edge in linkage.edges:
        name = edge.needed.rpartition("/")[2]
        if edge.resolved is None and (owner := owners.get(name)):
            found.setdefault((owner, name), []).append(edge)
    direct = direct_names(package)
    for (owner, needed), edges in found.items():
        if owner not in direct and not is_allowed(needed, allowed):
            yield Problem(path=edges[0].path, sentence=_accuse(edges, owner, there=True))


def direct_names(package: CondaPackage) -> frozenset[str]:
    """The package itself, and those that it depends on."""
    return frozenset({package.name.lower(), *map(name_of, package.depends)})


def is_allowed(name: str, allowed: tuple[str, ...]) -> bool:
    """Whether a profile lets it be; what stands for everything does not switch the check off."""
    return any(fnmatchcase(name, each) for each in allowed if each.strip("*?"))


def _group(linkage: Linkage) -> dict[tuple[str, str], list[Edge]]:
    """The needs that another package meets, by that one and by their names."""
    found: dict[tuple[str, str], list[Edge]] = {}
    for edge in linkage.edges:
        if edge.resolved is not None and edge.resolved.startswith(_GIVEN):
            owner = edge.resolved.removeprefix(_GIVEN).partition(":")[0].lower()
            found.setdefault((owner, edge.needed), []).append(edge)
    return found


def _find_brought(package: CondaPackage, given: GivenPackages) -> frozenset[str]:
    """What comes with the dependencies, as far as these were given."""
    known = {each.name.lower(): each for each in given.packages}
    queue = sorted(direct_names(package))
    found = set(queue)
    while queue:
        name = queue.pop()
        more = set(map(name_of, known[name].depends)) if name in known else set()
        queue += more - found
        found |= more
    return frozenset(found)


def _accuse(edges: list[Edge], owner: str, *, there: bool) -> str:
    more = f" (as do {len(edges) - 1} more)" if len(edges) > 1 else ""
    sentence = f"needs {edges[0].needed}{more} of {owner}, which is not among the dependencies"
    return f"{sentence}: it comes with another one" if there else sentence


@check(enabled=False, level=Level.WARNING)
def overdepending(
    given: GivenPackages,
    linkage: Linkage,
    package: CondaPackage,
    *,
    allowed: tuple[str, ...] = (),
) -> Iterator[Finding]:
    """A dependency has libraries, and no object needs one of them.

    Only dependencies given with ``--binary-with`` are judged, and of those only what has objects
    and nothing for Python. Off by default: code may open a library, or call a program, of its own.

    Why: users download what they do not need, and its versions keep others from being solved.
    Fix: remove it from the recipe, or have ``ignore_run_exports`` leave it out.
    Level: the package works.
    """
    if not given.packages:
        raise NotApplicable("no dependency was given with --binary-with")
    used, direct = {owner for owner, _ in _group(linkage)}, direct_names(package)
    for other in given.packages:
        name = other.name.lower()
        if name in used or name not in direct or is_allowed(name, allowed):
            continue
        python = any(other.layout.inside(member.path) for member in other.members)
        if other.objects and not python:
            yield f"depends on {other.name}, of which no object needs a library"


@check
def unpinned_python(package: CondaPackage) -> Iterator[Finding]:
    """Files for one Python, in a package that several Pythons fit.

    Files in ``lib/python3.11/site-packages`` are found by Python 3.11 alone. On Windows all Pythons
    look in ``Lib/site-packages``, and only compiled modules are for one.

    Why: the solver installs the package beside another Python, which does not find the module.
    Fix: build with ``python`` among the ``host`` requirements, whose run_exports pin it, or build
    the package as ``noarch: python``.
    Level: users of another Python cannot import it.
    """
    if package.name == "python":
        raise NotApplicable("it is the Python itself")
    match = _SITE_PACKAGES.match(package.layout.site_packages)
    inside = any(package.layout.inside(member.path) for member in package.members)
    if package.noarch or match is None or not inside:
        raise NotApplicable("no file of it is for one Python")
    names = {name_of(each) for each in package.depends}
    bound = [claim for claim in package.claims.pythons if claim.version and claim.abi]
    if bound or names & set(_PINS):
        return
    specs = [each for each in package.depends if name_of(each) == "python"]
    said = (
        f"{specs[0]!r} allows others" if specs else "no requirement of Python keeps others from it"
    )
    sentence = f"its files are for Python {match[1]}, and {said}"
    yield Problem(sentence=sentence)


@check
def python_changed(report: InstallReport, package: CondaPackage) -> Iterator[Finding]:
    """The solver chose another Python than the package's files are for.

    Why: the module is not found, although everything was installed as the metadata asks.
    Fix: pin Python in the run requirements (see unpinned-python).
    Level: users cannot import the package.
    """
    match = _SITE_PACKAGES.match(package.layout.site_packages)
    if package.noarch or match is None:
        raise NotApplicable("no file of it is for one Python")
    if report.error:
        yield NotInspected(sentence=f"it could not be installed: {report.error}")
        return
    chosen = re.search(r" (3\.\d+)\.", report.python)
    if chosen and chosen[1] != match[1]:
        yield f"its files are for Python {match[1]}, and the solver chose {report.python}"

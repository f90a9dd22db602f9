"""Whether a package's name, label, requirements and libraries agree on one CUDA version."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.cuda_builds import demand_cuda
from binary_checks.knowledge.loadings import Loading, find_loadings
from binary_checks.knowledge.nvidia_names import (
    cuda_of_label,
    cuda_of_library,
    cuda_of_name,
    cuda_of_requirement,
    is_cuda_library,
    is_driver_library,
    is_for_cpu,
)
from binary_checks.knowledge.unloaded_objects import find_unloaded
from binary_checks.model import Edge, Finding, Linkage, Package, Problem, TargetSystem
from binary_checks.model.requires_dist import applicable

Claims = Mapping[str, str]
"""Where the package says which CUDA it is for ("the version label +cu126") -> "12.6"."""


@check
def cuda_versions_differ(
    package: Package, linkage: Linkage, target: TargetSystem
) -> Iterator[Finding]:
    """The package names or needs more than one CUDA version.

    Its name (``-cu12``), its version label (``+cu126``), the NVIDIA wheels that it requires and the
    libraries that its objects need may each imply a CUDA version. A package that ships libraries
    for several versions on purpose, and names none, must only keep to one in each process.

    Why: the toolkit's libraries work only with those of their own major version; a process that
    loads two has two runtimes that share neither streams nor memory; and a requirement of the other
    version installs gigabytes that nothing loads, and not the needed libraries.
    Fix: build everything against one toolkit, and derive label and requirements from it.
    Level: the libraries that are installed are not those that the package needs.
    """
    demand_cuda(package, linkage)
    yield from find_unloaded(linkage, package)
    claims = dict(_find_claims(package, target))
    told = [edge for edge in linkage.edges if cuda_of_library(edge.needed)]
    if not (claims or told):
        raise NotApplicable("nothing in it names a CUDA version")
    yield from _compare_claims(claims)
    yield from _compare_needs(told, claims)
    for loading in find_loadings(linkage):
        yield from _compare_within(loading, linkage.show)


def _find_claims(package: Package, target: TargetSystem) -> Iterator[tuple[str, str]]:
    if label := cuda_of_label(package.claims.variant):
        yield f"the version label +{package.claims.variant}", label
    if (major := cuda_of_name(package.name)) is not None:
        yield f"the name {package.name}", str(major)
    for requirement in applicable(package.claims.requirements, target):
        if version := cuda_of_requirement(requirement):
            yield f"the requirement {requirement.name}{requirement.specifier}", version


def _compare_claims(claims: Claims) -> Iterator[Problem]:
    """Hold each claim against the first; where both tell a minor version, those count too."""
    for first, known in list(claims.items())[:1]:
        for other, version in claims.items():
            if not _agree(known, version):
                yield Problem(
                    sentence=f"{first} says CUDA {known}, {other} says CUDA {version}: the CUDA "
                    "libraries installed with it are not those it was built with"
                )


def _agree(one: str, other: str) -> bool:
    shared = min(one.count("."), other.count(".")) + 1
    return one.split(".")[:shared] == other.split(".")[:shared]


def _compare_needs(told: list[Edge], claims: Claims) -> Iterator[Problem]:
    """Hold each library that is needed, however many objects need it, against the claims."""
    by_name: dict[str, list[Edge]] = {}
    for edge in told:
        by_name.setdefault(edge.needed, []).append(edge)
    for name, edges in by_name.items():
        major = str(cuda_of_library(name))
        against = [item for item in claims.items() if not _agree(major, item[1])]
        if against:
            said, version = against[0]
            others = f" (as do {len(edges) - 1} more)" if len(edges) > 1 else ""
            yield Problem(
                path=edges[0].path,
                sentence=f"needs {name}{others}, of CUDA {major}, while {said} says CUDA "
                f"{version}: libraries installed for one do not include the other",
            )


def _compare_within(loading: Loading, show: Callable[[str], str]) -> Iterator[Problem]:
    """Find the first library of a second CUDA that one process gets."""
    seen: dict[int, Edge] = {}
    for edge in loading.edges():
        major = cuda_of_library(edge.needed)
        if major is not None:
            seen.setdefault(major, edge)
    if len(seen) > 1:
        listed = " and ".join(
            f"CUDA {major} ({edge.needed}, needed by {show(edge.path)})"
            for major, edge in sorted(seen.items())
        )
        yield Problem(
            path=loading.root,
            sentence=f"loads {listed}: the two runtimes share neither memory nor streams",
        )


@check
def cuda_in_cpu_build(
    package: Package, linkage: Linkage, target: TargetSystem
) -> Iterator[Finding]:
    """A CPU-only package needs CUDA.

    CPU-only packages are recognised by name (``-cpu``) or version label (``+cpu``).

    Why: its users have no GPU: gigabytes of libraries are installed for nothing, or the import
    fails without them.
    Fix: build without CUDA (``USE_CUDA=0``), from a clean build folder, and remove NVIDIA's wheels
    from the requirements.
    Level: users without a GPU download gigabytes, or cannot import the package.
    """
    if not is_for_cpu(package):
        raise NotApplicable("neither its name nor its version label says CPU-only")
    yield from find_unloaded(linkage, package)
    for edge in linkage.edges:
        if is_cuda_library(edge.needed) or is_driver_library(edge.needed):
            sentence = f"needs {edge.needed}, but the package is CPU-only"
            yield Problem(path=edge.path, sentence=sentence)
    for requirement in applicable(package.claims.requirements, target):
        if requirement.name.lower().startswith("nvidia-") or cuda_of_requirement(requirement):
            yield Problem(sentence=f"requires {requirement.name}, but it is CPU-only")

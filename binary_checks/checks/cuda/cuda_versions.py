"""Whether all that states a CUDA or a ROCm version of a package states the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.cuda_builds import relates_to_cuda
from binary_checks.knowledge.device_containers import find_carriers
from binary_checks.knowledge.loadings import Loading, find_loadings
from binary_checks.knowledge.nvidia_names import (
    cuda_of_library,
    cuda_of_requirement,
    is_cuda_library,
    is_driver_library,
    is_for_cpu,
)
from binary_checks.knowledge.toolkit_claims import (
    Contradiction,
    claim_by_file_name,
    claim_by_libraries,
    find_contradictions,
    major_of_library,
)
from binary_checks.knowledge.unloaded_objects import find_unjudged, find_unloaded, find_unread
from binary_checks.model import (
    Edge,
    Finding,
    Linkage,
    NotInspected,
    Package,
    Problem,
    TargetSystem,
)
from binary_checks.model.binary_configuration import (
    Platform,
    StatedToolkits,
    ToolkitClaim,
    ToolkitSource,
)
from binary_checks.model.requires_dist import applicable
from binary_checks.wording.phrases import name_first

_OTHER_BUILD = "users get another build than they chose by it"
_RESULTS = {
    ToolkitSource.LABEL: _OTHER_BUILD,
    ToolkitSource.NAME: _OTHER_BUILD,
    ToolkitSource.REQUIREMENT: "the libraries installed with it are not those it was built with",
}
_OF_THE_BUILD = (ToolkitSource.LABEL, ToolkitSource.NAME, ToolkitSource.FILE)


@check
def cuda_versions_differ(
    package: Package, linkage: Linkage, stated: StatedToolkits
) -> Iterator[Finding]:
    """Two sources of a package state different CUDA versions.

    Its version label (``+cu126``), its name (``-cu12``), the files that its build generated
    (``torch/version.py``; the profile's table ``[probes.builds]`` names them, and none of them is
    run), the NVIDIA wheels that it requires and the libraries that its objects need may each state
    one. All are compared, and each problem names two. A minor version counts where both state one.
    A package that ships libraries for several versions on purpose, and names none, must only keep
    to one in each process, and a library with a version in its own name (``libdemo_cuda118.so``)
    to that.

    Why: the toolkit's libraries work only with those of their own major version; a process that
    loads two has two runtimes that share neither streams nor memory; and a requirement of the other
    version installs gigabytes that nothing loads, and not the needed libraries. Users compile
    extensions for the version that a package reports of itself.
    Fix: build everything against one toolkit, from a clean build folder, and derive label,
    requirements and generated files from it.
    Level: the libraries that are installed are not those that the package needs.
    """
    yield from _judge(Platform.CUDA, package, linkage, stated)
    for loading in find_loadings(linkage):
        yield from _compare_within(loading, linkage.show)


@check
def rocm_versions_differ(
    package: Package, linkage: Linkage, stated: StatedToolkits
) -> Iterator[Finding]:
    """Two sources of a package state different ROCm versions.

    The same as cuda-versions-differ, for the label ``+rocm6.4``, the ``hip`` and ``rocm`` of the
    files that the build generated, exact requirements of AMD's wheels, and libamdhip64, whose
    number is ROCm's major version. HIP counts like ROCm; from ROCm 7.9 on the major version alone
    is compared with it.

    Why: a library of another major version is not found, or lacks functions; users choose other
    packages by the version that this one reports.
    Fix: build everything against one ROCm, and derive label, requirements and generated files from
    it.
    Level: the libraries that are installed are not those that the package needs.
    """
    yield from _judge(Platform.ROCM, package, linkage, stated)


def _judge(
    platform: Platform, package: Package, linkage: Linkage, stated: StatedToolkits
) -> Iterator[Finding]:
    """Compare all that is stated of one platform, and of each library what its own name states."""
    needed = list(claim_by_libraries(linkage.edges))
    own = [each for each in (*stated.claims, *needed) if each.platform is platform]
    positive = any(each.version for each in own)
    related = positive or (platform is Platform.CUDA and relates_to_cuda(package, linkage))
    if not (related or package.unread or package.malformed):
        raise NotApplicable(f"nothing in it relates to {platform.value}")
    yield from find_unjudged(linkage)
    yield from find_unread(
        package,
        found=positive or bool(linkage.closures or linkage.unjudged),
        absent=f"nothing in it names a {platform.value} version",
        formats=(linkage.format,),
    )
    for each in stated.unread if related else ():
        sentence = f"it may state a version of {platform.value}: {each.reason}"
        yield NotInspected(path=each.path, sentence=sentence)
    if not positive:
        raise NotApplicable(f"nothing in it names a {platform.value} version")
    if is_for_cpu(package):  # anything else is for cuda-in-cpu-build to report
        own = [each for each in own if each.source in _OF_THE_BUILD]
    yield from map(_contradict, find_contradictions(own))
    for item in package.objects:
        names = {need.name.rpartition("/")[2] for need in item.needed}
        for named in claim_by_file_name(item.path):
            if named.platform is platform:
                yield from _hold_against_its_name(named, names)


def _contradict(found: Contradiction) -> Problem:
    """Say it of the library that is needed, of the file that states it, or of the package."""
    claim, other = found.claim, found.against
    against = f"{other.evidence} says {other.statement}{_count_others(found)}"
    if claim.source is ToolkitSource.LIBRARY:
        sentence = (
            f"needs {claim.detail}, of {claim.statement}, while {against}: libraries installed for "
            "one do not include the other"
        )
    elif claim.source is ToolkitSource.FILE:
        sentence = (
            f"says {claim.statement} ({claim.detail}), while {against}: users and build tools "
            "choose other packages, and compile extensions, by it"
        )
    else:
        alike = f" (and {found.alike} more)" if found.alike else ""
        sentence = (
            f"{against}, {claim.evidence}{alike} says {claim.statement}: {_RESULTS[claim.source]}"
        )
    return Problem(path=claim.path, sentence=sentence)


def _count_others(found: Contradiction) -> str:
    if not found.supporting:
        return ""
    return f" (so {'does' if found.supporting == 1 else 'do'} {found.supporting} more)"


def _hold_against_its_name(named: ToolkitClaim, needed: Iterable[str]) -> Iterator[Problem]:
    """One line of a library, however many others of another version it needs."""
    others: dict[str, list[str]] = {}
    for name in sorted(needed):
        for platform, major in major_of_library(name):
            if platform is named.platform and major != named.version.partition(".")[0]:
                others.setdefault(major, []).append(name)
    for major, names in others.items():
        yield Problem(
            path=named.path,
            sentence=f"is for {named.statement} by {named.evidence}, and needs "
            f"{name_first(names, 2)}, of {named.platform.value} {major}: it cannot be loaded where "
            "it is chosen by its name",
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
    """A CPU-only package needs CUDA, or has code for GPUs.

    CPU-only packages are recognised by name (``-cpu``), version label (``+cpu``) or build string.
    Code for GPUs shows a CUDA build also where CUDA's runtime is linked statically, so that no
    library is needed by name.

    Why: its users have no GPU: gigabytes of libraries are installed for nothing, or the import
    fails without them; or another build than theirs was published under its name.
    Fix: build without CUDA (``USE_CUDA=0``), from a clean build folder, and remove NVIDIA's wheels
    from the requirements.
    Level: users without a GPU download gigabytes, cannot import the package, or get another build
    than they asked for.
    """
    if not is_for_cpu(package):
        raise NotApplicable("neither its name nor its version label says CPU-only")
    yield from find_unloaded(linkage, package)
    foreign = [e for e in linkage.edges if is_cuda_library(e.needed) or is_driver_library(e.needed)]
    paths = list(dict.fromkeys(edge.path for edge in foreign))
    libraries = name_first(sorted({edge.needed for edge in foreign}), 3)
    if len(paths) > 1:  # in the same words for each file, so that reports fold them
        libraries = f"libraries of CUDA ({libraries} in all)"
    for path in paths:
        yield Problem(path=path, sentence=f"needs {libraries}, but the package is CPU-only")
    requirements = [
        requirement.name
        for requirement in applicable(package.claims.requirements, target)
        if requirement.name.lower().startswith("nvidia-") or cuda_of_requirement(requirement)
    ]
    if requirements:
        names = name_first(list(dict.fromkeys(requirements)), 3)
        yield Problem(sentence=f"requires {names}, but it is CPU-only")
    for item in find_carriers(package):
        if any(group.targets for group in item.device_containers):
            sentence = "has code for GPUs, but the package is CPU-only"
            yield Problem(path=item.path, sentence=sentence)

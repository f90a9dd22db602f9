"""Whether packages that are called CPU-only have anything of CUDA."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.device_code import find_carriers
from binary_checks.knowledge.gaps import find_unloaded
from binary_checks.knowledge.library_names import (
    cuda_of_requirement,
    is_cuda_library,
    is_driver_library,
    is_for_cpu,
)
from binary_checks.model import Finding, Linkage, Package, Problem, TargetSystem, applicable
from binary_checks.wording.problem_lines import OF_CPU_LABEL
from binary_checks.wording.sentences import name_first


@check
def cuda_in_cpu_build(
    package: Package, linkage: Linkage, target: TargetSystem
) -> Iterator[Finding]:
    """A CPU-only package needs CUDA, or has code for GPUs.

    CPU-only packages are recognised by name (``-cpu``), version label (``+cpu``) or build string.
    Code for GPUs reveals a CUDA build even if CUDA's runtime is linked statically, so that no
    library is needed by name.

    Why: its users have no GPU: gigabytes of libraries are installed for nothing, or the import
    fails without them; or another build than theirs was published under its name.
    Fix: build without CUDA (``USE_CUDA=0``), from a clean build folder, and remove NVIDIA's wheels
    from the requirements; if it is meant to be a CUDA build, give it that label (``+cu126``).
    Level: users without a GPU download gigabytes, cannot import the package, or get another build
    than they asked for.
    """
    if not is_for_cpu(package):
        raise NotApplicable("neither its name nor its version label says CPU-only")
    yield from find_unloaded(linkage, package)
    foreign = [e for e in linkage.edges if is_cuda_library(e.needed) or is_driver_library(e.needed)]
    paths = list(dict.fromkeys(edge.path for edge in foreign))
    libraries = name_first(sorted({edge.needed for edge in foreign}))
    if len(paths) > 1:  # in the same words for each file, so that reports group them
        libraries = f"libraries of CUDA ({libraries} in all)"
    for path in paths:
        yield Problem(
            path=path,
            sentence=f"needs {libraries}, but the package is CPU-only",
            facts=(min(edge.needed for edge in foreign),),
            cause=OF_CPU_LABEL,
        )
    requirements = [
        requirement.name
        for requirement in applicable(package.claims.requirements, target)
        if requirement.name.lower().startswith("nvidia-") or cuda_of_requirement(requirement)
    ]
    if requirements:
        names = name_first(list(dict.fromkeys(requirements)))
        yield Problem(
            sentence=f"requires {names}, but it is CPU-only",
            facts=(requirements[0],),
            cause=OF_CPU_LABEL,
        )
    for item in find_carriers(package):
        if any(group.targets for group in item.device_containers):
            sentence = "has code for GPUs, but the package is CPU-only"
            yield Problem(
                path=item.path, sentence=sentence, cause=OF_CPU_LABEL, consequence=bool(foreign)
            )

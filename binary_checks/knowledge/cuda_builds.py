"""Whether a package has to do with CUDA at all."""

from __future__ import annotations

import re
from collections.abc import Iterator

from binary_checks.errors import NotApplicable
from binary_checks.knowledge.accelerators import claim_accelerators
from binary_checks.knowledge.configuration_names import claim_by_name
from binary_checks.knowledge.nvidia_names import (
    cuda_of_label,
    cuda_of_name,
    cuda_of_requirement,
    is_cuda_library,
    is_driver_library,
    is_for_cpu,
)
from binary_checks.model import ElfFile, Linkage, Package, PeFile
from binary_checks.model.requires_dist import read_requirement

_ACCELERATED = re.compile(r"(?i)cuda|nvidia|gpu|rocm|hip|xpu|cu1\d|numba|rapids|opencl|vulkan")
_FRAMEWORKS = re.compile(r"(?i)(?:torch|triton|cupy|jax(?:lib)?|tensorflow|paddle\w*|mxnet)\b")
"""What works on a GPU for the packages that require it."""


def demand_cuda(package: Package, linkage: Linkage) -> None:
    """Raise NotApplicable where nothing of the package speaks of CUDA, nor could not be read."""
    if not (relates_to_cuda(package, linkage) or package.unread or package.malformed):
        raise NotApplicable("nothing in it relates to CUDA")


def relates_to_cuda(package: Package, linkage: Linkage) -> bool:
    """Whether its objects, what they need, its name, label or requirements speak of CUDA."""
    if any(item.device_code for item in package.objects if isinstance(item, (ElfFile, PeFile))):
        return True
    needed = {edge.needed for edge in (*linkage.edges, *linkage.edges_beside)}
    if any(is_cuda_library(name) or is_driver_library(name) for name in needed):
        return True
    return any(_claims(package))


def demand_gpu_build(package: Package) -> None:
    """Raise NotApplicable where its name or its version label says that it is for the CPU."""
    if is_for_cpu(package):
        label = package.claims.variant
        why = f"the version label +{label}" if "cpu" in label.split(".") else "its name"
        raise NotApplicable(f"it is a build for the CPU: {why} says so")


def demand_trace_of_gpu(package: Package) -> None:
    """Raise NotApplicable where its objects, all read, and all that it says are of no accelerator.

    As of PyPI's torch for Windows, which has no label. One that only opens CUDA's libraries, or
    requires a package that may work on a GPU for it, has a trace.
    """
    claims = list(claim_accelerators(package))
    if not claims or not all(claim.by_absence for claim in claims):
        return
    if not (
        opens_accelerator(package) or speaks_of_accelerator(package) or requires_framework(package)
    ):
        raise NotApplicable(f"it is a build for the CPU: {claims[0].evidence}")


def opens_accelerator(package: Package) -> bool:
    """Whether an object may open a library of CUDA, or of the driver, at run time."""
    opened = (name for item in package.objects if item.opened for name in item.opened.names)
    return any(is_cuda_library(name) or is_driver_library(name) for name in opened)


def speaks_of_accelerator(package: Package) -> bool:
    """Whether its name or a requirement has a word for an accelerator in it."""
    return any(map(_ACCELERATED.search, (package.name, *package.claims.requirements)))


def requires_framework(package: Package) -> bool:
    """Whether it requires a package that may work on a GPU for it."""
    return any(map(_FRAMEWORKS.match, package.claims.requirements))


def list_promised(package: Package) -> tuple[str, ...]:
    """List the versions of CUDA that its name and label promise, else those that its bytes need."""
    named = (each.claim for each in claim_by_name(package) if each.aspect == "accelerator")
    for claims in (named, claim_accelerators(package)):
        values = (each.value.partition(" ") for each in claims)
        if found := tuple(version for kind, _, version in values if kind == "cuda" and version):
            return found
    return ()


def _claims(package: Package) -> Iterator[bool]:
    yield cuda_of_name(package.name) is not None or bool(cuda_of_label(package.claims.variant))
    yield is_for_cpu(package)
    # Nearly none is NVIDIA's, and the grammar takes its time.
    told = [
        text for text in package.claims.requirements if "cu" in text.lower() or "nv" in text.lower()
    ]
    for requirement in map(read_requirement, told):
        if requirement is not None and "extra" not in str(requirement.marker):
            yield bool(cuda_of_requirement(requirement))

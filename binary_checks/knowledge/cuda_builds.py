"""Whether a package has to do with CUDA at all."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.errors import NotApplicable
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


def demand_cuda(package: Package, linkage: Linkage) -> None:
    """Raise NotApplicable where nothing of the package speaks of CUDA, nor could not be read."""
    if not (_speaks_of_cuda(package, linkage) or package.unread or package.malformed):
        raise NotApplicable("nothing in it relates to CUDA")


def _speaks_of_cuda(package: Package, linkage: Linkage) -> bool:
    if any(item.device_code for item in package.objects if isinstance(item, (ElfFile, PeFile))):
        return True
    needed = {edge.needed for edge in (*linkage.edges, *linkage.edges_beside)}
    if any(is_cuda_library(name) or is_driver_library(name) for name in needed):
        return True
    return any(_claims(package))


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

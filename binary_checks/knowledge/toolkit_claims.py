"""Statements of the CUDA or ROCm version that a package is for, and their contradictions."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binary_checks.knowledge.cuda import disagree
from binary_checks.knowledge.library_names import (
    EXACT,
    cuda_of_label,
    cuda_of_library,
    cuda_of_name,
    cuda_of_requirement,
)
from binary_checks.model import (
    Answer,
    CudaReport,
    Edge,
    ObjectFile,
    Package,
    Platform,
    TargetSystem,
    ToolkitClaim,
    ToolkitSource,
    applicable,
)

if TYPE_CHECKING:  # importing the grammar takes time
    from packaging.requirements import Requirement

_ORDER = tuple(ToolkitSource)
_UNITS = {2: 1, 3: 10, 4: 100, 5: 1000}
"""Number of digits of a version -> the factor of its major version."""
_COUNTED_AS_CUDA = {"cudart": "the runtime", "cublas": "cuBLAS", "nvjitlink": "nvJitLink"}
"""NVIDIA's libraries whose major version equals CUDA's since CUDA 11, as named in messages."""
_NONE = frozenset({"none", "null", "false", "off", "0"})
_ROCM_VERSION = r"(\d{1,4}(?:\.\d{1,4})?)(?!\d)"
_ROCM_LABEL = re.compile(rf"(?:^|[.])rocm{_ROCM_VERSION}")
_ROCM_WHEELS = r"rocm|rocm-sdk(?:-(?:core|devel|libraries.*))?"
_HIP_LIBRARY = re.compile(
    r"libamdhip64(?:-[0-9a-f]{8})?\.so\.(\d{1,4})\b.*|amdhip64_(\d{1,4})\.dll"
)
_IN_FILE_NAMES = re.compile(
    r"[-_.](?:cu(?:da)?(?P<cuda>1[0-9])(?P<minor>\d?)|rocm(?P<rocm>\d)(?P<rest>\d{0,2}))(?=[-_.]|$)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Contradiction:
    """Two claims that cannot both be true for one build."""

    claim: ToolkitClaim
    alike: int  # number of further claims of the same source that state the same version
    against: ToolkitClaim
    supporting: int  # number of further kinds of sources that agree with ``against``


def claim_by_package(package: Package, target: TargetSystem) -> Iterator[ToolkitClaim]:
    """Yield the claims of the package's label, name and requirements."""
    label = package.claims.variant
    yield from claim_by_label(label, f"the version label +{label}", ToolkitSource.LABEL)
    if (major := cuda_of_name(package.name)) is not None:
        yield ToolkitClaim(
            platform=Platform.CUDA,
            version=str(major),
            source=ToolkitSource.NAME,
            evidence=f"the name {package.name}",
        )
    elif package.name.lower().replace("_", "-").endswith("-cpu"):
        yield from claim_by_label("cpu", f"the name {package.name}", ToolkitSource.NAME)
    for requirement in applicable(package.claims.requirements, target):
        for platform, version in (
            (Platform.CUDA, cuda_of_requirement(requirement)),
            (Platform.ROCM, rocm_of_requirement(requirement)),
        ):
            if version:
                yield ToolkitClaim(
                    platform=platform,
                    version=version,
                    source=ToolkitSource.REQUIREMENT,
                    evidence=f"the requirement {requirement.name}{requirement.specifier}",
                )


def claim_by_objects(package: Package) -> Iterator[ToolkitClaim]:
    """Yield the claims in the names of libraries that the objects need, found or not."""
    yield from dict.fromkeys(claim for item in package.objects for claim in claim_by_needs(item))


def claim_by_needs(item: ObjectFile) -> Iterator[ToolkitClaim]:
    """Yield the claims in the names of libraries that one object needs."""
    for need in item.needed:
        name = need.name.rpartition("/")[2]
        yield from _claim_by_library(name, item.path, name)


def claim_by_label(
    label: str, evidence: str, source: ToolkitSource, path: str = "", detail: str = ""
) -> Iterator[ToolkitClaim]:
    """Yield the claims that a local version label makes; the label may come from any source."""
    stated = {Platform.CUDA: cuda_of_label(label), Platform.ROCM: rocm_of_label(label)}
    for platform, version in stated.items():
        if version or "cpu" in label.split("."):
            yield ToolkitClaim(
                platform=platform,
                version=version,
                source=source,
                evidence=evidence,
                path=path,
                detail=detail,
                is_label=True,
            )


def claim_by_libraries(edges: Iterable[Edge]) -> Iterator[ToolkitClaim]:
    """Yield the claims in the names of needed libraries, one for each library."""
    by_name: dict[str, list[Edge]] = {}
    for edge in edges:
        by_name.setdefault(edge.needed, []).append(edge)
    for name, needing in by_name.items():
        others = f" (as do {len(needing) - 1} more)" if len(needing) > 1 else ""
        yield from _claim_by_library(name, needing[0].path, f"{name}{others}")


def _claim_by_library(name: str, path: str, detail: str) -> Iterator[ToolkitClaim]:
    for platform, major in major_of_library(name):
        yield ToolkitClaim(
            platform=platform,
            version=major,
            source=ToolkitSource.LIBRARY,
            evidence=f"the needed {name}",
            path=path,
            detail=detail,
        )


def major_of_library(name: str) -> Iterator[tuple[Platform, str]]:
    """Yield the platform and major version in the name of a library."""
    if (major := cuda_of_library(name)) is not None:
        yield Platform.CUDA, str(major)
    elif match := _HIP_LIBRARY.fullmatch(name):
        yield Platform.ROCM, match[1] or match[2]


def claim_by_file_name(path: str) -> Iterator[ToolkitClaim]:
    """Yield the claim in an object's own file name: ``libdemo_cuda118.so``."""
    if match := _IN_FILE_NAMES.search(path.rpartition("/")[2]):
        platform = Platform.CUDA if match["cuda"] else Platform.ROCM
        groups = ("cuda", "minor") if match["cuda"] else ("rocm", "rest")
        yield ToolkitClaim(
            platform=platform,
            version=".".join(filter(None, map(match.__getitem__, groups))),
            source=ToolkitSource.NAME,
            evidence="its own name",
            path=path,
        )


def claim_by_answer(answer: Answer, platform: Platform) -> ToolkitClaim:
    """Return the claim of an expression evaluated in the package: a version, or none."""
    text = str(answer.value or "")
    version = read_stated(text, platform)
    return ToolkitClaim(
        platform=platform,
        version=text if version is None else version,
        source=ToolkitSource.ANSWER,
        evidence=answer.question,
    )


def claim_by_runtimes(report: CudaReport) -> Iterator[ToolkitClaim]:
    """Yield the claims of CUDA's runtime, and of libraries that have the major version of CUDA.

    The minor version counts only for the runtime's headers: NVIDIA promises that a runtime of
    another minor version also works with the build.
    """
    built, loaded = ToolkitSource.ANSWER, ToolkitSource.LOADED
    for each in report.versions:
        name = _COUNTED_AS_CUDA.get(each.name)
        compiled = each.compiled if each.name == "cudart" else ""
        for version, parts, source, end in (
            (compiled, 2, built, "that it was compiled with"),
            (each.loaded, 1, loaded, f"{each.loaded} that it loads"),
            (each.installed, 1, loaded, f"{each.installed} installed here"),
        ):
            if name and version:
                yield ToolkitClaim(
                    platform=Platform.CUDA,
                    version=".".join(version.split(".")[:parts]),
                    source=source,
                    evidence=f"{name} {end}",
                )


def read_stated(text: str, platform: Platform) -> str | None:
    """Read a version as written in files and expressions; "" if the build is not for that platform.

    For 13.2, CUDA's headers have 13020, xformers 1302, labels 132. Return None if the text has no
    known form.
    """
    text = text.strip().strip("\"'")
    if text.lower() in _NONE:
        return ""
    if match := re.match(r"(\d{1,2})\.(?:x\b|(\d{1,2})(?!\d))", text):
        return ".".join(filter(None, match.groups()))
    if platform is Platform.ROCM:
        return None
    if re.fullmatch(r"1\d{1,4}", text):
        major, minor = divmod(int(text), _UNITS[len(text)])
        return f"{major}.{minor // 10 if len(text) == 5 else minor}" if text[2:] else text
    return cuda_of_label(text) or None


def rocm_of_label(label: str) -> str:
    """Return ROCm's version in a label, "6.2" for ``rocm6.2.4``, or ""."""
    match = _ROCM_LABEL.search(label)
    return _as_hip(match[1]) if match else ""


def rocm_of_requirement(requirement: Requirement) -> str:
    """Return the ROCm version in an exact requirement of AMD's wheels, or ""."""
    name = re.sub(r"[-_.]+", "-", requirement.name).lower()
    if re.fullmatch(_ROCM_WHEELS, name) is None:
        return ""
    exact = (each.version for each in requirement.specifier if each.operator in EXACT)
    found = (re.match(_ROCM_VERSION, version) for version in exact)
    return next((_as_hip(match[0]) for match in found if match), "")


def _as_hip(version: str) -> str:
    """Return the HIP version, which packages report, for a ROCm version.

    Both are equal before 7.9; later ROCm versions count their minor versions independently.
    """
    major, _, minor = version.partition(".")
    return major if (int(major), int(minor or 0)) >= (7, 9) else version


def find_contradictions(claims: Iterable[ToolkitClaim]) -> Iterator[Contradiction]:
    """Compare every claim with the version that most kinds of sources state for the platform.

    First the major versions are compared, then the minor versions of claims with the same major
    version. A library that is needed in several versions contradicts no other library, because each
    process has its own.
    """
    claims = tuple(claims)
    for platform in Platform:
        own = [each for each in claims if each.platform is platform]
        agreed = yield from _find_outliers(own, 1)
        yield from _find_outliers([each for each in agreed if "." in each.version], 2)


def leave_outliers_out(claims: Sequence[ToolkitClaim]) -> list[ToolkitClaim]:
    """Return the claims that agree with the version that most kinds of sources state."""
    agreed = [found.against for found in find_contradictions(claims)]
    return [claim for claim in claims if not any(_contradicts(claim, each) for each in agreed)]


def find_contradiction(claim: ToolkitClaim, others: Iterable[ToolkitClaim]) -> Contradiction | None:
    """Return the most visible source that contradicts a claim, and how many others do."""
    against = [each for each in others if _contradicts(claim, each)]
    if not against:
        return None
    return Contradiction(
        claim=claim,
        alike=0,
        against=min(against, key=rank),
        supporting=_count_sources(against) - 1,
    )


def _contradicts(one: ToolkitClaim, other: ToolkitClaim) -> bool:
    return one.platform is other.platform and disagree(one.version, other.version)


def _find_outliers(
    claims: Sequence[ToolkitClaim], length: int
) -> Generator[Contradiction, None, list[ToolkitClaim]]:
    """Yield contradictions for claims that differ from most claims; return the remaining claims."""
    groups: dict[tuple[str, ...], list[ToolkitClaim]] = {}
    for claim in claims:
        groups.setdefault(tuple(claim.version.split(".")[:length]), []).append(claim)
    if not groups:
        return []
    ordered = [sorted(group, key=rank) for group in groups.values()]
    most, *others = sorted(ordered, key=lambda group: (-_count_sources(group), rank(group[0])))
    for group in others:
        yield from _accuse(group, most)
    return most


def _accuse(group: Sequence[ToolkitClaim], most: Sequence[ToolkitClaim]) -> Iterator[Contradiction]:
    """Yield a contradiction for each library, and only the first one for any other source."""
    seen: set[ToolkitSource] = set()
    for claim in group:
        if claim.source is ToolkitSource.LIBRARY:
            if most[0].source is ToolkitSource.LIBRARY:
                continue
        elif claim.source in seen:
            continue
        seen.add(claim.source)
        alike = sum(each.source is claim.source for each in group)
        yield Contradiction(
            claim=claim,
            alike=0 if claim.source is ToolkitSource.LIBRARY else alike - 1,
            against=most[0],
            supporting=_count_sources(most) - 1,
        )


def rank(claim: ToolkitClaim) -> int:
    """Return the rank of a claim's source; lower ranks are more visible to users."""
    return _ORDER.index(claim.source)


def _count_sources(claims: Iterable[ToolkitClaim]) -> int:
    return len({each.source for each in claims})

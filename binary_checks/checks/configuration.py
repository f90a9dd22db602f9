"""Checks whether a build's bytes agree with its name, CI variables and the user."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.configurations import DEVICE_CODE
from binary_checks.knowledge.cuda import (
    opens_accelerator,
    requires_framework,
    speaks_of_accelerator,
)
from binary_checks.knowledge.python_libraries import ModuleFiles
from binary_checks.model import (
    Aspect,
    BinaryConfiguration,
    ClaimSource,
    ConfigurationClaim,
    ConsumerRequest,
    CppArchive,
    CudaRequest,
    Finding,
    GpuRequest,
    Level,
    Note,
    NotInspected,
    Package,
    Problem,
    find_disputes,
)
from binary_checks.wording.sentences import ASPECT_WORDS, format_claim

_Requests = tuple[CudaRequest, GpuRequest, ConsumerRequest]
_IN_OTHER_CHECKS = frozenset({"python", "system", "architecture", "libtorch_variant", "cxx_abi"})
"""Aspects for which other checks compare the bytes with the name."""


@check
def configuration_contradiction(
    configuration: BinaryConfiguration,
    package: Package,
    cuda: CudaRequest,
    gpu: GpuRequest,
    consumer: ConsumerRequest,
) -> Iterator[Finding]:
    """Two sources contradict each other about which build of its project a package is.

    Sources are the package's bytes, its name (tags, version, local label, build string), the user's
    ``--binary-configuration``, and CI variables that name the build (``DESIRED_CUDA``,
    ``DESIRED_PYTHON``, ``PACKAGE_TYPE``, ``MATRIX_*`` and others, see docs/configuration.md) or its
    version (``PYTORCH_BUILD_VERSION``, ``RELEASE_VERSION``). Other checks compare tags with bytes,
    and one CUDA version with another.

    A package whose bytes have nothing to do with the stated accelerator is a problem in three
    cases: its label names the accelerator, ``--binary-configuration`` is about this package alone,
    or its profile names the package's module in ``[probes.cuda]`` or ``[probes.gpu]``. For any
    other package that is judged under the same variable this is a note.

    Why: a job built another configuration than requested, and uploads it under the requested one's
    name, or to its folder: users who ask for one get the other.
    Fix: pass the variables on to the build, build from a clean folder, and derive the name from
    what was built.
    Level: users install another build than they asked for. It is a warning if no object needs a
    library of the accelerator, but one may open it at run time, or the requirements mention it.
    """
    compared = False
    for name, aspect in configuration.aspects():
        compared = compared or len({each.source for each in aspect.claims}) > 1
        yield from _find_contradictions(name, aspect)
    for finding in _judge_absence(configuration, package, (cuda, gpu, consumer)):
        compared = True
        yield finding
    if not compared:
        raise NotApplicable("no two sources state the same aspect of its configuration")


def _list_accelerators(configuration: BinaryConfiguration) -> list[ConfigurationClaim]:
    """Return what sources other than the bytes claim; [] if the bytes name an accelerator."""
    claims = configuration.accelerator.claims
    if any(each.source is ClaimSource.BYTES and not each.by_absence for each in claims):
        return []
    named = any(each.source is ClaimSource.NAME and each.value == "cpu" for each in claims)
    stated = (each for each in claims if each.source is not ClaimSource.BYTES)
    return [] if named else [each for each in stated if each.value != "cpu"]


def _expects(requests: _Requests, package: Package) -> bool:
    """Whether the profile expects builds of this package for an accelerator.

    A profile does so if it names the package's module in ``[probes.cuda]`` or ``[probes.gpu]``, or
    has a unit for only some builds of a C++ archive.
    """
    cuda, gpu, consumer = requests
    if isinstance(package, CppArchive):
        return any(unit.variants != ("*",) for unit in consumer.units.values())
    module, modules = cuda.module or gpu.module, package.derive(ModuleFiles)
    top = module.partition(".")[0]  # the build may have lost the module below it
    return bool(top) and (modules.has(module) or (modules.has(top) and not modules.shares(top)))


def _judge_absence(
    configuration: BinaryConfiguration, package: Package, requests: _Requests
) -> Iterator[Finding]:
    """Report once that the bytes have nothing to do with the accelerator that other sources state.

    Without native code a wrong label cannot be proven: the package may be a part of a larger one.
    """
    stated = _list_accelerators(configuration)
    labels = [each for each in stated if each.source is ClaimSource.NAME]
    if not package.claims.variant:  # a project's name may refer to other projects' libraries
        labels = [each for each in labels if isinstance(package, CppArchive)]
    others = [each for each in stated if each.source is not ClaimSource.NAME]
    outright = any(each.outright for each in others)
    absent = next((each for each in configuration.accelerator.claims if each.by_absence), None)
    found = [*labels, *others] if absent or others else []
    if not found:
        return
    subject, claimed = ASPECT_WORDS["accelerator"], " and ".join(map(format_claim, found))
    expected = _expects(requests, package)
    strict = expected or outright or bool(labels and absent)
    lack = absent.evidence if absent else "it has no native code"
    if absent is None and (package.objects or package.unread or package.malformed):
        if strict:
            yield NotInspected(
                sentence=f"{subject}: {claimed}, but the objects that would show it were not read"
            )
    elif strict:
        yield Problem(
            sentence=f"{subject}: {lack} (cpu), but {claimed}",
            facts=("accelerator",),
            level=Level.WARNING if _may_hold(package, expected, outright) else Level.ERROR,
            cause=_name_cause("accelerator", found[0]),
        )
    elif not labels:
        why = (
            "neither the package's label nor the profile says that it has builds for an accelerator"
        )
        yield Note(sentence=f"{subject}: {claimed}, but {lack}, and {why}")


def _may_hold(package: Package, expected: bool, outright: bool) -> bool:
    """Whether the package may need an accelerator although no object needs a library of one.

    Requirements prove nothing if the package is known to have builds for an accelerator.
    """
    if opens_accelerator(package):
        return True
    if expected:
        return False
    return speaks_of_accelerator(package) or (not outright and requires_framework(package))


def _find_contradictions(name: str, aspect: Aspect) -> Iterator[Problem]:
    """Yield one problem for each claim that more trustworthy claims contradict."""
    against: dict[ConfigurationClaim, list[ConfigurationClaim]] = {}
    for one, other in find_disputes(name, aspect.claims):
        if not _is_judged_elsewhere(name, one, other):
            against.setdefault(other, []).append(one)
    for claim, others in against.items():
        if all(each.by_absence for each in others):
            continue  # `_judge_absence` judges it
        claimed = " and ".join(map(format_claim, others))
        yield Problem(
            sentence=f"{ASPECT_WORDS[name]}: {claimed}, but {format_claim(claim)}",
            facts=(name, claim.source.value, claim.value),
            cause=_name_cause(name, claim),
        )


def _is_judged_elsewhere(name: str, one: ConfigurationClaim, other: ConfigurationClaim) -> bool:
    if {one.source, other.source} != {ClaimSource.BYTES, ClaimSource.NAME}:
        return False
    if name != "accelerator":
        return name in _IN_OTHER_CHECKS
    named, found = (other, one) if one.source is ClaimSource.BYTES else (one, other)
    if found.by_absence:
        return True
    both_cuda = named.value.startswith("cuda") and found.value.startswith("cuda")
    is_device_code = f" {DEVICE_CODE} " in found.evidence
    return both_cuda or (
        named.value == "cpu" and (found.value.startswith("cuda") or is_device_code)
    )


def _name_cause(name: str, claim: ConfigurationClaim) -> str:
    """Return a CI variable as the cause, which all packages of a run share; "" for other claims."""
    is_variable = claim.source is ClaimSource.VARIABLE
    return f"{name} of {claim.evidence}" if is_variable else ""

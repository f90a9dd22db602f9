"""What is stated of a build (its name, CI variables, the user), held against what it is."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.model import Finding, Level, Package, Problem
from binary_checks.model.binary_configuration import (
    Aspect,
    BinaryConfiguration,
    ClaimSource,
    ConfigurationClaim,
    find_disputes,
)
from binary_checks.wording.configuration_texts import ASPECT_WORDS, say_claim

_SAID_ELSEWHERE = frozenset({"python", "system", "architecture", "libtorch_variant", "cxx_abi"})
"""Aspects in which other checks hold the bytes against the name."""


@check
def configuration_contradiction(
    configuration: BinaryConfiguration, package: Package
) -> Iterator[Finding]:
    """Two sources contradict each other about which build of its project a package is.

    Sources are the package's bytes, its name (tags, version, local label, build string), what the
    user gives with ``--binary-configuration``, and under CI the variables that say what is to be
    built (``DESIRED_CUDA``, ``DESIRED_PYTHON``, ``PACKAGE_TYPE``, ``MATRIX_*`` and others, see
    docs/configuration.md). Tags against bytes, and one CUDA version against another, other checks
    compare.

    Why: a job that built another configuration than it was told uploads it under the name, or to
    the folder, of the one that users ask for.
    Fix: pass the variables on to the build, build from a clean folder, and derive the name from
    what was built.
    Level: users install another build than they asked for. Where a label names an accelerator and
    only no trace of one is found, it is a warning: it may be opened at run time.
    """
    compared = False
    for name, aspect in configuration.aspects():
        compared = compared or len({each.source for each in aspect.claims}) > 1
        yield from _find_contradictions(name, aspect, package)
    if not compared:
        raise NotApplicable("no two sources speak of the same aspect of its configuration")


def _find_contradictions(name: str, aspect: Aspect, package: Package) -> Iterator[Problem]:
    """Hold each claim against all that are more trustworthy: it is one problem, however many."""
    against: dict[ConfigurationClaim, list[ConfigurationClaim]] = {}
    for one, other in find_disputes(name, aspect.claims):
        if not _is_judged_elsewhere(name, one, other, package):
            against.setdefault(other, []).append(one)
    for claim, others in against.items():
        said = " and ".join(map(say_claim, others))
        absent = claim.by_absence or all(each.by_absence for each in others)
        yield Problem(
            sentence=f"{ASPECT_WORDS[name]}: {said}, but {say_claim(claim)}",
            level=Level.WARNING if absent else Level.ERROR,
            cause=_name_cause(name, claim),
        )


def _is_judged_elsewhere(
    name: str, one: ConfigurationClaim, other: ConfigurationClaim, package: Package
) -> bool:
    if {one.source, other.source} != {ClaimSource.BYTES, ClaimSource.NAME}:
        return False
    if name != "accelerator":
        return name in _SAID_ELSEWHERE
    named, found = (other, one) if one.source is ClaimSource.BYTES else (one, other)
    if found.by_absence:  # a project's name speaks of others' libraries too: nvidia-nvml-dev-cu12
        return not package.claims.variant
    both_cuda = named.value.startswith("cuda") and found.value.startswith("cuda")
    is_device_code = " holds device code " in f" {found.evidence}"
    return both_cuda or (
        named.value == "cpu" and (found.value.startswith("cuda") or is_device_code)
    )


def _name_cause(name: str, claim: ConfigurationClaim) -> str:
    """One variable that is wrong for several packages of a run is one fault."""
    is_variable = claim.source is ClaimSource.VARIABLE
    return f"{name} of {claim.evidence}" if is_variable else ""

"""The Linux that a package promises to run on, from its claims."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from binary_checks.errors import Unavailable
from binary_checks.model import Claims, Policy, SystemClaim, TargetSystem
from binary_checks.systems.interpreters import Interpreters, format_interpreter, interpreter_of
from binary_checks.systems.libraries import SystemLibraries, policies, system_library

_LIBC_VERSIONS = frozenset({"GLIBC"})  # prefixes of a libc's version nodes in policies


def make_target(claims: Claims, extra_libraries: frozenset[str]) -> TargetSystem:
    """Return the oldest system that the claims of Linux promise to support.

    If the claims name several libcs or architectures, one system is the target, glibc before musl,
    and the others are ``unjudged``; only the check foreign-libc judges every claim of musl. A claim
    without a minimum (``linux_x86_64``) promises nothing: the target has no policy, and it has the
    libraries of the newest policy, since the users of such a package are the people who built it.
    Raises Unavailable for an architecture without data.
    """
    systems = [each for each in claims.systems if each.system == "linux" and each.architectures]
    lowest = min(systems, key=lambda claim: (_precedence(claim), _age(claim)))
    libc, architecture = _libc_and_architecture(lowest)
    same = {item.name for item in systems if _libc_and_architecture(item) == (libc, architecture)}
    known = policies(libc, architecture)
    if not known:
        raise Unavailable(f"there is no data on what {lowest.name} promises")
    if lowest.libraries is not None:
        known = tuple(_narrow(policy, lowest.libraries) for policy in known)
    policy = _nearest(known, lowest.minimum)
    assumed = policy or known[-1]
    python = interpreter_of(claims.pythons)
    return TargetSystem(
        name=", ".join(filter(None, (lowest.name, format_interpreter(python)))),
        libc=libc,
        architectures=(architecture,),
        policy=policy,
        policies=known,
        libraries=assumed.libraries | extra_libraries.union(claims.provided),
        interpreter=python,
        interpreters=Interpreters(),
        library_data=SystemLibraries(
            assumed.libraries.union(claims.provided),
            partial(system_library, architecture=assumed.architecture, policy=assumed),
        ),
        unjudged=tuple(item.name for item in claims.systems if item.name not in same),
    )


def _precedence(claim: SystemClaim) -> tuple[bool, bool]:
    """Sort key for systems: systems with a promised minimum first, then glibc before musl."""
    return not claim.libc, claim.libc == "musl"


def _libc_and_architecture(claim: SystemClaim) -> tuple[str, str]:
    return claim.libc or "glibc", claim.architectures[0]


def _age(claim: SystemClaim) -> tuple[int, int, str]:
    """Sort key for claims: claims that promise to support the oldest systems come first."""
    return (*(claim.minimum or (99, 0)), claim.name)


def _nearest(known: Iterable[Policy], minimum: tuple[int, int] | None) -> Policy | None:
    """Return the newest policy not newer than the claim: manylinux_2_28 for glibc 2.29.

    The policies describe releases of distributions; a claim between two releases promises at least
    the older one. Return None for a claim older than all policies.
    """
    known = tuple(known)
    fitting = (policy for policy in known if minimum is not None and policy.minimum <= minimum)
    found = max(fitting, key=lambda policy: policy.minimum, default=None)
    if found is None or minimum is None or found.minimum == minimum:
        return found
    newest = max(policy.minimum for policy in known)
    return _extend(found, minimum, beyond_data=minimum > newest)


def _extend(policy: Policy, minimum: tuple[int, int], *, beyond_data: bool) -> Policy:
    """Return the policy extended by glibc's versions up to the claimed one, as PEP 600 promises.

    If the claim is newer than all data, versions of other libraries are unknown and not judged.
    """
    versions = dict(policy.versions)
    if beyond_data:
        versions = {name: versions[name] for name in _LIBC_VERSIONS & versions.keys()}
    for name in _LIBC_VERSIONS & versions.keys():
        versions[name] = versions[name] | {"{}.{}".format(*minimum)}
    return replace(policy, versions=versions)


def _narrow(policy: Policy, libraries: Iterable[str]) -> Policy:
    """Restrict a policy to these libraries; versions of other libraries are then not judged."""
    governed = _LIBC_VERSIONS & policy.versions.keys()
    return replace(
        policy,
        libraries=policy.libraries.intersection(libraries),
        versions={prefix: policy.versions[prefix] for prefix in governed},
    )

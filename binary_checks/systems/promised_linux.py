"""Turns a claim of Linux into the system that it promises."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from binary_checks.errors import Unavailable
from binary_checks.model import Policy, SystemLibrary, TargetSystem
from binary_checks.model.packages import Claims, SystemClaim
from binary_checks.systems.claimed_python import Interpreters, interpreter_of, spell_interpreter
from binary_checks.systems.library_exports import system_library
from binary_checks.systems.policies import policies

_LIBC_VERSIONS = frozenset({"GLIBC"})  # as policies call the version nodes of a libc


def linux_target(claims: Claims, extra_libraries: frozenset[str]) -> TargetSystem:
    """The least that the claims of Linux promise.

    Where they name several libcs or architectures one of them is the target, glibc before musl,
    and the others are ``unjudged``; foreign-libc alone judges every claim of musl. One without a
    minimum (``linux_x86_64``) promises nothing: no policy, and the libraries of the newest one,
    since its users are those who built it. Raises Unavailable for an architecture without data.
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
        name=", ".join(filter(None, (lowest.name, spell_interpreter(python)))),
        libc=libc,
        architectures=(architecture,),
        policy=policy,
        policies=known,
        libraries=assumed.libraries | extra_libraries.union(claims.provided),
        interpreter=python,
        interpreters=Interpreters(),
        library_data=_LibraryData(assumed, claims.provided),
        unjudged=tuple(item.name for item in claims.systems if item.name not in same),
    )


def _precedence(claim: SystemClaim) -> tuple[bool, bool]:
    """Order the systems of one set: what promises something, then what we know best."""
    return not claim.libc, claim.libc == "musl"


def _libc_and_architecture(claim: SystemClaim) -> tuple[str, str]:
    return claim.libc or "glibc", claim.architectures[0]


def _age(claim: SystemClaim) -> tuple[int, int, str]:
    """Order claims from the one that promises most users to the one that promises fewest."""
    return (*(claim.minimum or (99, 0)), claim.name)


def _nearest(known: Iterable[Policy], minimum: tuple[int, int] | None) -> Policy | None:
    """The newest policy no newer than the claim: for glibc 2.29 what manylinux_2_28 allows.

    The policies were written for the releases of distributions; a claim between two of them
    promises at least the older. One older than all of them has none.
    """
    known = tuple(known)
    fitting = (policy for policy in known if minimum is not None and policy.minimum <= minimum)
    found = max(fitting, key=lambda policy: policy.minimum, default=None)
    if found is None or minimum is None or found.minimum == minimum:
        return found
    newest = max(policy.minimum for policy in known)
    return _extend(found, minimum, beyond_data=minimum > newest)


def _extend(policy: Policy, minimum: tuple[int, int], *, beyond_data: bool) -> Policy:
    """A policy with the versions of glibc up to the claimed one, which PEP 600 promises.

    Of a claim newer than all data that is all that is known; of other libraries nothing is judged.
    """
    versions = dict(policy.versions)
    if beyond_data:
        versions = {name: versions[name] for name in _LIBC_VERSIONS & versions.keys()}
    for name in _LIBC_VERSIONS & versions.keys():
        versions[name] = versions[name] | {"{}.{}".format(*minimum)}
    return replace(policy, versions=versions)


def _narrow(policy: Policy, libraries: Iterable[str]) -> Policy:
    """What a policy says of these libraries alone; of the others' versions it then says nothing."""
    governed = _LIBC_VERSIONS & policy.versions.keys()
    return replace(
        policy,
        libraries=policy.libraries.intersection(libraries),
        versions={prefix: policy.versions[prefix] for prefix in governed},
    )


class _LibraryData(Mapping[str, SystemLibrary]):
    """What the libraries of a policy's system export, each read when it is asked for."""

    def __init__(self, policy: Policy, provided: Iterable[str]) -> None:
        self._policy = policy
        self._names = policy.libraries.union(provided)

    def __getitem__(self, soname: str) -> SystemLibrary:
        found = system_library(soname, architecture=self._policy.architecture, policy=self._policy)
        if found is None:
            raise KeyError(soname)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name in sorted(self._names) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

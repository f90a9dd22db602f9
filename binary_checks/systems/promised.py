"""The system that a package promises to run on, from its claims."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from binary_checks.errors import NotApplicable, Unavailable
from binary_checks.model import ANY_SYSTEM, Claims, Policy, SystemClaim, SystemLibrary, TargetSystem
from binary_checks.systems.interpreters import Interpreters, format_interpreter, interpreter_of
from binary_checks.systems.libraries import (
    api_sets,
    macos_exports,
    macos_libraries,
    macos_libraries_partly,
    policies,
    system_library,
    windows_libraries,
    windows_libraries_partly,
    windows_library,
)

# The system promised by a claim of Linux.

_LIBC_VERSIONS = frozenset({"GLIBC"})  # prefixes of a libc's version nodes in policies


def linux_target(claims: Claims, extra_libraries: frozenset[str]) -> TargetSystem:
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
        library_data=_LinuxLibraries(assumed, claims.provided),
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


class _LinuxLibraries(Mapping[str, SystemLibrary]):
    """The exports of the libraries in a policy, each read on first access."""

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


# The system promised by a claim of macOS.

_SIMULATED = ("x86_64", "aarch64")  # macOS does not run i686 since 10.15, nor ppc since 10.7
_FIRST_ON_ARM = (11, 0)
_OLDEST = (10, 9)  # oldest macOS in the data: promised by a claim without a version
_ANY = frozenset({""})


def macos_target(claims: Claims, extra_libraries: frozenset[str] = frozenset()) -> TargetSystem:
    """Return the oldest macOS that is claimed, with all claimed architectures."""
    systems = [each for each in claims.systems if each.system == "macos" and _architectures(each)]
    lowest = min(systems, key=lambda claim: (_version(claim), claim.name))
    minimum = _version(lowest)
    architectures = dict.fromkeys(name for each in systems for name in _architectures(each))
    judged = {claim.name for claim in systems}
    python = interpreter_of(claims.pythons, "macos")
    return TargetSystem(
        name=", ".join(filter(None, (lowest.name, format_interpreter(python)))),
        system="macos",
        libc="",
        architectures=tuple(architectures),
        minimum_os=minimum,
        libraries=macos_libraries(minimum) | extra_libraries.union(claims.provided),
        partly=macos_libraries_partly(minimum),
        interpreter=python,
        interpreters=Interpreters("macos"),
        library_data=_MacosLibraries(minimum),
        unjudged=tuple(item.name for item in claims.systems if item.name not in judged),
    )


def _architectures(claim: SystemClaim) -> tuple[str, ...]:
    return tuple(name for name in claim.architectures if name in _SIMULATED)


def _version(claim: SystemClaim) -> tuple[int, int]:
    version = claim.minimum or _OLDEST
    return max(version, _FIRST_ON_ARM) if claim.architectures == ("aarch64",) else version


class _MacosLibraries(Mapping[str, SystemLibrary]):
    """The exports of the target macOS's system libraries, each read on first access."""

    def __init__(self, minimum: tuple[int, int]) -> None:
        self._minimum = minimum
        self._known: dict[str, SystemLibrary | None] = {}

    def __getitem__(self, name: str) -> SystemLibrary:
        if name not in self._known:
            self._known[name] = _find_library(name, self._minimum)
        found = self._known[name]
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name in sorted(macos_libraries(self._minimum)) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _find_library(name: str, minimum: tuple[int, int]) -> SystemLibrary | None:
    """Return the library; each symbol's version is the first macOS with the symbol."""
    known = macos_exports(name, minimum)
    if known is None:
        return None
    symbols: dict[str, frozenset[str]] = {}
    for first, names in known.items():
        node = frozenset({"{}.{}".format(*first)}) if first else _ANY
        symbols.update(dict.fromkeys(names, node))
    return SystemLibrary(soname=name, symbols=symbols, versions=frozenset())


# The system promised by a claim of Windows.

_ARCHITECTURES = ("x86_64", "i686", "aarch64")


def windows_target(
    claims: Claims,
    extra_libraries: frozenset[str] = frozenset(),
    dll_directories: tuple[str, ...] = (),
) -> TargetSystem:
    """Return a clean Windows of the claimed architecture with the claimed Python.

    If several architectures are claimed, x86_64 is judged, and the others are ``unjudged``.
    """
    by_architecture = {
        name: claim
        for claim in claims.systems
        if claim.system == "windows"
        for name in claim.architectures
    }
    architecture = next(name for name in _ARCHITECTURES if name in by_architecture)
    judged = by_architecture[architecture]
    python = interpreter_of(claims.pythons, "windows", architecture)
    return TargetSystem(
        name=", ".join(filter(None, (judged.name, format_interpreter(python)))),
        system="windows",
        libc="",
        architectures=(architecture,),
        libraries=windows_libraries(architecture).union(
            api_sets(), map(str.lower, extra_libraries.union(claims.provided))
        ),
        partly=windows_libraries_partly(architecture),
        interpreter=python,
        interpreters=Interpreters("windows", architecture),
        library_data=_WindowsLibraries(architecture),
        dll_directories=dll_directories,
        unjudged=tuple(item.name for item in claims.systems if item is not judged),
    )


class _WindowsLibraries(Mapping[str, SystemLibrary]):
    """The exports of Windows' system DLLs, if known, each read on first access."""

    def __init__(self, architecture: str) -> None:
        self._architecture = architecture

    def __getitem__(self, name: str) -> SystemLibrary:
        found = windows_library(name, self._architecture)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name in sorted(windows_libraries(self._architecture)) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


# The system promised by any claims.

_NOT_SIMULATED = {
    "ios": "iOS",
    "android": "Android",
    "wasi": "WASI",
    "emscripten": "Emscripten",
    "pyodide": "Emscripten",
    "pyemscripten": "Emscripten",  # PEP 783
    "freebsd": "FreeBSD",
}
"""Beginning of a system's name in claims and tags -> common name of the system."""
_ON_MACOS = frozenset({"x86_64", "aarch64"})
_ON_WINDOWS = frozenset({"x86_64", "i686", "aarch64"})


def target_for(
    claims: Claims,
    extra_libraries: frozenset[str],
    dll_directories: tuple[str, ...] = (),
) -> TargetSystem:
    """Return the oldest system that a package promises to support, as each claim is a promise.

    If the package claims several kinds of systems, one is the target, Linux before macOS before
    Windows, and the others are ``unjudged``. ``extra_libraries`` are further libraries that the
    package's users have, ``dll_directories`` further directories in which Windows looks for DLLs.
    Raises Unavailable for a system whose loader is not simulated or whose libraries are unknown,
    NotApplicable if no system is claimed.
    """
    if any(each.system == "linux" and each.architectures for each in claims.systems):
        return linux_target(claims, extra_libraries)
    if _claims(claims, "macos", _ON_MACOS):
        return macos_target(claims, extra_libraries)
    if _claims(claims, "windows", _ON_WINDOWS):
        return windows_target(claims, extra_libraries, dll_directories)
    names = ", ".join(each.name for each in claims.systems) or "no system"
    others = (
        _NOT_SIMULATED.get(each.system or each.name.partition("_")[0]) for each in claims.systems
    )
    system = next(filter(None, others), "")
    if system or any(each.system != ANY_SYSTEM for each in claims.systems):
        raise Unavailable(f"the loader of {system or 'that system'} is not simulated ({names})")
    raise NotApplicable(f"no loader for {names}")


def _claims(claims: Claims, system: str, simulated: frozenset[str]) -> bool:
    return any(
        each.system == system and not simulated.isdisjoint(each.architectures)
        for each in claims.systems
    )

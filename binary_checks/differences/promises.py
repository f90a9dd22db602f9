"""The systems and Pythons that a build promises to run on, and the packages that it requires."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from binary_checks.declaring import difference
from binary_checks.differences.changes import compare_names, format_version
from binary_checks.model import (
    ANY_SYSTEM,
    Change,
    CondaLike,
    Distribution,
    Package,
    PythonClaim,
    Severity,
    SystemClaim,
    applies,
    read_requirement,
)

if TYPE_CHECKING:
    from packaging.requirements import Requirement


_Version = tuple[int, int]
_Group = tuple[str, str, str]  # system, libc, architecture
_MINORS = range(60)
_FIRST_MACOS = {"aarch64": (11, 0), "arm64": (11, 0)}  # for each architecture
_FIRST_FREE_THREADED = (3, 13)


@difference
def promised_systems(old: Package, new: Package) -> Iterator[Change]:
    """The systems that a build promises to run on: kind, architecture and oldest version."""
    before, after = _lowest_promised(old.claims.systems), _lowest_promised(new.claims.systems)
    anywhere = (ANY_SYSTEM, "", "")
    if anywhere in before or anywhere in after:
        names = ", ".join(claim.name for claim in new.claims.systems)
        if anywhere not in after:
            sentence = f"is for {names}, previously for every system"
            yield Change(severity=Severity.BREAK, sentence=sentence)
        elif anywhere not in before:
            yield Change(severity=Severity.INFO, sentence="is for every system now")
        return
    for group in sorted(before.keys() - after.keys()):
        yield Change(severity=Severity.BREAK, sentence=f"is no longer for {_format_group(group)}")
    for group in sorted(after.keys() - before.keys()):
        yield Change(severity=Severity.INFO, sentence=f"is also for {_format_group(group)}")
    for group in sorted(before.keys() & after.keys()):
        was, now = before[group], after[group]
        if was != now:
            raised = now is not None and (was is None or now > was)
            yield Change(
                severity=Severity.BREAK if raised else Severity.INFO,
                sentence=f"is for {_format_group(group)} "
                f"{f'{format_version(now)} and later' if now else 'in any version'}, "
                f"previously for {format_version(was) if was else 'any version'}",
            )


def _lowest_promised(claims: Iterable[SystemClaim]) -> dict[_Group, _Version | None]:
    """Return the oldest version promised for each group, None for any version."""
    found: dict[_Group, _Version | None] = {}
    for claim in claims:
        if claim.system == ANY_SYSTEM:
            return {(ANY_SYSTEM, "", ""): None}
        for architecture in claim.architectures or ("",):
            group = (claim.system or claim.name, claim.libc, architecture)
            minimum = claim.minimum
            if minimum and group[0] == "macos" and architecture in _FIRST_MACOS:
                minimum = max(minimum, _FIRST_MACOS[architecture])
            known = found.get(group, minimum)
            found[group] = None if known is None or minimum is None else min(known, minimum)
    return found


def _format_group(group: _Group) -> str:
    system, libc, architecture = group
    return " ".join(filter(None, (system, architecture, libc and f"with {libc}")))


@difference
def promised_pythons(old: Package, new: Package) -> Iterator[Change]:
    """The Pythons that a build promises to run on."""
    before, after = old.claims.pythons, new.claims.pythons
    gone = [claim for claim in before if not any(_covers(each, claim) for each in after)]
    gained = [claim for claim in after if not any(_covers(each, claim) for each in before)]
    was, now = (", ".join(dict.fromkeys(map(_name, each))) for each in (before, after))
    severity = Severity.BREAK if (gone and after) or not before else Severity.INFO
    if before and after and (gone or gained):
        yield Change(severity=severity, sentence=f"is for {now}, previously for {was}")
    elif before and not after:
        yield Change(
            severity=severity, sentence=f"is no longer bound to a Python, previously to {was}"
        )
    elif after and not before:
        yield Change(
            severity=severity, sentence=f"is bound to {now}, previously to no Python version"
        )


def _covers(claim: PythonClaim, other: PythonClaim) -> bool:
    """Whether a claim covers every Python that the other claim covers."""
    if claim.implementation not in ("", other.implementation):
        return False
    if claim.is_for_one_version:
        same = (claim.version, claim.free_threaded) == (other.version, other.free_threaded)
        return same and (claim.abi in ("", other.abi) or not (other.abi or _is_for_any_gil(other)))
    if (claim.abi.startswith("abi3") and not other.abi) or (
        claim.abi == "abi3" and other.free_threaded
    ):
        return False
    return _major_of(claim) == _major_of(other) and (claim.version or (0, 0)) <= (
        other.version or (0, 0)
    )


def _is_for_any_gil(claim: PythonClaim) -> bool:
    """Whether a claim also covers free-threaded Python, as cp313-none does; cp312-none does not."""
    bound = claim.is_for_one_version and claim.implementation == "cpython" and not claim.abi
    return bound and (claim.version or (0, 0)) >= _FIRST_FREE_THREADED


def _major_of(claim: PythonClaim) -> str:
    named = next(filter(str.isdecimal, claim.name), "3")
    return named if claim.version is None else str(claim.version[0])


def _name(claim: PythonClaim) -> str:
    words = {"cpython": "CPython", "pypy": "PyPy", "": "Python"}
    name = words.get(claim.implementation, claim.implementation)
    version = format_version(claim.version) if claim.version else _major_of(claim)
    threads = " free-threaded" if claim.free_threaded else ""
    threads = " with or without the GIL" if _is_for_any_gil(claim) else threads
    return f"{name} {version}{threads}{'' if claim.is_for_one_version else ' and later'}"


@difference
def requires_python(old: Distribution, new: Distribution) -> Iterator[Change]:
    """The Pythons that Requires-Python allows."""
    was, now = old.header("Requires-Python"), new.header("Requires-Python")
    before, after = _allowed(was), _allowed(now)
    if before == after:
        return
    earlier = f"previously {was!r}" if was else "which it did not state previously"
    now = f"Requires-Python is {now!r}" if now else "states no Requires-Python"
    # Users of Pythons for which the old build is not made lose nothing.
    claims, gone = old.claims.pythons, before - after
    hurts = bool(gone and not claims) or any(
        claim.version == version
        if claim.is_for_one_version
        else (claim.version or (3, 0)) <= version
        for claim in claims
        for version in gone
    )
    less_severe = Severity.CHANGE if gone else Severity.INFO
    severity = Severity.BREAK if hurts else less_severe
    yield Change(severity=severity, sentence=f"{now}, {earlier}")


def _allowed(text: str) -> frozenset[_Version]:
    """Return the minor versions of Python 3 that have an allowed release; "" allows all."""
    try:
        specifiers = SpecifierSet(text)
    except InvalidSpecifier:
        return frozenset()
    return frozenset(
        (3, minor)
        for minor in _MINORS
        if any(specifiers.contains(f"3.{minor}.{patch}") for patch in (0, 1, 2, 50))
    )


_OWN = "its own version"
# the oldest Python, and the minor versions, for which markers of requirements are evaluated
_OLDEST_PYTHON, _MARKER_MINORS = (3, 8), range(8, 16)
_TEXTS = re.compile(r"[\"']([^\"']*)[\"']")
# phrases about several packages, by whether the old and the new build constrain them
_TOGETHER = {
    (True, True): "are constrained to other versions",
    (True, False): "are no longer constrained",
    (False, True): "are constrained now",
}
_OF_DEVELOPERS = re.compile(
    r"test|doc|dev|lint|bench|typ(?:e|ing)|nox|mypy|sdist|^ci$|cover|style|quality"
)
_SYSTEMS: dict[str, tuple[str, str, str, dict[str, str]]] = {
    "linux": ("posix", "Linux", "linux", {}),
    "macos": ("posix", "Darwin", "darwin", {"aarch64": "arm64"}),
    "windows": ("nt", "Windows", "win32", {"x86_64": "AMD64", "aarch64": "ARM64", "i686": "x86"}),
    "ios": ("posix", "iOS", "ios", {"aarch64": "arm64"}),
    "android": ("posix", "Android", "android", {}),
    "emscripten": ("posix", "Emscripten", "emscripten", {}),
}
# virtual packages, from which claims of systems are made: `promised-systems` compares them
_PROMISED = ("__glibc", "__osx", "__win", "__linux", "__unix")


@difference
def requirements(old: Distribution, new: Distribution) -> Iterator[Change]:
    """The packages that installers install with a build: Requires-Dist without extras.

    Requirements are left out if their markers hold on none of the systems and Pythons that the
    build promises.
    """
    yield from _compare(_group(old).get("", {}), _group(new).get("", {}), Severity.CHANGE)


@difference
def extras(old: Distribution, new: Distribution) -> Iterator[Change]:
    """The extras of a build, and what they install; extras for developers are left out."""
    before, after = _extras(old), _extras(new)
    yield from compare_names("extras", before - after, after - before)
    was, now = _group(old), _group(new)
    for extra in sorted(before & after):
        yield from _compare(was.get(extra, {}), now.get(extra, {}), Severity.INFO, f"[{extra}] ")


def _extras(package: Distribution) -> set[str]:
    found = (value for key, value in package.metadata if key.lower() == "provides-extra")
    return {name for name in map(canonicalize_name, found) if not _OF_DEVELOPERS.search(name)}


def _group(package: Distribution) -> dict[str, dict[str, str]]:
    """Return the requirements by extra ("" for none) and normalised name, in one spelling."""
    environments, extras = list(_environments(package)), _extras(package)
    found: dict[str, dict[str, set[str]]] = {}
    for item in filter(None, map(read_requirement, package.requires_dist)):
        # Only extras that the marker names can select the requirement: a package may have hundreds
        # of extras, each with dozens of environments.
        named = {canonicalize_name(text) for text in _TEXTS.findall(str(item.marker or ""))}
        for extra in ("", *sorted(extras & named)):
            asked = [applies(item, {**each, "extra": extra}) for each in environments]
            if any(asked):
                spelled = _format_requirement(item, package.version)
                if not all(asked):  # the marker distinguishes promised systems, or Pythons
                    spelled = f"{spelled} ; {item.marker}".lstrip()
                names = found.setdefault(extra, {})
                names.setdefault(str(canonicalize_name(item.name)), set()).add(spelled)
                if not extra:  # a requirement without an extra holds with each extra, too
                    break
    return {
        extra: {name: ", ".join(sorted(each)) for name, each in names.items()}
        for extra, names in found.items()
    }


def _format_requirement(item: Requirement, own: str) -> str:
    """Return the requirement in one order, with a placeholder for the package's own version."""
    wanted = f"[{','.join(sorted(item.extras))}]" if item.extras else ""
    texts = (f"{e.operator}{_OWN if e.version == own else e.version}" for e in item.specifier)
    place = f" @ {item.url}" if item.url else ""
    return f"{wanted}{','.join(sorted(texts, reverse=True))}{place}"


def _promised_versions(claims: Sequence[PythonClaim]) -> Iterator[tuple[int, int]]:
    for claim in claims or (PythonClaim(name="py3"),):
        if claim.version and claim.is_for_one_version:
            yield claim.version
        else:
            oldest = claim.version or _OLDEST_PYTHON
            yield from ((3, minor) for minor in _MARKER_MINORS if (3, minor) >= oldest)


def _environments(package: Distribution) -> Iterator[dict[str, str]]:
    """Yield the environments (PEP 508) that the package promises to run in."""
    systems = {each.system for each in package.claims.systems} & _SYSTEMS.keys() or _SYSTEMS.keys()
    architectures = {each for claim in package.claims.systems for each in claim.architectures}
    versions = sorted(set(_promised_versions(package.claims.pythons)))
    for system in sorted(systems):
        os_name, platform_system, sys_platform, machines = _SYSTEMS[system]
        for architecture in sorted(architectures) or ["x86_64", "aarch64"]:
            for major, minor in versions:
                yield {
                    "implementation_name": "cpython",
                    "implementation_version": f"{major}.{minor}.0",
                    "os_name": os_name,
                    "platform_machine": machines.get(architecture, architecture),
                    "platform_python_implementation": "CPython",
                    "platform_release": "",
                    "platform_system": platform_system,
                    "platform_version": "",
                    "python_full_version": f"{major}.{minor}.0",
                    "python_version": f"{major}.{minor}",
                    "sys_platform": sys_platform,
                }


@difference
def conda_dependencies(old: CondaLike, new: CondaLike) -> Iterator[Change]:
    """The packages that a build requires of conda, and packages that it only constrains."""
    yield from _compare(_specs(old.depends), _specs(new.depends), Severity.CHANGE)
    before, after = _specs(old.constrains), _specs(new.constrains)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield Change(
                severity=Severity.INFO,
                subject=name,
                sentence=_format_constraint_change(before.get(name), after.get(name)),
                together=_TOGETHER[name in before, name in after],
                noun="packages",
            )


def _format_constraint_change(was: str | None, now: str | None) -> str:
    """Return what changed about a constraint on a package; "" allows any version of it."""
    if now is None:
        return f"is no longer constrained to {was!r}" if was else "is no longer named"
    text = f"is constrained to {now!r}" if now else "is not constrained to a version"
    earlier = f"previously to {was!r}" if was else "previously to any version"
    return f"{text} now" if was is None else f"{text}, {earlier}"


def _specs(texts: Iterable[str]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for text in texts:
        name, _, spec = text.strip().partition(" ")
        if name and not name.startswith(_PROMISED):
            found.setdefault(name, set()).add(" ".join(spec.split()))
    return {name: ", ".join(sorted(each)) for name, each in found.items()}


def _compare(
    before: Mapping[str, str], after: Mapping[str, str], severity: Severity, of: str = ""
) -> Iterator[Change]:
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if was is None:
            sentence, together = f"is required now{_as(now)}", "are required now"
        elif now is None:
            earlier = was and f", previously{_as(was)}"
            sentence, together = f"is no longer required{earlier}", "are no longer required"
        elif was != now:
            sentence = (
                f"is required{_as(now) or ' in any version'}, previously{_as(was) or ' in any'}"
            )
            together = "are required in other versions"
        else:
            continue
        both = was is not None and now is not None
        detail = f"{was or 'any'} -> {now or 'any'}" if both else now or was or ""
        yield Change(
            severity=severity,
            subject=f"{of}{name}",
            sentence=sentence,
            together=together,
            detail=detail,
            noun="requirements",
        )


def _as(text: str | None) -> str:
    return f" as {text!r}" if text else ""

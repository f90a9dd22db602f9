"""The packages that a build requires, by its metadata."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from binary_checks.declaring import difference
from binary_checks.model import (
    Change,
    CondaLike,
    Distribution,
    PythonClaim,
    Severity,
    applies,
    read_requirement,
)

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_OWN = "its own version"
_OLDEST, _MINORS = (3, 8), range(8, 16)
"""The oldest Python, and the minor versions, for which markers of requirements are evaluated."""
_TEXTS = re.compile(r"[\"']([^\"']*)[\"']")
_TOGETHER = {
    (True, True): "are constrained to other versions",
    (True, False): "are no longer constrained",
    (False, True): "are constrained now",
}
"""Phrases about several packages, by whether the old and the new build constrain them."""
_OTHER = "are required in other versions"
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
_PROMISED = ("__glibc", "__osx", "__win", "__linux", "__unix")
"""Virtual packages, from which claims of systems are made: `promised-systems` compares them."""


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
    for name in sorted(before - after):
        yield Change(
            severity=Severity.BREAK,
            subject=name,
            sentence="the extra is gone",
            together="are gone",
            noun="extras",
        )
    for name in sorted(after - before):
        yield Change(
            severity=Severity.INFO,
            subject=name,
            sentence="is a new extra",
            together="are new",
            noun="extras",
        )
    was, now = _group(old), _group(new)
    for extra in sorted(before & after):
        before_it, after_it = was.get(extra, {}), now.get(extra, {})
        yield from _compare(before_it, after_it, Severity.INFO, f"[{extra}] ")


def _extras(package: Distribution) -> set[str]:
    found = (value for key, value in package.metadata if key.lower() == "provides-extra")
    return {name for name in map(canonicalize_name, found) if not _OF_DEVELOPERS.search(name)}


def _group(package: Distribution) -> dict[str, dict[str, str]]:
    """Return the requirements by extra ("" for none) and normalised name, in one spelling."""
    environments, extras = list(_environments(package)), _extras(package)
    found: dict[str, dict[str, set[str]]] = {}
    for item in filter(None, map(read_requirement, package.requires_dist)):
        for extra in ("", *sorted(extras & _named_in(item))):
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


def _named_in(item: Requirement) -> set[str]:
    """Return the strings in the marker; only extras with these names can select the requirement.

    A package may have hundreds of extras, each with dozens of environments.
    """
    return {canonicalize_name(text) for text in _TEXTS.findall(str(item.marker or ""))}


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
            oldest = claim.version or _OLDEST
            yield from ((3, minor) for minor in _MINORS if (3, minor) >= oldest)


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
    if was is None:
        return f"{text} now"
    return f"{text}, previously to {was!r}" if was else f"{text}, previously to any version"


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
            together = _OTHER
        else:
            continue
        changed = was is not None and now is not None
        detail = f"{was or 'any'} -> {now or 'any'}" if changed else now or was or ""
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

"""What a build requires of other packages, as its metadata say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from packaging.specifiers import Specifier
from packaging.utils import canonicalize_name

from binary_checks.declaring import difference
from binary_checks.model import Distribution, PythonClaim
from binary_checks.model.compared_builds import Change, Severity
from binary_checks.model.conda_packages import CondaLike
from binary_checks.model.requires_dist import applies, read_requirement

_OWN = "its own version"
_OLDEST, _MINORS = (3, 8), range(8, 16)
"""Of the Pythons that are asked for requirements."""
_OTHER = "are required in other versions"
_OF_DEVELOPERS = re.compile(
    r"test|doc|dev|lint|bench|typ(?:e|ing)|nox|mypy|sdist|^ci$|cover|style|quality"
)
_SYSTEMS: dict[str, tuple[str, str, str, dict[str, str]]] = {
    "linux": ("posix", "Linux", "linux", {}),
    "macos": ("posix", "Darwin", "darwin", {"aarch64": "arm64"}),
    "windows": ("nt", "Windows", "win32", {"x86_64": "AMD64", "aarch64": "ARM64", "i686": "x86"}),
}
_PROMISED = ("__glibc", "__osx", "__win", "__linux", "__unix")
"""Virtual packages that claims of systems are made of: `promised-systems` compares them."""


@difference
def requirements(old: Distribution, new: Distribution) -> Iterator[Change]:
    """The packages that installers bring with it: Requires-Dist without extras.

    Those whose markers hold on no system and no Python that it promises are left out.
    """
    yield from _compare(_group(old), _group(new), Severity.CHANGE)


@difference
def extras(old: Distribution, new: Distribution) -> Iterator[Change]:
    """The extras that users ask for, and what they bring; those of developers are left out."""
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
    for extra in sorted(before & after):
        yield from _compare(_group(old, extra), _group(new, extra), Severity.INFO, f"[{extra}] ")


def _extras(package: Distribution) -> set[str]:
    found = (value for key, value in package.metadata if key.lower() == "provides-extra")
    return {name for name in map(canonicalize_name, found) if not _OF_DEVELOPERS.search(name)}


def _group(package: Distribution, extra: str = "") -> dict[str, str]:
    """By normalised name all that is asked of it, in one spelling, of an extra or without any."""
    environments = list(_environments(package))
    found: dict[str, set[str]] = {}
    for item in filter(None, map(read_requirement, package.requires_dist)):
        always = [applies(item, {**each, "extra": ""}) for each in environments]
        asked = [applies(item, {**each, "extra": extra}) for each in environments]
        if (any(asked) and not any(always)) if extra else any(always):
            wanted = f"[{','.join(sorted(item.extras))}]" if item.extras else ""
            place = f" @ {item.url}" if item.url else ""
            spelled = f"{wanted}{_spell(item.specifier, package.version)}{place}"
            if not all(asked):  # the marker tells promised systems, or Pythons, apart
                spelled = f"{spelled} ; {item.marker}".lstrip()
            found.setdefault(str(canonicalize_name(item.name)), set()).add(spelled)
    return {name: ", ".join(sorted(each)) for name, each in found.items()}


def _spell(specifiers: Iterable[Specifier], own: str) -> str:
    """In any order, and the package's own version as such: every release asks for its own."""
    texts = (f"{e.operator}{_OWN if e.version == own else e.version}" for e in specifiers)
    return ",".join(sorted(texts, reverse=True))


def _promised_versions(claims: Sequence[PythonClaim]) -> Iterator[tuple[int, int]]:
    for claim in claims or (PythonClaim(name="py3"),):
        if claim.version and claim.implementation and not claim.abi.startswith("abi3"):
            yield claim.version
        else:
            oldest = claim.version or _OLDEST
            yield from ((3, minor) for minor in _MINORS if (3, minor) >= oldest)


def _environments(package: Distribution) -> Iterator[dict[str, str]]:
    """Those of PEP 508 that it promises to run in, as far as markers of requirements ask."""
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
    """The packages that conda installs with it, and those that it only constrains."""
    yield from _compare(_specs(old.depends), _specs(new.depends), Severity.CHANGE)
    before, after = _specs(old.constrains), _specs(new.constrains)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield Change(
                severity=Severity.INFO,
                subject=name,
                sentence=f"is constrained to {after.get(name)!r}, before {before.get(name)!r}",
                together="are constrained to other versions",
                noun="packages",
            )


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
            said, together = f"is required now{_as(now)}", "are required now"
        elif now is None:
            earlier = was and f", before{_as(was)}"
            said, together = f"is no longer required{earlier}", "are no longer required"
        elif was != now:
            said = f"is required{_as(now) or ' in any version'}, before{_as(was) or ' in any'}"
            together = _OTHER
        else:
            continue
        changed = was is not None and now is not None
        detail = f"{was or 'any'} -> {now or 'any'}" if changed else now or was or ""
        yield Change(
            severity=severity,
            subject=f"{of}{name}",
            sentence=said,
            together=together,
            detail=detail,
            noun="requirements",
        )


def _as(text: str | None) -> str:
    return f" as {text!r}" if text else ""

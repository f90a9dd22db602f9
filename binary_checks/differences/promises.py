"""The systems and the Pythons that a build promises to run on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from binary_checks.declaring import difference
from binary_checks.model import (
    ANY_SYSTEM,
    Change,
    Distribution,
    Package,
    PythonClaim,
    Severity,
    SystemClaim,
)

_Version = tuple[int, int]
_Group = tuple[str, str, str]  # system, libc, architecture
_MINORS = range(60)
_FIRST_MACOS = {"aarch64": (11, 0), "arm64": (11, 0)}
"""The first macOS for each architecture."""
_FIRST_FREE_THREADED = (3, 13)


@difference
def promised_systems(old: Package, new: Package) -> Iterator[Change]:
    """The systems that a build promises to run on: kind, architecture and oldest version."""
    before, after = _lowest_promised(old.claims.systems), _lowest_promised(new.claims.systems)
    anywhere = (ANY_SYSTEM, "", "")
    if anywhere in before and anywhere not in after:
        names = ", ".join(claim.name for claim in new.claims.systems)
        yield Change(
            severity=Severity.BREAK, sentence=f"is for {names}, previously for every system"
        )
        return
    if anywhere in after:
        if anywhere not in before:
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
                sentence=f"is for {_format_group(group)} {_from(now)}, "
                f"previously for {'any version' if was is None else _dotted(was)}",
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


def _from(version: _Version | None) -> str:
    return "in any version" if version is None else f"{_dotted(version)} and later"


def _dotted(version: _Version) -> str:
    return ".".join(map(str, version))


@difference
def promised_pythons(old: Package, new: Package) -> Iterator[Change]:
    """The Pythons that a build promises to run on."""
    before, after = old.claims.pythons, new.claims.pythons
    gone = [claim for claim in before if not any(_covers(each, claim) for each in after)]
    gained = [claim for claim in after if not any(_covers(each, claim) for each in before)]
    if gone and after:
        was, now = (", ".join(dict.fromkeys(map(_name, each))) for each in (before, after))
        yield Change(severity=Severity.BREAK, sentence=f"is for {now}, previously for {was}")
    elif gained and before:
        was, now = (", ".join(dict.fromkeys(map(_name, each))) for each in (before, after))
        yield Change(severity=Severity.INFO, sentence=f"is for {now}, previously for {was}")
    elif bool(before) is not bool(after):
        names = ", ".join(dict.fromkeys(map(_name, before or after)))
        text = (
            f"is no longer bound to a Python, previously to {names}"
            if before
            else f"is bound to {names}, previously to no Python version"
        )
        severity = Severity.INFO if before else Severity.BREAK
        yield Change(severity=severity, sentence=text)


def _covers(claim: PythonClaim, other: PythonClaim) -> bool:
    """Whether a claim covers every Python that the other claim covers."""
    if claim.implementation not in ("", other.implementation):
        return False
    if claim.is_for_one_version:
        same = (claim.version, claim.free_threaded) == (other.version, other.free_threaded)
        return same and (claim.abi in ("", other.abi) or not (other.abi or _is_for_any_gil(other)))
    if claim.abi.startswith("abi3") and not other.abi:
        return False
    if claim.abi == "abi3" and other.free_threaded:
        return False
    return _major_of(claim) == _major_of(other) and (claim.version or (0, 0)) <= (
        other.version or (0, 0)
    )


def _is_for_any_gil(claim: PythonClaim) -> bool:
    """Whether a claim also covers free-threaded Python, as cp313-none does; cp312-none does not."""
    bound = claim.is_for_one_version and claim.implementation == "cpython" and not claim.abi
    return bound and (claim.version or (0, 0)) >= _FIRST_FREE_THREADED


def _major_of(claim: PythonClaim) -> str:
    if claim.version is not None:
        return str(claim.version[0])
    return next(filter(str.isdecimal, claim.name), "3")


def _name(claim: PythonClaim) -> str:
    words = {"cpython": "CPython", "pypy": "PyPy", "": "Python"}
    name = words.get(claim.implementation, claim.implementation)
    version = _dotted(claim.version) if claim.version else _major_of(claim)
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
    text = (
        f"Requires-Python is {now!r}, {earlier}" if now else f"states no Requires-Python, {earlier}"
    )
    gone = before - after
    less_severe = Severity.CHANGE if gone else Severity.INFO
    hurts = any(_is_for(old.claims.pythons, version) for version in gone)
    yield Change(severity=Severity.BREAK if hurts else less_severe, sentence=text)


def _is_for(claims: Sequence[PythonClaim], version: _Version) -> bool:
    """Whether a build with these tags is for that Python; users of other Pythons lose nothing."""
    return not claims or any(
        claim.version == version
        if claim.is_for_one_version
        else (claim.version or (3, 0)) <= version
        for claim in claims
    )


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

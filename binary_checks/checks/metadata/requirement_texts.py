"""Requirements that installers refuse, read differently, or that exclude the wheel's own tags."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.utils import canonicalize_name

from binary_checks.declaring import check
from binary_checks.knowledge.promised_pythons import (
    LONGEST_SPECIFIER,
    allows_any,
    read_specifier,
)
from binary_checks.model import Finding, Level, NotInspected, Problem, WheelLike
from binary_checks.model.requires_dist import GivenVersions, RequiredWheels, read_requirement
from binary_checks.wording.phrases import name_first

_LONGEST = 200  # characters of a requirement in a sentence
_EXTRA = re.compile(r"""\bextra\s*[=!]=\s*["']([^"']{1,200})["']""")


@check
def invalid_requirement(package: WheelLike) -> Iterator[Finding]:
    """A Requires-Dist or Requires-Python is not valid.

    Name, versions and marker must follow the specification of dependency specifiers: ``>=1.0.*``
    and a marker with an unknown variable do not.

    Why: uv refuses the wheel, pip from version 24.1 on too, older ones leave the requirement out;
    PyPI refuses the upload.
    Fix: correct it in pyproject.toml, and build again.
    Level: uv and current pip refuse the wheel.
    """
    path = f"{package.dist_info}/METADATA"
    for text in package.requires_dist:
        if read_requirement(text) is None:
            yield Problem(path=path, sentence=f"Requires-Dist {_shorten(text)!r} is not valid")
    wanted = package.header("Requires-Python")
    if read_specifier(wanted) is None:
        yield Problem(path=path, sentence=f"Requires-Python {_shorten(wanted)!r} is not valid")


@check(level=Level.WARNING)
def requirement_by_url(package: WheelLike) -> Iterator[Finding]:
    """A requirement names an address instead of a version.

    A warning: an index of one's own may accept it.

    Why: PyPI refuses the upload, and pip refuses to install what such a wheel from PyPI requires.
    Fix: require a version, and publish that project first.
    Level: it installs from a file; only PyPI refuses it.
    """
    for text in package.requires_dist:
        requirement = read_requirement(text)
        if requirement is not None and requirement.url is not None:
            yield Problem(
                path=f"{package.dist_info}/METADATA",
                sentence=f"requires {requirement.name} by the address {_shorten(requirement.url)}: "
                "PyPI accepts no such wheel",
            )


@check(level=Level.WARNING)
def undeclared_extra(package: WheelLike) -> Iterator[Finding]:
    """A requirement belongs to an extra that no Provides-Extra names.

    Why: pip installs only extras that are declared: whoever asks for this one gets none of its
    requirements, and one line of warning.
    Fix: declare the extra (``[project.optional-dependencies]``), or correct its name.
    Level: the package works; only that extra brings nothing.
    """
    headers = [value for key, value in package.metadata if key.lower() == "provides-extra"]
    declared = {canonicalize_name(each) for each in headers}
    used = {match[1] for text in package.requires_dist for match in _EXTRA.finditer(text)}
    for extra in sorted(used):
        if canonicalize_name(extra) not in declared:
            yield Problem(
                path=f"{package.dist_info}/METADATA",
                sentence=f"has requirements for the extra {extra!r}, which it does not provide",
            )


@check
def python_is_excluded(package: WheelLike) -> Iterator[Finding]:
    """Requires-Python excludes the Pythons of the wheel's own tags.

    A warning where only some of the tags are excluded. That ``cp39-abi3`` may require 3.10, and
    ``py2.py3`` may require 3, excludes nothing that matters.

    Why: installers take the tag and Requires-Python into account: nobody can install the wheel.
    Fix: correct Requires-Python, or do not build for that Python.
    Level: nobody can install the wheel. Where other Pythons of its tags can, it is a warning.
    """
    wanted = package.header("Requires-Python")
    if len(wanted) > LONGEST_SPECIFIER:
        yield NotInspected(sentence=f"Requires-Python has {len(wanted)} characters")
        return
    if not read_specifier(wanted) or not package.claims.pythons:
        return  # invalid-requirement reports one that is not valid
    pythons = [each for each in package.claims.pythons if not each.name.startswith("py2-")]
    excluded = [each for each in pythons or package.claims.pythons if not allows_any(wanted, each)]
    if excluded:
        whole = len(excluded) == len(pythons or package.claims.pythons)
        end = "nobody can install this wheel" if whole else "nobody is offered the wheel for them"
        yield Problem(
            path=f"{package.dist_info}/METADATA",
            sentence=f"Requires-Python {_shorten(wanted)!r} excludes every Python of "
            f"{name_first([each.name for each in excluded], 3)}: {end}",
            level=Level.ERROR if whole else Level.WARNING,
        )


@check
def requirement_without_wheel(package: WheelLike, required: RequiredWheels) -> Iterator[Finding]:
    """The index has no wheel of a required distribution for the wheel's own Python and platform.

    It is looked for only with ``--binary-with-requirements``, on the index that pip's settings
    name, and so is all that a found one requires in turn. What is lacking for one marker, Python or
    platform need not be for another: the oldest that the tags promise counts.

    Why: ``pip install`` ends with "no matching distribution", or builds the distribution from
    source, for which users need a compiler.
    Fix: publish that wheel first; require a version that has one, or exclude the platform with a
    marker (``; sys_platform != "win32"``).
    Level: most users cannot install the package there.
    """
    if required.lacking:
        yield Problem(
            path=f"{package.dist_info}/METADATA",
            sentence=f"requires what cannot be installed: the index has no {required.lacking}",
        )


@check
def excluded_version_given(given: GivenVersions) -> Iterator[Finding]:
    """A package given with --binary-with has a version that a requirement excludes.

    For each distribution that the package or a given one requires, one of the given versions must
    satisfy every requirement. Extras and markers are evaluated for the package's own Python and
    system. The folder may also hold packages that nothing requires, or for other systems.

    Why: no installer puts the two together: the set that was tested is not the set that users get,
    and libraries of another version lack functions or behave otherwise.
    Fix: give the required version, or correct the requirement.
    Level: the packages cannot be installed together.
    """
    for each in given.misfits:
        by = f"{each.by}, which it requires, requires" if each.by else "requires"
        yield Problem(
            sentence=f"{by} {_shorten(each.requirement)}, but {each.name} {each.version} was "
            "given: no installer puts them together"
        )


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."

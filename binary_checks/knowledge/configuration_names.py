"""Reads out of a package's file name, tags and version which build of its project it is."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from binary_checks.knowledge.accelerators import accelerator_of_distribution, accelerator_of_label
from binary_checks.knowledge.stated_values import READERS
from binary_checks.knowledge.tag_claims import read_claims
from binary_checks.model import Claims, Package, PythonClaim
from binary_checks.model.binary_configuration import ClaimSource, ConfigurationClaim, StatedClaim
from binary_checks.model.packages import ANY_SYSTEM

_ABI_OF_LABEL = re.compile(r"cxx11abi(?P<new>true|false|[01])", re.IGNORECASE)
_LIBTORCH = re.compile(
    r"libtorch(?:-(?P<system>macos|win)(?:-(?P<machine>arm64|x86_64))?)?"
    r"(?:-(?P<abi>cxx11-abi|pre-cxx11))?(?:-(?P<variant>(?:shared|static)-with(?:out)?-deps))?"
    r"(?:-debug)?(?:-(?P<version>\d[^-]*?|latest))?\.(?:zip|tar\.gz|tgz)"
)
_BUILT_ON = re.compile(r"\.?dev(20\d{6})(?!\d)")
_OLD_FLAGS = re.compile(r"cp2\d(mu|m)")

Found = tuple[str, str, str]
"""An aspect, its value and what says so."""


def claim_by_name(package: Package) -> Iterator[StatedClaim]:
    """What the package's name, tags, version and build string say; nothing of its bytes."""
    label = package.claims.variant or package.version.partition("+")[2]
    yield from _state(_read_label(label))
    yield from _state(_read_package(package.name, package.version))
    yield from _state(_read_claims(package.claims))
    yield from _state(_read_libtorch(package.file_name))


def claim_by_file_name(file_name: str) -> Iterator[StatedClaim]:
    """The same as far as the name of a wheel or of a libtorch archive tells, before it is read."""
    yield from _state(_read_libtorch(file_name))
    try:
        name, version, _, tags = parse_wheel_filename(file_name)
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion, ValueError):
        return
    claims = read_claims(tags, version=str(version))
    yield from _state((("kind", "wheel", f"the name {file_name}"),))
    yield from _state(_read_label(claims.variant))
    yield from _state(_read_package(name, str(version)))
    yield from _state(_read_claims(claims))


def _state(found: Iterator[Found] | tuple[Found, ...]) -> Iterator[StatedClaim]:
    for aspect, value, evidence in dict.fromkeys(found):
        claim = ConfigurationClaim(value=value, source=ClaimSource.NAME, evidence=evidence)
        yield StatedClaim(aspect=aspect, claim=claim)


def _read_label(variant: str) -> Iterator[Found]:
    evidence = f"the label {variant}"
    if value := accelerator_of_label(variant):
        yield "accelerator", value, evidence
    if match := _ABI_OF_LABEL.search(variant):
        new = match["new"].lower() in ("true", "1")
        yield "cxx_abi", "cxx11" if new else "pre-cxx11", evidence


def _read_package(name: str, version: str) -> Iterator[Found]:
    if value := accelerator_of_distribution(name):
        yield "accelerator", value, f"the name {name}"
    yield from _read_version(version)


def _read_version(text: str) -> Iterator[Found]:
    try:
        version = Version(text)
    except (InvalidVersion, ValueError):  # conda has others
        return
    evidence = f"the version {text}"
    yield "version", version.public, evidence
    dated = _BUILT_ON.search(text)
    channel = "nightly" if version.is_devrelease else "test" if version.pre else "stable"
    yield "channel", channel, evidence
    if dated and (date := READERS["date"](dated[1])):
        yield "date", date, evidence


def _read_claims(claims: Claims) -> Iterator[Found]:
    for python in claims.pythons:
        if value := _spell_python(python):
            yield "python", value, f"the tag {python.name}"
    for system in claims.systems:
        evidence = f"the tag {system.name}"
        if system.system and system.system != ANY_SYSTEM:
            yield "system", system.system, evidence
        for architecture in system.architectures:
            yield "architecture", architecture, evidence


def _spell_python(claim: PythonClaim) -> str:
    """Spell the Pythons of a tag; "" where it says no version."""
    if claim.version is None:
        return ""
    number = "{}.{}".format(*claim.version)
    if claim.implementation not in ("", "cpython"):
        return f"{claim.implementation} {number}"
    if not claim.abi or claim.abi.startswith("abi3"):
        return f"{number}+"
    old = _OLD_FLAGS.fullmatch(claim.abi)
    return f"{number}{old[1] if old else 't' if claim.free_threaded else ''}"


def _read_libtorch(file_name: str) -> Iterator[Found]:
    """``libtorch-cxx11-abi-shared-with-deps-2.5.0%2Bcu121.zip``."""
    match = _LIBTORCH.fullmatch(file_name.replace("%2B", "+"))
    if match is None:
        return
    evidence = f"the name {file_name}"
    yield "kind", "libtorch", evidence
    for aspect, group in (
        ("system", "system"),
        ("architecture", "machine"),
        ("cxx_abi", "abi"),
        ("libtorch_variant", "variant"),
    ):
        if match[group]:
            yield aspect, READERS[aspect](match[group]), evidence
    public, _, label = (match["version"] or "").partition("+")
    if value := accelerator_of_label(label):
        yield "accelerator", value, evidence
    yield from _read_version(public)

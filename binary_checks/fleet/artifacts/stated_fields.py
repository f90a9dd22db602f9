"""States in a verdict which build its file is, by the result document that is attested.

Nobody signs artifact.json, so a gate goes by what signed verdicts state. A run states only what it
can know for sure: a conda package without a platform, or a library for musl, is known by its bytes
alone, and a gate reads them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion

from binary_checks.errors import ArtifactRefusedError
from binary_checks.fleet.artifacts.artifact import FILE_AXES
from binary_checks.fleet.artifacts.axis_claims import StatedAxes, derive_axes
from binary_checks.fleet.artifacts.verdict import StatedField
from binary_checks.knowledge.tags import read_claims
from binary_checks.model import Package, PackageResult
from binary_checks.model.binary_configuration import (
    Aspect,
    BinaryConfiguration,
    ClaimSource,
)
from binary_checks.model.packages import Wheel

_ALWAYS = ("variant", "cxx_abi", "libtorch")
"""Axes of which a result states everything: without a value, nothing states one."""
_CONDA = (".conda", ".tar.bz2")


def state_fields(
    package: PackageResult, by_hand: Mapping[str, str] | None = None
) -> tuple[StatedField, ...]:
    """Return the fields of artifact.json that a result states, and those that are set by hand.

    Raises ArtifactRefusedError where the result contradicts a value that is set by hand.
    """
    given = by_hand or {}
    found = dict(_read_result(package, given))
    found |= {name: value for name, value in given.items() if name not in FILE_AXES}
    return tuple(
        StatedField(name=name, value=value, by_hand=name in given)
        for name, value in sorted(found.items())
    )


def _read_result(package: PackageResult, by_hand: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    kind = _name_kind(package)
    if kind:
        yield "kind", kind
    if kind == "wheel":
        yield from (("project", canonicalize_name(package.name)), ("subdir", ""))
    elif kind == "conda":
        yield "project", package.name
    if package.version:
        yield "version", package.version
    yield from _read_axes(package, kind, by_hand).items()


def _name_kind(package: PackageResult) -> str:
    """The kind, where the file's name and the result leave no doubt."""
    name = package.file_name
    if name.endswith(".whl"):
        return "wheel"
    if name.endswith(_CONDA):
        return "conda"
    found = package.configuration.kind.value if package.configuration else ""
    return "libtorch" if found == "libtorch" and package.name.startswith("libtorch") else ""


def _read_axes(package: PackageResult, kind: str, by_hand: Mapping[str, str]) -> dict[str, str]:
    axes = {name: value for name, value in by_hand.items() if name in FILE_AXES}
    if package.configuration is None:
        return axes
    stand_in = _make_stand_in(package.file_name)
    sure = _leave_sure(package.configuration, kind)
    try:
        found = derive_axes(stand_in, sure, StatedAxes(by_hand=axes))
    except ArtifactRefusedError:
        if axes:
            raise
        return {}  # its bytes decide
    if kind != "libtorch" and "libtorch" not in axes:
        found.pop("libtorch", None)
    return {**dict.fromkeys(_ALWAYS, ""), **{name: each.value for name, each in found.items()}}


def _make_stand_in(file_name: str) -> Package:
    """A package without objects, which claims what the file's name does."""
    path = Path(file_name)
    try:
        claims = read_claims(parse_wheel_filename(file_name)[3])
    except (InvalidWheelFilename, InvalidVersion):
        return Package(path=path)
    return Wheel(path=path, claims=claims)


def _leave_sure(configuration: BinaryConfiguration, kind: str) -> BinaryConfiguration:
    """Leave out platform and Python where objects and name do not say one and the same.

    The tags of a wheel state its Python themselves.
    """
    names = ("system", "architecture") if kind == "wheel" else ("system", "architecture", "python")
    unsure = [name for name in names if not _is_sure(getattr(configuration, name))]
    return replace(configuration, **dict.fromkeys(unsure, Aspect()))


def _is_sure(aspect: Aspect) -> bool:
    by_source: dict[ClaimSource, set[str]] = {}
    for each in aspect.claims:
        by_source.setdefault(each.source, set()).add(each.value)
    found, named = by_source.get(ClaimSource.BYTES), by_source.get(ClaimSource.NAME)
    return found is not None and found == named

"""What an artifact is: derived from its bytes, its name, and what is said where it was built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from binary_checks.documents.facts_reader import Statement
from binary_checks.errors import ArtifactRefusedError, ProfileError
from binary_checks.fleet.artifacts.artifact import KINDS, Artifact, CompanionFile, LinkedAs
from binary_checks.fleet.artifacts.axis_claims import (
    BY_HAND,
    AxisValue,
    StatedAxes,
    demand_agreement,
    derive_axes,
)
from binary_checks.fleet.artifacts.commits import StatedCommit
from binary_checks.fleet.artifacts.hashed_files import HashedFile, hash_content
from binary_checks.fleet.artifacts.license_texts import list_licenses
from binary_checks.fleet.artifacts.package_texts import PackageTexts
from binary_checks.knowledge.configurations import same_version
from binary_checks.lines import cut, one_line
from binary_checks.model import Distribution, Package
from binary_checks.model.binary_configuration import BinaryConfiguration, LinkedLibraries
from binary_checks.model.packages import CondaPackage, CppArchive, SingleObject

_LIBRARY, _LIBTORCH = "library", "libtorch"


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedArtifact:
    """What is said of a file that it does not say itself."""

    axes: StatedAxes = field(default_factory=StatedAxes)
    project: str = ""
    version: str = ""
    system: AxisValue | None = None  # on which it was built, for what its bytes do not tell
    pushed: str = ""


def derive(
    file: HashedFile,
    statement: Statement,
    texts: PackageTexts,
    commit: StatedCommit,
    stated: StatedArtifact,
) -> Artifact:
    """The record of a file. Raises ArtifactRefusedError where sources contradict each other."""
    package = replace(statement.package, path=Path(file.path.name))
    configuration = statement.configuration or BinaryConfiguration()
    kind = _name_kind(package)
    _demand_own_name(package, texts.record)
    axes = derive_axes(package, configuration, stated.axes)
    _demand_kind(package, configuration, stated.axes)
    if kind != _LIBTORCH and "libtorch" not in stated.axes.by_hand:
        axes.pop("libtorch", None)
    if kind == _LIBRARY and "system" not in axes and stated.system is not None:
        axes["system"] = stated.system
    project, version = _name_project(package, stated), _name_version(package, stated)
    evidence = {name: each.evidence for name, each in sorted(axes.items())}
    for name, said in (("project", stated.project), ("version", stated.version)):
        if said:
            evidence[name] = BY_HAND
    linked = statement.linked_libraries or LinkedLibraries()
    metadata = texts.metadata
    artifact = Artifact(
        sha256=file.sha256,
        file_name=file.path.name,
        size=file.size,
        kind=kind,
        project=project,
        version=version,
        commit=commit.commit,
        evidence={
            **{name: cut(one_line(each), 300) for name, each in evidence.items()},
            "commit": commit.evidence,
        },
        linked=tuple(_list_linked(linked)),
        licenses=list_licenses(package, texts.record),
        requires_python=_header(package, "Requires-Python"),
        metadata_sha256="" if metadata is None else hash_content(metadata),
        subdir=_name_subdir(package),
        record=texts.record,
        pushed=stated.pushed,
    )
    values: dict[str, Any] = {name: each.value for name, each in axes.items()}
    return replace(artifact, **values)


def add_companions(artifact: Artifact, companions: Mapping[str, HashedFile]) -> Artifact:
    """The record with the files that are kept beside it, by their paths there."""
    listed = tuple(
        CompanionFile(path=path, sha256=file.sha256, size=file.size)
        for path, file in sorted(companions.items())
    )
    return replace(artifact, companions=listed)


def _name_kind(package: Package) -> str:
    if isinstance(package, CppArchive):
        named = package.name.lower().startswith(_LIBTORCH)
        return _LIBTORCH if named else _LIBRARY
    if isinstance(package, SingleObject):
        return _LIBRARY
    kind = type(package).__name__.removesuffix("Package").lower()
    if kind not in KINDS:
        raise ProfileError(f"{package.file_name}: {package.noun} is not a file that can be pushed")
    return kind


def _demand_kind(package: Package, configuration: BinaryConfiguration, stated: StatedAxes) -> None:
    """Hold kind and version against what variables say: they are no axes that are set."""
    for aspect in ("kind", "version"):
        claims = list(getattr(configuration, aspect).claims)
        if len(stated.file_names) == 1:  # a job may push what several of its steps made
            claims += [each.claim for each in stated.variables if each.aspect == aspect]
        demand_agreement(package.file_name, aspect, aspect, claims)


def _demand_own_name(package: Package, record: Mapping[str, Any]) -> None:
    """Hold the file's name against what the package calls itself: somebody may have renamed it."""
    if isinstance(package, Distribution):
        inside = package.header("Name"), package.header("Version")
        alike = canonicalize_name(inside[0]) == canonicalize_name(package.name)
        where = "METADATA"
    elif isinstance(package, CondaPackage):
        inside = str(record.get("name", "")), str(record.get("version", ""))
        stem = package.file_name.removesuffix(".conda").removesuffix(".tar.bz2")
        alike = stem == "-".join((*inside, str(record.get("build", ""))))
        where = "index.json"
    else:
        return
    if not alike or not same_version(inside[1], package.version):
        raise ArtifactRefusedError(
            f"{package.file_name}: project: its name says another than {where}, which says "
            f"{' '.join(inside)}: never rename a package"
        )


def _name_project(package: Package, stated: StatedArtifact) -> str:
    known = package.name
    if isinstance(package, Distribution):
        known = canonicalize_name(known)
    given = canonicalize_name(stated.project) if isinstance(package, Distribution) else ""
    given = given if stated.project and given else stated.project
    if stated.project and isinstance(package, (Distribution, CondaPackage)) and given != known:
        raise ArtifactRefusedError(
            f"{package.file_name}: project: the package says {known}, but --project says "
            f"{stated.project}"
        )
    if not (given or known):
        raise ProfileError(f"{package.file_name}: of which project is it? Give --project")
    return given or known


def _name_version(package: Package, stated: StatedArtifact) -> str:
    known, given = package.version, stated.version
    if known and given and not same_version(known, given):
        raise ArtifactRefusedError(
            f"{package.file_name}: version: the package says {known}, but --version says {given}"
        )
    return known or given


def _list_linked(linked: LinkedLibraries) -> list[LinkedAs]:
    return [
        LinkedAs(
            library=each.name,
            how=each.linking.value,
            version=each.version,
            evidence=cut(one_line(each.evidence), 300),
        )
        for each in linked.libraries
    ]


def _header(package: Package, name: str) -> str:
    return package.header(name) if isinstance(package, Distribution) else ""


def _name_subdir(package: Package) -> str:
    return package.subdir if isinstance(package, CondaPackage) else ""

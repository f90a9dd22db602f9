"""Holds the axes of a document against the name of its file, which signed verdicts say too.

Nobody signs a document: whoever can write to the store could have it speak of another system, of
which a gate asks less.
"""

from __future__ import annotations

from collections.abc import Iterator

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion

from binary_checks.fleet.artifacts.artifact import Artifact
from binary_checks.fleet.artifacts.axis_claims import ANY, may_be, spell_pythons, spell_variant
from binary_checks.knowledge.configurations import claim_by_file_name
from binary_checks.knowledge.tags import read_claims
from binary_checks.model.packages import SystemClaim

_KINDS = {".whl": "wheel", ".conda": "conda"}
_CPU = "cpu"
_LIBCS = {"glibc": ("linux",), "musl": ("musllinux",), "": ("linux", "musllinux")}


def find_lie(artifact: Artifact) -> str:
    """What the document says that the file's name contradicts; "" where nothing does."""
    name = artifact.file_name
    kind = next((kind for end, kind in _KINDS.items() if name.endswith(end)), artifact.kind)
    if kind != artifact.kind:
        return f"artifact.json says that it is of the kind {artifact.kind}"
    if kind != "wheel":
        return ""
    for axis, known in _read_name(name):
        value: str = getattr(artifact, axis)
        if not all(each in known or may_be(axis, each, ", ".join(known)) for each in _split(value)):
            said = f"{axis} {value}" if value else f"no {axis}"
            return f"artifact.json says {said}, and its name {', '.join(known)}"
    return ""


def _split(value: str) -> list[str]:
    return value.split(", ")


def _read_name(name: str) -> Iterator[tuple[str, list[str]]]:
    """The axes that the tags of a wheel bind, with their values."""
    try:
        claims = read_claims(parse_wheel_filename(name)[3])
    except (InvalidWheelFilename, InvalidVersion):
        return
    systems = [value for each in claims.systems for value in _list_systems(each)]
    if all(systems) and ANY not in systems:
        yield "system", [*dict.fromkeys(systems)]
    machines = [value for each in claims.systems for value in each.architectures or ("",)]
    if all(machines):
        yield "architecture", [*dict.fromkeys(machines)]
    python = spell_pythons(claims.pythons)
    if python != ANY:
        yield "python", _split(python)
    stated = claim_by_file_name(name)
    labels = [each.claim.value for each in stated if each.aspect == "accelerator"]
    if labels and _CPU not in labels:  # a build for the CPU may need a library of an accelerator
        yield "variant", [spell_variant(each) for each in labels]


def _list_systems(claim: SystemClaim) -> tuple[str, ...]:
    return _LIBCS[claim.libc] if claim.system == "linux" else (claim.system,)

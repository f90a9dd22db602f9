"""Reads what the environment variables of CI systems, PyTorch's above all, say of a package."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from binary_checks.knowledge.stated_values import READERS
from binary_checks.model.binary_configuration import ClaimSource, ConfigurationClaim, StatedClaim

_PLAIN = {
    "PACKAGE_TYPE": "kind",
    "DESIRED_PYTHON": "python",
    "DESIRED_CUDA": "accelerator",
    "LIBTORCH_VARIANT": "libtorch_variant",
    "MATRIX_PACKAGE_TYPE": "kind",
    "MATRIX_PYTHON_VERSION": "python",
    "MATRIX_DESIRED_CUDA": "accelerator",
    "MATRIX_LIBTORCH_VARIANT": "libtorch_variant",
    "MATRIX_CHANNEL": "channel",
}
"""Variables whose value is that of one aspect."""
_TOOLSETS = ("DESIRED_DEVTOOLSET", "MATRIX_DEVTOOLSET")
_GPU, _GPU_VERSION = "GPU_ARCH_TYPE", "GPU_ARCH_VERSION"
_STABLE, _CHANNEL = "MATRIX_STABLE_VERSION", "MATRIX_CHANNEL"
_BUILD = "BUILD_ENVIRONMENT"
_BUILDS = re.compile(
    r"(?P<system>linux|windows|win|macos)(?:-(?P<machine>x86_64|x64|aarch64|arm64|s390x|ppc64le))?"
    r"-binary-(?P<kind>manywheel|wheel|conda|libtorch)(?:-(?P<rest>[\w-]+))?"
)
VARIABLES = frozenset(
    {*_PLAIN, *_TOOLSETS, _STABLE, _BUILD}
    | {f"{prefix}{name}" for prefix in ("", "MATRIX_") for name in (_GPU, _GPU_VERSION)}
)
"""All that are read."""
_LONGEST = 100  # characters of a value that may say something


class VariableReading(NamedTuple):
    """What variables say."""

    claims: tuple[StatedClaim, ...]
    misunderstood: tuple[str, ...]  # "DESIRED_CUDA=banana"


def read_variables(environment: Mapping[str, str]) -> VariableReading:
    """What those of the variables that are set say; an empty one is none."""
    known = {
        name: value.strip()
        for name, value in sorted(environment.items())
        if name in VARIABLES and value.strip()
    }
    found: list[StatedClaim] = []
    lost = []
    for name, value in known.items():
        said = dict(_read(name, value[:_LONGEST], known))
        shown = _show(name, value[:_LONGEST], known)
        if not said and _is_meant(name, value):
            lost.append(shown)
        for aspect, text in said.items():
            claim = ConfigurationClaim(value=text, source=ClaimSource.VARIABLE, evidence=shown)
            found.append(StatedClaim(aspect=aspect, claim=claim))
    return VariableReading(tuple(found), tuple(lost))


def _is_meant(name: str, value: str) -> bool:
    """Whether the variable would have to say something: others have a BUILD_ENVIRONMENT too."""
    if name == _BUILD:
        return "-binary-" in value
    return name not in (_STABLE, _GPU_VERSION, f"MATRIX_{_GPU_VERSION}")


def _show(name: str, value: str, every: Mapping[str, str]) -> str:
    other = f"{name.removesuffix(_GPU)}{_GPU_VERSION}" if name.endswith(_GPU) else ""
    version = every.get(other, "")[:_LONGEST]
    return f"{name}={value} {other}={version}" if version else f"{name}={value}"


def _read(name: str, value: str, every: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The aspects that one variable speaks of, with their values."""
    if name in _PLAIN:
        aspect = _PLAIN[name]
        if text := READERS[aspect](value):
            yield aspect, text
        if aspect == "accelerator":
            yield from _read_suffix(value)
    elif name in _TOOLSETS:
        if text := _read_toolset(value):
            yield "cxx_abi", text
    elif name == _BUILD:
        yield from _read_build(value)
    elif name == _STABLE:  # of the release that is tried; a nightly has another version
        if every.get(_CHANNEL) in ("release", "stable") and (text := READERS["version"](value)):
            yield "version", text
    elif name.endswith(_GPU):
        version = every.get(f"{name.removesuffix(_GPU)}{_GPU_VERSION}", "")
        yield from _read_gpu(value, version)


def _read_suffix(value: str) -> Iterator[tuple[str, str]]:
    """``cpu-aarch64`` and ``cpu-cxx11-abi`` say two things."""
    _, _, rest = value.partition("-")
    for aspect in ("architecture", "cxx_abi"):
        if rest and (text := READERS[aspect](rest)):
            yield aspect, text


def _read_gpu(kind: str, version: str) -> Iterator[tuple[str, str]]:
    family = kind.partition("-")[0]
    if family in ("cuda", "rocm"):
        text = READERS["accelerator"](f"{family}{version}") if version else ""
        yield "accelerator", text or family
    elif text := READERS["accelerator"](family):
        yield "accelerator", text
    else:
        return
    yield from _read_suffix(kind)


def _read_toolset(value: str) -> str:
    """``devtoolset7`` and its kin compiled with the old std::string."""
    if re.fullmatch(r"devtoolset-?\d{1,2}|gcc\d-pre-cxx11", value):
        return "pre-cxx11"
    return READERS["cxx_abi"](value) if not value.isdecimal() else ""


def _read_build(value: str) -> Iterator[tuple[str, str]]:
    match = _BUILDS.fullmatch(value)
    if match is None:
        return
    yield "system", READERS["system"](match["system"])
    yield "kind", READERS["kind"](match["kind"])
    if match["machine"]:
        yield "architecture", READERS["architecture"](match["machine"])
    rest = match["rest"] or ""
    if "cxx11" in rest:
        yield "cxx_abi", "pre-cxx11" if "pre-cxx11" in rest else "cxx11"

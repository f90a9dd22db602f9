"""Environment variables of CI systems, mainly of PyTorch's, that describe a package."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from binary_checks.knowledge.configurations import READERS
from binary_checks.model import ClaimSource, ConfigurationClaim, StatedClaim

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
"""Variable -> aspect whose value it contains."""
_TOOLSETS = ("DESIRED_DEVTOOLSET", "MATRIX_DEVTOOLSET")
_GPU, _GPU_VERSION = "GPU_ARCH_TYPE", "GPU_ARCH_VERSION"
_STABLE, _CHANNEL = "MATRIX_STABLE_VERSION", "MATRIX_CHANNEL"
_BUILD = "BUILD_ENVIRONMENT"
_BUILDS = re.compile(
    r"(?P<system>linux|windows|win|macos)(?:-(?P<machine>x86_64|x64|aarch64|arm64|s390x|ppc64le))?"
    r"-binary-(?P<kind>manywheel|wheel|conda|libtorch)(?:-(?P<rest>[\w-]+))?"
)
_LINKED = frozenset({"release", "debug"})
"""The fourth word of BUILD_ENVIRONMENT in CircleCI's jobs of Windows, in place of a toolset."""


# pytorch's tools/generate_torch_version.py and .ci/pytorch/run_tests.sh: the version of a wheel is
# $PYTORCH_BUILD_VERSION, with .post$PYTORCH_BUILD_NUMBER if that is above 1. Packages of conda have
# that number in their build string; archives of libtorch have only the version in their names.
_VERSION, _NUMBER = "PYTORCH_BUILD_VERSION", "PYTORCH_BUILD_NUMBER"
_WITH_NUMBER = ("torch-[0-9]*", "installed:torch")
"""Globs on packages that have the whole version, with label and number."""
_WITHOUT_NUMBER = ("libtorch-*", "pytorch-[0-9]*", "pytorch-nightly-[0-9]*")
RELEASE = "RELEASE_VERSION"
RELEASE_MATRIX = "release_matrix.json"
"""The file with the version of each project in a release, to which RELEASE_VERSION refers."""
VARIABLES = frozenset(
    {*_PLAIN, *_TOOLSETS, _STABLE, _BUILD, RELEASE, _VERSION, _NUMBER}
    | {f"{prefix}{name}" for prefix in ("", "MATRIX_") for name in (_GPU, _GPU_VERSION)}
)
"""All variables that are read."""
_WITH_OTHERS = frozenset({_STABLE, _NUMBER, _GPU_VERSION, f"MATRIX_{_GPU_VERSION}"})
"""Variables that state something only together with another one."""
MANDATORY = "DESIRED_PYTHON"
"""A value of this variable that is not understood ends the run, as in pytorch's check_binary.sh."""
_LONGEST = 100  # characters of a value; longer values are not read


class VariableReading(NamedTuple):
    """The result of reading environment variables."""

    claims: tuple[StatedClaim, ...]
    misunderstood: tuple[str, ...]  # values that no reader understands: "DESIRED_CUDA=banana"


class _Stated(NamedTuple):
    """One aspect that a variable states."""

    aspect: str
    value: str
    full: str = ""  # a version with its local label
    files: str = ""  # a glob on the packages that it is about


def read_variables(environment: Mapping[str, str], matrix: object = None) -> VariableReading:
    """Read the known variables; an empty variable counts as not set.

    ``matrix`` is the content of ``release_matrix.json``, and empty if there is no such file. With
    None, RELEASE_VERSION is not read.
    """
    known = {
        name: value.strip()[:_LONGEST]
        for name, value in sorted(environment.items())
        if name in VARIABLES and value.strip()
    }
    found: list[StatedClaim] = []
    misunderstood = []
    for name, value in known.items():
        if name == RELEASE and matrix is None:
            continue
        stated = tuple(dict.fromkeys(_read(name, value, known, matrix)))
        # the variable that belongs to it
        other = f"{name.removesuffix(_GPU)}{_GPU_VERSION}" if name.endswith(_GPU) else ""
        if name == _VERSION and _read_number(known):
            other = _NUMBER
        shown = f"{name}={value}"
        if known.get(other):
            shown = f"{shown} {other}={known[other]}"
        if not stated and name not in _WITH_OTHERS:
            lack = "no such release in" if matrix else "there is no"
            why = f" ({lack} {RELEASE_MATRIX})" if name == RELEASE else ""
            misunderstood.append(f"{shown}{why}")
        for each in stated:
            claim = ConfigurationClaim(
                value=each.value, source=ClaimSource.VARIABLE, evidence=shown, full=each.full
            )
            found.append(StatedClaim(aspect=each.aspect, claim=claim, files=each.files))
    return VariableReading(tuple(found), tuple(misunderstood))


def _read(name: str, value: str, every: Mapping[str, str], matrix: object) -> Iterator[_Stated]:
    """Yield the aspects that one variable states, with their values."""
    if name == _VERSION:
        yield from _read_built(value, every)
    elif name == RELEASE:
        yield from _read_release(value, matrix)
    elif name in _PLAIN:
        aspect = _PLAIN[name]
        if text := READERS[aspect](value):
            yield _Stated(aspect, text)
        if aspect == "accelerator":
            yield from _read_suffix(value)
    elif name in _TOOLSETS:
        if text := _read_toolset(value):
            yield _Stated("cxx_abi", text)
    elif name == _BUILD:
        yield from _read_words(value.split()) if " " in value else _read_build(value)
    elif name == _STABLE:  # version of the release being tested; a nightly has another version
        chosen = every.get(_CHANNEL) in ("release", "stable") and not (matrix and RELEASE in every)
        if chosen and (text := READERS["version"](value)):
            yield _Stated("version", text)
    elif name.endswith(_GPU):
        version = every.get(f"{name.removesuffix(_GPU)}{_GPU_VERSION}", "")
        yield from _read_gpu(value, version)


def _read_number(every: Mapping[str, str]) -> int:
    """Return the number of the build if the version has it, else 0."""
    text = every.get(_NUMBER, "")
    return int(text) if text.isdecimal() and int(text) > 1 else 0


def _read_built(value: str, every: Mapping[str, str]) -> Iterator[_Stated]:
    number = _read_number(every)
    full = f"{value}.post{number}" if number else value
    public, whole = READERS["version"](value), READERS["version"](full)
    if whole:
        yield from (_Stated("version", whole, full, files) for files in _WITH_NUMBER)
        yield from (_Stated("version", public, files=files) for files in _WITHOUT_NUMBER)


def _read_release(value: str, matrix: object) -> Iterator[_Stated]:
    """Read the version of each project in a release.

    The matrix has these versions, or a table of them for each release.
    """
    table = matrix.get(value, matrix) if isinstance(matrix, Mapping) else {}
    for project, version in table.items() if isinstance(table, Mapping) else ():
        name = re.sub(r"[-_.]+", "_", str(project))
        text = READERS["version"](version) if isinstance(version, str) else ""
        if text and re.fullmatch(r"\w+", name, re.ASCII):
            yield _Stated("version", text, files=f"{name}-[0-9]*")
            yield _Stated("version", text, files=f"installed:{name.replace('_', '-')}")


def _read_suffix(value: str) -> Iterator[_Stated]:
    """Read the second part of ``cpu-aarch64`` or ``cpu-cxx11-abi``."""
    _, _, rest = value.partition("-")
    for aspect in ("architecture", "cxx_abi"):
        if rest and (text := READERS[aspect](rest)):
            yield _Stated(aspect, text)


def _read_gpu(kind: str, version: str) -> Iterator[_Stated]:
    family = kind.partition("-")[0]
    versioned = family in ("cuda", "rocm")
    text = READERS["accelerator"](f"{family}{version}" if versioned else family)
    if text or versioned:
        yield _Stated("accelerator", text or family)
        yield from _read_suffix(kind)


def _read_toolset(value: str) -> str:
    """Return the C++ ABI of a toolset.

    ``devtoolset7`` and similar toolsets compiled with the old std::string.
    """
    if re.fullmatch(r"devtoolset-?\d{1,2}|gcc\d-pre-cxx11", value):
        return "pre-cxx11"
    if re.fullmatch(r"gcc\d{1,2}(?:\.\d{1,2})?_cxx11-abi", value):
        return "cxx11"
    return READERS["cxx_abi"](value) if not value.isdecimal() else ""


def _read_words(words: list[str]) -> Iterator[_Stated]:
    """Read the form of CircleCI's jobs: ``conda 3.7 cu100 devtoolset7``.

    That is the kind, the Python, the accelerator and the toolset of a build. If one of the words is
    not understood, none counts. The Python of a libtorch is only the one that compiled it.
    """
    aspects = ("kind", "python", "accelerator")
    if not len(aspects) <= len(words) <= len(aspects) + 1:
        return
    read = [READERS[aspect](word) for aspect, word in zip(aspects, words, strict=False)]
    rest = words[len(aspects) :]
    abi = "".join(map(_read_toolset, rest))
    if not all(read) or not (abi or _LINKED.issuperset(rest)):
        return
    for aspect, text in zip(aspects, read, strict=True):
        if aspect != "python" or read[0] != "libtorch":
            yield _Stated(aspect, text)
    if abi:
        yield _Stated("cxx_abi", abi)


def _read_build(value: str) -> Iterator[_Stated]:
    match = _BUILDS.fullmatch(value)
    if match is None:
        return
    yield _Stated("system", READERS["system"](match["system"]))
    yield _Stated("kind", READERS["kind"](match["kind"]))
    if match["machine"]:
        yield _Stated("architecture", READERS["architecture"](match["machine"]))
    rest = match["rest"] or ""
    if "cxx11" in rest:
        yield _Stated("cxx_abi", "pre-cxx11" if "pre-cxx11" in rest else "cxx11")

"""Reads values of a binary configuration as names, variables and users spell them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from packaging.version import InvalidVersion, Version

from binary_checks.errors import ProfileError
from binary_checks.knowledge.accelerators import accelerator_of_value
from binary_checks.model.binary_configuration import ClaimSource, ConfigurationClaim, StatedClaim

_PYTHON = re.compile(
    r"(?P<implementation>cp|cpython|python|py|pp|pypy)?[ -]?(?P<major>[23])[._]?(?P<minor>\d{1,2})"
    r"(?:\.\d{1,2})?(?P<flags>t|mu|m)?(?P<later>\+)?"
)
_KINDS = {"wheel": "wheel", "manywheel": "wheel", "conda": "conda", "libtorch": "libtorch"}
_ARCHITECTURES = {
    **dict.fromkeys(("x86_64", "amd64", "x64", "x86-64"), "x86_64"),
    **dict.fromkeys(("aarch64", "arm64", "arm64-m1"), "aarch64"),
    **dict.fromkeys(("i686", "i386", "x86", "win32"), "i686"),
    **{name: name for name in ("armv7l", "ppc64le", "s390x", "riscv64", "loongarch64")},
}
_SYSTEMS = {
    "linux": "linux",
    **dict.fromkeys(("macos", "darwin", "osx"), "macos"),
    **dict.fromkeys(("windows", "win"), "windows"),
}
_ABIS = {
    **dict.fromkeys(("cxx11-abi", "cxx11", "1", "true"), "cxx11"),
    **dict.fromkeys(("pre-cxx11", "pre-cxx11-abi", "0", "false"), "pre-cxx11"),
}
_CHANNELS = {
    **dict.fromkeys(("stable", "release"), "stable"),
    **dict.fromkeys(("nightly", "dev"), "nightly"),
    **dict.fromkeys(("test", "rc"), "test"),
}
_VARIANT = re.compile(r"(?P<linking>shared|static)(?:-(?P<deps>with(?:out)?-deps))?(?:-debug)?")
_DATE = re.compile(r"(20\d{2})-?(\d{2})-?(\d{2})")


def read_python(text: str) -> str:
    """Read a Python: "3.11" of ``3.11.4`` and ``cp311``, "3.13t" of ``cp313-cp313t``, "2.7mu".

    The ``m`` of 3.x, by which ABIs were named up to 3.7, says nothing more; that of 2.7 does.
    """
    match = _PYTHON.fullmatch(text.strip().lower().rpartition("cp")[2])
    match = match or _PYTHON.fullmatch(text.strip().lower())
    if match is None:
        return ""
    flags = match["flags"] or ""
    if match["major"] == "3" and "m" in flags:
        flags = ""
    other = "pypy " if (match["implementation"] or "") in ("pp", "pypy") else ""
    return f"{other}{match['major']}.{int(match['minor'])}{flags}{match['later'] or ''}"


def read_variant(text: str) -> str:
    """Read "shared-with-deps" and its kin; "shared" and "static" where it says no more."""
    match = _VARIANT.fullmatch(text.strip().lower())
    return "-".join(filter(None, (match["linking"], match["deps"]))) if match else ""


def read_version(text: str) -> str:
    """A version in its normal form, without its local label."""
    try:
        return Version(text.strip()).public
    except (InvalidVersion, ValueError):
        return ""


def read_date(text: str) -> str:
    """Read a day: "2026-01-01" of ``20260101`` too."""
    match = _DATE.fullmatch(text.strip())
    return "-".join(match.groups()) if match else ""


def _choose(known: Mapping[str, str]) -> Callable[[str], str]:
    return lambda text: known.get(text.strip().lower(), "")


def read_given(texts: Iterable[str]) -> Iterator[StatedClaim]:
    """Read what a user gives: ``python=3.11,cuda=12.6``. Raises ProfileError, one line.

    ``cuda`` and ``rocm`` stand for the accelerator of that version. Behind a glob on file names,
    ``torch-*:cuda=12.6``, it is about these packages alone.
    """
    for text in texts:
        files, _, pairs = text.rpartition(":")
        for pair in pairs.split(","):
            aspect, value = _read_pair(pair)
            claim = ConfigurationClaim(
                value=value, source=ClaimSource.GIVEN, evidence=f"given {pair}"
            )
            yield StatedClaim(aspect=aspect, claim=claim, files=files.strip())


def _read_pair(pair: str) -> tuple[str, str]:
    """Read one aspect and its value."""
    key, equals, value = (part.strip() for part in pair.partition("="))
    aspect = key.replace("-", "_")
    spelled = f"{key}{value}" if key in ("cuda", "rocm") else value
    aspect = "accelerator" if key in ("cuda", "rocm") else aspect
    if not equals or aspect not in READERS:
        known = ", ".join((*READERS, "cuda", "rocm"))
        raise ProfileError(f"{pair}: not auto, variables, off or KEY=VALUE, KEY of {known}")
    found = READERS[aspect](spelled)
    if not found:
        raise ProfileError(f"{pair}: not understood; write it like {EXAMPLES[aspect]}")
    return aspect, found


READERS: Mapping[str, Callable[[str], str]] = {
    "kind": _choose(_KINDS),
    "python": read_python,
    "accelerator": accelerator_of_value,
    "system": _choose(_SYSTEMS),
    "architecture": _choose(_ARCHITECTURES),
    "cxx_abi": _choose(_ABIS),
    "libtorch_variant": read_variant,
    "channel": _choose(_CHANNELS),
    "version": read_version,
    "date": read_date,
}
"""By the aspect, what makes its value of a text: "" of one that is not understood."""
EXAMPLES: Mapping[str, str] = {
    "kind": "wheel, conda, libtorch",
    "python": "3.11, 3.13t, cp311",
    "accelerator": "cpu, cu126, cuda12.6, rocm6.2, xpu",
    "system": "linux, macos, windows",
    "architecture": "x86_64, aarch64, arm64",
    "cxx_abi": "cxx11-abi, pre-cxx11",
    "libtorch_variant": "shared-with-deps, static-without-deps",
    "channel": "stable, nightly, test",
    "version": "2.15.0",
    "date": "2026-01-01",
}
"""Of each, what may be said."""

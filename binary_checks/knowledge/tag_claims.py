"""Reads out of the tags, the version and METADATA of a wheel what it claims."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.tags import Tag

from binary_checks.knowledge.macos_tags import parse_mac_tag
from binary_checks.model.packages import ANY_SYSTEM, Claims, PythonClaim, SystemClaim

_LINUX = re.compile(
    r"(?:(?P<libc>many|musl)linux(?:(?P<year>\d+)|_(?P<major>\d+)_(?P<minor>\d+))|linux)"
    r"_(?P<architecture>\w+)"
)
_BY_YEAR = {"1": (2, 5), "2010": (2, 12), "2014": (2, 17)}
"""The glibc of manylinux1, manylinux2010 and manylinux2014 (PEP 513, 571, 599)."""
_LIBCS = {"many": "glibc", "musl": "musl", None: ""}
_WINDOWS = {"win_amd64": "x86_64", "win32": "i686", "win_arm64": "aarch64"}
_OTHERS = ("ios", "android", "wasi", "emscripten")
_ENDINGS = {
    **{name: name for name in ("x86_64", "aarch64", "i686", "armv7l", "ppc64le", "ppc64")},
    "s390x": "s390x",
    "riscv64": "riscv64",
    "loongarch64": "loongarch64",
    "i386": "i686",
    "amd64": "x86_64",
    "arm64": "aarch64",
    "arm64_v8a": "aarch64",
    "armeabi_v7a": "armv7l",
}
"""How the tags of other systems end, and which architectures that stands for."""
_INTERPRETER = re.compile(r"(?P<name>[a-z]+)(?P<major>\d)_?(?P<minor>\d*)")
_IMPLEMENTATIONS = {"cp": "cpython", "pp": "pypy", "py": ""}


def read_claims(
    tags: Iterable[Tag], *, version: str = "", metadata: Iterable[tuple[str, str]] = ()
) -> Claims:
    """What a wheel, or its installed copy, claims: every tag of a compressed set is a claim.

    ``metadata`` are the headers of METADATA. Of a version's local label, ``2.9.0+cu126``, comes
    the variant.
    """
    tags = tuple(tags)
    return Claims(
        systems=tuple(read_system(name) for name in sorted({tag.platform for tag in tags})),
        pythons=tuple(dict.fromkeys(read_python(tag) for tag in sorted(tags, key=str))),
        requirements=tuple(value for key, value in metadata if key.lower() == "requires-dist"),
        variant=version.partition("+")[2],
    )


def read_system(platform: str) -> SystemClaim:
    """What one platform tag claims; nothing but its name where nobody has defined it."""
    if platform == "any":
        return SystemClaim(name=platform, system=ANY_SYSTEM)
    if match := _LINUX.fullmatch(platform):
        return SystemClaim(
            name=platform,
            system="linux",
            libc=_LIBCS[match["libc"]],
            minimum=_read_libc(match),
            architectures=(match["architecture"],),
        )
    if platform.startswith("macosx_"):
        tag = parse_mac_tag(platform)
        if tag is None:
            return SystemClaim(name=platform, system="macos")
        architectures = tag.architectures
        return SystemClaim(
            name=platform, system="macos", minimum=tag.version, architectures=architectures
        )
    if platform.startswith("win"):
        known = _WINDOWS.get(platform)
        return SystemClaim(name=platform, system="windows", architectures=(known,) if known else ())
    ending = max((e for e in _ENDINGS if platform.endswith(f"_{e}")), key=len, default="")
    return SystemClaim(
        name=platform,
        system=next((name for name in _OTHERS if platform.startswith(name)), ""),
        architectures=(_ENDINGS[ending],) if ending else (),
    )


def _read_libc(match: re.Match[str]) -> tuple[int, int] | None:
    if match["year"]:
        return _BY_YEAR.get(match["year"]) if match["libc"] == "many" else None
    return (int(match["major"]), int(match["minor"])) if match["major"] else None


def read_python(tag: Tag) -> PythonClaim:
    """What interpreter and ABI of one tag claim."""
    match = _INTERPRETER.fullmatch(tag.interpreter)
    name = match["name"] if match else tag.interpreter
    version = (int(match["major"]), int(match["minor"])) if match and match["minor"] else None
    return PythonClaim(
        name=f"{tag.interpreter}-{tag.abi}",
        implementation=_IMPLEMENTATIONS.get(name, name),
        version=version,
        abi="" if tag.abi == "none" else tag.abi,
        free_threaded=tag.abi.startswith("cp") and tag.abi.endswith("t"),
    )

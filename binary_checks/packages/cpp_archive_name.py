"""What the file name of an archive of C++ libraries says: system, architecture, linking, ABI.

``libtorch-cxx11-abi-shared-with-deps-2.6.0+cu126.zip``, ``libtorch-macos-arm64-2.9.0.zip``,
``onnxruntime-linux-x64-1.20.1.tgz``: there is no standard, so only whole words count.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

from binary_checks.model.packages import StatedBuild

SUFFIXES = (
    *(".zip", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.zst", ".tzst", ".tar.bz2", ".tbz2"),
)

_SYSTEMS = {
    **dict.fromkeys(("linux", "linux64", "manylinux", "musllinux", "ubuntu", "alpine"), "linux"),
    **dict.fromkeys(("macos", "osx", "darwin", "mac", "apple"), "macos"),
    **dict.fromkeys(("win", "windows", "win32", "win64", "mingw", "mingw64", "msvc"), "windows"),
}
_ARCHITECTURES = {
    **dict.fromkeys(("x64", "x86_64", "amd64", "win64", "linux64"), ("x86_64",)),
    **dict.fromkeys(("arm64", "aarch64"), ("aarch64",)),
    **dict.fromkeys(("x86", "i386", "i486", "i586", "i686", "win32"), ("i686",)),
    **dict.fromkeys(("universal", "universal2"), ("x86_64", "aarch64")),
    **{name: (name,) for name in ("armv7l", "ppc64le", "riscv64", "s390x", "loongarch64")},
}
_VARIANT = re.compile(r"cpu|gpu|cu\d{2,3}|cuda\d{0,3}(?:\.\d+)?|rocm\d*(?:\.\d+)*|xpu")
_VERSION = re.compile(
    r"v?\d+(?:\.\d+)+(?:(?:a|b|rc|alpha|beta|post|\.?dev|\.post)\d*)?(?:\+[a-z0-9.]+)?|latest"
)
_WORD = re.compile(rf"x86_64|(?:{_VERSION.pattern})(?=[-_]|$)|[^-_]+", re.IGNORECASE)


class FileName(NamedTuple):
    """What a file's name says."""

    name: str  # before the first word that says something else: "libtorch"
    version: str  # with the local version: "2.13.0+cpu"; "" where it says none
    variant: str  # "cpu", "cu126"
    stated: StatedBuild


_ALSO = {("libtorch", "windows"): ("x86_64",)}
"""What a name means that leaves the architecture out: PyTorch names only Windows on ARM."""


def parse_name(label: str) -> FileName:
    """Take apart the name of a file."""
    stem = unquote(label)  # downloads keep the %2B of a URL
    stem = next((stem.removesuffix(each) for each in SUFFIXES if stem.endswith(each)), stem)
    words = [found[0].lower() for found in _WORD.finditer(stem)]
    version = next((word for word in words if _VERSION.fullmatch(word)), "")
    local = version.partition("+")[2]
    variants = [word for word in (local, *words) if _VARIANT.fullmatch(word)]
    name = _find_name(stem, words)
    system = next((_SYSTEMS[word] for word in words if word in _SYSTEMS), "")
    named = (_ARCHITECTURES[word] for word in words if word in _ARCHITECTURES)
    return FileName(
        name=name,
        version="" if version == "latest" else version.removeprefix("v"),
        variant=_spell_variant(variants[0]) if variants else "",
        stated=StatedBuild(
            system=system,
            architectures=next(named, _ALSO.get((name, system), ())),
            linking="static" if "static" in words else "shared" if "shared" in words else "",
            with_deps=_read_deps(words),
            cxx11_abi=_read_abi(words),
            debug=True if "debug" in words else False if "release" in words else None,
        ),
    )


def promises(label: str) -> bool:
    """Whether the name alone says that it is built for some system."""
    found = parse_name(label)
    stated = found.stated
    return found.name == "libtorch" or bool(
        stated.system and (stated.architectures or stated.linking)
    )


def _find_name(stem: str, words: list[str]) -> str:
    """The words before the first one with a meaning, as they are spelled."""
    meant = {*_SYSTEMS, *_ARCHITECTURES, "shared", "static", "with", "without", "cxx11"}
    place = next(
        (
            number
            for number, word in enumerate(words)
            if number and (word in meant or _VARIANT.fullmatch(word) or _VERSION.fullmatch(word))
        ),
        len(words),
    )
    found = list(_WORD.finditer(stem))
    return stem[: found[place - 1].end()] if found else stem


def _read_deps(words: list[str]) -> bool | None:
    """``with-deps``, ``without-deps``."""
    place = words.index("deps") if "deps" in words else 0
    return {"with": True, "without": False}.get(words[place - 1]) if place else None


def _read_abi(words: list[str]) -> bool | None:
    """``cxx11-abi``, ``pre-cxx11-abi``; without either names have meant both."""
    if "cxx11" not in words:
        return None
    place = words.index("cxx11")
    return not (place and words[place - 1] == "pre")


def _spell_variant(word: str) -> str:
    """``cuda12.6`` as ``cu126``."""
    found = re.fullmatch(r"cu(?:da)?(\d+)\.?(\d*)", word)
    return f"cu{found[1]}{found[2]}" if found else word

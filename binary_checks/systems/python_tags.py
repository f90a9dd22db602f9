"""Reads out of a wheel's tags which Python it claims to run on."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.tags import Tag

from binary_checks.model import Interpreter
from binary_checks.systems.interpreters import interpreter, interpreter_versions

_PYTHON = re.compile(r"(?P<name>cp|py|pp)(?P<major>\d)_?(?P<minor>\d*)")


def interpreter_of(
    tags: Iterable[Tag], system: str = "linux", architecture: str = "x86_64"
) -> Interpreter | None:
    """The oldest CPython that the tags claim to run on, as far as there is data about it.

    ``py3-none`` is bound to no Python: what a library there needs of one is the stable ABI at
    best, which the newest has whole. What is older than all data counts as the oldest there is:
    hardly a symbol was added before; the limits of abi3 are judged by their own check.
    """
    versions: list[tuple[tuple[int, int], bool]] = []
    generic = False
    for tag in tags:
        match = _PYTHON.fullmatch(tag.interpreter)
        if match is None or match["name"] == "pp":
            continue
        if match["name"] == "py" or not match["minor"]:
            generic = True
        else:
            version = (int(match["major"]), int(match["minor"]))
            versions.append((version, tag.abi.startswith("cp") and tag.abi.endswith("t")))
    known = interpreter_versions()
    if versions:
        version, free_threaded = min(versions)
    elif generic:
        version, free_threaded = known[-1], False
    else:
        return None
    return interpreter(
        max(version, known[0]),
        free_threaded=free_threaded,
        system=system,
        architecture=architecture,
    )


def spell_interpreter(python: Interpreter | None) -> str:
    """Name an interpreter: "CPython 3.13t"."""
    if python is None:
        return ""
    suffix = "t" if python.free_threaded else ""
    return "CPython {}.{}{}".format(*python.version, suffix)

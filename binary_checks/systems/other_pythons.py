"""The C API of PyPy and GraalPy, by version."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any

from binary_checks.model import PYTHON_3, Interpreter, PythonClaim
from binary_checks.systems.libraries import Version, names_of, parse_version, read_committed

_GRAALPY_ABI = re.compile(r"graalpy(?P<major>\d\d)(?P<minor>\d)_\d+_native")


def find_other(pythons: Iterable[PythonClaim]) -> Interpreter | None:
    """Return the oldest claimed PyPy, else the oldest claimed GraalPy, for which there are data."""
    claims = [each for each in pythons if each.version and each.version >= PYTHON_3]
    pypy = [each.version for each in claims if each.implementation == "pypy" and each.version]
    if pypy:
        return _find_pypy(min(pypy))
    found = (_find_graalpy(each) for each in claims if each.implementation == "graalpy")
    return min(filter(None, found), key=lambda each: each.version, default=None)


def _find_pypy(wanted: Version) -> Interpreter | None:
    """Return a PyPy; a version without data is replaced by the next newer one."""
    known = sorted(map(parse_version, _pypy_content()["versions"]))
    version = next((each for each in known if each >= wanted), None)
    if version is None:
        return None
    return Interpreter(
        implementation="pypy",
        version=wanted,
        free_threaded=False,
        exports=names_of(version, _pypy_content()["groups"]),
        complete=version == wanted,
    )


@functools.cache
def _pypy_content() -> Any:
    return read_committed("interpreters_pypy.json.gz")


def _find_graalpy(claim: PythonClaim) -> Interpreter | None:
    """Return a GraalPy; None if its ABI tag names a version without data."""
    abi = _GRAALPY_ABI.fullmatch(claim.abi)
    if abi is None or claim.version is None:
        return None
    version, content = (int(abi["major"]), int(abi["minor"])), _graalpy_content()
    if version not in [parse_version(each) for each in content["exports"]["versions"]]:
        return None
    kinds = ("exports", "unsure", "unimplemented")
    exports, unsure, unimplemented = (names_of(version, content[k]["groups"]) for k in kinds)
    return Interpreter(
        implementation="graalpy",
        version=claim.version,
        free_threaded=False,
        exports=exports,
        unsure=unsure,
        unimplemented=unimplemented,
        release="{}.{}".format(*version),
    )


@functools.cache
def _graalpy_content() -> Any:
    return read_committed("interpreters_graalpy.json.gz")


def format_other(python: Interpreter) -> str:
    """Format the name: "PyPy 3.11", "GraalPy 25.0 (Python 3.12)"."""
    version = "{}.{}".format(*python.version)
    if python.implementation == "graalpy":
        return f"GraalPy {python.release} (Python {version})"
    return f"PyPy {version}"

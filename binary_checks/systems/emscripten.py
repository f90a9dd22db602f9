"""The runtime of Emscripten that a package promises to run on: an ABI of Pyodide (PEP 783)."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any

from binary_checks.errors import Unavailable
from binary_checks.model import Claims, Interpreter, SystemClaim, SystemLibrary, TargetSystem
from binary_checks.systems.interpreters import format_interpreter
from binary_checks.systems.libraries import parse_version, read_committed

SIMULATED = ("wasm32",)
RUNTIME = "the runtime"
"""The name under which the main module, with its JavaScript, is among the libraries."""
_BY_ABI = re.compile(r"(?:pyodide|pyemscripten)_(\d{4}_\d+)_wasm32")


def make_target(claims: Claims, extra_libraries: frozenset[str]) -> TargetSystem:
    """Return the runtime of the first ABI that is claimed; the others are ``unjudged``.

    An ABI has one version of Python and of Emscripten. The main module exports the C API, the C
    library and what is linked with it; there are no system libraries. Raises Unavailable for an
    ABI without data.
    """
    systems = [each for each in claims.systems if each.system == "emscripten"]
    claim = min(systems, key=lambda each: (find_abi(each) is None, each.name))
    abi = find_abi(claim)
    if abi is None:
        raise Unavailable(f"there is no data on what {claim.name} promises")
    names = _runtime(abi)
    python = Interpreter(
        implementation="cpython",
        version=parse_version(_content()[abi]["python"]),
        free_threaded=False,
        exports=frozenset(names),
    )
    return TargetSystem(
        name=", ".join((claim.name, format_interpreter(python))),
        system="emscripten",
        libc="",
        architectures=SIMULATED,
        minimum_os=parse_version(abi.replace("_", ".")),
        libraries=extra_libraries.union(claims.provided),
        interpreter=python,
        interpreters={(python.version, False): python},
        library_data={RUNTIME: SystemLibrary(soname=RUNTIME, symbols=names, versions=frozenset())},
        unjudged=tuple(each.name for each in claims.systems if each is not claim),
    )


def find_abi(claim: SystemClaim) -> str | None:
    """Return the ABI that a tag names, directly or by the version of Emscripten; None if unknown.

    Before there were names for ABIs, tags named the version: ``emscripten_3_1_58_wasm32``.
    """
    found = _BY_ABI.fullmatch(claim.name)
    if found is not None:
        return found[1] if found[1] in _content() else None
    compilers = {f"{each['emscripten']}_wasm32": abi for abi, each in _content().items()}
    return compilers.get(claim.name)


@functools.cache
def _runtime(abi: str) -> Mapping[str, frozenset[str]]:
    """Map each name that the runtime provides to the types of the function; "" without a type."""
    types: Iterable[tuple[str, str]] = _content()[abi]["types"].items()
    symbols: dict[str, frozenset[str]] = {}
    for signature, names in types:
        symbols.update(dict.fromkeys(names.split(" "), frozenset({signature})))
    return symbols


@functools.cache
def _content() -> Any:
    return read_committed("emscripten.json.gz")

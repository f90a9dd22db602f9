"""Import a module, and ask the NVIDIA libraries that it loaded for their versions.

This needs neither a GPU nor a driver.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import re

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from typing import Any

# By stem of a file's name, the function that returns a part of the version (0, 1 or 2).
PROPERTIES = {
    "cublas": "cublasGetProperty",
    "cudnn": "cudnnGetProperty",
    "cufft": "cufftGetProperty",
    "curand": "curandGetProperty",
    "cusolver": "cusolverGetProperty",
    "cusparse": "cusparseGetProperty",
    "cusparselt": "cusparseLtGetProperty",
}
FILE_NAME = re.compile(r"(?:lib)?(?P<stem>[a-z]+?)(?:\.so\b.*|(?:64)?(?:_\d+)*\.dll)")
# the suffixes that auditwheel and delvewheel add
GRAFT = re.compile(r"[-.](?:[0-9a-f]{8}|[0-9a-f]{32})(?=[-.])")

LIBRARY = r"nvidia[-_.](?P<library>cuda[-_.]runtime|[a-z]+)(?:[-_.]cu\d+)?"
DISTRIBUTION = re.compile(LIBRARY + "$", re.IGNORECASE)
PIN = re.compile(LIBRARY + r"\s*\(?==(?P<version>\d[\d.]*?)(?:\.\*)?\)?\s*(?:;|$)", re.IGNORECASE)


def probe(request: dict[str, Any], record: Any, process: dict[str, Any]) -> None:
    """Import the module, then record the versions of each library."""
    versions: dict[str, dict[str, str]] = {}
    answer: dict[str, Any] = {"versions": versions}
    record.enter("import " + request["module"], answer)
    importlib.import_module(request["module"])
    top = request["module"].partition(".")[0]
    names = {top: importlib.import_module(top)}
    for library, expression in request.get("compiled", {}).items():
        record.enter(expression, answer)
        value = eval(compile("(%s\n)" % expression, "expression", "eval"), names)
        versions.setdefault(library, {})["compiled"] = spell(value)
    for path in process["list_mapped"]() or ():
        match = FILE_NAME.match(GRAFT.sub("", os.path.basename(path).lower()))
        if match and match.group("stem") in (*PROPERTIES, "nccl", "cudart"):
            record.enter(os.path.basename(path), answer)
            stem = match.group("stem")
            versions.setdefault(stem, {})["loaded"] = ask_version(path, stem)
    for library, row in sorted(list_installed().items()):
        versions.setdefault(library, {}).update(row)
    record.finish(dict(answer, stage="", state="finished"))


def spell(value: Any) -> str:
    """Format a version that may be a sequence of parts."""
    if isinstance(value, (list, tuple)):
        return ".".join(map(str, value))
    return "" if value is None else str(value)


def ask_version(path: str, stem: str) -> str:
    """Return the version that a loaded library reports, or ""."""
    try:
        library, number = ctypes.CDLL(path), ctypes.c_int()
        if stem == "nccl":
            library.ncclGetVersion(ctypes.byref(number))
            # 2.27.3 is 22703; before 2.9 the number had one digit less
            unit = 10000 if number.value >= 10000 else 1000
            return "%d.%d.%d" % (
                number.value // unit,
                number.value % unit // 100,
                number.value % 100,
            )
        if stem == "cudart":
            library.cudaRuntimeGetVersion(ctypes.byref(number))
            return "%d.%d" % (number.value // 1000, number.value % 1000 // 10)
        parts = []
        for part in range(3):
            if getattr(library, PROPERTIES[stem])(part, ctypes.byref(number)) != 0:
                return ""
            parts.append(str(number.value))
        return ".".join(parts)
    except (OSError, AttributeError):
        return ""


def list_installed() -> dict[str, dict[str, str]]:
    """Return the installed versions of NVIDIA's distributions, and the pinned ones, by library."""
    from importlib.metadata import distributions

    found: dict[str, dict[str, str]] = {}
    pins: dict[str, set[str]] = {}
    for distribution in distributions():
        match = DISTRIBUTION.match(str(distribution.metadata["Name"] or ""))
        if match:
            found[name_library(match)] = {"installed": distribution.version}
        for match in map(PIN.match, distribution.requires or ()):
            if match:
                pins.setdefault(name_library(match), set()).add(match.group("version"))
    for library, row in found.items():
        # If two pins contradict each other, report the one that is not satisfied.
        unlike_first = sorted(pins.get(library, ()), key=row["installed"].startswith)
        row.update({"pinned": pin for pin in unlike_first[:1]})
    return found


def name_library(match: re.Match[str]) -> str:
    """Return a library's name, as in its file name, for a distribution."""
    name = re.sub(r"[-_.]+", "-", match.group("library")).lower()
    return {"cuda-runtime": "cudart"}.get(name, name)

"""The process in which the libraries read: one request a line in, one answer a line out.

They are slow or crash on some bytes, and some of them are C++: what they take is limited here, and
whoever started it waits no longer than it likes.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from binary_checks.crosscheck.tables import TABLES
from binary_checks.lines import cut, one_line
from binary_checks.model import Format

if sys.platform != "win32":
    import resource

_BASE = 2 << 30  # bytes of address space that a library may take, whatever the file
_TIMES = 8  # as many bytes more for each of the file's: LIEF keeps it whole


def main() -> None:
    """Answer until there are no more requests; what libraries print goes nowhere."""
    with os.fdopen(os.dup(1), "w", encoding="ascii") as answers:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        for line in sys.stdin:
            request = json.loads(line)
            print(json.dumps(_answer(request)), file=answers, flush=True)


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    """The reading and by whom, or why there is none."""
    try:
        version = metadata.version(request["distribution"])
    except metadata.PackageNotFoundError:
        return {"absent": "not installed"}
    module, _, name = request["look"].partition(":")
    table, path = TABLES[Format(request["format"])], request["path"]
    _limit(Path(path).stat().st_size, request["seconds"])
    try:
        views = getattr(import_module(module), name)(path)
        return {
            "version": version,
            "reading": {view.name: table.spell(view, request["unknown"]) for view in views},
        }
    except ImportError as error:
        return {"absent": f"it cannot be imported: {_describe(error)}"}
    except MemoryError:
        return {"version": version, "error": "it takes too much memory"}
    except Exception as error:
        return {"version": version, "error": _describe(error)}


def _limit(size: int, seconds: int) -> None:
    """Bound address space, and the processor's time from now on, where the system can."""
    if sys.platform != "win32":
        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        limits = {
            resource.RLIMIT_AS: _BASE + _TIMES * size,
            resource.RLIMIT_CPU: int(used) + seconds,
        }
        for kind, most in limits.items():
            _, hard = resource.getrlimit(kind)
            soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
            with contextlib.suppress(OSError, ValueError):  # macOS refuses some
                resource.setrlimit(kind, (soft, hard))


def _describe(error: Exception) -> str:
    """The library's own words in one line: they may hold a package's."""
    words = " ".join(str(error).split())
    return cut(one_line(f"{type(error).__name__}: {words}" if words else type(error).__name__), 200)

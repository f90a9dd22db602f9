"""Says where the interpreter that runs it looks for packages, and which of some it finds there."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # not typing's: no probe imports what only a type checker reads
if TYPE_CHECKING:
    from typing import Any


def load_process() -> dict[str, Any]:
    """Execute ``process.py``, which lies beside this file."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "process.py")
    functions: dict[str, Any] = {"__name__": "process"}
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), functions)
    return functions


def find_versions(names: list[str]) -> dict[str, str]:
    """Find the version of each distribution that is installed, as an import would find it."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in names:
        try:
            found[name] = str(version(name))
        except PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    recorder = load_process()["open_recorder"]()
    names = recorder.request.get("names", [])
    answer = {"folders": sys.path, "prefix": sys.prefix, "versions": find_versions(names)}
    recorder.finish(answer)

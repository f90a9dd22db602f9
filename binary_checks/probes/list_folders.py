"""Says where the interpreter that runs it looks for packages, and in which environment it is."""

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


if __name__ == "__main__":
    process = load_process()
    process["read_request"]()
    process["make_recorder"]()({"folders": sys.path, "prefix": sys.prefix})

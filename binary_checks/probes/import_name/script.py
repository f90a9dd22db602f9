"""Imports one name, and says how that ended and what it did to the process."""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES

TYPE_CHECKING = False  # not typing's: no probe imports what only a type checker reads
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any


def load_process() -> dict[str, Any]:
    """Execute ``process.py``, which lies in the folder above."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "process.py")
    functions: dict[str, Any] = {"__name__": "process"}
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), functions)
    return functions


def import_and_tell(name: str, below: str, process: dict[str, Any], record: Any) -> None:
    """Import the name and record what is known before and after."""
    record({"state": "importing"})
    before = os.getcwd()
    gil_before = process["reenabled_gil"]()
    answer = try_import(name, below, process["describe_failure"])
    answer["directory_changed"] = find_changed_directory(before)
    answer["gil_enabled"] = None if gil_before is None else process["reenabled_gil"]()
    answer["extensions"] = list_extensions()
    answer["libraries"] = process["list_mapped"]()
    record.finish(answer)


def try_import(
    name: str, below: str, describe_failure: Callable[[BaseException, str], dict[str, Any]]
) -> dict[str, Any]:
    """Import, and tell four endings apart: imported, raised, loader error, exited."""
    try:
        module = importlib.import_module(name)
    except BaseException as error:
        return describe_failure(error, below)
    origin = getattr(module, "__file__", None)
    return {
        "state": "imported",
        "origin": origin if isinstance(origin, str) else "",
        "version": find_version(module),
    }


def find_version(module: ModuleType) -> str:
    """Find a ``__version__`` that is a str, "" without one; some warn or compute when asked."""
    import warnings  # the interpreter has it loaded at start

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            version = module.__version__
    except Exception:
        return ""
    return version if isinstance(version, str) else ""


def find_changed_directory(before: str) -> str:
    """Name the working directory when it is another than before, "" when it is the same."""
    try:
        after = os.getcwd()
    except OSError:
        return "a folder that is gone"
    return "" if after == before else after


def list_extensions() -> list[str]:
    """List the files of the extension modules that are imported now."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    suffixes = tuple(EXTENSION_SUFFIXES)
    return sorted({name for name in files if isinstance(name, str) and name.endswith(suffixes)})


if __name__ == "__main__":
    functions = load_process()
    recorder = functions["open_recorder"]()
    asked = recorder.request
    import_and_tell(asked["name"], asked["site_packages"], functions, recorder)

"""Import one name; report how the import ended and how it changed the process."""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any


def probe(request: dict[str, Any], record: Any, process: dict[str, Any]) -> None:
    """Import the name, and record the facts before and after."""
    name, below = request["name"], request["site_packages"]
    record({"state": "importing"})
    absent = [import_first(first) for first in request.get("first", ())]
    before = os.getcwd()
    gil_before = process["reenabled_gil"]()
    answer = try_import(name, below, process["describe_failure"])
    if answer["state"] == "raised" and not answer["missing_module"]:
        answer["missing_module"] = next(filter(None, absent), "")
    answer["directory_changed"] = find_changed_directory(before)
    answer["gil_enabled"] = None if gil_before is None else process["reenabled_gil"]()
    answer["extensions"] = list_extensions()
    answer["libraries"] = process["list_mapped"]()
    record.finish(answer)


def import_first(name: str) -> str:
    """Import a module that the name relies on; return its name if it is not installed, else "".

    If it fails in another way, importing the name shows why.
    """
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        return name if error.name == name.partition(".")[0] else ""
    except BaseException:
        return ""
    return ""


def try_import(
    name: str, below: str, describe_failure: Callable[[BaseException, str], dict[str, Any]]
) -> dict[str, Any]:
    """Import the name, and distinguish four results: imported, raised, loader error, exited."""
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
    """Return ``__version__`` if it is a str, else "".

    For some modules, reading the attribute warns or computes.
    """
    import warnings  # the interpreter has already loaded this module

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            version = module.__version__
    except Exception:
        return ""
    return version if isinstance(version, str) else ""


def find_changed_directory(before: str) -> str:
    """Return the working directory if it has changed, else ""."""
    try:
        after = os.getcwd()
    except OSError:
        return "a folder that no longer exists"
    return "" if after == before else after


def list_extensions() -> list[str]:
    """Return the files of the extension modules imported so far."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    suffixes = tuple(EXTENSION_SUFFIXES)
    return sorted({name for name in files if isinstance(name, str) and name.endswith(suffixes)})

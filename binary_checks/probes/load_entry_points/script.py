"""Load the objects that entry points name, and report how each ended."""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


def probe(request: dict[str, Any], record: Any, process: dict[str, Any]) -> None:
    """Load the entry points of each module, one module after another."""
    record({"state": "loading"})
    if "bytecode" in request:
        sys.pycache_prefix = request["bytecode"]
        sys.dont_write_bytecode = False
    sys.argv = [request["command"]]
    below = request["site_packages"]
    rows = [load_module(each, below, process["describe_failure"]) for each in request["modules"]]
    lacking = find_lacking(request.get("required", []))
    record.finish({"state": "finished", "modules": rows, "lacking": lacking})


def find_lacking(required: list[str]) -> list[str]:
    """Return the distributions that are not installed."""
    if not required:
        return []
    from importlib.metadata import PackageNotFoundError, distribution

    lacking = []
    for name in required:
        try:
            distribution(name)
        except PackageNotFoundError:
            lacking.append(name)
    return lacking


def load_module(asked: dict[str, Any], below: str, describe: Any) -> list[dict[str, Any]]:
    """Load the entry points of one module, in order."""
    name = asked["module"]
    try:
        module = importlib.import_module(name)
    except BaseException as error:
        failure = describe(error, below)
        if failure.get("missing_module") == name:
            return [load_by_path(name, failure, each) for each in asked["points"]]
        return [failure] * len(asked["points"])
    return [look_up(module, each, below, describe) for each in asked["points"]]


def load_by_path(name: str, failure: dict[str, Any], point: dict[str, Any]) -> dict[str, Any]:
    """If a module is missing, look up its last part as an attribute, as some groups expect."""
    outer, _, last = name.rpartition(".")
    if point["attribute"] or point["script"] or not outer:
        return failure
    try:
        getattr(importlib.import_module(outer), last)
    except BaseException:
        return failure
    return {"state": "loaded", "imported": True}


def look_up(module: ModuleType, point: dict[str, Any], below: str, describe: Any) -> dict[str, Any]:
    """Look up the attribute that an entry point names in its module.

    If the module lacks the attribute, import it as a submodule: ``from MODULE import NAME``. For a
    command, do so only for the first part of the attribute; entry points of other groups may name
    modules in later parts, too (pandas).
    """
    found: Any = module
    try:
        for part in filter(None, point["attribute"].split(".")):
            imported = found is module or not point["script"]
            if imported and isinstance(found, type(sys)) and not hasattr(found, part):
                import_inner(found, part)
            found = getattr(found, part)
    except BaseException as error:
        return dict(describe(error, below), imported=True)
    return {"state": "loaded", "imported": True, "callable": callable(found)}


def import_inner(module: ModuleType, name: str) -> None:
    """Import a module of a package, as ``from`` does if the package lacks the name."""
    inner = module.__name__ + "." + name
    try:
        importlib.import_module(inner)
    except ModuleNotFoundError as error:
        if error.name != inner:
            raise

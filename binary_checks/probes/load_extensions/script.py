"""Load extension modules one after another, recording the name of each beforehand."""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import ExtensionFileLoader

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any


def probe(request: dict[str, Any], record: Any, process: dict[str, Any]) -> None:
    """Load each extension module after its parent package, as an import by name would.

    ``answer["current"]`` is the module being loaded: if the process dies, this module is the cause.
    """
    answer: dict[str, Any] = {"done": [], "current": None, "libraries": None, "finished": False}
    below, broken = request["site_packages"], set(request["broken_parents"])
    for name in request.get("first", ()):
        import_parent(name)
    ran = watch_loader()
    for extension in request["extensions"]:
        answer["current"] = {"path": extension["path"], "parent": extension["parent"]}
        record(answer)
        if extension["parent"] and extension["parent"] not in broken:
            import_parent(extension["parent"])
        answer["current"] = {"path": extension["path"], "parent": ""}
        record(answer)
        gil_before = process["reenabled_gil"]()
        row = load(extension, below, ran, process["describe_exception"])
        row["path"] = extension["path"]
        row["gil_enabled"] = process["reenabled_gil"]() if gil_before is False else None
        answer["done"].append(row)
    answer["current"] = None
    answer["libraries"] = process["list_mapped"]()
    answer["finished"] = True
    record.finish(answer)


def watch_loader() -> set[str]:
    """Return a set that collects the files of executed extension modules, under any name.

    ``cv2/cv2.abi3.so`` only works when imported as ``cv2``, which its package does.
    """
    ran: set[str] = set()
    run = ExtensionFileLoader.exec_module

    def exec_module(self: ExtensionFileLoader, module: ModuleType) -> None:
        run(self, module)
        ran.add(os.path.realpath(self.path))

    setattr(ExtensionFileLoader, "exec_module", exec_module)
    return ran


def import_parent(name: str) -> None:
    """Import a package that comes first; the probe that imports names reports its exceptions."""
    try:
        importlib.import_module(name)
    except BaseException:
        return


def load(
    extension: dict[str, str],
    below: str,
    ran: set[str],
    describe: Callable[[BaseException, str], str],
) -> dict[str, Any]:
    """Map the file, then run its module, to distinguish the loader's errors from exceptions."""
    path = os.path.join(below, extension["path"].replace("/", os.sep))
    refusal = map_file(path, extension["init"])
    if refusal:
        return {"state": "loader error", "detail": refusal}
    if os.path.realpath(path) in ran:
        return {"state": "loaded"}
    try:
        run_module(extension["module"], path)
    except BaseException as error:
        state = "exited" if isinstance(error, SystemExit) else "raised"
        return {"state": state, "detail": describe(error, below)}
    return {"state": "loaded"}


def map_file(path: str, init: str) -> str:
    """Make the dynamic loader bind every symbol; return "" or its error in one line."""
    try:
        import ctypes
    except ImportError:  # an interpreter built without libffi
        return ""
    try:
        flags = sys.getdlopenflags() if hasattr(sys, "getdlopenflags") else 0
        library = ctypes.CDLL(path, mode=flags | getattr(os, "RTLD_NOW", 0))
    except OSError as error:
        return " ".join(str(error).split())[:2000]
    return "" if hasattr(library, init) else "exports no %s" % init


def run_module(name: str, path: str) -> None:
    """Execute an extension module as the import system does."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(name, path, loader=ExtensionFileLoader(name, path))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise

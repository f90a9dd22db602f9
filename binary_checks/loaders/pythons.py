"""Which interpreter imports an extension module, by its name."""

from __future__ import annotations

from binary_checks.model import Interpreter, ObjectFile, TargetSystem
from binary_checks.model.python_modules import parse_extension_name


def python_of(library: ObjectFile, target: TargetSystem) -> Interpreter | None:
    """Find the interpreter of a process that imports the library; None without data about it.

    A wheel for any Python (``py3-none``) may have a module for each: ``_c.cpython-310-….so`` is
    imported by 3.10 alone, whatever the tags say.
    """
    name = parse_extension_name(library.path)
    if name is None or name.implementation != "cpython" or name.version is None:
        return target.interpreter
    python = target.interpreter
    if python and (python.version, python.free_threaded) == (name.version, name.free_threaded):
        return python
    return target.interpreters.get((name.version, name.free_threaded))

"""Probes, which run a package: a folder for each, with a script and the reader of its answer.

``script.py`` runs in the target interpreter: ``python -I process.py script.py``. ``process.py``
communicates with the parent over its standard input and output (``places/processes.py`` is the
parent's side), and calls the script's function ``probe`` with the request, the recorder of answers,
and its own functions. A script imports only the standard library, and as few modules as possible: a
package that forgot to import a module would find it imported. Scripts run on Python 3.8 and later.

A new probe is a folder and a line in `PROBES`; its reader declares facts with `@gathers`. A probe
that needs no script of its own is a module.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType

PROBES = (
    ".import_name.reader",
    ".load_extensions.reader",
    ".compile_modules.reader",
    ".load_entry_points.reader",
    ".trace_loader",
    ".run_snippet.reader",
    ".ask_module.reader",
    ".stub_driver",
    ".gpu_compilers.reader",
    ".gpu_torch.reader",
    ".consume_cpp.reader",
    ".conda_tests",
)
"""Modules with a gatherer. Gatherers and places use the other folders."""


def load_readers() -> Iterator[ModuleType]:
    """Import the modules that gather facts by running a package."""
    return (importlib.import_module(name, __name__) for name in PROBES)

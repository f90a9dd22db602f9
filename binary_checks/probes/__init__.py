"""What a package does when it runs: a folder a probe, with a script and the reader of its answer.

``script.py`` is for the target interpreter: ``python -I script.py``. Each converses over its
standard input and output (``process.py``; ``places/processes.py`` is the other side). Each
imports the standard library alone, and as little of it as it can, so that a package which forgot
an import of its own does not find it done. Python 3.8 and later.

A new probe is a folder and a line in `PROBES`: its reader declares with `@gathers` what it gathers.
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
    ".trace_loader.reader",
    ".run_snippet.reader",
    ".ask_module.reader",
    ".stub_driver.reader",
    ".nvrtc_kernels.reader",
    ".triton_kernels.reader",
    ".ptx_links.reader",
    ".gpu_torch.reader",
    ".consume_cpp.reader",
    ".conda_tests.reader",
)
"""The modules with a gatherer; what lies beside them is asked by these, and by places."""


def load_readers() -> Iterator[ModuleType]:
    """Import the modules in which facts are gathered by running a package."""
    return (importlib.import_module(name, __name__) for name in PROBES)

"""The start and the end of the ``binary-checks`` command, where Python would do work in vain."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import NoReturn

_OBJECTS = 1_000_000  # that are new before the collector looks for those that nobody needs


def main() -> NoReturn:
    """Run the command and end the process with its exit status.

    Modules stay, and facts are trees: the garbage collector would only walk them while modules are
    loaded. At the end nothing is given back piece by piece: the system takes all of it at once.
    """
    gc.set_threshold(_OBJECTS, 20, 20)
    from binary_checks import command

    gc.freeze()
    status = command.main()
    atexit._run_exitfuncs()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()

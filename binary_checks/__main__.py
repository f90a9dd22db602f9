"""The start of the ``binary-checks`` command, with Python's garbage collector at rest."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

_OBJECTS = 1_000_000  # that are new before the collector looks for those that nobody needs


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status.

    Modules stay, and facts are trees: the collector would only walk them, again and again while
    modules are loaded, and once more at the end.
    """
    gc.set_threshold(_OBJECTS, 20, 20)
    from binary_checks import command

    gc.freeze()
    try:
        return command.main(arguments)
    finally:
        gc.disable()
        gc.freeze()


if __name__ == "__main__":
    sys.exit(main())

"""Has a process of its own, whose memory is limited, try to parse a file that may take too much.

What parses there parses here, in as much memory. Where it does not, the parser reads the file again
to find the fault, and takes twice as much.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from binary_checks.python_code.parsing import (
    MOST_CROSSINGS,
    MOST_OF_TREE,
    CodeSize,
    FaultyError,
    LeftAloneError,
)

_CHILD = Path(__file__).with_name("limited_parsing_child.py")
_MEMORY = 448 << 20  # bytes, the interpreter's own with them
_SECONDS = 20  # of the processor; the largest of 645 wheels takes 0.5
_PATIENCE = 120  # seconds that pass


def is_large(size: CodeSize) -> bool:
    """Whether a file is tried first: about 1 of 500 files of published wheels."""
    return size.tokens > MOST_OF_TREE or size.crossings > MOST_CROSSINGS


def try_parsing(text: str) -> None:
    """Parse it into symbols.

    Raises FaultyError where it does not parse, LeftAloneError where that takes too much.
    """
    arguments = (str(_MEMORY), str(_SECONDS))
    command = [sys.executable, "-I", "-S", str(_CHILD), *arguments]
    try:
        ended = subprocess.run(
            command, input=text.encode(), capture_output=True, timeout=_PATIENCE, check=False
        )
        fault = str(json.loads(ended.stdout)["fault"])
    except OSError as error:
        raise LeftAloneError(f"it cannot be parsed apart: {error.strerror}") from None
    except (subprocess.TimeoutExpired, ValueError):
        limits = f"{_MEMORY >> 20} MiB or {_SECONDS} s"
        reason = f"parsing it takes more than {limits}, or it is nested too deeply"
        raise LeftAloneError(reason) from None
    if fault:
        raise FaultyError(fault)

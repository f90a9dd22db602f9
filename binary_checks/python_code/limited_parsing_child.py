"""The process that parses a large file before this one does: source in, JSON out.

It is self-contained and started isolated, so that only the interpreter's own start takes time.
"""

from __future__ import annotations

import json
import symtable
import sys
import warnings

_LONGEST = 1_000  # characters of the reason why it does not compile


def main() -> None:
    """Parse and answer; exit without an answer at a limit, also at one of the parser itself."""
    memory, seconds = map(int, sys.argv[1:])
    _limit(memory, seconds)
    warnings.simplefilter("ignore")
    text = sys.stdin.buffer.read().decode("utf-8")
    fault = ""
    try:
        symtable.symtable(text, "", "exec")
    except (SyntaxError, ValueError) as error:
        fault = str(error)[:_LONGEST]
    sys.stdout.write(json.dumps({"fault": fault}))


def _limit(memory: int, seconds: int) -> None:
    if sys.platform != "win32":
        import resource

        for limited, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds)):
            hard = resource.getrlimit(limited)[1]
            if hard == resource.RLIM_INFINITY or most <= hard:
                resource.setrlimit(limited, (most, hard))


if __name__ == "__main__":
    main()

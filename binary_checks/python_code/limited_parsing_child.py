"""A separate process that parses a large file first, within limits: source in, JSON out.

If the file would take too much memory, only this process ends. The module imports nothing of the
package, and Python starts it isolated, so that only the start of the interpreter takes time.
"""

from __future__ import annotations

import json
import symtable
import sys
import warnings

_LONGEST = 1_000  # characters of the reason why the source does not compile


def main() -> None:
    """Parse the source and print the answer; exit without an answer if a limit is exceeded."""
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

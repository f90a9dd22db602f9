"""The process that parses a large file before this one does: a text in, an answer in JSON out.

It stands alone and is started isolated, so that it takes as long as the interpreter takes to start.
"""

from __future__ import annotations

import ast
import json
import symtable
import sys
import warnings

_LONGEST = 1_000  # characters of a line that does not compile


def main() -> None:
    """Answer; end without an answer at a limit, one of the parser's own too."""
    memory, seconds, minor = map(int, sys.argv[1:])
    _limit(memory, seconds)
    warnings.simplefilter("ignore")
    text = sys.stdin.buffer.read().decode("utf-8")
    answer: dict[str, object] = {}
    try:
        if minor:
            ast.parse(text, feature_version=(3, minor))
        else:
            symtable.symtable(text, "", "exec")
    except SyntaxError as error:
        line = (error.text or "")[:_LONGEST]
        answer = {"line": error.lineno or 0, "reason": error.msg, "text": line}
    except ValueError as error:
        answer = {"line": 0, "reason": str(error), "text": ""}
    sys.stdout.write(json.dumps(answer))


def _limit(memory: int, seconds: int) -> None:
    if sys.platform != "win32":
        import resource

        for limited, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds)):
            hard = resource.getrlimit(limited)[1]
            if hard == resource.RLIM_INFINITY or most <= hard:
                resource.setrlimit(limited, (most, hard))


if __name__ == "__main__":
    main()

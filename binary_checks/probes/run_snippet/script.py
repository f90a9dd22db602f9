"""Runs one snippet of Python that a profile names, and says how that ended and what it printed."""

from __future__ import annotations

import io
import linecache
import os
import sys

TYPE_CHECKING = False  # not typing's: no probe imports what only a type checker reads
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FILE = "<snippet>"
MOST = 65536  # characters of what it printed


class Unmeasurable(BaseException):
    """What a snippet raises where it cannot look: no handler of its own may take it for an end."""


def unavailable(reason: str) -> None:
    """End the snippet: something that it needs is not there, and it says nothing of the package."""
    raise Unmeasurable(reason)


def load_process() -> dict[str, Any]:
    """Execute ``process.py``, which lies in the folder above."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "process.py")
    functions: dict[str, Any] = {"__name__": "process"}
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), functions)
    return functions


def run_and_tell(
    code: str,
    below: str,
    describe: Callable[[BaseException, str], str],
    record: Any,
) -> None:
    """Run the snippet, and record what is known before and after."""
    record({"state": "running"})
    printed, own = io.StringIO(), sys.stdout
    sys.stdout = printed
    try:
        answer = run_snippet(code, below, describe)
    finally:
        sys.stdout = own
    answer["printed"] = printed.getvalue()[:MOST]
    record.finish(answer)


def run_snippet(
    code: str, below: str, describe: Callable[[BaseException, str], str]
) -> dict[str, Any]:
    """Run the snippet as a program, and tell four endings apart."""
    lines = code.splitlines(True)
    linecache.cache[FILE] = (len(code), None, lines, FILE)  # for inspect, and for tracebacks
    try:
        exec(compile(code, FILE, "exec"), {"__name__": "__main__", "unavailable": unavailable})
    except Unmeasurable as reason:
        return {"state": "unavailable", "detail": " ".join(str(reason).split())}
    except SystemExit as error:
        if (error.code is None or error.code == 0) and not comes_from_import(error, below):
            return {"state": "ran"}
        detail = "SystemExit(%r)%s" % (error.code, find_line(error, lines))
        return {"state": "exited", "detail": detail}
    except BaseException as error:
        return {"state": "raised", "detail": describe(error, below) + find_line(error, lines)}
    return {"state": "ran"}


def comes_from_import(error: BaseException, below: str) -> bool:
    """Say whether a module of a package that is imported, not run, raised it as it was loaded."""
    step, caller = error.__traceback__, ""
    while step is not None:
        code = step.tb_frame.f_code
        own = code.co_name == "<module>" and code.co_filename.startswith(below + os.sep)
        if own and "runpy" not in caller:
            return True
        step, caller = step.tb_next, code.co_filename
    return False


def find_line(error: BaseException, lines: list[str]) -> str:
    """Quote the line of the snippet at which it ended, as the end of a sentence."""
    number, step = 0, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == FILE:
            number = step.tb_lineno
        step = step.tb_next
    if isinstance(error, SyntaxError) and error.filename == FILE:
        number = error.lineno or 0
    source = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    return " at line %d: %s" % (number, source[:200]) if source else ""


if __name__ == "__main__":
    functions = load_process()
    recorder = functions["open_recorder"]()
    asked = recorder.request
    sys.pycache_prefix, sys.dont_write_bytecode = asked["bytecode"], False
    run_and_tell(
        asked["code"],
        asked["site_packages"],
        functions["describe_exception"],
        recorder,
    )

"""Run a snippet of Python from a profile, and report how it ended and what it printed."""

from __future__ import annotations

import io
import linecache
import os
import sys

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FILE = "<snippet>"
MOST = 65536  # characters of printed text


class Unmeasurable(BaseException):
    """Raised by a snippet that cannot measure.

    This is a BaseException, so that no handler in the snippet catches it.
    """


def unavailable(reason: str) -> None:
    """End the snippet: something that it needs is missing, which is not the package's fault."""
    raise Unmeasurable(reason)


def probe(request: dict[str, Any], record: Any, process: dict[str, Any]) -> None:
    """Run the snippet, and record the facts before and after."""
    sys.pycache_prefix, sys.dont_write_bytecode = request["bytecode"], False
    code, below, describe = request["code"], request["site_packages"], process["describe_exception"]
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
    """Run the snippet as a program; return whether it ran, raised, exited, or was unavailable."""
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
    """Return whether a module of the package raised the error while it was imported."""
    step, caller = error.__traceback__, ""
    while step is not None:
        code = step.tb_frame.f_code
        own = code.co_name == "<module>" and code.co_filename.startswith(below + os.sep)
        if own and "runpy" not in caller:
            return True
        step, caller = step.tb_next, code.co_filename
    return False


def find_line(error: BaseException, lines: list[str]) -> str:
    """Quote the line of the snippet at which the error occurred, for the end of a sentence."""
    number, step = 0, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == FILE:
            number = step.tb_lineno
        step = step.tb_next
    if isinstance(error, SyntaxError) and error.filename == FILE:
        number = error.lineno or 0
    source = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    return " at line %d: %s" % (number, source[:200]) if source else ""

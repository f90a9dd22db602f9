"""Import a module, run a snippet and evaluate expressions, and report each result."""

from __future__ import annotations

import importlib
import os

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def load_process() -> dict[str, Any]:
    """Execute ``process.py`` of the folder above, and return its names."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "process.py")
    functions: dict[str, Any] = {"__name__": "process"}
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), functions)
    return functions


def ask(request: dict[str, Any], process: dict[str, Any], record: Any) -> None:
    """Perform the parts of the request; record the name of each part before it starts."""
    name, describe, below = (
        request["module"],
        process["describe_exception"],
        request["site_packages"],
    )
    answer: dict[str, Any] = {"stage": "import " + name, "answers": []}
    record(answer)
    try:
        importlib.import_module(name)
        top = name.partition(".")[0]
        names = {"__name__": "snippet", top: importlib.import_module(top)}
        if request.get("snippet"):
            answer["stage"] = "the snippet"
            record(answer)
            exec(compile(request["snippet"], "snippet", "exec"), names)
        answer.update(read_figures(names))
    except SystemExit as error:
        record.finish(dict(answer, state="exited", detail="SystemExit(%r)" % (error.code,)))
        return
    except BaseException as error:
        record.finish(dict(answer, state="raised", detail=describe(error, below)))
        return
    for question in request.get("questions", ()):
        answer["stage"] = question
        record(answer)
        answer["answers"].append(evaluate(question, names, describe))
    answer.update(stage="", state="finished", libraries=process["list_mapped"]())
    record.finish(answer)


def read_figures(names: dict[str, Any]) -> dict[str, Any]:
    """Return the figures and the reason that a snippet assigned to variables."""
    measured = names.get("measured")
    found: dict[str, Any] = {}
    if isinstance(measured, dict):
        found["measured"] = {str(name): float(value) for name, value in measured.items()}
    if names.get("unavailable"):
        found["unavailable"] = str(names["unavailable"])
    return found


def evaluate(
    question: str, names: dict[str, Any], describe: Callable[[BaseException, str], str]
) -> dict[str, Any]:
    """Evaluate an expression; an exception is also a valid answer."""
    try:
        value = eval(compile("(%s\n)" % question, "question", "eval"), names)
        return {"question": question, "value": to_plain(value)}
    except BaseException as error:
        return {"question": question, "error": describe(error, "nowhere")}


def to_plain(value: Any) -> Any:
    """Return a JSON value: a list as a list of texts, any other object as its repr."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [str(item) for item in value]
    return repr(value)[:200]


if __name__ == "__main__":
    functions = load_process()
    recorder = functions["open_recorder"]()
    ask(recorder.request, functions, recorder)

"""Import a module, run a snippet and evaluate expressions, and report each result."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def probe(request: dict[str, Any], record: Any, process: dict[str, Any]) -> None:
    """Perform the parts of the request; record the name of each part before it starts."""
    name = request["module"]
    answer: dict[str, Any] = {"answers": []}
    record.enter("import " + name, answer)
    importlib.import_module(name)
    top = name.partition(".")[0]
    names = {"__name__": "snippet", top: importlib.import_module(top)}
    if request.get("snippet"):
        record.enter("the snippet", answer)
        exec(compile(request["snippet"], "snippet", "exec"), names)
    answer.update(read_figures(names))
    for question in request.get("questions", ()):
        record.enter(question, answer)
        answer["answers"].append(evaluate(question, names, process["describe_exception"]))
    record.finish(dict(answer, stage="", state="finished", libraries=process["list_mapped"]()))


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

"""Compile Python files without running them, and report those that the interpreter rejects."""

from __future__ import annotations

import ast
import os
import re
import sys
import warnings
from collections import deque
from contextlib import suppress

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

LONGEST_TEXT = 300  # characters of a message, and of a line that does not compile
LONGEST_NAME = 250  # characters of the full name of a module that is followed
MOST_BROKEN = 1000  # files that are reported individually
OLDEST = (3, 7)  # the oldest Python whose grammar ast.parse knows well enough
HINTS = (
    ((3, 8), re.compile(rb":=|=\s*\}|/\s*[,):]")),
    ((3, 9), re.compile(rb"\bwith\s*\(")),
    ((3, 10), re.compile(rb"^[ \t\f]*case\b", re.MULTILINE)),
    ((3, 11), re.compile(rb"except\s*\*")),
    ((3, 12), re.compile(rb"\b(?:def|class|type)\s+\w+\s*[\[=]")),
    ((3, 13), re.compile(rb"\b(?:def|class|type)\s+\w+\s*\[")),
    ((3, 14), re.compile(rb"except\b[ \t*]*[^\s*(:].*,")),
    ((3, 14), re.compile(rb"[tT](?=[rR]?['\"])(?:(?<![\w'\"].)|(?<=[rR].))")),
)
"""For each version of Python, a pattern that occurs in every source that needs this version, as far
as ast.parse can tell. ast.parse does not distinguish ``a[*b]`` (3.11), decorators that are any
expression (3.9), ``return *a, b`` (3.8) and nested quotes in an f-string's braces (3.12). If a
pattern also matches other sources, this costs only a parse.
"""
PASSING_ON = ("open", "catch_warnings")  # context managers that catch no exception
CATCHING = ("ImportError", "ModuleNotFoundError", "SyntaxError", "Exception", "BaseException")


def probe(request: dict[str, Any], record: Any, _process: dict[str, Any]) -> None:
    """Compile files, or follow their imports."""
    compiles = request["step"] == "compile"
    record.finish(compile_all(request, record) if compiles else follow(request))


def compile_all(asked: dict[str, Any], record: Any) -> dict[str, Any]:
    """Compile the files, one after another.

    ``current`` is the number of the file being compiled: if the process dies, this file is the
    cause.
    """
    warnings.simplefilter("ignore")
    below, files = asked["site_packages"], asked["files"]
    lowest = max(tuple(asked["lowest"]), OLDEST) if asked["lowest"] else None
    broken: list[dict[str, Any]] = []
    more = 0
    for number, name in enumerate(files):
        record({"current": number})
        found = judge(os.path.join(below, name.replace("/", os.sep)), lowest)
        if found and len(broken) >= MOST_BROKEN:
            more += 1
        elif found:
            broken.append(dict(found, number=number))
    return {"broken": broken, "more": more}


def judge(path: str, lowest: Any) -> dict[str, Any]:
    """Compile one file for this interpreter, then for an older one; return {} if both succeed."""
    try:
        content = read(path)
        refusal = compile_one(content, path)
        if not refusal and lowest:
            refusal = compile_older(content, path, lowest)
    except OSError as error:
        return {"lack": "it cannot be read: %s" % error.strerror}
    except (RecursionError, MemoryError):
        return {"lack": "it is nested too deeply for the compiler, or takes too much memory"}
    return refusal


def compile_one(content: bytes, path: str) -> dict[str, Any]:
    """Compile a file as an import does; return {}, or why the file is rejected."""
    try:
        compile(content, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        return describe(error)
    except ValueError as error:  # null bytes, before Python 3.12
        return {"line": 0, "reason": str(error)[:LONGEST_TEXT], "text": "", "newer": False}
    return {}


def compile_older(content: bytes, path: str, lowest: Any) -> dict[str, Any]:
    """Find syntax in a valid file that an older Python does not have."""
    # this compiler accepted the file, so the file needs no newer version
    here = sys.version_info[:2]
    if not any(lowest < since <= here and hint.search(content) for since, hint in HINTS):
        return {}
    try:
        ast.parse(content, path, feature_version=lowest)
    except SyntaxError as error:
        return dict(describe(error), newer=True)
    except ValueError:
        return {}
    return {}


def describe(error: SyntaxError) -> dict[str, Any]:
    """Describe where and why a file does not compile."""
    return {
        "line": error.lineno or 0,
        "reason": str(error.msg or "invalid syntax")[:LONGEST_TEXT],
        "text": (error.text or "")[:LONGEST_TEXT],
        "newer": False,
    }


def follow(asked: dict[str, Any]) -> dict[str, Any]:
    """Find the files that are always imported with these modules, each with the first such module.

    ``complete`` is True if the imports of each file could be followed.
    """
    warnings.simplefilter("ignore")
    files, below = asked["modules"], asked["site_packages"]
    wanted, seen = set(asked["wanted"]), set()
    reached: dict[str, str] = {}
    complete = True
    for root in asked["roots"]:
        waiting = deque([root])
        while waiting:
            for module in list_with_parents(waiting.popleft()):
                if module in seen or module not in files:
                    continue
                seen.add(module)
                if files[module] in wanted:
                    reached[files[module]] = root
                try:
                    content = read(os.path.join(below, files[module].replace("/", os.sep)))
                    if b"import" in content:
                        waiting.extend(list_names(content, module, files[module]))
                except (OSError, RecursionError, MemoryError):
                    complete = False
    lost = {path for path in asked["never"] if path not in reached}
    reached.update(find_importers(lost, asked) if lost else {})
    return {"reached": reached, "complete": complete}


def find_importers(lost: set[str], asked: dict[str, Any]) -> dict[str, str]:
    """Find modules that always import one of these files, which never compile.

    A module that others import in a branch or by its name in a string is left out: it may be for
    another Python.
    """
    files, contents, found = asked["modules"], {}, {}
    for module in asked["others"]:
        with suppress(OSError):
            contents[module] = read(os.path.join(asked["site_packages"], files[module]))
    stems = {module.rpartition(".")[2].encode() for module in files if files[module] in lost}
    for module, content in contents.items():
        if not any(stem in content for stem in stems):
            continue
        with suppress(RecursionError, MemoryError):
            for name in list_names(content, module, files[module]):
                path = files.get(name)
                if path in lost and not any(is_chosen(module, each) for each in contents.values()):
                    found[path] = module
    return found


def is_chosen(module: str, content: bytes) -> bool:
    """Return whether a source imports a module or its package in a branch, or names it."""
    parts = b"|".join(part.encode() for part in module.split(".")[1:])
    pattern = rb"(?m)^[ \t]+(?:from|import)\b[^\n]*\b(?:%s)\b|['\".](?:%s)['\"]" % (parts, parts)
    return bool(parts) and re.search(pattern, content) is not None


def list_names(content: bytes, module: str, path: str) -> list[str]:
    """Return the full names that an import of a source always imports; not all are modules."""
    try:
        body = ast.parse(content).body
    except (SyntaxError, ValueError):
        return []  # an import of the module fails
    is_package = path.endswith("/__init__.py")
    return [name for _, name, _ in list_imports(body, module, is_package)]


def read(path: str) -> bytes:
    """Read a file."""
    with open(path, "rb") as file:
        return file.read()


def list_with_parents(name: str) -> list[str]:
    """Return a module and all packages that are imported before it, outermost first."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def list_imports(
    body: list[ast.stmt], module: str, is_package: bool
) -> Iterator[tuple[int, str, bool]]:
    """Yield what an import of this module always imports: line, full name, whether it is a module.

    Skip imports in functions and branches, and imports for which an ImportError or a SyntaxError is
    caught. For ``from a import b`` yield ``a`` and ``a.b``, which may be a module or another name.
    """
    for node in list_always_run(body):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name[:LONGEST_NAME], True
        elif isinstance(node, ast.ImportFrom):
            base = resolve(node.level, node.module or "", module, is_package)
            if 0 < len(base) <= LONGEST_NAME:
                yield node.lineno, base, True
                for alias in node.names:
                    yield node.lineno, "%s.%s" % (base, alias.name[:LONGEST_NAME]), False


def list_always_run(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module that run whenever it is imported."""
    left = list(body)
    while left:
        node = left.pop()
        if isinstance(node, ast.ClassDef):
            left += node.body
        elif isinstance(node, ast.With):
            left += [] if any(map(may_catch, node.items)) else node.body
        elif isinstance(node, ast.Try):
            left += node.finalbody
            left += [] if any(map(catches, node.handlers)) else node.body
        else:
            yield node


def may_catch(item: ast.withitem) -> bool:
    """Return whether ``with`` may go on after a failed import, as optuna's try_import() does."""
    called = getattr(item.context_expr, "func", item.context_expr)
    return getattr(called, "attr", getattr(called, "id", "")) not in PASSING_ON


def catches(handler: ast.ExceptHandler) -> bool:
    """Return whether the handler may catch a failed import."""
    caught = handler.type
    kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(not isinstance(kind, ast.Name) or kind.id in CATCHING for kind in kinds)


def resolve(level: int, named: str, module: str, is_package: bool) -> str:
    """Return the full name of a module imported as ``..a.b``, or "" if it leads nowhere."""
    if not level:
        return named
    parts = module.split(".") if is_package else module.split(".")[:-1]
    if level > len(parts):
        return ""
    return ".".join(parts[: len(parts) - level + 1] + ([named] if named else []))

"""Which extension modules a package imports only where it goes on without them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from binary_checks.python_code.parsing import LeftAloneError, ParsingBudget, parse

_CAUGHT = frozenset({"ImportError", "Exception", "BaseException"})
"""What a failed load raises, or what catches that; ModuleNotFoundError does not."""
_LONGEST = 512 << 10  # bytes of a source that is parsed
_LEAST_COST, _COST = 16_000_000, 16
"""What all of them may cost: this much, and that for each byte of the package; cupy takes 80
million."""
_STEP = 16  # what it costs to look at a node


class TriedImports:
    """Looks through sources for the import statements that name some modules."""

    def __init__(self, modules: frozenset[str], size: int = 0) -> None:
        """``modules`` by their full names, ``demo.core._fast``; ``size``: the package, in bytes."""
        self._modules = modules
        stems = sorted({module.rpartition(".")[2] for module in modules})
        words = b"|".join(re.escape(stem.encode()) for stem in stems)
        self._mentioned = re.compile(rb"\b(?:" + words + rb")\b")
        self._tried: set[str] = set()
        self._demanded: set[str] = set()
        self._budget = ParsingBudget(_LEAST_COST + _COST * size)

    def see(self, path: str, content: bytes) -> None:
        """Look at one source; its path counts from site-packages."""
        if b"import" not in content:
            return
        stems = {name.decode() for name in set(self._mentioned.findall(content))}
        named = {each for each in self._modules if each.rpartition(".")[2] in stems}
        if not named:
            return
        try:
            self._budget.pay(len(content))
            if len(content) > _LONGEST:
                raise LeftAloneError
            tree = parse(content, self._budget)
            imports = list(_list_imports(tree, path.split("/")[:-1], self._budget))
            self._budget.pay(len(imports) * len(named))
        except LeftAloneError:
            self._demanded |= named
            return
        for name, guarded in imports:
            found = {each for each in named if f"{name}.".startswith(f"{each}.")}
            (self._tried if guarded else self._demanded).update(found)

    def conclude(self) -> frozenset[str]:
        """Those of the modules that no statement imports without catching its failure."""
        return frozenset(self._tried - self._demanded)


def _list_imports(
    tree: ast.AST, package: list[str], budget: ParsingBudget
) -> Iterator[tuple[str, bool]]:
    """Every name that is imported, in full, and whether code goes on where that fails.

    ``importlib.import_module("demo._fast")`` imports what its text says.
    """
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        budget.pay(_STEP)
        item, guarded = waiting.pop()
        if isinstance(item, ast.Import):
            yield from ((alias.name, guarded) for alias in item.names)
        elif isinstance(item, ast.ImportFrom):
            above = package[: len(package) - item.level + 1] if item.level else []
            parts = [*above, *filter(None, [item.module])]
            yield from ((".".join([*parts, alias.name]), guarded) for alias in item.names)
            yield ".".join(parts), guarded
        elif isinstance(item, ast.Call) and _is_import(item.func):
            texts = (each.value for each in item.args if isinstance(each, ast.Constant))
            for text in texts:
                if isinstance(text, str):
                    relative = text.startswith(".")
                    yield ".".join([*package, text[1:]]) if relative else text, guarded
        inner = isinstance(item, ast.Try) and any(map(_goes_on, item.handlers))
        for field, part in ast.iter_fields(item):
            within = guarded or (inner and field == "body")
            nodes = part if isinstance(part, list) else [part]
            waiting += [(each, within) for each in nodes if isinstance(each, ast.AST)]


def _is_import(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else ""
    name = function.id if isinstance(function, ast.Name) else name
    return name in {"import_module", "__import__"}


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """Whether a handler takes a failed import, and nothing in it raises again."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {kind.id for kind in kinds if isinstance(kind, ast.Name)}
    caught = handler.type is None or not _CAUGHT.isdisjoint(names)
    return caught and not any(isinstance(each, ast.Raise) for each in ast.walk(handler))

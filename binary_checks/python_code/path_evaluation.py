"""Evaluation of path expressions in Python code, as on Windows, without running the code."""

from __future__ import annotations

import ast
import ntpath
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import product

from binary_checks.python_code.bound_names import Binding, BoundNames, Grown, Parameter, PythonScope
from binary_checks.python_code.parsing import ParsingBudget

# The files of a package at imaginary paths on Windows.

PREFIX = "Q:\\python"
SITE = PREFIX + "\\Lib\\site-packages"  # site-packages of a virtual environment


class Places:
    """The files of a package, looked up by paths that the package's code computes."""

    def __init__(self, paths: Iterable[str], budget: ParsingBudget) -> None:
        self._paths = tuple(paths)
        self._budget = budget

    @cached_property
    def _files(self) -> dict[str, str]:
        return {path.lower(): path for path in self._paths}

    def file(self, place: str) -> str | None:
        """Return the package's file at an absolute path, or None if there is none."""
        path = (relative(place) or "").lower()
        return self._files.get(path) or self._files.get(f"{path}.dll")

    def match(self, pattern: str) -> frozenset[str]:
        """Return the files that glob would find in one folder."""
        folder, name = ntpath.split(pattern)
        directory = (relative(folder) or "").lower()
        self._budget.pay(len(self._files))
        inside = (path for path in self._files if path.rpartition("/")[0] == directory)
        return frozenset(join(path) for path in inside if self._fits(path, name.lower()))

    def _fits(self, path: str, pattern: str) -> bool:
        last = path.rpartition("/")[2]
        self._budget.pay(len(path) + len(last) * len(pattern))
        return fnmatchcase(last, pattern)

    def module(self, name: str) -> str | None:
        """Return the file of a module of the package; a folder with only DLLs is also a module."""
        self._budget.pay(len(self._files) + len(name))
        path = name.replace(".", "/").lower()
        if f"{path}.py" in self._files:
            return join(f"{path}.py")
        inside = any(each.startswith(f"{path}/") for each in self._files)
        return join(path, "__init__.py") if inside else None


def join(*parts: str) -> str:
    """Return the absolute path for a path in RECORD."""
    return ntpath.normpath(ntpath.join(SITE, *(part.replace("/", "\\") for part in parts)))


def relative(place: str) -> str | None:
    """Return a path relative to site-packages, or None if it is outside of the package."""
    text = ntpath.normpath(place)
    lowered = text.lower()
    if lowered != PREFIX.lower() and not lowered.startswith(PREFIX.lower() + "\\"):
        return None
    path = ntpath.relpath(text, SITE).replace("\\", "/")
    return "" if path == "." else path


# Sets of texts that an expression may evaluate to, and the cost of computing them.

_LONGEST = 1024  # characters of a text
_MOST_TEXTS = 256  # texts for one expression
_TEXT_COST = 32  # cost of keeping a text, in addition to its characters

UNKNOWN = "|"
"""A placeholder for a part that is only known at run time; no path on Windows may contain it."""

Texts = frozenset[str]
"""All values of an expression; empty if the value depends on the user: ``os.environ["PATH"]``."""


class Several(Texts):
    """A list, tuple or set; any of the values may be an element."""


NOTHING: Texts = frozenset()
SOMETHING: Texts = frozenset({UNKNOWN})


def one(text: str) -> Texts:
    """Return a set of one text, or an unknown value if the text is too long or not printable.

    A text that is not printable cannot be a path.
    """
    return frozenset({text}) if len(text) <= _LONGEST and text.isprintable() else SOMETHING


def combine(budget: ParsingBudget, function: Callable[..., str], *parts: Texts) -> Texts:
    """Apply a function to all combinations of values, and return the set of results.

    A result may be longer than its arguments together, by one character for each argument.
    """
    count, length = 1, len(parts)
    for part in parts:
        count *= len(part)
        length += max(map(len, part), default=0)
        if count > _MOST_TEXTS or length > _LONGEST:
            return SOMETHING
    budget.pay(count * (_TEXT_COST + length))
    return frozenset(function(*each) for each in product(*parts))


def change(budget: ParsingBudget, function: Callable[[str], str], texts: Texts) -> Texts:
    """Apply a function to the values that are completely known."""
    return combine(budget, lambda each: UNKNOWN if UNKNOWN in each else function(each), texts)


def unite(budget: ParsingBudget, many: Iterable[Texts]) -> Texts:
    """Return the union of values; the union is a list if one of the values is a list."""
    found, several = set[str](), False
    for texts in many:
        budget.pay(_TEXT_COST * len(texts))
        several |= isinstance(texts, Several)
        found |= texts
        if len(found) > _MOST_TEXTS:
            found = {UNKNOWN}
    return Several(found) if several else frozenset(found)


# Functions and values of Python's standard library, as on Windows, that paths are made with.

NAMES: Mapping[str, Texts] = {
    "os.sep": frozenset({"\\"}),
    **dict.fromkeys(("os.pardir", "os.path.pardir"), frozenset({".."})),
    **dict.fromkeys(("sys.prefix", "sys.exec_prefix"), frozenset({PREFIX})),
    **dict.fromkeys(("os.environ", "os.path.expanduser", "os.path.expandvars"), NOTHING),
    **dict.fromkeys(("ctypes.util.find_library", "shutil.which"), NOTHING),
    "site.getsitepackages": Several({PREFIX, SITE}),
    "site.getusersitepackages": NOTHING,
}
"""Values of these names, whether code calls them or not."""

_LISTS = {f"builtins.{name}" for name in ("list", "tuple", "set", "sorted", "reversed", "filter")}
_PATHS = {"os.path.join", "pathlib.Path", "pathlib.PurePath", "pathlib.PureWindowsPath"}
_CHANGES: Mapping[str, Callable[[str], str]] = {
    **dict.fromkeys(("builtins.str", "os.fspath", "ctypes.c_wchar_p", "ctypes.c_char_p"), str),
    **dict.fromkeys((".absolute", ".as_posix", ".encode"), str),
    **dict.fromkeys(("os.path.abspath", "os.path.realpath", "os.path.normpath"), ntpath.normpath),
    ".resolve": ntpath.normpath,
    "os.path.dirname": ntpath.dirname,
    ".parent": lambda path: ntpath.dirname(path.rstrip("\\/")),
}


class PythonLibrary:
    """The functions of Python's standard library, for the files of one package."""

    def __init__(self, places: Places, budget: ParsingBudget) -> None:
        self._places = places
        self._budget = budget

    def change(self, name: str, texts: Texts) -> Texts:
        """Apply a function of one text, or read an attribute of a path."""
        return change(self._budget, _CHANGES[name], texts)

    def call(self, name: str, given: list[Texts]) -> Texts:
        """Call a function by its full name."""
        first = given[0] if given else NOTHING
        found = NAMES.get(name, SOMETHING)
        if name in _LISTS:
            found = Several(given[-1] if given else NOTHING)
        elif name in {"os.environ.get", "os.getenv"}:
            found = unite(self._budget, given[1:2])
        elif name in _PATHS and given:
            found = combine(self._budget, ntpath.join, *given)
        elif name in {"glob.glob", "glob.iglob"}:
            found = self._match(first)
        elif name == "sysconfig.get_path" and first <= {"purelib", "platlib"}:
            found = frozenset({SITE})
        return self.change(name, first) if name in _CHANGES else found

    def call_method(self, name: str, texts: Texts, given: list[Texts]) -> Texts:
        """Return the results of a method of a path or a text; none if the user decides them."""
        if f".{name}" in _CHANGES:
            return self.change(f".{name}", texts)
        if name == "joinpath":
            return combine(self._budget, ntpath.join, texts, *given)
        if name == "with_suffix" and given:
            return combine(self._budget, _change_suffix, texts, given[0])
        if name == "glob" and given:
            return self._match(combine(self._budget, ntpath.join, texts, given[0]))
        return SOMETHING if texts - {""} else NOTHING

    def _match(self, patterns: Texts) -> Texts:
        known = {each for each in patterns if UNKNOWN not in each}
        found = unite(self._budget, (patterns - known, *map(self._places.match, known)))
        return Several(found)


def _change_suffix(path: str, suffix: str) -> str:
    return ntpath.splitext(path)[0] + suffix


# The evaluation of expressions.

_EXPRESSION_COST = 32  # cost of visiting an expression
_DEEPEST = 40  # nested expressions
_MOST_PARTS = 64  # parts of one expression


class Folder:
    """Evaluates the expressions of one file.

    A name has all values that may be bound where it is read.
    """

    def __init__(self, path: str, names: BoundNames, places: Places, budget: ParsingBudget) -> None:
        self._file = one(join(path))
        self._names = names
        self._places = places
        self._library = PythonLibrary(places, budget)
        self._budget = budget
        self._done: dict[ast.AST | Parameter, Texts] = {}
        self._depth = 0
        self._readers: dict[type[ast.AST], Callable[..., Texts]] = {
            ast.Constant: self._read_constant,
            ast.Name: self._read_name,
            ast.Attribute: self._read_attribute,
            ast.Subscript: self._read_subscript,
            ast.Call: self._read_call,
            ast.BinOp: self._read_operation,
            ast.JoinedStr: self._read_joined,
            ast.FormattedValue: self._read_formatted,
            ast.BoolOp: lambda node, scope: self._read_any(node.values, scope),
            ast.IfExp: lambda node, scope: self._read_any((node.body, node.orelse), scope),
            ast.Dict: lambda node, scope: Several(self._read_any(node.values, scope)),
            **dict.fromkeys((ast.List, ast.Tuple, ast.Set), self._read_list),
            **dict.fromkeys((ast.ListComp, ast.SetComp, ast.GeneratorExp), self._read_filter),
            **dict.fromkeys((ast.NamedExpr, ast.Starred), self._read_value),
        }

    def fold(self, node: ast.AST | None, scope: PythonScope) -> Texts:
        """Return all values of an expression; each expression is evaluated only once."""
        reader = self._readers.get(type(node)) if node is not None else None
        if node is None or reader is None or self._depth == _DEEPEST:
            return SOMETHING
        if node not in self._done:
            self._budget.pay(_EXPRESSION_COST)
            # the value during the evaluation, as an expression may depend on itself
            self._done[node] = SOMETHING
            self._depth += 1
            self._done[node] = reader(node, scope)
            self._depth -= 1
        return self._done[node]

    def full_name(self, node: ast.AST, scope: PythonScope) -> str:
        """Return the full form of a name: ``os.path.join``.

        Return ``.join`` for an attribute of an unknown object.
        """
        last: list[str] = []
        while isinstance(node, ast.Attribute) and len(last) < _MOST_PARTS:
            last.append(node.attr)
            node = node.value
        first = ""
        if isinstance(node, ast.Name):
            found = scope.find(node.id)
            self._budget.pay(len(found))
            imported = (each.value for each in found if isinstance(each.value, str))
            first = next(imported, "") if found else f"builtins.{node.id}"
        self._budget.pay(len(first) + sum(map(len, last)))
        return ".".join((first, *reversed(last)))

    def _read_any(self, nodes: Iterable[ast.AST | None], scope: PythonScope) -> Texts:
        return unite(self._budget, (self.fold(node, scope) for node in nodes))

    def _read_value(self, node: ast.NamedExpr | ast.Starred, scope: PythonScope) -> Texts:
        return self.fold(node.value, scope)

    def _read_list(self, node: ast.List | ast.Tuple | ast.Set, scope: PythonScope) -> Texts:
        return Several(self._read_any(node.elts, scope))

    def _read_filter(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, scope: PythonScope
    ) -> Texts:
        return Several(self.fold(node.elt, scope))

    def _read_constant(self, node: ast.Constant, _: PythonScope) -> Texts:
        if isinstance(node.value, str):
            return one(node.value)
        return NOTHING if node.value is None else SOMETHING

    def _read_joined(self, node: ast.JoinedStr, scope: PythonScope) -> Texts:
        if len(node.values) > _MOST_PARTS:
            return SOMETHING
        parts = [self.fold(each, scope) for each in node.values]
        return combine(self._budget, lambda *texts: "".join(texts), *parts)

    def _read_formatted(self, node: ast.FormattedValue, scope: PythonScope) -> Texts:
        plain = node.format_spec is None and node.conversion == -1
        return self.fold(node.value, scope) if plain else SOMETHING

    def _read_operation(self, node: ast.BinOp, scope: PythonScope) -> Texts:
        left, right = self.fold(node.left, scope), self.fold(node.right, scope)
        if isinstance(node.op, ast.Div):
            return combine(self._budget, ntpath.join, left, right)
        if not isinstance(node.op, ast.Add):
            return SOMETHING
        if isinstance(left, Several) or isinstance(right, Several):
            return unite(self._budget, (left, right))
        return combine(self._budget, str.__add__, left, right)

    def _read_name(self, node: ast.Name, scope: PythonScope) -> Texts:
        if bound := scope.find(node.id):
            self._budget.pay(_EXPRESSION_COST * len(bound))
            found = scope.read(node)
            return unite(self._budget, map(self._read_binding, found)) if found else SOMETHING
        if node.id == "__path__":
            return Several(self._library.change("os.path.dirname", self._file))
        return self._file if node.id == "__file__" else SOMETHING

    def _read_binding(self, binding: Binding) -> Texts:
        value, scope = binding.value, binding.place.scope
        if isinstance(value, Parameter):
            return self._read_parameter(value)
        if isinstance(value, Grown):
            found = self.fold(value.more, scope)
            return found if isinstance(found, Several) or not found else SOMETHING
        return NAMES.get(value, SOMETHING) if isinstance(value, str) else self.fold(value, scope)

    def _read_parameter(self, parameter: Parameter) -> Texts:
        """Return the values that callers in the file pass, if there are any."""
        if parameter not in self._done:
            self._done[parameter] = SOMETHING
            if calls := self._names.callers.get(parameter.function.name):
                found = (self._read_argument(node, scope, parameter) for node, scope in calls)
                self._done[parameter] = unite(self._budget, found)
        return self._done[parameter]

    def _read_argument(self, call: ast.Call, scope: PythonScope, parameter: Parameter) -> Texts:
        about, inner = parameter.function.args, self._names.inner[parameter.function]
        places = [each.arg for each in (*about.posonlyargs, *about.args)]
        only = [each.arg for each in about.kwonlyargs]
        self._budget.pay(
            _EXPRESSION_COST + len(places) + len(only) + len(call.args) + len(call.keywords)
        )
        if any(isinstance(each, ast.Starred) for each in call.args):
            return SOMETHING
        given = {each.arg: each.value for each in call.keywords}
        given.update(zip(places, call.args, strict=False))
        if parameter.name in given:
            return self.fold(given[parameter.name], scope)
        defaults: dict[str, ast.expr | None] = dict(zip(only, about.kw_defaults, strict=True))
        defaults.update(zip(reversed(places), reversed(about.defaults), strict=False))
        return self.fold(defaults.get(parameter.name), inner)

    def _read_attribute(self, node: ast.Attribute, scope: PythonScope) -> Texts:
        if node.attr == "parent":
            return self._library.change(".parent", self.fold(node.value, scope))
        name = self.full_name(node, scope)
        if node.attr not in {"__file__", "__path__"}:
            return NAMES.get(name, SOMETHING)
        place = self._places.module(name.rpartition(".")[0])
        if place is None:
            return SOMETHING
        return one(place) if node.attr == "__file__" else Several(one(ntpath.dirname(place)))

    def _read_subscript(self, node: ast.Subscript, scope: PythonScope) -> Texts:
        value = node.value
        index = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(value, ast.Attribute) and value.attr == "parents" and isinstance(index, int):
            texts = self.fold(value.value, scope)
            for _ in range(min(index, _MOST_PARTS) + 1):
                texts = self._library.change(".parent", texts)
            return texts
        if isinstance(value, ast.Call) and value.args and index == 0:
            first = self.fold(value.args[0], scope)
            if self.full_name(value.func, scope) == "os.path.split":
                return self._library.change("os.path.dirname", first)
        texts = self.fold(value, scope)
        if isinstance(texts, Several):
            # a list to which the file adds nothing is filled by other code
            return frozenset(texts) or SOMETHING
        return SOMETHING if texts else NOTHING

    def _read_call(self, node: ast.Call, scope: PythonScope) -> Texts:
        name, func = self.full_name(node.func, scope), node.func
        if isinstance(func, ast.Name) and not name:
            return unite(self._budget, map(self._call_bound, scope.find(func.id)))
        if len(node.args) > _MOST_PARTS or any(isinstance(e, ast.Starred) for e in node.args):
            return SOMETHING
        given = [self.fold(each, scope) for each in node.args]
        if isinstance(func, ast.Attribute) and name.startswith("."):
            return self._library.call_method(func.attr, self.fold(func.value, scope), given)
        return self._library.call(name, given)

    def _call_bound(self, binding: Binding) -> Texts:
        """Return the results of a function in the file."""
        if not isinstance(binding.value, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return SOMETHING
        inner = self._names.inner[binding.value]
        return self._read_any(inner.returned, inner)

"""Python's operators on values of which some are not known."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from pathlib import PureWindowsPath

from binary_checks.packages.python_code.values import (
    MOST_ITEMS,
    UNKNOWN,
    Dotted,
    Items,
    Mark,
    Method,
    Values,
    Within,
    combine,
    elements,
    known,
    truth,
)

_EQUALITIES: dict[type[ast.cmpop], Callable[[object, object], object]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
}
_NEVER_EQUAL = (Items, Dotted, Method, Within)  # whose equality says nothing of the code's values


def compare(how: ast.cmpop, left: Values, right: Values) -> Values:
    """``left == right``, ``left in right``, ...; an order is not computed."""
    if isinstance(how, (ast.In, ast.NotIn)):
        inside = combine(_contains, left, right)
        return inside if isinstance(how, ast.In) else combine(operator.not_, inside)
    function = _EQUALITIES.get(type(how))
    if function is None or any(isinstance(each, _NEVER_EQUAL) for each in left | right):
        return UNKNOWN
    return combine(function, left, right)


def _contains(item: object, container: object) -> object:
    if isinstance(container, str) and isinstance(item, str):
        return item in container
    if not isinstance(container, Items) or not container.exact:
        return Mark.UNKNOWN
    inside = [values for values in container.values if item in values]
    if any(len(values) == 1 for values in inside):
        return True
    return Mark.UNKNOWN if inside or UNKNOWN in container.values else False


def add(left: Values, right: Values) -> Values:
    """``left + right``, of texts or of lists."""
    return combine(_add, left, right)


def _add(left: object, right: object) -> object:
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if isinstance(left, Items) and isinstance(right, Items):
        values = (*left.values, *right.values)
        if len(values) <= MOST_ITEMS:
            return Items(values=values, exact=left.exact and right.exact)
    return Mark.UNKNOWN


def turn(how: ast.unaryop, values: Values) -> Values:
    """``not value``, ``-value``."""
    if isinstance(how, ast.Not):
        answer = truth(values)
        return UNKNOWN if answer is None else known(not answer)
    return combine(_negate, values) if isinstance(how, ast.USub) else UNKNOWN


def _negate(value: object) -> object:
    return -value if isinstance(value, int) else Mark.UNKNOWN


def only_paths(values: Values) -> Values:
    """The values that are paths; the others are unknown."""
    return combine(lambda each: each if isinstance(each, PureWindowsPath) else Mark.UNKNOWN, values)


def pick(value: object, index: Values) -> Values:
    """One element of a list: that of the index, or any."""
    if isinstance(value, Mark):
        return known(value)
    if not isinstance(value, Items):
        return UNKNOWN
    if value.exact and len(index) == 1:
        (number,) = index
        if isinstance(number, int) and -len(value.values) <= number < len(value.values):
            return value.values[number]
    return elements(known(value))

"""The texts that an expression of Python code may be, and what is made of them at what cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product

from binary_checks.python_code.parsing import ParsingBudget

_LONGEST = 1024  # characters of one text
_MOST_TEXTS = 256  # that one expression may be
_COST = 32  # of keeping a text, beside its characters

UNKNOWN = "|"
"""Stands for what only running the code tells: no path of Windows has this sign."""

Texts = frozenset[str]
"""All that an expression may be; none where it is the user's affair: ``os.environ["PATH"]``."""


class Several(Texts):
    """A list, a tuple or a set, of which any may be an element."""


NOTHING: Texts = frozenset()
SOMETHING: Texts = frozenset({UNKNOWN})


def one(text: str) -> Texts:
    """A text of the code, unless no path is spelled so: surrogates are not printable either."""
    return frozenset({text}) if len(text) <= _LONGEST and text.isprintable() else SOMETHING


def combine(budget: ParsingBudget, function: Callable[..., str], *parts: Texts) -> Texts:
    """Apply a function that gives no more than it is given, one character a part aside."""
    count, length = 1, len(parts)
    for part in parts:
        count *= len(part)
        length += max(map(len, part), default=0)
        if count > _MOST_TEXTS or length > _LONGEST:
            return SOMETHING
    budget.pay(count * (_COST + length))
    return frozenset(function(*each) for each in product(*parts))


def change(budget: ParsingBudget, function: Callable[[str], str], texts: Texts) -> Texts:
    """Apply a function that says something only of what is wholly known."""
    return combine(budget, lambda each: UNKNOWN if UNKNOWN in each else function(each), texts)


def unite(budget: ParsingBudget, many: Iterable[Texts]) -> Texts:
    """Any of all of these; a list, if one of them is."""
    found, several = set[str](), False
    for texts in many:
        budget.pay(_COST * len(texts))
        several |= isinstance(texts, Several)
        found |= texts
        if len(found) > _MOST_TEXTS:
            found = {UNKNOWN}
    return Several(found) if several else frozenset(found)

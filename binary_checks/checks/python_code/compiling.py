"""Whether the Python files of a package compile, on every Python that it promises."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.python_libraries import ModuleFiles
from binary_checks.knowledge.tags import find_promised
from binary_checks.model import Distribution, Finding, Level, NotInspected, Problem
from binary_checks.model.python_modules import BrokenSource, PythonSyntax

_NEVER = re.compile(
    r"Missing parentheses in call|inconsistent use of tabs|null bytes|not valid|"
    r"unindent does not match|unknown encoding"
)
"""What no later grammar changes."""
_MAY_BE_NEWER = re.compile(
    r"^type\s+\w|^(?:async\s+)?def\s+\w+\s*\[|^class\s+\w+\s*\[|\b[rR]?[fFtT][rR]?['\"]"
    r"|^except\b|^lazy\s|^(?:match|case)\b"
)
"""What a line looks like whose grammar came with Python 3.10 to 3.15."""


@check
def invalid_syntax(package: Distribution, syntax: PythonSyntax) -> Iterator[Finding]:
    """A Python file does not compile.

    Templates whose names are no modules', and tests, are left out. A file that may need a later
    grammar than that of the Python that runs binary_checks is not inspected. ``return`` and
    ``break`` in a wrong place are not found: the parser leaves them to the compiler.

    Why: ``import`` ends with a SyntaxError, and pip prints one when it installs the package.
    Fix: correct the file, or leave it out of the package; look for templates, code for Python 2,
    and marks of a merge.
    Level: an error where importing a module that users import always imports the file; a warning
    where only a function or a branch does, or nothing.
    """
    _demand_code(package)
    promised = find_promised(package)
    host = syntax.grammar[1]
    doubtful = []
    for each in syntax.broken:
        if each.newer_than is not None:
            continue
        if _is_certain(each, host, promised):
            yield _report(each, f"does not compile: {each.reason}", Level.WARNING)
        else:
            doubtful.append(each.path)
    if doubtful:
        others = f", and {len(doubtful) - 1} more files do not," if doubtful[1:] else ""
        sentence = (
            f"does not compile{others} on Python 3.{host}, which parsed it, and may on another"
        )
        yield NotInspected(path=doubtful[0], sentence=f"{sentence} that the package promises")
    for unparsed in syntax.unparsed:
        yield NotInspected(path=unparsed.path, sentence=unparsed.reason)


def _is_certain(broken: BrokenSource, host: int, promised: Collection[int]) -> bool:
    """Whether the file does not compile on a Python that is promised and gets to import it.

    What only a branch imports may be kept for later Pythons (``_typing_312.py`` of whenever).
    """
    if not promised or _NEVER.search(broken.reason):
        return bool(promised)
    later = max(promised) > host and _MAY_BE_NEWER.search(broken.text) is not None
    return host in promised and (bool(broken.reached_from) or not later)


def _demand_code(package: Distribution) -> None:
    if not package.derive(ModuleFiles).sources:
        raise NotApplicable("no Python source in the package")


def _report(broken: BrokenSource, what: str, otherwise: Level) -> Problem:
    line = f"line {broken.line} " if broken.line else ""
    fails = f": `import {broken.reached_from}` fails" if broken.reached_from else ""
    level = Level.ERROR if broken.reached_from else otherwise
    return Problem(path=broken.path, sentence=f"{line}{what}{fails}", level=level)


@check
def syntax_newer_than_promised(package: Distribution, syntax: PythonSyntax) -> Iterator[Finding]:
    """A file that is always imported has syntax that the oldest promised Python does not know.

    The oldest is that of Requires-Python and the tags together. Found are ``match``, ``except*``,
    ``with (a, b):``, ``:=``, parameters before ``/`` and the like, as far as ``ast.parse`` knows
    since when they are. What only a branch imports may be kept from old Pythons.

    Why: installers choose the package for that Python, and the import ends with a SyntaxError.
    Fix: raise Requires-Python, or write it for the oldest Python; test on that one.
    Level: nobody can import the package on that Python.
    """
    _demand_code(package)
    for each in syntax.broken:
        if each.newer_than is not None and each.reached_from:
            python = f"Python {each.newer_than[0]}.{each.newer_than[1]}"
            what = f"does not compile on {python}, which the package promises: {each.reason}"
            yield _report(each, what, Level.OFF)

"""binary_checks: a pytest plugin that says whether a built binary package is fit to ship."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from binary_checks.declaring import check, gathers
    from binary_checks.examination.examination import judge
    from binary_checks.examination.run import examine
    from binary_checks.model import Note, NotInspected, Problem

__version__ = "0.1.0"
__all__ = ["Note", "NotInspected", "Problem", "__version__", "check", "examine", "gathers", "judge"]

_PLACES = {
    "check": "binary_checks.declaring",
    "examine": "binary_checks.examination.run",
    "gathers": "binary_checks.declaring",
    "judge": "binary_checks.examination.examination",
    "Note": "binary_checks.model",
    "NotInspected": "binary_checks.model",
    "Problem": "binary_checks.model",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first access: pytest imports this package in every run."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)

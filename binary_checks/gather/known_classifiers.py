"""The classifiers that PyPI accepts, as the library trove-classifiers lists them."""

from __future__ import annotations

from binary_checks.declaring import gathers
from binary_checks.errors import Unavailable
from binary_checks.model import KnownClassifiers


@gathers(KnownClassifiers)
def list_classifiers() -> KnownClassifiers:
    """Return all classifiers. Raises Unavailable if the library is not installed."""
    try:
        from trove_classifiers import classifiers, deprecated_classifiers
    except ImportError:
        raise Unavailable(
            "trove-classifiers is not installed: install binary-checks[upload]"
        ) from None
    replaced = {name: tuple(others) for name, others in deprecated_classifiers.items()}
    return KnownClassifiers(accepted=frozenset(classifiers), deprecated=replaced)

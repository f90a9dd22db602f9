"""The classifiers that PyPI accepts, as the library trove-classifiers lists them."""

from __future__ import annotations

from importlib import metadata

from binary_checks import systems
from binary_checks.declaring import gathers
from binary_checks.model import KnownClassifiers


@gathers(KnownClassifiers)
def list_classifiers() -> KnownClassifiers:
    """Return all classifiers of the library, or of our copy if it is not installed."""
    try:
        from trove_classifiers import classifiers, deprecated_classifiers

        version = metadata.version("trove-classifiers")
    except (ImportError, metadata.PackageNotFoundError):
        return systems.classifiers()
    return KnownClassifiers(
        source=f"trove-classifiers {version}",
        accepted=frozenset(classifiers),
        deprecated={name: tuple(others) for name, others in deprecated_classifiers.items()},
    )

"""Puts together which build of its project a package is, and what it is linked with."""

from __future__ import annotations

from binary_checks.declaring import gathers
from binary_checks.knowledge.configurations import configure
from binary_checks.knowledge.linked_libraries import find_linked
from binary_checks.model import Linkage, Package
from binary_checks.model.binary_configuration import (
    BinaryConfiguration,
    LinkedLibraries,
    StatedConfiguration,
)


@gathers(BinaryConfiguration)
def find_configuration(package: Package, stated: StatedConfiguration) -> BinaryConfiguration:
    """Find which of the many builds of its project the package is, by all that states it."""
    return configure(package, stated)


@gathers(LinkedLibraries)
def find_linked_libraries(package: Package, linkage: Linkage | None) -> LinkedLibraries:
    """Find how the package is linked with known libraries; with a simulated loader, whence too."""
    return find_linked(package, linkage)

"""The environment that a run installs a package into, as far as what is static asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binary_checks.errors import BinaryChecksError
from binary_checks.knowledge.library_names import is_driver_library
from binary_checks.model import Linkage, Package
from binary_checks.model.places import Place

if TYPE_CHECKING:
    from binary_checks.gather.companions import Shelf
    from binary_checks.gather.facts import Facts
    from binary_checks.sources.installed import Installation


class RunEnvironment:
    """Where the package lies with all that it requires, once this run has installed it.

    Nothing is installed for that alone: ``expected`` says whether a check of the run does so
    anyway, and it is done once for all of them.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.expected = False

    @property
    def shelf(self) -> Shelf:
        """What was given beside the package, which comes first."""
        return self._facts.shelf

    def find_installed(self, name: str) -> Installation | None:
        """Install the package, and find it; None where that fails, or nobody here can look."""
        if not self.expected:
            return None
        from binary_checks.sources.installed import find_installation

        for facts in self._facts.elsewhere or (self._facts,):
            try:
                place = facts.get(Place)  # type: ignore[type-abstract]
                place.demand(facts.get(Package))
                folders = place.installed
                if folders is not None:
                    return find_installation(name, (folders.site_packages,), folders.prefix)
            except BinaryChecksError:  # those that run the package say so
                continue
        return None


def lacks_required(linkage: Linkage) -> bool:
    """Whether something stays open that packages which are required, and not given, may answer."""
    if not linkage.requirements:
        return False
    needs = (edge for edge in linkage.edges if edge.resolved is None)
    open_needs = any(not is_driver_library(edge.needed) for edge in needs)
    return open_needs or bool(linkage.unexplored or linkage.unresolved)

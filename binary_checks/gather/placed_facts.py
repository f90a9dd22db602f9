"""The facts of one package in several places: what it does is gathered in each, what it is once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binary_checks.declaring import Gatherer
from binary_checks.errors import BinaryChecksError
from binary_checks.gather.facts import Facts, find_gatherer
from binary_checks.gather.settings import Settings
from binary_checks.model.places import Place
from binary_checks.model.requests import Request

if TYPE_CHECKING:
    from collections.abc import Mapping


class PlacedFacts(Facts):
    """The facts of a package in one of several places, beside those that hold everywhere."""

    def __init__(self, everywhere: Facts, settings: Settings) -> None:
        super().__init__(everywhere.source, settings, everywhere.shelf, everywhere.progress)
        self._everywhere = everywhere
        everywhere.elsewhere.append(self)
        self._dependent: dict[type, bool] = {}
        self.place = settings.place.label

    def _remember(self, gatherer: Gatherer[..., Any]) -> Any:
        if self._depends(gatherer):
            return super()._remember(gatherer)
        return self._everywhere._remember(gatherer)

    def _depends(self, gatherer: Gatherer[..., Any]) -> bool:
        """Whether a fact is another one in another place, by what it is gathered from."""
        fact = gatherer.fact
        if fact not in self._dependent:
            self._dependent[fact] = False  # of facts that ask for each other, gathering says so
            kinds = (kind for kinds in gatherer.facts for kind in kinds)
            self._dependent[fact] = fact is Place or any(map(self._is_dependent, kinds))
        return self._dependent[fact]

    def _is_dependent(self, kind: type) -> bool:
        if kind is Place:
            return True
        if issubclass(kind, Request) or kind in self._given:
            return False
        gatherer = find_gatherer(kind, self.settings.gatherers)
        return gatherer is not None and self._depends(gatherer)

    @property
    def system(self) -> str:
        """The system of the place, as it calls itself; "" where it was not asked, or not had."""
        place = self._remembered.get(Place)
        if place is None or isinstance(place, BinaryChecksError):
            return ""
        try:
            image = place.system
            return f"this host, {place.target.libc}" if image is None else image.title
        except BinaryChecksError:
            return ""


def place_facts(everywhere: Facts, places: Mapping[str, Settings]) -> dict[str, PlacedFacts]:
    """The facts in each place, by its label."""
    return {label: PlacedFacts(everywhere, settings) for label, settings in places.items()}

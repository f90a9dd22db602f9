"""Places where packages run, with their installers, sandboxes and processes."""

from binary_checks.model import Package, Place
from binary_checks.places.conda_places import CondaPlace, LinkedPlace
from binary_checks.places.existing import InstalledPlace, PrefixPlace, find_python, list_folders
from binary_checks.places.host_place import HostPlace, NoPlace, PlaceSettings
from binary_checks.places.image_place import ImagePlace, InsidePlace
from binary_checks.places.limits import Limits
from binary_checks.places.pyodide_place import PyodidePlace
from binary_checks.places.sandbox import Sandbox, choose_sandbox
from binary_checks.places.unpacked import UnpackedPlace
from binary_checks.places.venv import FreshPlace

PLACES: tuple[type[HostPlace], ...] = (
    FreshPlace,
    CondaPlace,
    InstalledPlace,
    LinkedPlace,
    PrefixPlace,
    UnpackedPlace,
    InsidePlace,
    ImagePlace,
    PyodidePlace,
)
"""The kinds of places. The first that has the requested name and serves the package is chosen."""


def choose_place(package: Package, settings: PlaceSettings) -> Place:
    """Return the place with the requested name for a package.

    If no place with this name can hold the package, return a `NoPlace`, which raises
    Unavailable with the reason when it is used.
    """
    spellings = {settings.name.kind, settings.name.label}
    named = (place for place in PLACES if not spellings.isdisjoint(place.spelled))
    serving = (place for place in named if isinstance(package, place.serves))
    place = next(serving, NoPlace)
    if settings.way.name and place is not FreshPlace:
        place = NoPlace
    return place(settings)


__all__ = [
    "PLACES",
    "InsidePlace",
    "Limits",
    "Place",
    "PlaceSettings",
    "Sandbox",
    "choose_place",
    "choose_sandbox",
    "find_python",
    "list_folders",
]

"""Where a package runs: places, installers, sandboxes, and processes that end."""

from binary_checks.model import Package
from binary_checks.model.places import Place
from binary_checks.places.existing import InstalledPlace, list_folders
from binary_checks.places.host_place import HostPlace, NoPlace, PlaceSettings
from binary_checks.places.sandbox import Sandbox, choose_sandbox
from binary_checks.places.venv import FreshPlace

PLACES: tuple[type[HostPlace], ...] = (FreshPlace, InstalledPlace)
"""Each says which kinds of package it serves; the first that serves one has it."""


def choose_place(package: Package, settings: PlaceSettings) -> Place:
    """Give the place for a package; one that nothing here installs has one that says so."""
    serving = (place for place in PLACES if isinstance(package, place.serves))
    return next(serving, NoPlace)(settings)


__all__ = [
    "PLACES",
    "Place",
    "PlaceSettings",
    "Sandbox",
    "choose_place",
    "choose_sandbox",
    "list_folders",
]

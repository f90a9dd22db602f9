"""Install a package in the place where a run executes it; all facts share the installation."""

from __future__ import annotations

from dataclasses import replace

from binary_checks import places
from binary_checks.declaring import gathers
from binary_checks.errors import NotApplicable, Unavailable
from binary_checks.model import Installed, InstallReport, Package, Place, Source
from binary_checks.places import PlaceSettings
from binary_checks.sources.installed import find_installation


@gathers(Place)
def find_place(package: Package, settings: PlaceSettings, source: Source) -> Place:
    """Choose the place in which the package runs; nothing is created or installed yet.

    Requirements come from the package's own channel if the user named no other channel.
    """
    remote = source.remote()
    own = remote.provenance if remote is not None else None
    channels = (own.index,) if own is not None and own.kind == "channel" else ()
    changed = replace(settings, claims=package.claims, channels=settings.channels or channels)
    if settings.keep is not None:
        changed = replace(changed, keep=settings.keep / source.path.name)
    return places.choose_place(package, changed)


@gathers(InstallReport)
def install(place: Place, package: Package) -> InstallReport:
    """Install the package, and return the report."""
    report = place.install(package)
    if report is None:
        raise NotApplicable("the package was not installed in this run")
    return report


@gathers(Installed)
def find_installed(place: Place, package: Package) -> Installed:
    """Install the package, and find its files on this host.

    Raises Unavailable if it could not be installed, or if this host cannot read the installed
    files.
    """
    if not package.claims.requirements:
        raise Unavailable("none of its requirements can be installed alongside it")
    place.require_installed(package)
    folders = place.installed
    if folders is not None:
        found = find_installation(package.name, (folders.site_packages,), folders.prefix)
        if found is not None:
            return Installed(source=found)
    raise Unavailable("the files of its environment cannot be read from this host")

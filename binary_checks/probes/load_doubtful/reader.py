"""Which objects fresh processes load together, where the simulated loader has doubts."""

from __future__ import annotations

from binary_checks.declaring import gathers
from binary_checks.knowledge.proven_loads import find_doubtful_roots
from binary_checks.model import (
    Ending,
    ImportReport,
    ImportRequest,
    LoadedTogether,
    Package,
    Place,
    Simulation,
    parse_extension_name,
)
from binary_checks.probes.load_extensions.reader import list_loaded
from binary_checks.probes.shared_time import SharedTime


@gathers(LoadedTogether)
def load_doubtful(
    place: Place,
    package: Package,
    simulation: Simulation,
    imports: ImportReport,
    request: ImportRequest,
) -> LoadedTogether:
    """List what fresh processes load, for objects that need something to be loaded before.

    An extension module that no import of a top-level name has loaded is loaded in a process of its
    own, after its parent package, as an import statement would. Raises Unavailable if the package
    could not be installed.
    """
    roots = find_doubtful_roots(simulation.linkage)
    processes = [
        step.libraries
        for step in imports.steps
        if roots and step.outcome is Ending.OK and step.libraries and not step.after
    ]
    known = {package.layout.place(path) for each in processes for path in each}
    paths = (package.layout.inside(root) for root in roots if root not in known)
    left = SharedTime(place.timeout)
    for path in paths:
        if path is not None and parse_extension_name(path) is not None and not left.spent:
            processes.append(list_loaded(place, path, request.first))
    return LoadedTogether(
        python=place.target.name,
        architecture=place.target.architecture,
        processes=tuple(processes),
    )

"""Simulates the loader of the target system on a package and on what lies beside it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from binary_checks import loaders
from binary_checks.declaring import gathers
from binary_checks.gather.companions import Companions
from binary_checks.gather.own_code import OwnCode
from binary_checks.knowledge.library_names import is_driver_library
from binary_checks.loaders.reach import find_bystanders
from binary_checks.loaders.required_packages import find_loaded_before, is_in_doubt, leave_open
from binary_checks.model import Linkage, TargetSystem
from binary_checks.model.places import Installed
from binary_checks.model.protocols import Source


@gathers(Linkage)
def simulate_loader(
    source: Source,
    code: OwnCode,
    target: TargetSystem,
    companions: Companions,
    installed: Installed | None,
) -> Linkage:
    """Find what a loader would, among the package's own files and those of its requirements.

    Where the companions leave something open, the environment that this run has installed the
    package into answers it.
    """
    linkage = _simulate(source, code, target, companions)
    if installed is not None and _lacks_required(linkage):
        again = _simulate(source, code, target, companions, installed.source)
        linkage = replace(again, refused=linkage.refused)
    bystanders = find_bystanders(code.package, linkage, code.names, code.find_tried(linkage))
    return replace(linkage, bystanders=tuple(bystanders))


def _simulate(
    source: Source,
    code: OwnCode,
    target: TargetSystem,
    companions: Companions,
    installed: Source | None = None,
) -> Linkage:
    """Load what there is; and again with what imports have loaded before, where that matters.

    ``installed`` is the same package where others lie beside it.
    """
    package = code.package
    company = companions.accompany(installed or source, package, target)
    others, requirements = company.packages, company.requirements
    simulate = partial(
        loaders.simulate,
        package,
        target,
        others,
        requirements,
        limit_factor=companions.limit_factor,
    )
    linkage = simulate()
    if not is_in_doubt(linkage):
        return linkage
    words = code.read_loading_words()
    before = find_loaded_before(linkage, words, others, target)
    if before.loads:
        linkage = leave_open(simulate(first_loads=before.loads), before.doubtful)
    return replace(linkage, loading_code=words.loading, loads_everywhere=words.everywhere)


def _lacks_required(linkage: Linkage) -> bool:
    """Whether something stays open that packages which are required, and not given, may answer."""
    if not linkage.requirements:
        return False
    needs = (edge for edge in linkage.edges if edge.resolved is None)
    open_needs = any(not is_driver_library(edge.needed) for edge in needs)
    return open_needs or bool(linkage.unexplored or linkage.unresolved)

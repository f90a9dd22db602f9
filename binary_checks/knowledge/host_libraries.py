"""Tells what only this host lacks or has from what a package does, when that is run."""

from __future__ import annotations

from binary_checks import systems
from binary_checks.errors import NotApplicable, Unavailable
from binary_checks.knowledge.reached_objects import soften
from binary_checks.model import Finding, Linkage, NotInspected, Package, Problem, Step
from binary_checks.model.packages import Claims
from binary_checks.wording.causes import of_refusal, read_refusal


def is_promised(name: str, claims: Claims) -> bool:
    """Whether every system that a package claims has that library."""
    try:
        return bool(name) and name in systems.target_for(claims, frozenset()).libraries
    except (NotApplicable, Unavailable):
        return False


def judge_refusal(
    step: Step, sentence: str, linkage: Linkage | Package, package: Package, *, path: str = ""
) -> Finding:
    """What is to be said of a step that failed: nothing where this host alone is to blame.

    A container may lack libGL.so.1, which every manylinux tag promises; and whether an object that
    the package can do without finds its library here says nothing of users. ``path`` is that of an
    extension module, in the prefix.
    """
    cause = of_refusal(step.detail, linkage, package)
    problem = Problem(path=path, sentence=sentence, cause=cause, consequence=bool(cause))
    if not isinstance(linkage, Linkage):
        return problem
    name = read_refusal(step.detail)
    edges = [edge for edge in linkage.edges if name and edge.needed.rpartition("/")[2] == name]
    own = any(edge.resolved == f"system:{edge.needed}" for edge in edges)
    # Nobody knows what the libraries of its requirements need, which were not given.
    if own or (not edges and is_promised(name, package.claims)):
        why = f"this system lacks {name}, which the platform tag promises"
        return NotInspected(path=path, sentence=f"{sentence}: {why}")
    missing = next((edge for edge in edges if edge.resolved is None), None)
    return soften(problem, linkage, missing)

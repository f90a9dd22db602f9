"""Libraries that no known place provides: what is said about them, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from packaging.utils import canonicalize_name

from binary_checks.knowledge.library_names import (
    fills_prefix,
    find_left_out,
    find_shippers,
    is_grafted_name,
    share_first_word,
)
from binary_checks.knowledge.loading import find_framework, is_framework_loaded
from binary_checks.model import (
    Edge,
    Finding,
    Format,
    Linkage,
    NotInspected,
    Package,
    Problem,
    Wheel,
)
from binary_checks.wording.problem_lines import of_requirement
from binary_checks.wording.sentences import bundle, list_needed, name_first, name_needed

_MOST_GUESSES = 3  # distributions in a sentence
_LATER = {
    Format.PE: "load it at the first call (``/DELAYLOAD``), and call ``LoadLibrary`` before to see "
    "whether this Windows has it",
    Format.MACHO: "link it weakly (``-weak_library``, ``-weak_framework``), or raise the tag",
}
"""What to do about a library that only some of the promised systems have: nobody bundles it."""


def report_missing_libraries(
    edges: Sequence[Edge], linkage: Linkage, package: Package, searched: str, cause: str
) -> Finding:
    """Report libraries that no known place provides, unless a required wheel may provide them.

    ``edges`` are needs of one object with the same cause; a need that has a special sentence is
    passed alone.
    """
    edge = edges[0]
    if edge.unknown:
        return NotInspected(path=edge.path, sentence=f"needs {edge.needed}: {edge.unknown}")
    if edge.may_come_with:
        return _ask_for_wheel(edges, linkage, package, searched)
    platform = linkage.target.partition(",")[0]
    if edge.partly:
        return Problem(
            path=edge.path,
            sentence=f"needs {edge.needed}, which only {edge.partly} have, but the tag says "
            f"{platform}: elsewhere this file does not load",
            facts=(edge.needed,),
            cause=cause,
            fix=_LATER.get(Format(linkage.format), ""),
        )
    others = ", nor a given wheel, nor" if linkage.given else " nor"
    names, them = name_needed(edges), "it" if len(edges) == 1 else "them"
    required = frozenset(linkage.requirements)
    found = (find_left_out(each.needed, required) for each in edges)
    owners = " and ".join(dict.fromkeys(filter(None, found)))
    only = owners and f", only {owners}, which the package does not require"
    problem = Problem(
        path=edge.path,
        sentence=f"needs {names}, which neither the package{others} {platform} provides{only} "
        f"({searched}): where users lack {them}, this file does not load",
        facts=list_needed(edges),
        cause=of_requirement(owners) if owners else cause,
    )
    fix = f"require {owners}, as the package requires other distributions of that family"
    return replace(problem, fix=fix) if owners else _add_remedy(problem, edges, linkage, package)


def _ask_for_wheel(
    edges: Sequence[Edge], linkage: Linkage, package: Package, searched: str
) -> NotInspected:
    groups = {id(each.may_come_with): each for each in edges}.values()
    providers = dict.fromkeys(name for each in groups for name in each.may_come_with)
    likely = dict.fromkeys(
        name
        for each in groups
        for name in _find_likely(each, linkage, canonicalize_name(package.name))
    )
    few = likely and len(providers) <= _MOST_GUESSES
    listed = name_first([*likely, *(each for each in providers if each not in likely)])
    whose = f", perhaps {' or '.join(likely)}," if few else f" ({listed})"
    required = set(linkage.requirements).issuperset(providers)
    what = "a required wheel" if required else "another wheel"
    return NotInspected(
        path=edges[0].path,
        sentence=f"needs {name_needed(edges)}, which {what}{whose} may ship ({searched}); "
        "give it with --binary-with",
    )


def _find_likely(edge: Edge, linkage: Linkage, own: str) -> Iterator[str]:
    """Yield the requirements to which the library's name or a searched folder points."""
    shippers = find_shippers(edge.needed, edge.may_come_with)
    insides = filter(None, map(linkage.layout.inside, edge.searched))
    tops = {canonicalize_name(inside.partition("/")[0]) for inside in insides}
    for name in edge.may_come_with:
        placed = any(name == top or share_first_word(name, top) for top in tops)
        if name in shippers or placed or fills_prefix(name) or share_first_word(name, own):
            yield name


# What to do about a missing library.


def _add_remedy(
    problem: Problem, edges: Sequence[Edge], linkage: Linkage, package: Package
) -> Problem:
    framework = find_framework(edges[0], linkage)
    if framework and is_framework_loaded(framework, linkage):
        return replace(
            problem,
            sentence=f"{problem.sentence}; the {framework} that was given is another build of it",
            fix=f"build it for the {framework} that users get, or give the build of {framework} "
            "that it is made for (``--binary-with``)",
        )
    command = bundle(linkage.format)
    if not command or not isinstance(package, Wheel):
        return problem
    if any(is_grafted_name(edge.needed.rpartition("/")[2]) for edge in edges):
        fix = (
            f"``{command.partition(' {')[0]}`` had put the library into the wheel, and something "
            "removed it since: repair the wheel again, as it came from the build"
        )
        return replace(problem, fix=fix)
    return replace(problem, command=f"{command}  # where the library is installed")

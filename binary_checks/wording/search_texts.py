"""Spells where a needed library is looked for, and who may bring it, as parts of sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from binary_checks.model import (
    Edge,
    Finding,
    Format,
    Kind,
    Layout,
    Linkage,
    Note,
    NotInspected,
    ObjectFile,
    Package,
    PeFile,
    Problem,
)
from binary_checks.model.linkage import path_elements, path_tag, shorten
from binary_checks.wording.fix_commands import bundle, lead_to
from binary_checks.wording.phrases import name_first

_WHOLE_PATH = 300  # characters of a search path that a sentence shows
_MOST = 8  # directories in a sentence; ibm_db's objects have two dozen
_MOST_NEEDED = 3  # libraries in a sentence
_MOST_GUESSES = 3  # distributions in a sentence

Owners = Mapping[tuple[str, str], ObjectFile]
"""The objects of a package by path and architecture, as edges name them."""


def owners(package: Package) -> Owners:
    """Find the objects that the edges of a linkage belong to."""
    return {(item.path, item.architecture): item for item in package.objects}


def is_executable(edge: Edge, found: Owners) -> bool:
    """Whether nothing can have been loaded before what needs the library."""
    owner = found.get((edge.path, edge.architecture))
    return owner is not None and owner.kind is Kind.EXECUTABLE


def spell_search(edge: Edge, found: Owners, layout: Layout) -> str:
    """Say where the loader looked: ``searched demo/, demo.libs/``."""
    if edge.searched:
        return f"searched {spell_directories(edge.searched, layout)}"
    owner = found.get((edge.path, edge.architecture))
    if owner is not None and path_elements(owner):
        return f"its {path_tag(owner)} leads nowhere in the package"
    if isinstance(owner, PeFile):
        return "no directory of the package is searched for it"
    return "it has no search path"


def spell_directories(directories: Sequence[str], layout: Layout) -> str:
    """List directories of the prefix, the first of them by name."""
    shown = (layout.shorten(directory) or "." for directory in directories[:_MOST])
    return name_first([f"{shorten(each)}/" for each in shown], _MOST, len(directories))


def spell_elements(library: ObjectFile, elements: Iterable[str]) -> str:
    """Name the elements of a search path: ``looks for libraries in /a, /b (RUNPATH)``."""
    names = [shorten(element) for element in dict.fromkeys(elements)]
    return f"looks for libraries in {name_first(names, _MOST)} ({path_tag(library)})"


def spell_empty_elements(library: ObjectFile) -> str:
    """Say which elements of a search path are empty, and show all of it."""
    elements = path_elements(library)
    empty = [number for number, element in enumerate(elements, 1) if not element]
    if len(empty) == len(elements):
        which = f"all {len(empty)} elements of which are empty"
    elif len(empty) > 1:
        which = f"{len(empty)} of whose {len(elements)} elements are empty"
    else:
        places = {1: "first element", len(elements): "last element"}
        which = f"whose {places.get(empty[0], f'element {empty[0]}')} is empty"
    return f'has the {path_tag(library)} "{shorten(":".join(elements), _WHOLE_PATH)}", {which}'


def spell_lack(edges: Sequence[Edge], linkage: Linkage, searched: str, cause: str) -> Finding:
    """Say that nothing in sight brings the libraries; no problem where a required wheel may.

    Several needs of one object may share a cause; what is said of one alone comes alone.
    """
    edge = edges[0]
    if edge.unknown:
        return NotInspected(path=edge.path, sentence=f"needs {edge.needed}: {edge.unknown}")
    if edge.may_come_with:
        groups = {id(each.may_come_with): each.may_come_with for each in edges}.values()
        bringers = tuple(dict.fromkeys(name for names in groups for name in names))
        few = len(bringers) <= _MOST_GUESSES
        whose = f", perhaps {' or '.join(bringers)}," if few else ""
        required = set(linkage.requirements).issuperset(bringers)
        what = "a required wheel" if required else "another wheel"
        return NotInspected(
            path=edge.path,
            sentence=f"needs {name_needed(edges)}, which {what}{whose} may ship ({searched}); "
            "give it with --binary-with",
        )
    platform = linkage.target.partition(",")[0]
    if edge.partly:
        return Problem(
            path=edge.path,
            sentence=f"needs {edge.needed}, which only {edge.partly} have, but the tag says "
            f"{platform}: elsewhere this file does not load",
            cause=cause,
        )
    others = ", nor a given wheel, nor" if linkage.given else " nor"
    names, them = name_needed(edges), "it" if len(edges) == 1 else "them"
    return Problem(
        path=edge.path,
        sentence=f"needs {names}, which neither the package{others} {platform} provides "
        f"({searched}): where users lack {them}, this file does not load",
        cause=cause,
        command=bundle(linkage.format),
    )


def name_needed(edges: Iterable[Edge]) -> str:
    """The libraries that are needed, each once."""
    return name_first(tuple(dict.fromkeys(edge.needed for edge in edges)), _MOST_NEEDED)


def name_places(edges: Iterable[Edge], linkage: Linkage) -> str:
    """Where the libraries lie that are needed and not searched for there, each once."""
    places = (linkage.show(edge.resolved or edge.elsewhere[0]) for edge in edges)
    return name_first(tuple(dict.fromkeys(places)), _MOST_NEEDED)


def spell_luck(edges: Sequence[Edge], linkage: Linkage, searched: str) -> str:
    """Say that an object does not find libraries that are there, and when it loads all the same."""
    first, places = edges[0], name_places(edges, linkage)
    them, are, were = ("it", "is", "was") if len(edges) == 1 else ("them", "are", "were")
    needs = f"needs {name_needed(edges)} and does not find {them} ({searched})"
    if first.resolved:
        opened = linkage.show(first.root)
        return f"{needs}: it loads only because {opened}, when opened, loads {places} first"
    lie = f"{were} given" if places.startswith("wheel:") else f"{are} in the package"
    return (
        f"{needs}: {places} {lie}, but the search does not lead there; it loads only once "
        f"something else has loaded {them}{spell_loading(first, linkage)}"
    )


def spell_loading(edge: Edge, linkage: Linkage) -> str:
    """Say that the package's own code may load it; "" where that makes no difference."""
    code, bystander = linkage.loading_code, linkage.bystander(edge.path)
    if not code or (bystander is not None and bystander.complete):
        return ""
    return f", as the package's own code may do ({code})"


def spell_out_of_reach(edges: Sequence[Edge], linkage: Linkage, searched: str) -> str:
    """Say that the loader does not find libraries that are there."""
    them, are = ("it", "is") if len(edges) == 1 else ("them", "are")
    return (
        f"needs {name_needed(edges)} and does not find {them} ({searched}): "
        f"{name_places(edges, linkage)} {are} in the package, but no search path leads there: this "
        "file does not load"
    )


def spell_stray(edge: Edge, searched: str, linkage: Linkage, cause: str) -> Finding:
    """Say that an executable's library lies where it does not look.

    On Windows a script that starts the program may have put its directory on PATH, as panda3d's do.
    """
    place = linkage.show(edge.elsewhere[0])
    lies = "was given" if place.startswith("wheel:") else "is in the package"
    if linkage.format == Format.PE:
        sentence = f"needs {edge.needed} ({searched}): it starts only where PATH leads to {place}"
        return Note(path=edge.path, sentence=sentence)
    return Problem(
        path=edge.path,
        sentence=f"needs {edge.needed} and does not start without it ({searched}); "
        f"{place} {lies}, but no search path leads there",
        cause=cause,
        command=spell_way(edge, linkage),
    )


def spell_way(edge: Edge, linkage: Linkage) -> str:
    """What has an object find a library that lies in the package; "" for one elsewhere."""
    place = edge.resolved or next(iter(edge.elsewhere), "")
    if not place or ":" in place:
        return ""
    return lead_to(place.rpartition("/")[0], edge.path, edge.needed, linkage.format)

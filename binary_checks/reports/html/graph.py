"""The graph of a package: its objects and the libraries that they need, as boxes and curves.

Objects that need the same libraries, and are needed by the same objects, share a box: the 81
extension modules of SciPy that need only the system are one curve instead of 81.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from statistics import fmean
from typing import NamedTuple

from binary_checks.model import Edge, Kind, Package, Rule
from binary_checks.reports.html.templating import format_size, shorten
from binary_checks.safe_text import one_line
from binary_checks.wording.sentences import name_first

# Layout of a directed graph in columns from left to right, after Sugiyama.
#
# Graphviz, which does this well, is a separate program; libraries in pure Python are unmaintained,
# or have no layered layout. The caller ensures that graphs have at most a few dozen nodes.

WIDTH, HEIGHT = 204.0, 40.0
"""Size of a node's box, in pixels."""
_GAP, _BETWEEN = 64.0, 14.0
"""Pixels between columns, and between boxes of a column."""
_SWEEPS = 8

_Link = tuple[int, int]


class Placement(NamedTuple):
    """The upper left corners of the boxes, and the curves of the links, for SVG."""

    width: float
    height: float
    corners: tuple[tuple[float, float], ...]  # corners by node
    curves: Mapping[_Link, str]


def place(count: int, links: Collection[_Link], last: Collection[int]) -> Placement:
    """Place the nodes 0 to count - 1; nodes in ``last`` are in the last column."""
    drawn = [link for link in sorted(links) if link[0] != link[1]]
    neighbours: dict[int, list[int]] = defaultdict(list)
    for source, target in drawn:
        neighbours[source].append(target)
        neighbours[target].append(source)
    columns = _find_columns(count, drawn)
    end = max((columns[node] + 1 for node in range(count) if node not in last), default=0)
    columns.update(dict.fromkeys(last, end))
    rows: list[list[int]] = [[] for _ in range(max(columns.values(), default=-1) + 1)]
    for node in range(count):
        rows[columns[node]].append(node)
    tops = _stack(rows, neighbours)
    corners = [(columns[node] * (WIDTH + _GAP), tops[node]) for node in range(count)]
    return Placement(
        width=max(len(rows), 1) * (WIDTH + _GAP) - _GAP,
        height=max((top + HEIGHT for _, top in corners), default=0.0),
        corners=tuple(corners),
        curves={link: _draw_curve(corners[link[0]], corners[link[1]]) for link in drawn},
    )


def _find_columns(count: int, links: Iterable[_Link]) -> dict[int, int]:
    """Return the column of each node: the first one after all nodes that link to it."""
    sources: dict[int, list[int]] = defaultdict(list)
    for source, target in links:
        sources[target].append(source)
    columns: dict[int, int] = {}

    def find(node: int, users: frozenset[int]) -> int:
        """Return a column; links from ``users``, whose columns depend on it, lead back."""
        if node not in columns:
            before = [find(each, users | {node}) for each in sources[node] if each not in users]
            columns[node] = max(before, default=-1) + 1
        return columns[node]

    for node in range(count):
        find(node, frozenset())
    return columns


def _stack(rows: Sequence[list[int]], neighbours: Mapping[int, Sequence[int]]) -> dict[int, float]:
    """Return the top of each node: each row is in the middle, ordered by its neighbours' tops."""
    step, most = HEIGHT + _BETWEEN, max(map(len, rows), default=0)
    tops: dict[int, float] = {}

    def find_middle(node: int) -> float:
        found = [tops[each] for each in neighbours.get(node, ()) if each in tops]
        return fmean(found) if found else tops.get(node, 0.0)

    for sweep in range(_SWEEPS):
        for row in rows if sweep % 2 else reversed(rows):
            row.sort(key=find_middle)
            first = (most - len(row)) * step / 2
            tops.update((node, first + index * step) for index, node in enumerate(row))
    return tops


def _draw_curve(source: tuple[float, float], target: tuple[float, float]) -> str:
    """Return a curve from the side of a box to the other box's side."""
    back = target[0] < source[0]
    start, end = source[0] + WIDTH * (not back), target[0] + WIDTH * back
    top, bottom, middle = source[1] + HEIGHT / 2, target[1] + HEIGHT / 2, (start + end) / 2
    ends = f"{middle:.1f} {top:.1f} {middle:.1f} {bottom:.1f} {end:.1f} {bottom:.1f}"
    return f"M{start:.1f} {top:.1f}C{ends}"


# The graph of a package.

MOST_EDGES = 100_000
"""Needs that are examined; PySide6 for Windows, with 200 libraries, has 3,000."""
MOST_BOXES = 36
MOST_ROWS = 200  # rows of the table below the graph
_TITLED = 20  # names in a box's tooltip
_ROUNDS = 4
_DEEPEST, _SHALLOWEST = 9, 0
"""If there are too many objects, those in one folder are joined: first by nine leading folders of
their paths, then by fewer.
"""
_LABEL, _DETAIL = 27, 29  # characters that fit into a box
_PROVIDED = ("system", "python", "wheel")

_LOADED = {Rule.LOADED.value, Rule.LOADED_FIRST.value, Rule.MISSING.value}

_Corner = tuple[float, float]
_Key = tuple[str, str]  # the tone of a box, and its name
_Needs = Mapping[_Key, set[tuple[_Key, str]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """A box for one object, several similar objects, or libraries from outside of the package."""

    x: float
    y: float
    tone: str
    label: str
    detail: str
    title: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """A row of the table: one library that an object needs."""

    tone: str
    path: str
    needed: str
    rule: str
    found: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Graph:
    """The drawing of one package, with its table."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    # for all needs between two boxes: tone, path and title of a curve
    curves: tuple[tuple[str, str, str], ...]
    legend: tuple[tuple[str, str], ...]  # tone of a curve, and the tone's meaning
    needs: tuple[Need, ...]
    left_out: tuple[str, ...]  # sentences about what is omitted
    box: tuple[float, float] = (WIDTH, HEIGHT)


_LEGEND = {
    "missing": "missing: nothing provides it",
    "open": "not found, but no check reports this as a problem of the package",
    "own": "found in the package (RPATH, RUNPATH, loader path, same folder)",
    "loaded": "not found by any search, but already loaded at that time",
    "outside": "provided by the system, Python or another package",
}


def draw_graph(
    package: Package, edges: tuple[Edge, ...], blames: Callable[[str], bool]
) -> Graph | None:
    """Return the graph of a package, or None if none of its objects needs a library.

    A missing library is red if ``blames`` is True for its name: a check reports it as a problem.
    """
    if not edges:
        return None
    own = {item.file_name.lower(): item.path for item in reversed(package.objects)}
    found = ((_find_target(edge, own, blames), edge) for edge in edges)
    ranked = sorted(found, key=lambda each: -_GRAVITY.get(each[0][0], 0))
    needs: dict[_Key, set[tuple[_Key, str]]] = defaultdict(set)
    needed: dict[_Key, set[str]] = defaultdict(set)
    for target, edge in ranked[:MOST_EDGES]:
        needs[target].update(())  # a library that needs nothing has a box, too
        needs["own", edge.path].add((target, edge.rule.value))
        needed[target].add(edge.needed)
    groups = _bound(needs)
    drawn = sorted(_choose(groups), key=lambda key: (key[0] in _PROVIDED, key))
    numbers = {key: number for number, key in enumerate(drawn)}
    links = _link(groups, numbers)
    places = place(len(drawn), links.keys(), {numbers[key] for key in drawn if key[0] in _PROVIDED})
    shorten_path = package.layout.shorten
    boxes = []
    for key in drawn:
        members = [name for _, name in groups.members[key]]
        names = [*map(shorten_path, members)] if key[0] == "own" else members
        names = sorted(needed[key]) if key[0] in _PROVIDED else names
        boxes.append(_write_box(package, key, names, places.corners[numbers[key]]))
    curves = [
        (
            _tone_of(drawn[link[1]], links[link]),
            path,
            f"{boxes[link[0]].label} needs {boxes[link[1]].label} "
            f"({', '.join(sorted(links[link]))})",
        )
        for link, path in places.curves.items()
    ]
    tones = {tone for tone, _, _ in curves}
    return Graph(
        width=places.width,
        height=places.height,
        boxes=tuple(boxes),
        # red curves on top
        curves=tuple(sorted(curves, key=lambda curve: curve[0] == "missing")),
        legend=tuple((tone, text) for tone, text in _LEGEND.items() if tone in tones),
        needs=tuple(_row(package, edge, target[0]) for target, edge in ranked[:MOST_ROWS]),
        left_out=tuple(_leave_out(len(edges), groups, drawn)),
    )


_GRAVITY = {"missing": 2, "open": 1}
"""Order of rows by the target of a need; needs with other targets come last."""


def _find_target(edge: Edge, own: Mapping[str, str], blames: Callable[[str], bool]) -> _Key:
    """Return the box at which a need ends; ``own`` maps file names in lower case to paths."""
    if edge.resolved is None:
        doubtful = edge.unknown or edge.weak or edge.may_come_with
        if not doubtful and blames(edge.needed):
            return "missing", edge.needed
        elsewhere = own.get(edge.needed.rpartition("/")[2].lower())
        return ("open", edge.needed) if elsewhere is None else ("own", elsewhere)
    kind, colon, rest = edge.resolved.partition(":")
    if colon and kind in {"system", "python"}:
        return kind, ""
    return (
        ("wheel", rest.partition(":")[0]) if colon and kind == "wheel" else ("own", edge.resolved)
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Groups:
    """The contents of boxes, and their needs."""

    members: Mapping[_Key, tuple[_Key, ...]]
    needs: _Needs


def _bound(needs: _Needs) -> _Groups:
    """Join similar boxes; if too many are left, join those in one folder.

    The libraries that most boxes need are joined last.
    """
    users = Counter(target for targets in needs.values() for target, _ in targets)
    hubs = {*islice((key for key, _ in users.most_common() if key[0] == "own"), MOST_BOXES // 3)}

    def coarsen(key: _Key, depth: int) -> object:
        if key[0] != "own" or (depth == _DEEPEST and key in hubs):
            return key
        return key[0], tuple(key[1].split("/")[:-1])[:depth]

    groups = _group(needs, {key: key for key in needs}, apart=frozenset({"missing", "open"}))
    for depth in range(_DEEPEST, _SHALLOWEST, -1):
        if len(groups.members) <= MOST_BOXES:
            break
        folders: dict[object, _Key] = {}
        into = {key: folders.setdefault(coarsen(key, depth), key) for key in sorted(needs)}
        groups = _group(_merge(needs, into), into, apart=frozenset())
    return groups


def _merge(needs: _Needs, into: Mapping[_Key, _Key]) -> _Needs:
    """Return the needs between joined boxes."""
    merged: dict[_Key, set[tuple[_Key, str]]] = defaultdict(set)
    for key, targets in needs.items():
        merged[into[key]].update(
            (into[target], rule) for target, rule in targets if into[target] != into[key]
        )
    return merged


def _group(needs: _Needs, leaders: Mapping[_Key, _Key], apart: frozenset[str]) -> _Groups:
    """Join boxes that have the same needs and are needed by the same boxes, until all differ.

    ``leaders`` maps each key to its present box; kinds in ``apart`` are not joined.
    """
    for _ in range(_ROUNDS):
        users: dict[_Key, set[tuple[_Key, str]]] = defaultdict(set)
        for key, targets in needs.items():
            for target, rule in targets:
                users[target].add((key, rule))
        alike: dict[object, _Key] = {}
        into = {
            key: alike.setdefault(
                key if key[0] in apart else (key[0], frozenset(needs[key]), frozenset(users[key])),
                key,
            )
            for key in sorted(needs)
        }
        if all(key == other for key, other in into.items()):
            break
        leaders = {key: into[other] for key, other in leaders.items()}
        needs = _merge(needs, into)
    members: dict[_Key, list[_Key]] = defaultdict(list)
    for key in sorted(leaders):
        members[leaders[key]].append(key)
    return _Groups(members={key: tuple(own) for key, own in members.items()}, needs=needs)


def _choose(groups: _Groups) -> set[_Key]:
    """Return the boxes to draw: first the boxes with gaps, then the boxes with most curves."""
    degree: Counter[_Key] = Counter()
    for key, targets in groups.needs.items():
        for target, _ in targets:
            grave = 10_000 if target[0] == "missing" else 1
            degree[key] += grave
            degree[target] += grave
    ranked = sorted(groups.needs, key=lambda key: (-degree[key], key))
    return {*ranked[:MOST_BOXES]}


def _link(groups: _Groups, numbers: Mapping[_Key, int]) -> dict[tuple[int, int], set[str]]:
    links: dict[tuple[int, int], set[str]] = defaultdict(set)
    for key, targets in groups.needs.items():
        for target, rule in targets:
            if key in numbers and target in numbers and key != target:
                links[numbers[key], numbers[target]].add(rule)
    return links


def _tone_of(target: _Key, rules: set[str]) -> str:
    """Return the style of a curve: by its target, or by the rule that finds the library."""
    if target[0] != "own":
        return "outside" if target[0] in _PROVIDED else target[0]
    return "loaded" if rules <= _LOADED else "own"


_NOUNS = {"own": "objects", "system": "system libraries", "python": "libraries of Python"}
_DETAILS = {"system": "of the system", "python": "of Python", "open": "not found here"}


def _find_common(paths: Sequence[str]) -> str:
    """Return the folder that contains all paths, with a final slash; "" if there is none."""
    folders = [path.split("/")[:-1] for path in paths]
    shared = takewhile(lambda names: len({*names}) == 1, zip(*folders, strict=False))
    return "".join(f"{names[0]}/" for names in shared)


def _write_box(package: Package, key: _Key, names: Sequence[str], corner: _Corner) -> Box:
    """Return a box for objects or libraries with these names."""
    tone, name = key
    label = names[0].rpartition("/")[2]
    detail = f"of {name}" if tone == "wheel" else _DETAILS.get(tone, tone)
    objects = [item for item in package.objects if tone == "own" and item.path == name]
    if len(names) > 1:
        detail = detail if tone == "wheel" else _find_common(names) or f"{label}, …"
        label = f"{len(names):,} {_NOUNS.get(tone, 'libraries')}"
    elif tone == "own":
        detail = format_size(sum(item.size for item in objects))
    more = f" and {len(names) - _TITLED:,} more" if len(names) > _TITLED else ""
    title = f"{', '.join(shorten(each, 120) for each in names[:_TITLED])}{more}"
    return Box(
        x=round(corner[0], 1),
        y=round(corner[1], 1),
        tone="program" if any(item.kind is Kind.EXECUTABLE for item in objects) else tone,
        label=shorten(one_line(label), _LABEL),
        detail=shorten(one_line(detail), _DETAIL),
        title=one_line(title) or "a library without a name",
    )


def _row(package: Package, edge: Edge, tone: str) -> Need:
    found = edge.unknown
    if edge.may_come_with:
        found = f"perhaps in {name_first(edge.may_come_with)}"
    if edge.resolved is not None:
        found = package.layout.shorten_label(edge.resolved)
    doubt = ", ".join(word for word in ("weak", "delayed") if getattr(edge, word))
    return Need(
        tone=tone,
        path=shorten(one_line(package.layout.shorten(edge.path)), 160),
        needed=shorten(one_line(edge.needed), 160),
        rule=f"{edge.rule.value} ({doubt})" if doubt else edge.rule.value,
        found=shorten(one_line(found), 200),
    )


def _leave_out(count: int, groups: _Groups, drawn: Iterable[_Key]) -> Iterator[str]:
    left_out = groups.members.keys() - {*drawn}
    if left_out:
        objects = sum(len(groups.members[key]) for key in left_out)
        yield f"{objects:,} more objects, with fewer links, are not drawn."
    if count > MOST_EDGES:
        yield f"The drawing has {MOST_EDGES:,} of {count:,} needs."
    if count > MOST_ROWS:
        yield f"The table has {MOST_ROWS:,} of {count:,} needs; `inspect --json` has all."

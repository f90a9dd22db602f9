"""The graph of a package: its objects and the libraries that they need, as boxes and curves.

Objects that need the same libraries, and are needed by the same objects, share a box: the 81
extension modules of SciPy that need only the system are one curve instead of 81.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise, takewhile
from statistics import fmean

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
_GAP, _BETWEEN, _LANE = 64.0, 14.0, 4.0
"""Pixels between columns, between boxes of a column, and the height of a lane for passing
curves.
"""
_SWEEPS = 8

_Link = tuple[int, int]
_Lanes = Mapping[_Link, tuple[int, ...]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """The upper left corners of the boxes, and the curves of the links, for SVG."""

    width: float
    height: float
    corners: tuple[tuple[float, float], ...]  # corners by node
    curves: Mapping[_Link, str]


def place(count: int, links: Collection[_Link], last: Collection[int]) -> Placement:
    """Place the nodes 0 to count - 1; nodes in ``last`` are in the last column."""
    forward = [link for link in sorted(set(links)) if link[0] != link[1]]
    columns = _columns(count, _without_cycles(count, forward), last)
    order, lanes = _fill(columns, forward)
    neighbours = _neighbours(lanes)
    _reduce_crossings(order, neighbours)
    tops = _stack(order, count, neighbours)
    lefts = {node: index * (WIDTH + _GAP) for index, row in enumerate(order) for node in row}
    return Placement(
        width=max(len(order), 1) * (WIDTH + _GAP) - _GAP,
        height=max((tops[node] + _height(node, count) for node in tops), default=0.0),
        corners=tuple((lefts[node], tops[node]) for node in range(count)),
        curves={link: _curve(way, lefts, tops, count) for link, way in lanes.items()},
    )


def _without_cycles(count: int, links: Iterable[_Link]) -> list[_Link]:
    """Return the links without cycles: links that lead back are reversed."""
    targets = defaultdict(list)
    for source, target in links:
        targets[source].append(target)
    state: dict[int, int] = {}  # 1: visiting, 2: done
    turned = []
    for start in range(count):
        stack = [] if start in state else [(start, iter(targets[start]))]
        state.setdefault(start, 1)
        while stack:
            node, rest = stack[-1]
            target = next(rest, -1)
            if target < 0:
                state[node] = 2
                stack.pop()
            elif state.get(target) == 1:
                turned.append((target, node))
            else:
                turned.append((node, target))
                if target not in state:
                    state[target] = 1
                    stack.append((target, iter(targets[target])))
    return turned


def _columns(count: int, links: Iterable[_Link], last: Collection[int]) -> list[int]:
    """Return the column of each node: the first one after all nodes that link to it."""
    sources = defaultdict(list)
    for source, target in links:
        sources[target].append(source)
    columns: dict[int, int] = {}
    for start in range(count):
        stack = [start]
        while stack:
            node = stack[-1]
            open_ones = [each for each in sources[node] if each not in columns]
            if open_ones:
                stack += open_ones
                continue
            columns[node] = max((columns[each] + 1 for each in sources[node]), default=0)
            stack.pop()
    end = max((columns[node] + 1 for node in range(count) if node not in last), default=0)
    return [end if node in last else columns[node] for node in range(count)]


def _fill(columns: Sequence[int], links: Iterable[_Link]) -> tuple[list[list[int]], _Lanes]:
    """Return the nodes of each column, and the nodes through which each link is drawn.

    A link that passes a column gets an extra node there, a lane. Links to one target share their
    lanes, so that a reader follows one line instead of forty.
    """
    order: list[list[int]] = [[] for _ in range(max(columns, default=-1) + 1)]
    for node, column in enumerate(columns):
        order[column].append(node)
    lanes: dict[_Link, tuple[int, ...]] = {}
    shared: dict[tuple[int, int, int], int] = {}
    for source, target in links:
        step = 1 if columns[target] > columns[source] else -1
        way = [source]
        for column in range(columns[source] + step, columns[target], step):
            lane = shared.setdefault((target, column, step), len(columns) + len(shared))
            if lane not in order[column]:
                order[column].append(lane)
            way.append(lane)
        lanes[source, target] = (*way, target)
    return order, lanes


def _neighbours(lanes: _Lanes) -> Mapping[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for way in lanes.values():
        for one, other in pairwise(way):
            found[one].append(other)
            found[other].append(one)
    return found


def _reduce_crossings(order: list[list[int]], neighbours: Mapping[int, list[int]]) -> None:
    """Sort each column by the positions of neighbours in the column before, in both directions."""
    for sweep in range(_SWEEPS):
        forth = sweep % 2 == 0
        indexes = range(1, len(order)) if forth else range(len(order) - 2, -1, -1)
        for index in indexes:
            before = order[index - 1 if forth else index + 1]
            ranks = {node: rank / max(len(before), 1) for rank, node in enumerate(before)}
            own = {node: rank / len(order[index]) for rank, node in enumerate(order[index])}
            order[index].sort(key=lambda node: _mean(neighbours[node], ranks, own[node]))


def _mean(nodes: Iterable[int], values: Mapping[int, float], otherwise: float) -> float:
    found = [values[node] for node in nodes if node in values]
    return fmean(found) if found else otherwise


def _height(node: int, count: int) -> float:
    return HEIGHT if node < count else _LANE


def _stack(
    order: Sequence[Sequence[int]], count: int, neighbours: Mapping[int, list[int]]
) -> dict[int, float]:
    """Return the top of each node, as near to the middle of its neighbours as possible.

    The drawing becomes no higher than its highest column, with the boxes stacked closely.
    """
    heights = {node: _height(node, count) for row in order for node in row}
    ends = [sum(heights[node] + _BETWEEN for node in row) - _BETWEEN for row in order]
    tops: dict[int, float] = {}
    for row, end in zip(order, ends, strict=True):
        top = (max(ends) - end) / 2
        for node in row:
            tops[node] = top
            top += heights[node] + _BETWEEN
    for sweep in range(_SWEEPS):
        for row in order if sweep % 2 else reversed(order):
            middles = {node: top + heights[node] / 2 for node, top in tops.items()}
            wanted = [
                _mean(neighbours[node], middles, middles[node]) - heights[node] / 2 for node in row
            ]
            tops.update(zip(row, _fit(wanted, [heights[n] for n in row], max(ends)), strict=True))
    return tops


def _fit(wanted: Sequence[float], heights: Sequence[float], end: float) -> list[float]:
    """Return the tops, moved just enough that boxes fit between 0 and ``end`` without overlap."""
    placed, free = list[float](), 0.0
    for top, height in zip(wanted, heights, strict=True):
        placed.append(max(top, free))
        free = placed[-1] + height + _BETWEEN
    for index in range(len(placed) - 1, -1, -1):
        placed[index] = min(placed[index], end - heights[index])
        end = placed[index] - _BETWEEN
    return placed


def _curve(
    way: Sequence[int], lefts: Mapping[int, float], tops: Mapping[int, float], count: int
) -> str:
    """Return a curve from the side of a box to the next box's side, straight along lanes."""
    back = lefts[way[-1]] < lefts[way[0]]
    parts: list[str] = []
    for one, other in pairwise(way):
        start = (lefts[one] + (0 if back else WIDTH), tops[one] + _height(one, count) / 2)
        end = (lefts[other] + (WIDTH if back else 0), tops[other] + _height(other, count) / 2)
        bend = (end[0] - start[0]) / 2
        if parts:
            parts.append(f"L{start[0]:.1f} {start[1]:.1f}")
        else:
            parts.append(f"M{start[0]:.1f} {start[1]:.1f}")
        parts.append(
            f"C{start[0] + bend:.1f} {start[1]:.1f} {end[0] - bend:.1f} {end[1]:.1f} "
            f"{end[0]:.1f} {end[1]:.1f}"
        )
    return "".join(parts)


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
class Curve:
    """A curve for all needs between two boxes."""

    path: str
    tone: str
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
    curves: tuple[Curve, ...]
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
    reader = _Reader(blames=blames, own=own)
    ranked = sorted(edges, key=lambda edge: -_GRAVITY.get(reader.find_target(edge)[0], 0))
    groups = _bound(reader.connect(ranked[:MOST_EDGES]))
    drawn = sorted(_choose(groups), key=lambda key: (key[0] in _PROVIDED, key))
    numbers = {key: number for number, key in enumerate(drawn)}
    links = _link(groups, numbers)
    places = place(len(drawn), links.keys(), {numbers[key] for key in drawn if key[0] in _PROVIDED})
    writer = _BoxWriter(package=package, groups=groups, names=reader.name(ranked[:MOST_EDGES]))
    boxes = [writer.write(key, places.corners[numbers[key]]) for key in drawn]
    curves = [
        Curve(
            path=path,
            tone=_tone_of(drawn[link[1]], links[link]),
            title=_describe_need(boxes, link, links[link]),
        )
        for link, path in places.curves.items()
    ]
    tones = {curve.tone for curve in curves}
    return Graph(
        width=places.width,
        height=places.height,
        boxes=tuple(boxes),
        # red curves on top
        curves=tuple(sorted(curves, key=lambda curve: curve.tone == "missing")),
        legend=tuple((tone, text) for tone, text in _LEGEND.items() if tone in tones),
        needs=tuple(
            _row(package, edge, reader.find_target(edge)[0]) for edge in ranked[:MOST_ROWS]
        ),
        left_out=tuple(_leave_out(len(edges), groups, drawn)),
    )


_GRAVITY = {"missing": 2, "open": 1}
"""Order of rows by the target of a need; needs with other targets come last."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reader:
    """Finds the box at which a need ends."""

    blames: Callable[[str], bool]
    own: Mapping[str, str]  # file name in lower case -> path

    def find_target(self, edge: Edge) -> _Key:
        """Return the box at which a need ends."""
        if edge.resolved is None:
            doubtful = edge.unknown or edge.weak or edge.may_come_with
            if not doubtful and self.blames(edge.needed):
                return "missing", edge.needed
            elsewhere = self.own.get(edge.needed.rpartition("/")[2].lower())
            return ("open", edge.needed) if elsewhere is None else ("own", elsewhere)
        kind, colon, rest = edge.resolved.partition(":")
        if colon and kind in {"system", "python"}:
            return kind, ""
        if colon and kind == "wheel":
            return kind, rest.partition(":")[0]
        return "own", edge.resolved

    def connect(self, edges: Iterable[Edge]) -> _Needs:
        """Return the needs of all boxes, and the rules by which needed libraries are found."""
        found: dict[_Key, set[tuple[_Key, str]]] = defaultdict(set)
        for edge in edges:
            target = self.find_target(edge)
            found[target].update(())
            found["own", edge.path].add((target, edge.rule.value))
        return found

    def name(self, edges: Iterable[Edge]) -> Mapping[_Key, tuple[str, ...]]:
        """Return the names by which each box is needed."""
        names: dict[_Key, set[str]] = defaultdict(set)
        for edge in edges:
            names[self.find_target(edge)].add(edge.needed)
        return {key: tuple(sorted(found)) for key, found in names.items()}


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


def _describe_need(boxes: Sequence[Box], link: tuple[int, int], rules: set[str]) -> str:
    source, target = (boxes[end].label for end in link)
    return f"{source} needs {target} ({', '.join(sorted(rules))})"


_NOUNS = {"own": "objects", "system": "system libraries", "python": "libraries of Python"}
_DETAILS = {"system": "of the system", "python": "of Python", "open": "not found here"}


def _find_common(paths: Sequence[str]) -> str:
    """Return the folder that contains all paths, with a final slash; "" if there is none."""
    folders = [path.split("/")[:-1] for path in paths]
    shared = takewhile(lambda names: len({*names}) == 1, zip(*folders, strict=False))
    return "".join(f"{names[0]}/" for names in shared)


@dataclass(frozen=True, kw_only=True, slots=True)
class _BoxWriter:
    """Writes the contents of the boxes of one package."""

    package: Package
    groups: _Groups
    names: Mapping[_Key, tuple[str, ...]]

    def write(self, key: _Key, corner: tuple[float, float]) -> Box:
        """Return a box with its position."""
        tone, name = key
        names = self._list_names(key)
        label = names[0].rpartition("/")[2]
        detail = {"wheel": f"of {name}"}.get(tone, _DETAILS.get(tone, tone))
        if len(names) > 1:
            detail = detail if tone == "wheel" else _find_common(names) or f"{label}, …"
            label = f"{len(names):,} {_NOUNS.get(tone, 'libraries')}"
        elif tone == "own":
            detail = self._measure(name)
        more = f" and {len(names) - _TITLED:,} more" if len(names) > _TITLED else ""
        title = f"{', '.join(shorten(each, 120) for each in names[:_TITLED])}{more}"
        return Box(
            x=round(corner[0], 1),
            y=round(corner[1], 1),
            tone="program" if tone == "own" and self._is_program(name) else tone,
            label=shorten(one_line(label), _LABEL),
            detail=shorten(one_line(detail), _DETAIL),
            title=one_line(title) or "a library without a name",
        )

    def _list_names(self, key: _Key) -> list[str]:
        if key[0] in _PROVIDED:
            return [*self.names[key]]
        members = [name for _, name in self.groups.members[key]]
        return [*map(self.package.layout.shorten, members)] if key[0] == "own" else members

    def _measure(self, path: str) -> str:
        sizes = (item.size for item in self.package.objects if item.path == path)
        return format_size(sum(sizes))

    def _is_program(self, path: str) -> bool:
        kinds = (item.kind for item in self.package.objects if item.path == path)
        return Kind.EXECUTABLE in kinds


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

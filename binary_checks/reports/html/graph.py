"""Draws who needs whom in a package: what the simulated loader found, as boxes and curves.

Objects with the same needs, needed by the same ones, are one box: the 81 extension modules of SciPy
that need nothing but the system are one curve, not 81.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

from binary_checks.lines import one_line
from binary_checks.model import Edge, Kind, Package
from binary_checks.model.linkage import Rule
from binary_checks.reports.html.figures import shorten, spell_size
from binary_checks.reports.html.layered import HEIGHT, WIDTH, place
from binary_checks.wording.sentences import name_first

MOST_EDGES = 100_000
"""Needs that are looked at; PySide6 for Windows, with 200 libraries, has 3,000."""
MOST_BOXES = 36
MOST_ROWS = 200  # of the table beneath
_TITLED = 20  # names that a box has behind it
_ROUNDS = 4
_DEEPEST, _SHALLOWEST = 9, 0
"""Folders of a path by which objects are joined where there are too many of them."""
_LABEL, _DETAIL = 27, 29  # characters that fit into a box
_PROVIDED = ("system", "python", "wheel")

_LOADED = {Rule.LOADED.value, Rule.LOADED_FIRST.value, Rule.MISSING.value}

_Key = tuple[str, str]  # the tone of a box, and what it stands for
_Needs = Mapping[_Key, set[tuple[_Key, str]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """One object, several that are alike, or libraries from elsewhere."""

    x: float
    y: float
    tone: str
    label: str
    detail: str
    title: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """All needs between two boxes."""

    path: str
    tone: str
    title: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """A row of the table: one needed name of one object."""

    tone: str
    path: str
    needed: str
    rule: str
    found: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Graph:
    """The drawing of one package, and the same as a table."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    curves: tuple[Curve, ...]
    legend: tuple[tuple[str, str], ...]  # tone of a curve, and what it means
    needs: tuple[Need, ...]
    left_out: tuple[str, ...]  # a sentence each
    box: tuple[float, float] = (WIDTH, HEIGHT)


_LEGEND = {
    "missing": "missing: nothing provides it",
    "open": "not found here, and no check blames the package for it",
    "own": "found in the package (RPATH, RUNPATH, loader path, same folder)",
    "loaded": "found by no search, only where it was loaded before",
    "outside": "provided by the system, Python or another package",
}


def draw_graph(
    package: Package, edges: tuple[Edge, ...], blames: Callable[[str], bool]
) -> Graph | None:
    """The graph of a package; None where nothing in it needs anything.

    What is missing is red where ``blames`` says so of its name: where a check calls it a problem.
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
            title=_say(boxes, link, links[link]),
        )
        for link, path in places.curves.items()
    ]
    tones = {curve.tone for curve in curves}
    return Graph(
        width=places.width,
        height=places.height,
        boxes=tuple(boxes),
        curves=tuple(sorted(curves, key=lambda curve: curve.tone == "missing")),  # red on top
        legend=tuple((tone, text) for tone, text in _LEGEND.items() if tone in tones),
        needs=tuple(
            _row(package, edge, reader.find_target(edge)[0]) for edge in ranked[:MOST_ROWS]
        ),
        left_out=tuple(_leave_out(len(edges), groups, drawn)),
    )


_GRAVITY = {"missing": 2, "open": 1}
"""Needs that lead there come first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reader:
    """Tells by an edge where it leads to."""

    blames: Callable[[str], bool]
    own: Mapping[str, str]  # file name in lower case -> path

    def find_target(self, edge: Edge) -> _Key:
        """The box that a need leads to."""
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
        """The needs of all that needs or is needed, and the rules that find them."""
        found: dict[_Key, set[tuple[_Key, str]]] = defaultdict(set)
        for edge in edges:
            target = self.find_target(edge)
            found[target].update(())
            found["own", edge.path].add((target, edge.rule.value))
        return found

    def name(self, edges: Iterable[Edge]) -> Mapping[_Key, tuple[str, ...]]:
        """The names by which each is needed."""
        names: dict[_Key, set[str]] = defaultdict(set)
        for edge in edges:
            names[self.find_target(edge)].add(edge.needed)
        return {key: tuple(sorted(found)) for key, found in names.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Groups:
    """Boxes: what stands in each, and what they need."""

    members: Mapping[_Key, tuple[_Key, ...]]
    needs: _Needs


def _bound(needs: _Needs) -> _Groups:
    """Join what is alike; while that leaves too many boxes, join what lies in one folder.

    At first those libraries stay alone that most others need.
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
    """The needs between boxes, where each key stands in one."""
    merged: dict[_Key, set[tuple[_Key, str]]] = defaultdict(set)
    for key, targets in needs.items():
        merged[into[key]].update(
            (into[target], rule) for target, rule in targets if into[target] != into[key]
        )
    return merged


def _group(needs: _Needs, leaders: Mapping[_Key, _Key], apart: frozenset[str]) -> _Groups:
    """Join what has the same needs and is needed by the same ones, until nothing more is alike.

    ``leaders`` says of each key in which box it stands so far, ``apart`` which kinds stay alone.
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
    """The boxes that are drawn: those with gaps, then those with the most curves."""
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
    """How a curve is drawn: by where it leads to and, in the package, how that is found."""
    if target[0] != "own":
        return "outside" if target[0] in _PROVIDED else target[0]
    return "loaded" if rules <= _LOADED else "own"


def _say(boxes: Sequence[Box], link: tuple[int, int], rules: set[str]) -> str:
    source, target = (boxes[end].label for end in link)
    return f"{source} needs {target} ({', '.join(sorted(rules))})"


_NOUNS = {"own": "objects", "system": "system libraries", "python": "libraries of Python"}
_DETAILS = {"system": "of the system", "python": "of Python", "open": "not found here"}


def _find_common(paths: Sequence[str]) -> str:
    """The folder that all lie in, with a slash at its end; "" for none."""
    folders = [path.split("/")[:-1] for path in paths]
    shared = takewhile(lambda names: len({*names}) == 1, zip(*folders, strict=False))
    return "".join(f"{names[0]}/" for names in shared)


@dataclass(frozen=True, kw_only=True, slots=True)
class _BoxWriter:
    """Writes what stands in the boxes of one package."""

    package: Package
    groups: _Groups
    names: Mapping[_Key, tuple[str, ...]]

    def write(self, key: _Key, corner: tuple[float, float]) -> Box:
        """One box at its place."""
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
        return spell_size(sum(sizes))

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
    lost = groups.members.keys() - {*drawn}
    if lost:
        objects = sum(len(groups.members[key]) for key in lost)
        yield f"{objects:,} more objects, with fewer links, are not drawn."
    if count > MOST_EDGES:
        yield f"Of {count:,} needs the drawing has {MOST_EDGES:,}."
    if count > MOST_ROWS:
        yield f"The table has {MOST_ROWS:,} of {count:,} needs; `inspect --json` has all."

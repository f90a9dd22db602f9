"""Placement a directed graph in columns from left to right, in the manner of Sugiyama.

The library that does it well, Graphviz, is a program of its own; those in pure Python are no longer
kept, or place nothing in layers. What is drawn here has some dozen nodes: the caller sees to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

WIDTH, HEIGHT = 204.0, 40.0
"""Of a node's box, in pixels."""
_GAP, _BETWEEN, _LANE = 64.0, 14.0, 4.0
"""Between columns, between the boxes of one, and the height of a lane for curves that pass."""
_SWEEPS = 8

_Link = tuple[int, int]
_Lanes = Mapping[_Link, tuple[int, ...]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """Where the boxes stand (their upper left corners), and the curves of the links, for SVG."""

    width: float
    height: float
    corners: tuple[tuple[float, float], ...]  # by node
    curves: Mapping[_Link, str]


def place(count: int, links: Collection[_Link], last: Collection[int]) -> Placement:
    """Place nodes 0 to count - 1; those in ``last`` stand in the last column."""
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
    """The links, those turned around that lead back to where a walk came from."""
    targets = defaultdict(list)
    for source, target in links:
        targets[source].append(target)
    state: dict[int, int] = {}  # 1 on the way, 2 done
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
    """The column of each node: one further than all that lead to it."""
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
    """The nodes of each column, and for each link its way: lanes where it passes a column.

    Links to one target share their lanes: they leave the reader one line to follow, not forty.
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
    """Sort each column by where its neighbours in the column before stand, to and fro."""
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
    """The top of each node: as near to the middle of its neighbours as the others let it.

    No column is higher than the highest one is where all its boxes stand close together.
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
    """The same tops, moved as far as needed to stand one below the other between 0 and the end."""
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
    """From the side of one box to that of the next, straight along lanes."""
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

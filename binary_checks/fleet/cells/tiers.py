"""Tiers: few cells that cover the values of all axes, or the pairs of values, of a matrix."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from itertools import combinations

from binary_checks.errors import ProfileError
from binary_checks.fleet.cell import AXES, Cell

NIGHTLY = "nightly"
_SIZES = {"pr": 1, "merge": 2}
"""How many axes stand together in what a tier covers."""
TIERS = (*_SIZES, NIGHTLY)
_OWN = [axis for axis in AXES if axis not in ("project", "system", "architecture")]

Trait = tuple[tuple[int, Hashable], ...]
"""Values of one axis, or of several together, each with the number of its axis."""


def choose_tier(cells: Sequence[Cell], tier: str) -> tuple[Cell, ...]:
    """The cells of a tier, in order. Raises ProfileError for one that there is not.

    Each project is covered for itself. System and architecture count as one axis, for windows-arm64
    is neither macos-arm64 nor windows-amd64, and whether there is a GPU stage counts as another. An
    axis that a cell lacks has a value there, too: that it has none.
    """
    if tier == NIGHTLY:
        return tuple(cells)
    if tier not in _SIZES:
        raise ProfileError(f"--tier: {tier!r:.40} is not one of: {', '.join(TIERS)}")
    by_project: dict[str, list[int]] = defaultdict(list)
    for number, cell in enumerate(cells):
        by_project[cell.project].append(number)
    chosen = [
        numbers[position]
        for numbers in by_project.values()
        for position in _cover([cells[number] for number in numbers], _SIZES[tier])
    ]
    return tuple(cells[number] for number in sorted(chosen))


def _cover(cells: Sequence[Cell], size: int) -> list[int]:
    """The positions of cells that have every trait; of equals those without a GPU stage, the first.

    First whichever has most that is lacking, then without those that turned out to be needless.
    """
    traits = _find_traits(cells, size)
    holders: dict[Trait, list[int]] = defaultdict(list)
    for position, own in enumerate(traits):
        for trait in own:
            holders[trait].append(position)
    gains = [len(own) for own in traits]
    queue = [(-gain, cells[position].gpu, position) for position, gain in enumerate(gains)]
    heapq.heapify(queue)
    lacking = set(holders)
    chosen: list[int] = []
    while lacking:
        gain, gpu, position = heapq.heappop(queue)
        if -gain != gains[position]:  # others have had some of it in the meantime
            heapq.heappush(queue, (-gains[position], gpu, position))
            continue
        chosen.append(position)
        for trait in lacking.intersection(traits[position]):
            lacking.discard(trait)
            for holder in holders[trait]:
                gains[holder] -= 1
    return _drop_needless(cells, chosen, traits)


def _find_traits(cells: Sequence[Cell], size: int) -> list[list[Trait]]:
    """What each cell has of what is to be covered: no axis counts in which all cells are alike."""
    values = [
        ((cell.system, cell.architecture), cell.gpu, *(getattr(cell, axis) for axis in _OWN))
        for cell in cells
    ]
    varying = [axis for axis, found in enumerate(zip(*values, strict=True)) if len({*found}) > 1]
    size = min(size, len(varying))
    return [[*combinations([(axis, row[axis]) for axis in varying], size)] for row in values]


def _drop_needless(
    cells: Sequence[Cell], chosen: Sequence[int], traits: Sequence[Sequence[Trait]]
) -> list[int]:
    """The chosen without those all of whose traits others have: dear ones go first, then late."""
    counts = Counter(trait for position in chosen for trait in traits[position])
    kept = set(chosen)
    for position in sorted(chosen, key=lambda each: (not cells[each].gpu, -each)):
        if all(counts[trait] > 1 for trait in traits[position]):
            kept.discard(position)
            counts.subtract(traits[position])
    return [*kept]

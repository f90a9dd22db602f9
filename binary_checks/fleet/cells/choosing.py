"""Choose the cells of a run: by id, condition, tier and shard, with changes for one run."""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import combinations
from typing import NamedTuple

from binary_checks.errors import ProfileError
from binary_checks.fleet.cells.cells_file import require_source
from binary_checks.fleet.cells.matrix import Matrix
from binary_checks.fleet.night import AXES, Cell
from binary_checks.profile import CellCondition, read_condition, reject_unknown

# Tiers: few cells that cover all values of the axes, or all pairs of values.

NIGHTLY = "nightly"
_SIZES = {"pr": 1, "merge": 2}
"""Tier -> how many axes are covered together."""
TIERS = (*_SIZES, NIGHTLY)
_OWN = [axis for axis in AXES if axis not in ("project", "system", "architecture")]

Trait = tuple[tuple[int, Hashable], ...]
"""Values of one or more axes, each with its axis's number."""


def choose_tier(cells: Sequence[Cell], tier: str) -> tuple[Cell, ...]:
    """Return the cells of a tier, in order. Raises ProfileError for an unknown tier.

    Each project is covered separately. System and architecture together count as one axis, because
    windows-arm64 is neither macos-arm64 nor windows-amd64. Whether a cell has a GPU stage counts as
    an axis, too, and a missing value counts as a value.
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
    """Return the positions of cells that together have every trait.

    Repeatedly choose the cell with most uncovered traits. Of equal cells, prefer those without a
    GPU stage, then the first. Finally drop cells that became redundant.
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
        if -gain != gains[position]:  # other choices have covered some of its traits since
            heapq.heappush(queue, (-gains[position], gpu, position))
            continue
        chosen.append(position)
        for trait in lacking.intersection(traits[position]):
            lacking.discard(trait)
            for holder in holders[trait]:
                gains[holder] -= 1
    return _drop_needless(cells, chosen, traits)


def _find_traits(cells: Sequence[Cell], size: int) -> list[list[Trait]]:
    """Return the traits of each cell; axes with equal values in all cells do not count."""
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
    """Return the chosen cells without redundant ones, dropping GPU cells and late cells first."""
    counts = Counter(trait for position in chosen for trait in traits[position])
    kept = set(chosen)
    for position in sorted(chosen, key=lambda each: (not cells[each].gpu, -each)):
        if all(counts[trait] > 1 for trait in traits[position]):
            kept.discard(position)
            counts.subtract(traits[position])
    return [*kept]


# Conditions and shards.

_SHARD = re.compile(r"([1-9]\d{0,5})/([1-9]\d{0,5})")


def select(cells: Iterable[Cell], where: str) -> tuple[Cell, ...]:
    """Return the cells that meet a condition, in order; all for "". Raises ProfileError."""
    if not where:
        return tuple(cells)
    condition = read_condition(where, "--where")
    return tuple(filter(condition.meets, cells))


def shard(cells: Sequence[Cell], part: str) -> tuple[Cell, ...]:
    """Return part i of n, for "i/n". Raises ProfileError.

    Each cell is in exactly one part, and sizes differ by at most one. Neighbours, which are similar
    and take similar time, are in different parts.
    """
    found = _SHARD.fullmatch(part)
    if found is None or int(found[1]) > int(found[2]):
        raise ProfileError(f"--shard: {part}: not I/N, such as 1/4 or 4/4")
    return tuple(cells[int(found[1]) - 1 :: int(found[2])])


# One-off changes of a run, and the whole choice.

ONLY, ALSO, LABELS = "BINARY_CHECKS_ONLY", "BINARY_CHECKS_ALSO", "BINARY_CHECKS_LABELS"
"""Variables that CI sets: conditions, and the labels of a pull request."""
_BETWEEN = re.compile(r"[;,\n]")
_KINDS = ("only", "also", "tier")
_SPELLED = "'cells only: …', 'cells also: …' or 'cells tier: …'"
_LABEL = re.compile(rf"cells[ -]({'|'.join(_KINDS)}): *(.*)")
_NEAR = re.compile(r"cells?[ -](\w+) *:", re.IGNORECASE)
"""Matches the beginning of a label about cells, even if it is mistyped."""
_MOST = 100  # conditions, because each is compared with every cell


@dataclass(frozen=True, kw_only=True, slots=True)
class OneOff:
    """Changes for one branch or run, which are in no committed file."""

    # (origin, condition); a cell must meet at least one
    only: tuple[tuple[str, CellCondition], ...] = ()
    also: tuple[tuple[str, CellCondition], ...] = ()
    tier: str = NIGHTLY
    note: str = ""  # what the environment asks for, for people who read the output

    def narrow(self, cells: Sequence[Cell], of: Sequence[Cell]) -> tuple[Cell, ...]:
        """Return the cells that meet any condition of ``only``. Raises ProfileError.

        Each condition must match at least one cell in ``of``.
        """
        met = self._match(of, self.only)
        return tuple(cell for cell in cells if cell.id in met) if self.only else tuple(cells)

    def enable(self, matrix: Matrix) -> Matrix:
        """Return the matrix with cells that ``also`` adds, even left-out ones.

        Raises ProfileError.
        """
        if not self.also:
            return matrix
        known = {cell.id for cell in matrix.cells}
        wanted = known | self._match(matrix.product, self.also)
        cells = tuple(cell for cell in matrix.product if cell.id in wanted)
        for cell in cells:
            if cell.id not in known:
                require_source(cell, matrix.sources, matrix.source)
        return replace(matrix, cells=cells)

    def extend(self, chosen: Sequence[Cell], cells: Sequence[Cell]) -> tuple[Cell, ...]:
        """Return the chosen cells and those that ``also`` adds, in order. Raises ProfileError."""
        if not self.also:
            return tuple(chosen)
        wanted = {cell.id for cell in chosen} | self._match(cells, self.also)
        return tuple(cell for cell in cells if cell.id in wanted)

    @staticmethod
    def _match(cells: Sequence[Cell], conditions: Iterable[tuple[str, CellCondition]]) -> set[str]:
        """Return the ids of cells that meet any condition; each condition must match a cell."""
        wanted: set[str] = set()
        for origin, condition in conditions:
            met = {cell.id for cell in cells if condition.meets(cell)}
            if not met:
                raise ProfileError(f"{origin} {condition.written!r:.200} matches no cell")
            wanted |= met
        return wanted


def read_one_off(
    environment: Mapping[str, str],
    *,
    only: Sequence[str] = (),
    also: Sequence[str] = (),
    tier: str = NIGHTLY,
) -> OneOff:
    """Combine the requests of options and CI variables. Raises ProfileError.

    Anyone may write labels. Only those that begin with ``cells only:``, ``cells also:`` or ``cells
    tier:`` count, and a mistyped one is an error. A label can only widen the option's tier.
    """
    outside = [*_read_environment(environment)]
    for each in outside:
        if each.kind == "tier":
            tier = max(tier, each.text, key=TIERS.index)
    asked = [_Asked("--only", "only", text) for text in only]
    asked += [_Asked("--also", "also", text) for text in also]
    asked += outside
    return OneOff(
        only=_read_conditions(asked, "only"),
        also=_read_conditions(asked, "also"),
        tier=tier,
        note="; ".join(f"{each.kind} {each.text} ({each.origin})" for each in outside),
    )


class _Asked(NamedTuple):
    """One request, and its origin."""

    origin: str  # an option or a variable
    kind: str  # only, also, tier
    text: str


def _read_environment(environment: Mapping[str, str]) -> Iterator[_Asked]:
    for variable, kind in ((ONLY, "only"), (ALSO, "also")):
        for text in _split(environment.get(variable, "")):
            yield _Asked(variable, kind, text)
    for label in _split(environment.get(LABELS, "")):
        if found := _LABEL.fullmatch(label):
            if found[1] == "tier" and found[2] not in TIERS:
                raise ProfileError(f"{LABELS}: {label:.80}: not one of: {', '.join(TIERS)}")
            yield _Asked(LABELS, found[1], found[2])
        elif (near := _NEAR.match(label)) and get_close_matches(near[1].lower(), _KINDS):
            raise ProfileError(f"{LABELS}: {label:.80}: not {_SPELLED}")


def _split(text: str) -> list[str]:
    return [part.strip() for part in _BETWEEN.split(text) if part.strip()]


def _read_conditions(asked: Iterable[_Asked], kind: str) -> tuple[tuple[str, CellCondition], ...]:
    found = [each for each in asked if each.kind == kind]
    if len(found) > _MOST:
        raise ProfileError(f"{found[0].origin}: more than {_MOST} conditions")
    return tuple((each.origin, read_condition(each.text, each.origin)) for each in found)


def choose_cells(
    cells: Sequence[Cell],
    *,
    ids: Sequence[str] = (),
    where: str = "",
    one_off: OneOff | None = None,
    part: str = "",
) -> tuple[Cell, ...]:
    """Return the cells with these ids that meet the conditions and are in the tier and the shard.

    One-off conditions apply before the tier is chosen; cells are added afterwards. Raises
    ProfileError.
    """
    once = one_off or OneOff()
    reject_unknown(ids, {cell.id: cell for cell in cells}, "--cell", "cell")
    found = select([cell for cell in cells if not ids or cell.id in ids], where)
    if where and not found:
        raise ProfileError(f"--where {where!r:.200} matches no cell")
    if found and not (found := once.narrow(found, of=cells)):
        raise ProfileError(
            f"{once.only[0][0]} matches none of the cells that --cell and --where choose"
        )
    chosen = once.extend(choose_tier(found, once.tier), cells)
    return shard(chosen, part) if part else chosen

"""Choose the cells of a run: by id, condition, tier and shard, with changes for one run."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import combinations

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
    for number in sorted(range(len(cells)), key=lambda each: cells[each].gpu):
        by_project[cells[number].project].append(number)
    chosen = [
        numbers[position]
        for numbers in by_project.values()
        for position in _cover([cells[number] for number in numbers], _SIZES[tier])
    ]
    return tuple(cells[number] for number in sorted(chosen))


def _cover(cells: Sequence[Cell], size: int) -> list[int]:
    """Return the positions of cells that together have every trait.

    Repeatedly choose the cell with most uncovered traits; of equal cells the first. So those with a
    GPU stage are last. Finally drop cells that became redundant, late ones first.
    """
    traits = _find_traits(cells, size)
    holders: dict[Trait, list[int]] = defaultdict(list)
    for position, own in enumerate(traits):
        for trait in own:
            holders[trait].append(position)
    gains = [len(own) for own in traits]
    lacking = set(holders)
    chosen: list[int] = []
    while lacking:
        best = gains.index(max(gains))
        chosen.append(best)
        for trait in lacking.intersection(traits[best]):
            lacking.discard(trait)
            for holder in holders[trait]:
                gains[holder] -= 1
    counts = Counter(trait for position in chosen for trait in traits[position])
    for position in sorted(chosen, reverse=True):
        if all(counts[trait] > 1 for trait in traits[position]):
            chosen.remove(position)
            counts.subtract(traits[position])
    return chosen


def _find_traits(cells: Sequence[Cell], size: int) -> list[list[Trait]]:
    """Return the traits of each cell; axes with equal values in all cells do not count."""
    values = [
        ((cell.system, cell.architecture), cell.gpu, *(getattr(cell, axis) for axis in _OWN))
        for cell in cells
    ]
    varying = [axis for axis, found in enumerate(zip(*values, strict=True)) if len({*found}) > 1]
    size = min(size, len(varying))
    return [[*combinations([(axis, row[axis]) for axis in varying], size)] for row in values]


# One-off changes of a run.

ONLY, ALSO, LABELS = "BINARY_CHECKS_ONLY", "BINARY_CHECKS_ALSO", "BINARY_CHECKS_LABELS"
"""Variables that CI sets: conditions, and the labels of a pull request."""
_BETWEEN = re.compile(r"[;,\n]")
_KINDS = ("only", "also", "tier")
_SPELLED = "'cells only: …', 'cells also: …' or 'cells tier: …'"
_LABEL = re.compile(rf"cells[ -]({'|'.join(_KINDS)}): *(.*)")
_NEAR = re.compile(r"cells?[ -](\w+) *:", re.IGNORECASE)
"""Matches the beginning of a label about cells, even if it is mistyped."""
_MOST = 100  # conditions, because each is compared with every cell

Asked = tuple[str, CellCondition]
"""The option or variable that a condition comes from, and the condition."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OneOff:
    """Changes for one branch or run, which are in no committed file."""

    only: tuple[Asked, ...] = ()  # a cell must meet at least one
    also: tuple[Asked, ...] = ()
    tier: str = NIGHTLY
    note: str = ""  # what the environment asks for, for people who read the output

    def enable(self, matrix: Matrix) -> Matrix:
        """Return the matrix with cells that ``also`` adds, even left-out ones.

        Raises ProfileError.
        """
        known = {cell.id for cell in matrix.cells}
        wanted = known | _match(matrix.product, self.also)
        cells = tuple(cell for cell in matrix.product if cell.id in wanted)
        for cell in cells:
            if cell.id not in known:
                require_source(cell, matrix.sources, matrix.source)
        return replace(matrix, cells=cells)


def _match(cells: Sequence[Cell], conditions: Iterable[Asked]) -> set[str]:
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
    asked = [*(("only", "--only", text) for text in only), *(("also", "--also", t) for t in also)]
    outside = [*_read_environment(environment)]
    found: dict[str, list[Asked]] = {"only": [], "also": []}
    for kind, origin, text in (*asked, *outside):
        if kind == "tier":
            tier = max(tier, text, key=TIERS.index)
        elif len(found[kind]) == _MOST:
            raise ProfileError(f"{origin}: more than {_MOST} conditions")
        else:
            found[kind].append((origin, read_condition(text, origin)))
    return OneOff(
        only=tuple(found["only"]),
        also=tuple(found["also"]),
        tier=tier,
        note="; ".join(f"{kind} {text} ({origin})" for kind, origin, text in outside),
    )


def _read_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield the kind of each request (only, also, tier), its variable, and its text."""
    for variable, kind in ((ONLY, "only"), (ALSO, "also")):
        for text in _split(environment.get(variable, "")):
            yield kind, variable, text
    for label in _split(environment.get(LABELS, "")):
        if found := _LABEL.fullmatch(label):
            if found[1] == "tier" and found[2] not in TIERS:
                raise ProfileError(f"{LABELS}: {label:.80}: not one of: {', '.join(TIERS)}")
            yield found[1], LABELS, found[2]
        elif (near := _NEAR.match(label)) and get_close_matches(near[1].lower(), _KINDS):
            raise ProfileError(f"{LABELS}: {label:.80}: not {_SPELLED}")


def _split(text: str) -> list[str]:
    return [part.strip() for part in _BETWEEN.split(text) if part.strip()]


# The whole choice.

_SHARD = re.compile(r"([1-9]\d{0,5})/([1-9]\d{0,5})")


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
    found = [cell for cell in cells if not ids or cell.id in ids]
    wheres = [("--where", read_condition(where, "--where"))] if where else []
    for conditions in (wheres, once.only):
        if conditions:
            met = _match(cells, conditions)
            found = [cell for cell in found if cell.id in met]
    if cells and not found:
        raise ProfileError("--cell, --where and --only have no cell in common")
    wanted = {cell.id for cell in choose_tier(found, once.tier)} | _match(cells, once.also)
    chosen = tuple(cell for cell in cells if cell.id in wanted)
    return shard(chosen, part) if part else chosen


def shard(cells: Sequence[Cell], part: str) -> tuple[Cell, ...]:
    """Return part i of n, for "i/n". Raises ProfileError.

    Each cell is in exactly one part, and sizes differ by at most one. Neighbours, which are similar
    and take similar time, are in different parts.
    """
    found = _SHARD.fullmatch(part)
    if found is None or int(found[1]) > int(found[2]):
        raise ProfileError(f"--shard: {part}: not I/N, such as 1/4 or 4/4")
    return tuple(cells[int(found[1]) - 1 :: int(found[2])])

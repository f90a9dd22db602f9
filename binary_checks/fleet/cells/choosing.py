"""Chooses the cells of a run: by id, condition and tier, with what is one-off for a branch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import NamedTuple

from binary_checks.errors import ProfileError
from binary_checks.fleet.cell import Cell
from binary_checks.fleet.cells.matrix import Matrix
from binary_checks.fleet.cells.selecting import select, shard
from binary_checks.fleet.cells.source_tables import demand_source
from binary_checks.fleet.cells.tiers import NIGHTLY, TIERS, choose_tier
from binary_checks.profile.known import CellCondition, read_condition
from binary_checks.profile.toml_values import reject_unknown

ONLY, ALSO, LABELS = "BINARY_CHECKS_ONLY", "BINARY_CHECKS_ALSO", "BINARY_CHECKS_LABELS"
"""Variables that CI sets: conditions, and the labels of a pull request."""
_BETWEEN = re.compile(r"[;,\n]")
_KINDS = ("only", "also", "tier")
_SPELLED = "'cells only: …', 'cells also: …' or 'cells tier: …'"
_LABEL = re.compile(rf"cells[ -]({'|'.join(_KINDS)}): *(.*)")
_NEAR = re.compile(r"cells?[ -](\w+) *:", re.IGNORECASE)
"""How a label begins that may have been mistyped; others are about something else."""
_MOST = 100  # conditions, each of which is held against every cell


@dataclass(frozen=True, kw_only=True, slots=True)
class OneOff:
    """What holds for one branch or run and stands in no file that is checked in."""

    only: tuple[tuple[str, CellCondition], ...] = ()  # where it is from; any of them is enough
    also: tuple[tuple[str, CellCondition], ...] = ()
    tier: str = NIGHTLY
    note: str = ""  # what the environment says of it, for people who did not write it

    def narrow(self, cells: Sequence[Cell], of: Sequence[Cell]) -> tuple[Cell, ...]:
        """The cells that meet any condition of ``only``. Raises ProfileError.

        Each condition has to be met by one at least of those that they are of.
        """
        met = self._match(of, self.only)
        return tuple(cell for cell in cells if cell.id in met) if self.only else tuple(cells)

    def enable(self, matrix: Matrix) -> Matrix:
        """The matrix with the cells of ``also``, whatever is left out. Raises ProfileError."""
        if not self.also:
            return matrix
        known = {cell.id for cell in matrix.cells}
        wanted = known | self._match(matrix.product, self.also)
        cells = tuple(cell for cell in matrix.product if cell.id in wanted)
        for cell in cells:
            if cell.id not in known:
                demand_source(cell, matrix.sources, matrix.source)
        return replace(matrix, cells=cells)

    def extend(self, chosen: Sequence[Cell], cells: Sequence[Cell]) -> tuple[Cell, ...]:
        """What is chosen of the cells, and those of ``also``, in order. Raises ProfileError."""
        if not self.also:
            return tuple(chosen)
        wanted = {cell.id for cell in chosen} | self._match(cells, self.also)
        return tuple(cell for cell in cells if cell.id in wanted)

    @staticmethod
    def _match(cells: Sequence[Cell], conditions: Iterable[tuple[str, CellCondition]]) -> set[str]:
        """The ids of cells that meet any of the conditions, each of which some have to meet."""
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
    """What options and the variables of CI ask for together. Raises ProfileError.

    Labels are anybody's words: only those that begin with ``cells only:``, ``cells also:`` and
    ``cells tier:`` count, and a mistyped one is refused. A label's tier can only be more than the
    option's.
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
    """One thing that is asked for, and where."""

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
    """The cells of these ids that meet the conditions, of them the tier, of it the shard.

    What is one-off narrows before the tier covers, and adds after it. Raises ProfileError.
    """
    once = one_off or OneOff()
    reject_unknown(ids, {cell.id: cell for cell in cells}, "--cell", "cell")
    found = select([cell for cell in cells if not ids or cell.id in ids], where)
    if where and not found:
        raise ProfileError(f"--where {where!r:.200} matches no cell")
    if found and not (found := once.narrow(found, of=cells)):
        raise ProfileError(f"{once.only[0][0]} leaves none of the cells of --cell and --where")
    chosen = once.extend(choose_tier(found, once.tier), cells)
    return shard(chosen, part) if part else chosen
